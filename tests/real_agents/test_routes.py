"""Whole routes with the real CLIs against the loopback provider (issue: the first route)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.testing.provider import LoopbackProvider
from tests._processes import child_groups, group_members
from tests.real_agents._agents import Agents
from tests.real_agents.conftest import CLAUDE_OAUTH_TOKEN, CODEX_KEY_VARIABLE, ClaudeAuth, ClaudeEnv, CodexEnv

RETRY: Mapping[str, Any] = {"transient": {"retry": {"enabled": True, "max_retries": 3, "initial_interval_seconds": 1}}}
_TIMEOUT_S = 120

Run = Callable[..., dict[str, Any]]


class Setup:
    """A configuration with Claude first and Codex second, each at a scenario of its own, and the console script."""

    def __init__(
        self, folder: Path, provider: LoopbackProvider, agents: Agents, claude_env: ClaudeEnv, codex_env: CodexEnv
    ) -> None:
        self.folder, self.provider, self.agents = folder, provider, agents
        self._claude_env, self._codex_env = claude_env, codex_env
        self.environ: dict[str, str] = {}

    def write(
        self,
        claude: str,
        codex: str = "success",
        *,
        auth: ClaudeAuth = "api_key",
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        """Write kandev-routing.toml; what is secret goes by reference, what points to the provider is the profile's own."""
        environments = {
            "claude": self._claude_env(self.provider, claude, auth=auth),
            "codex": self._codex_env(self.provider, codex),
        }
        lines = ["version = 1", "[features]", "dynamic_agent_routing = true"]
        lines += ["[store]", f"url = {json.dumps(f'sqlite:///{self.folder}/routing.db')}"]
        commands = {"claude": self.agents.claude, "codex": self.agents.codex}
        more = {
            "claude": ['args = ["--allowedTools=Bash", "--strict-mcp-config"]'],
            "codex": ['mode = "bypass"'],
        }
        for family, environ in environments.items():
            entries = []
            for name, value in environ.items():
                if name in {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", CODEX_KEY_VARIABLE}:
                    self.environ[f"WORK_{name}"] = value
                    entries.append(f'{name} = {{ secret = "env:WORK_{name}" }}')
                elif name not in {"PATH", "LANG"}:
                    entries.append(f"{name} = {json.dumps(value)}")
            lines += [f"[profiles.{family}]", f'family = "{family}"', f'name = "{family.title()}"']
            lines += [
                f"command = [{json.dumps(str(commands[family]))}]",
                *more[family],
                f"env = {{ {', '.join(entries)} }}",
            ]
        lines += ["[profiles.frontier]", 'kind = "dynamic"', 'name = "Frontier"']
        lines += ["[[profiles.frontier.candidates]]", 'profile = "claude"']
        for name, table in (policy or {}).items():
            for part, values in table.items():
                inline = ", ".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
                lines.append(f"policy.{name}.{part} = {{ {inline} }}")
        lines += ["[[profiles.frontier.candidates]]", 'profile = "codex"']
        (self.folder / "kandev-routing.toml").write_text("\n".join(lines) + "\n", "utf-8")

    def start(self, prompt: str = "Say hello.") -> subprocess.Popen[str]:
        """Start ``kandev-routing run frontier PROMPT --json``."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", **self.environ}
        command = [
            sys.executable,
            "-m",
            "kandev_routing_sdk",
            "run",
            "frontier",
            prompt,
            "--json",
            f"--timeout={_TIMEOUT_S}",
        ]
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        config = ["--config", str(self.folder / "kandev-routing.toml")]
        return subprocess.Popen(
            [*command[:3], *config, *command[3:]],
            cwd=work,
            env=environ,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, prompt: str = "Say hello.") -> dict[str, Any]:
        """Run it to its end and return the document."""
        process = self.start(prompt)
        out, err = process.communicate(timeout=_TIMEOUT_S + 60)
        document: dict[str, Any] = json.loads(out)
        assert process.returncode == document["exit_code"], err
        return document


@pytest.fixture
def setup(
    tmp_path: Path, provider: LoopbackProvider, agents: Agents, claude_env: ClaudeEnv, codex_env: CodexEnv
) -> Setup:
    """See :class:`Setup`."""
    return Setup(tmp_path, provider, agents, claude_env, codex_env)


def summary(document: dict[str, Any]) -> list[tuple[str, str, str | None, bool]]:
    """Return each attempt's profile, outcome, code and whether recovery was automatic."""
    return [
        (a["execution_profile_id"], a["outcome"], (a["classification"] or {}).get("code"), a["automatic"])
        for a in document["attempts"]
    ]


def test_claude_answers(setup: Setup) -> None:
    """The first candidate, its tokens and the model that was served."""
    setup.write("success")
    document = setup.run()
    assert ("success", 0, "claude", "claude") == (
        document["outcome"],
        document["exit_code"],
        document["execution_profile_id"],
        document["family"],
    )
    assert document["text"]
    assert document["usage"]["output_tokens"] > 0
    assert document["provider_id"] != "anthropic", "a gateway is not the vendor"


def test_a_claude_plan_limit_hands_over_to_codex(setup: Setup) -> None:
    """OAuth 429 unified → Codex answers with the continuation; no Claude token or session id reaches it."""
    setup.write("plan_limit", auth="oauth")
    document = setup.run("Say hello to the crew.")
    assert [("claude", "failed", "quota_limited", True), ("codex", "success", None, False)] == summary(document)
    assert document["attempts"][0]["classification"]["reset_at"] is not None
    (request,) = setup.provider.model_requests("success")
    assert request.mentions("Say hello to the crew.")
    assert request.mentions("quota_limited"), "the successor is told why"
    assert not request.mentions(CLAUDE_OAUTH_TOKEN)
    for session in claude_sessions(setup):
        assert not request.mentions(session)
    everything = b"".join(f.read_bytes() for f in setup.folder.glob("routing.db*"))
    assert CLAUDE_OAUTH_TOKEN.encode() not in everything


def claude_sessions(setup: Setup) -> list[str]:
    """Return Claude's own session ids, from the transcripts it keeps."""
    found = [f.stem for f in (setup.folder / "claude-home" / "config" / "projects").rglob("*.jsonl")]
    assert found, "Claude kept no transcript: the check would prove nothing"
    return found


def test_claude_is_asked_again_after_an_overload(setup: Setup) -> None:
    """529 until the policy's waits are used → the same candidate answers; the CLI's own retries are bounded."""
    setup.write("overloaded", policy=RETRY)
    setup.provider.set("overloaded", fail_times=3)
    document = setup.run()
    failed = ("claude", "failed", "provider_overloaded", True)
    assert [failed, failed, failed, ("claude", "success", None, False)] == summary(document)
    assert [1, 1, 1, 1] == [a["generation"] for a in document["attempts"]]
    assert () == setup.provider.model_requests("success"), "nobody else was asked"


def test_nothing_follows_a_tool_call(setup: Setup) -> None:
    """Tool call, then 529 → no second agent, exit 79, the tool ran once."""
    setup.write("tool_then_overloaded", policy=RETRY)
    setup.provider.set("tool_then_overloaded", tool_command="echo ran >> effect.txt")
    document = setup.run()
    assert ("action_required", 79) == (document["outcome"], document["exit_code"])
    assert [("claude", "failed", "provider_overloaded", False)] == summary(document)
    assert "ran\n" == (setup.folder / "work" / "effect.txt").read_text()
    assert () == setup.provider.model_requests("success")


def test_both_limited_says_when_the_first_is_back(setup: Setup) -> None:
    """Exit 75 and the earliest reset; a second run asks nobody."""
    setup.write("plan_limit", "usage_limit", auth="oauth")
    now = datetime.now(UTC)
    setup.provider.set("plan_limit", resets_in=timedelta(hours=2))
    setup.provider.set("usage_limit", resets_in=timedelta(hours=3))
    document = setup.run()
    assert ("waiting", 75) == (document["outcome"], document["exit_code"]), document
    assert [("claude", "quota_limited"), ("codex", "quota_limited")] == [(p, c) for p, _, c, _ in summary(document)]
    deadline = datetime.fromisoformat(document["deadline"])
    assert timedelta(seconds=7200) == pytest.approx(deadline - now, abs=timedelta(minutes=2))
    asked = len(setup.provider.model_requests())
    again = setup.run()
    assert (75, [], document["deadline"]) == (again["exit_code"], again["attempts"], again["deadline"])
    assert asked == len(setup.provider.model_requests())


@pytest.mark.parametrize(("sent", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_in_mid_turn_leaves_no_process(setup: Setup, sent: signal.Signals, expected: int) -> None:
    """No process of the agent's group is left, and the record says cancelled."""
    setup.write("hang")
    process = setup.start()
    setup.provider.wait_for(1, scenario="hang")
    groups = child_groups(process.pid)
    assert groups
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert expected == process.returncode, err
    document = json.loads(out)
    assert ("cancelled", expected) == (document["outcome"], document["exit_code"])
    for group in groups:
        assert [] == group_members(group)

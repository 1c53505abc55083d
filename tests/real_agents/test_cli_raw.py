"""The pinned CLIs themselves against the loopback provider, without the SDK: what the adapters build on.

When a pinned version changes, these tell which of its habits changed with it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pytest

from kandev_routing_sdk.testing.provider import AuthKind, LoopbackProvider
from tests._processes import descendants, group_members, is_alive, wait_for
from tests.real_agents._agents import Agents
from tests.real_agents._cli import (
    CLAUDE_ARGUMENTS,
    CODEX_ARGUMENTS,
    OPENCODE_ARGUMENTS,
    RawRun,
    run,
    started,
)
from tests.real_agents._homes import (
    CLAUDE_OAUTH_TOKEN,
    CODEX_API_KEY,
    OPENCODE_API_KEY,
    ClaudeAuth,
    ClaudeEnv,
    CodexEnv,
    OpencodeEnv,
)

RESET = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
LONG_PROMPT = "Say hello, whatever follows: " + "naïve --flag `x` \n" * 15_000 + "end."


class _Claude:
    """Claude in one test: its environment is made per scenario."""

    def __init__(self, agents: Agents, provider: LoopbackProvider, env: ClaudeEnv, cwd: Path) -> None:
        self.argv = [str(agents.claude), *CLAUDE_ARGUMENTS]
        self.provider, self.env, self.cwd = provider, env, cwd

    def run(
        self,
        scenario: str,
        *,
        auth: ClaudeAuth = "api_key",
        retries: int = 0,
        prompt: str = "Hi.",
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> RawRun:
        env = self.env(self.provider, scenario, auth=auth, retries=retries)
        return run(self.argv, {**env, **more}, self.cwd, prompt)


class _Codex:
    """Codex in one test."""

    def __init__(self, agents: Agents, provider: LoopbackProvider, env: CodexEnv, cwd: Path) -> None:
        self.argv = [str(agents.codex), *CODEX_ARGUMENTS]
        self.provider, self.env, self.cwd = provider, env, cwd

    def run(self, scenario: str, *, retries: int = 0, prompt: str = "Hi.") -> RawRun:
        return run(self.argv, self.env(self.provider, scenario, retries=retries), self.cwd, prompt)


@pytest.fixture
def claude(agents: Agents, provider: LoopbackProvider, claude_env: ClaudeEnv, workdir: Path) -> _Claude:
    return _Claude(agents, provider, claude_env, workdir)


@pytest.fixture
def codex(agents: Agents, provider: LoopbackProvider, codex_env: CodexEnv, workdir: Path) -> _Codex:
    return _Codex(agents, provider, codex_env, workdir)


def test_claude_answers_a_prompt_from_stdin(claude: _Claude) -> None:
    """The prompt reaches the model as it was written, however long, and is in no argument vector."""
    ran = claude.run("success", prompt=LONG_PROMPT)
    assert (0, False, "Hello from the loopback provider.") == (ran.exit_code, ran.last["is_error"], ran.last["result"])
    assert (LONG_PROMPT,) == claude.provider.prompts("success")
    assert [AuthKind.API_KEY] == [record.auth for record in claude.provider.model_requests()]


def test_claude_plan_limit_tells_its_reset(claude: _Claude) -> None:
    """A subscription's limit comes once, typed and with its end, and is not retried inside."""
    claude.provider.set("plan_limit", resets_at=RESET)
    ran = claude.run("plan_limit", auth="oauth")
    (event,) = ran.of_type("rate_limit_event")
    assert ("rejected", int(RESET.timestamp())) == (
        event["rate_limit_info"]["status"],
        event["rate_limit_info"]["resetsAt"],
    )
    assert (1, 429, "usage_limit_reached") == (ran.exit_code, ran.last["api_error_status"], ran.last["api_error"])
    (request,) = claude.provider.model_requests()
    assert AuthKind.BEARER is request.auth
    assert request.mentions(CLAUDE_OAUTH_TOKEN)


@pytest.mark.parametrize("retries", [0, 1])
def test_claude_inner_retries_are_bounded_and_seen(claude: _Claude, retries: int) -> None:
    """``CLAUDE_CODE_MAX_RETRIES`` bounds the CLI's own retries, and each is announced."""
    ran = claude.run("overloaded", retries=retries)
    announced = [event for event in ran.of_type("system") if event["subtype"] == "api_retry"]
    assert [529] * retries == [event["error_status"] for event in announced]
    assert 1 + retries == len(claude.provider.model_requests())
    assert (1, 529, "overloaded_error") == (ran.exit_code, ran.last["api_error_status"], ran.last["api_error_type"])


@pytest.mark.parametrize(("disabled", "statuses"), [("0", [200, 529]), ("1", [200])])
def test_claude_asks_again_after_a_broken_stream_unless_told_not_to(
    claude: _Claude, disabled: str, statuses: list[int]
) -> None:
    """Beside its retries Claude repeats a request without streaming, and says nothing of it."""
    more = {"CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": disabled}
    ran = claude.run("partial_then_overloaded", more=more)
    assert statuses == [record.status for record in claude.provider.model_requests()]
    assert (1, 529) == (ran.exit_code, ran.last["api_error_status"])


def test_claude_shows_the_tool_before_the_failure(claude: _Claude) -> None:
    """Tool use and its result come before the notice of the failure: the effect is known in time."""
    ran = claude.run("tool_then_overloaded")
    kinds = [
        (block["type"], event["message"].get("model") == "<synthetic>")
        for event in ran.events
        if event["type"] in {"assistant", "user"}
        for block in event["message"]["content"]
    ]
    assert [("tool_use", False), ("tool_result", False), ("text", True)] == kinds
    assert ("tool-ran\n", 1) == ((claude.cwd / "effect.txt").read_text(), ran.exit_code)


def test_claude_without_credentials_asks_nobody(claude: _Claude) -> None:
    """Not logged in: it says so, and sends no request."""
    ran = claude.run("success", auth="none")
    assert (1, True) == (ran.exit_code, ran.last["is_error"])
    assert () == claude.provider.model_requests()


def test_codex_answers_a_prompt_from_stdin(codex: _Codex) -> None:
    """The prompt reaches the model as it was written, however long."""
    ran = codex.run("success", prompt=LONG_PROMPT)
    answers = [
        event["item"]["text"] for event in ran.of_type("item.completed") if event["item"]["type"] == "agent_message"
    ]
    assert (0, "turn.completed", ["Hello from the loopback provider."]) == (ran.exit_code, ran.last["type"], answers)
    assert (LONG_PROMPT,) == codex.provider.prompts("success")
    assert codex.provider.model_requests()[0].mentions(CODEX_API_KEY)


def test_codex_usage_limit_ends_the_turn(codex: _Codex) -> None:
    """A plan's usage limit ends the turn at once, in one sentence with the date of its end."""
    codex.provider.set("usage_limit", resets_at=RESET)
    ran = codex.run("usage_limit")
    message = ran.last["error"]["message"]
    assert (1, "turn.failed") == (ran.exit_code, ran.last["type"])
    assert "hit your usage limit" in message
    assert "May 6th, 2031" in message
    assert 1 == len(codex.provider.model_requests())


def test_codex_retries_in_two_layers(codex: _Codex) -> None:
    """One retry of each kind makes four requests, of which one line tells; both must be bounded."""
    ran = codex.run("overloaded", retries=1)
    told = [event["message"] for event in ran.of_type("error") if event["message"].startswith("Reconnecting... ")]
    assert (4, 1) == (len(codex.provider.model_requests()), len(told))
    assert (1, "turn.failed") == (ran.exit_code, ran.last["type"])


def test_codex_shows_the_tool_before_the_failure(codex: _Codex) -> None:
    """The command's execution comes before the failure."""
    ran = codex.run("tool_then_overloaded")
    items = [event["item"] for event in ran.of_type("item.completed")]
    (command,) = [item for item in items if item["type"] == "command_execution"]
    assert (0, "completed") == (command["exit_code"], command["status"])
    assert "529" in ran.last["error"]["message"]
    assert ("tool-ran\n", 1) == ((codex.cwd / "effect.txt").read_text(), ran.exit_code)


def test_opencode_fails_after_its_tool_and_then_answers(
    agents: Agents, provider: LoopbackProvider, opencode_env: OpencodeEnv, workdir: Path
) -> None:
    """The prompt comes from stdin. The tool comes before the failure, which keeps its status, headers and body."""
    provider.set("tool_then_unauthorized", fail_times=1)
    argv, env = [str(agents.opencode), *OPENCODE_ARGUMENTS], opencode_env(provider, "tool_then_unauthorized")
    ran = run(argv, env, workdir, "Hi.")
    assert ["step_start", "tool_use", "step_finish", "error"] == [event["type"] for event in ran.events]
    error = ran.last["error"]
    assert ("APIError", 401, False) == (error["name"], error["data"]["statusCode"], error["data"]["isRetryable"])
    assert "invalid_api_key" in error["data"]["responseBody"]
    assert "x-request-id" in error["data"]["responseHeaders"]
    assert ("tool-ran\n", 1) == ((workdir / "effect.txt").read_text(), ran.exit_code)
    again = run([*argv, f"--session={ran.last['sessionID']}"], env, workdir, "Again.")
    assert (["Hello from the loopback provider."], 0) == (
        [event["part"]["text"] for event in again.of_type("text")],
        again.exit_code,
    )
    assert ("Hi.", "Again.") == provider.prompts()
    assert all(record.mentions(OPENCODE_API_KEY) for record in provider.model_requests())


@pytest.mark.parametrize(
    ("family", "sent", "exit_code"),
    [
        ("claude", signal.SIGTERM, 143),
        ("claude", signal.SIGKILL, -signal.SIGKILL),
        ("codex", signal.SIGTERM, -signal.SIGTERM),
        ("codex", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_signal_to_the_group_and_the_tool_under_way(
    claude: _Claude, codex: _Codex, family: str, sent: signal.Signals, exit_code: int
) -> None:
    """A tool's command runs in a session of its own: no signal to the group reaches it.

    At SIGTERM both CLIs end it themselves, so SIGTERM must get time to work. A killed Claude leaves it behind: whoever
    kills it has to look for its descendants first, of which the command is one.
    """
    cli: _Claude | _Codex = claude if family == "claude" else codex
    cli.provider.set("tool_then_hang", tool_command="echo $$ > pid.txt; exec python3 -c 'import time; time.sleep(50)'")
    written = cli.cwd / "pid.txt"
    with started(cli.argv, cli.env(cli.provider, "tool_then_hang"), cli.cwd, "Hi.") as process:
        tool = int(wait_for(lambda: written.is_file() and written.read_text().strip()))
        assert tool not in group_members(process.pid)
        assert tool in descendants(process.pid)
        os.killpg(process.pid, sent)
        process.communicate(timeout=20)
        assert exit_code == process.returncode
        assert [] == group_members(process.pid)
    if (family, sent) == ("claude", signal.SIGKILL):
        time.sleep(0.5)
        assert is_alive(tool)
        os.kill(tool, signal.SIGKILL)
    assert wait_for(lambda: not is_alive(tool))

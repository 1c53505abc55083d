"""Routes through ``kandev-routing run --json`` with the real agents, each at a scenario of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kandev_routing_sdk.testing.provider import LoopbackProvider
from tests.real_agents._agents import Agents
from tests.real_agents._homes import CODEX_KEY_VARIABLE, OPENCODE_KEY_VARIABLE, ClaudeAuth, Homes

Family = Literal["claude", "codex", "opencode"]
Transport = Literal["headless", "acp"]

TIMEOUT_S = 120
_SECRETS = {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", CODEX_KEY_VARIABLE, OPENCODE_KEY_VARIABLE}
_MORE: Mapping[tuple[Family, Transport], str] = {
    ("claude", "headless"): 'args = ["--allowedTools=Bash", "--strict-mcp-config"]',
    ("claude", "acp"): 'permissions = { default = "allow" }',
    ("codex", "headless"): 'mode = "bypass"',
    ("codex", "acp"): 'mode = "bypass"',
}
"""What lets the agent use its tools without asking."""


@dataclass(frozen=True)
class Agent:
    """One candidate: its profile's id is ``<family>-<transport>``, headless ones go by the family alone."""

    family: Family
    scenario: str = "success"
    transport: Transport = "headless"
    auth: ClaudeAuth = "api_key"
    settings: str | None = None
    """Lines of the profile's table, in place of those that let it use its tools without asking."""

    @property
    def profile(self) -> str:
        return self.family if self.transport == "headless" else f"{self.family}-{self.transport}"


class Setup:
    """A configuration with one dynamic profile, and the console script."""

    def __init__(self, folder: Path, provider: LoopbackProvider, agents: Agents, homes: Homes) -> None:
        self.folder, self.provider, self.agents, self.homes = folder, provider, agents, homes
        self.environ: dict[str, str] = {}

    @property
    def work(self) -> Path:
        """Where the agents work."""
        return self.folder / "work"

    def write(self, *candidates: Agent, policy: Mapping[str, Any] | None = None) -> None:
        """Write kandev-routing.toml; ``policy`` is the first candidate's.

        What is secret goes by reference, what points to the provider is the profile's own.
        """
        lines = ["version = 1", "[features]", "dynamic_agent_routing = true"]
        lines += ["[store]", f"url = {json.dumps(f'sqlite:///{self.folder}/routing.db')}"]
        for agent in candidates:
            lines += self._profile(agent)
        lines += ["[profiles.frontier]", 'kind = "dynamic"', 'name = "Frontier"']
        for agent in candidates:
            lines += ["[[profiles.frontier.candidates]]", f'profile = "{agent.profile}"']
            lines += _policy(policy or {}) if agent is candidates[0] else []
        (self.folder / "kandev-routing.toml").write_text("\n".join(lines) + "\n", "utf-8")

    def _profile(self, agent: Agent) -> Sequence[str]:
        entries = []
        for name, value in self._environment(agent).items():
            if name in _SECRETS:
                self.environ[f"WORK_{name}"] = value
                entries.append(f'{name} = {{ secret = "env:WORK_{name}" }}')
            elif name not in {"PATH", "LANG"}:
                entries.append(f"{name} = {json.dumps(value)}")
        return [
            f"[profiles.{agent.profile}]",
            f'family = "{agent.family}"',
            f'name = "{agent.profile.title()}"',
            f'transport = "{agent.transport}"',
            f"command = [{json.dumps(str(self._command(agent)))}]",
            f"env = {{ {', '.join(entries)} }}",
            _MORE.get((agent.family, agent.transport), "") if agent.settings is None else agent.settings,
        ]

    def _environment(self, agent: Agent) -> dict[str, str]:
        match agent.family:
            case "claude":
                return self.homes.claude(self.provider, agent.scenario, auth=agent.auth)
            case "codex":
                return self.homes.codex(self.provider, agent.scenario)
            case "opencode":
                return self.homes.opencode(self.provider, agent.scenario)

    def _command(self, agent: Agent) -> Path:
        match agent.family:
            case "claude":
                return self.agents.claude_acp if agent.transport == "acp" else self.agents.claude
            case "codex":
                return self.agents.codex_acp if agent.transport == "acp" else self.agents.codex
            case "opencode":
                return self.agents.opencode

    def start(self, prompt: str = "Say hello.") -> subprocess.Popen[str]:
        """Start ``kandev-routing run frontier PROMPT --json``."""
        path = os.pathsep.join([str(self.agents.node), os.environ["PATH"]])
        self.work.mkdir(exist_ok=True)
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "kandev_routing_sdk"),
                *("--config", str(self.folder / "kandev-routing.toml")),
                *("run", "frontier", prompt, "--json", f"--timeout={TIMEOUT_S}"),
            ],
            cwd=self.work,
            env={"PATH": path, "HOME": str(self.folder), "LANG": "C.UTF-8", **self.environ},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, prompt: str = "Say hello.") -> dict[str, Any]:
        """Run it to its end and return the document."""
        process = self.start(prompt)
        out, err = process.communicate(timeout=TIMEOUT_S + 60)
        document: dict[str, Any] = json.loads(out)
        assert process.returncode == document["exit_code"], err
        return document


def _policy(policy: Mapping[str, Any]) -> Sequence[str]:
    return [
        f"policy.{name}.{part} = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in values.items())} }}"
        for name, table in policy.items()
        for part, values in table.items()
    ]


def summary(document: Mapping[str, Any]) -> list[tuple[str, str, str | None, bool]]:
    """Return each attempt's profile, outcome, code and whether recovery was automatic."""
    return [
        (a["execution_profile_id"], a["outcome"], (a["classification"] or {}).get("code"), a["automatic"])
        for a in document["attempts"]
    ]

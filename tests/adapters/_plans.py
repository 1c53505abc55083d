"""Plans launches of the adapters on a made-up machine: private homes, fake executables, an environment of our own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from kandev_routing_claude import ClaudeAdapter
from kandev_routing_codex import CodexAdapter
from kandev_routing_opencode import OpenCodeAdapter
from kandev_routing_sdk.conductor.launch import inherited
from kandev_routing_sdk.profiles import ConcreteProfile, SecretRef
from kandev_routing_sdk.spec import AgentAdapter, LaunchPlan, LaunchRequest

ADAPTERS: Mapping[str, AgentAdapter] = {
    "claude": ClaudeAdapter(),
    "codex": CodexAdapter(),
    "opencode": OpenCodeAdapter(),
}
ACP_AGENTS: Final = ("claude-agent-acp", "codex-acp")
"""Executables of their own; ``opencode`` speaks both."""


class Machine:
    """A user's home with files, executables on PATH, and a host environment.

    ``programs``: what is installed beside the families' CLIs.
    """

    def __init__(self, root: Path, programs: tuple[str, ...] = ()) -> None:
        self.root = root
        self.home = root / "home"
        self.work = root / "work"
        self.bin = root / "bin"
        for folder in (self.home, self.work, self.bin):
            folder.mkdir(parents=True)
        for name in (*ADAPTERS, *programs):
            self.executable(self.bin / name)
        self.environ = {"PATH": str(self.bin), "HOME": str(self.home), "TZ": "UTC"}

    def executable(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def file(self, path: str, text: str) -> Path:
        found = self.home / path
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(text)
        return found

    def profile(self, family: str, **fields: Any) -> ConcreteProfile:
        return ConcreteProfile(**{"id": "p", "name": "P", "family": family, **fields})

    def plan(
        self,
        family: str,
        host: Mapping[str, str] | None = None,
        *,
        namespace: str = "here",
        resume: str | None = None,
        **fields: Any,
    ) -> LaunchPlan:
        """Resolve a launch as the conductor does."""
        adapter, profile = ADAPTERS[family], self.profile(family, **fields)
        assert [] == [*adapter.validate(profile)]
        everything = {**self.environ, **(host or {})}
        own = {
            name: everything[value.secret.removeprefix("env:")] if isinstance(value, SecretRef) else value
            for name, value in profile.env.items()
        }
        request = LaunchRequest(
            profile=profile,
            environ=inherited(everything, adapter.inherits) | own,
            cwd=self.work / (profile.cwd or "."),
            executor_namespace=namespace,
            resume_session_id=resume,
            full_environ=everything | own,
        )
        with patch("kandev_routing_sdk.spec.places._own_home", return_value=str(self.home)):
            return adapter.plan(request)

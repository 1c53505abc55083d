"""A small world for tests of whole routes: scripted agents, a real store, and a clock that does not wait."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kandev_routing_sdk import CallResult, Progress, Router, Settings
from kandev_routing_sdk.clock import Clock
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import FakeClock, ScriptBuilder, ScriptedAdapter, ScriptedAgent

RETRY: Mapping[str, Any] = {"transient": {"retry": {"enabled": True, "max_retries": 3, "initial_interval_seconds": 5}}}
WAIT: Mapping[str, Any] = {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 300}}}


def answers() -> ScriptBuilder:
    """A script of one answer, to be filled."""
    return ScriptBuilder()


@dataclass
class World:
    """Agents by name, each of its own account at its own provider unless the test says otherwise."""

    folder: Path
    url: str
    transport: str = "headless"
    clock: Clock = field(default_factory=FakeClock)
    agents: dict[str, ScriptedAgent] = field(default_factory=dict)
    profiles: dict[str, Any] = field(default_factory=dict)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    told: list[Progress] = field(default_factory=list)
    enabled: bool = True
    environ: dict[str, str] | None = None
    _jobs: int = 0

    def agent(
        self, name: str, *scripts: ScriptBuilder, policy: Mapping[str, Any] | None = None, **fields: Any
    ) -> ScriptedAgent:
        """Add an agent with these answers, its profile, and its place at the end of ``frontier``'s candidates."""
        agent = ScriptedAgent(self.folder / name, *scripts)
        options = {"account": name, "provider_id": f"{name}-provider", **fields.pop("options", {})}
        self.agents[name] = agent
        self.profiles[name] = agent.profile(transport=self.transport, options=options, **fields)
        self.candidates.append({"profile": name, **({"policy": policy} if policy else {})})
        return agent

    @property
    def settings(self) -> Settings:
        """The configuration as it stands."""
        dynamic = {"kind": "dynamic", "name": "Frontier", "candidates": self.candidates}
        profiles, problems = parse_profiles({**self.profiles, "frontier": dynamic}, families=None)
        assert problems == []
        return Settings(self.url, dynamic_agent_routing=self.enabled, profiles=profiles)

    @contextmanager
    def router(self, **parts: Any) -> Iterator[Router]:
        """A router of this world."""
        parts = {"adapters": [ScriptedAdapter()], "clock": self.clock, "plugins": False, **parts}
        if self.environ is not None:
            parts["environ"] = self.environ
        with Router.open(settings=self.settings, **parts) as router:
            yield router

    def call(self, prompt: str = "do it", profile: str = "frontier", **options: Any) -> CallResult:
        """Route one prompt through a router of its own."""
        parts = options.pop("parts", {})
        with self.router(**parts) as router:
            return router.route_once(
                profile, prompt, on_progress=self.told.append, cwd=self.folder, **{"timeout": 60, **options}
            )

    def of(self, kind: type[Any]) -> list[Any]:
        """The progress of one kind, in order."""
        return [p for p in self.told if isinstance(p, kind)]

    def write(self) -> Path:
        """Write what another process needs to make calls in this world."""
        dynamic = {"kind": "dynamic", "name": "Frontier", "candidates": self.candidates}
        file = {"url": self.url, "folder": str(self.folder), "profiles": {**self.profiles, "frontier": dynamic}}
        path = self.folder / "world.json"
        path.write_text(json.dumps(file), "utf-8")
        return path

    def job(self, **fields: Any) -> dict[str, Any]:
        """A call for the nursery, from a process of its own; see :mod:`tests.routes._calling`."""
        self._jobs += 1
        result = str(self.folder / f"result-{self._jobs}.json")
        return {"play": "call", "world": str(self.write()), "result": result, **fields}

    def groups(self) -> list[int]:
        """The process groups of every attempt ever made."""
        with open_store(self.url) as store:
            attempts = [a for call in store.calls() for a in store.attempts(call.session_id)]
        return [a.process_group for a in attempts if a.process_group is not None]

    def prompts(self) -> dict[str, int]:
        """How many prompts each agent really got."""
        return {name: len(agent.prompts) for name, agent in self.agents.items()}

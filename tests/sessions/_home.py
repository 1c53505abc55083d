"""Sessions in a small world: each verb is a process of its own, as far as the store can tell (a router and an owner of its own)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio

from kandev_routing_sdk import Router
from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.scheduler import WorkerReport
from kandev_routing_sdk.sessions.reading import snapshot
from kandev_routing_sdk.spec import AgentAdapter
from kandev_routing_sdk.store import SqlStore
from kandev_routing_sdk.testing import FakeClock, ScriptedAdapter
from kandev_routing_sdk.types import AttemptOutcome
from tests.routes._world import World

T = TypeVar("T")

CATALOGUE = load_rules([ScriptedAdapter()], plugins=False)[1]
LONGEST_SPREAD_S = 2.0
"""Those who wait for one moment come back within so many seconds of it."""


def retries(number: int, *, then: str = "skip", first_s: int = 5) -> dict[str, Any]:
    """A policy of transient retries."""
    retry = {"enabled": True, "max_retries": number, "initial_interval_seconds": first_s}
    return {"transient": {"retry": retry, "on_exhausted": then}}


def waits(seconds: int, *, then: str = "skip") -> dict[str, Any]:
    """A policy that waits for a limit's reset, up to ``seconds``."""
    wait = {"enabled": True, "max_wait_seconds": seconds}
    return {"hard": {"wait_for_reset": wait, "on_exhausted": then}}


class UnprobedAdapter(ScriptedAdapter):
    """Cannot be asked cheaply: each launch that may be a probe is one, and no worker asks in between."""

    can_probe = False


@dataclass(kw_only=True)
class Home(World):
    """A world whose sessions are moved by workers."""

    store: SqlStore
    """What everybody works with."""
    adapter: AgentAdapter = field(default_factory=UnprobedAdapter)

    def async_with(self, work: Callable[[Router], Awaitable[T]], **options: Any) -> T:
        """Run ``work`` with a router of its own."""

        async def main() -> T:
            # one store for all: making one anew costs more than what is done with it
            parts = {
                "adapters": [self.adapter],
                "clock": self.clock,
                "catalogue": CATALOGUE,
                "store": self.store,
                **options,
            }
            return await work(Router.open(settings=self.settings, plugins=False, **parts))

        return anyio.run(main)

    @property
    def fake(self) -> FakeClock:
        """The clock, which only moves when it is told to."""
        assert isinstance(self.clock, FakeClock)
        return self.clock

    # What people and hosts do -----------------------------------------------------------------------------------------------

    def begin(self, text: str = "do it", profile: str = "frontier", **options: Any) -> Snapshot:
        """Start a session and leave it to a worker."""
        return self.async_with(lambda r: r.sessions.start(profile, text, cwd=self.folder, **options))

    def say(self, session_id: str, text: str = "and then", **options: Any) -> Snapshot:
        """Give a session its next message."""
        return self.async_with(lambda r: r.sessions.prompt(session_id, text, **options))

    def act(self, seen: Snapshot, action: str, **options: Any) -> Snapshot:
        """Act on the session that was seen."""
        options = {"expected_generation": seen.generation, **options}
        return self.async_with(lambda r: r.sessions.act(seen.session_id, action, **options))

    def stop(self, session_id: str) -> Snapshot:
        """Stop a session from any state."""
        return self.async_with(lambda r: r.sessions.stop(session_id))

    def work(self, *, after_s: float = 0.0, **options: Any) -> WorkerReport:
        """Let ``after_s`` seconds pass, and a worker do what there is to do then."""
        self.fake.advance(after_s)
        options = {"until_idle": True, "poll_s": 0.01, **options}
        return self.async_with(lambda r: r.run_worker(**options))

    def run(self, text: str = "do it", profile: str = "frontier") -> Snapshot:
        """Start a session and let a worker bring it to rest."""
        begun = self.begin(text, profile)
        self.work()
        return self.see(begun.session_id)

    # What can be seen -------------------------------------------------------------------------------------------------------

    def see(self, session_id: str) -> Snapshot:
        """The authoritative snapshot."""
        return snapshot(self.store, session_id)

    def rows(self, session_id: str) -> list[AttemptRecord]:
        """The session's attempts."""
        return self.store.attempts(session_id)

    def kinds(self, session_id: str) -> list[str]:
        """The kinds of the session's events, in order."""
        return [event.kind.value for event in self.store.events(session_id=session_id)]

    def circuits(self) -> list[Circuit]:
        """Every stored circuit."""
        return self.store.circuits()

    def by(self, session_id: str) -> list[str]:
        """Whom the session's prompts went to, in order."""
        return [
            row.execution_profile_id
            for row in self.rows(session_id)
            if row.outcome is not AttemptOutcome.LOST or row.effects != NOTHING_SENT
        ]

    def starts(self) -> dict[str, int]:
        """How many processes of each agent there were."""
        return {name: agent.starts for name, agent in self.agents.items()}

    # What changes -----------------------------------------------------------------------------------------------------------

    def dynamic(self, name: str, *candidates: str | dict[str, Any]) -> None:
        """Add (or change) a dynamic profile of its own beside ``frontier``."""
        table = [{"profile": c} if isinstance(c, str) else c for c in candidates]
        self.profiles[name] = {"kind": "dynamic", "name": name.title(), "candidates": table}

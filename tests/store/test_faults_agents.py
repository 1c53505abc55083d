"""A store that fails under a running session: nothing leaves before its mark is durable, and the same router goes on when the cause
is gone (R-DUR-6, R-ENG-2, R-ENG-8).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from kandev_routing_sdk import Router
from kandev_routing_sdk.conductor.engine import OWNER_LEASE_S
from kandev_routing_sdk.errors import StoreError
from kandev_routing_sdk.route.model import Reason, State
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import FakeClock
from kandev_routing_sdk.types import DispatchMark
from tests._processes import group_members
from tests.routes._world import World, answers
from tests.store._faults import TIMEOUT_S, CountingClock, Fault, Tripwire
from tests.store.test_faults import fills
from tests.store.test_faults_postgresql import loses_the_connection

AT_COMMIT = -1
FOR_GOOD = 1_000_000


class Stage:
    """One router over one store, for every life that is lived on it."""

    def __init__(self, world: World, router: Router, wire: Tripwire, fault: Fault) -> None:
        self.world, self.router, self.wire, self._fault = world, router, wire, fault
        self.clock: Any = world.clock
        self.output_failed = False
        """It was the agent's output that could not be written: that never decides how a turn ends."""
        append: Any = router._engine.store.append_events

        def append_events(*arguments: Any, **options: Any) -> Any:
            try:
                return append(*arguments, **options)
            except StoreError:
                self.output_failed = True
                raise

        setattr(router._engine.store, "append_events", append_events)  # noqa: B010  # an instance's method

    async def lives(self, first: int, times: int) -> StoreError | None:
        """Begin a session and go on with it, in a store that fails from its commit ``first`` on; then let a worker do what it can.

        Returns what was raised; None if there was no such commit, or it was made nevertheless.
        """
        known, before = self._sessions(), self._prompts()
        raised: StoreError | None = None
        self.output_failed = False
        with self.wire.armed(self._fault, at=AT_COMMIT, first=first, times=times):
            try:
                await self.router.sessions.start("frontier", "do it", cwd=self.world.folder, here=True)
            except StoreError as error:
                raised = error
        new = self._sessions() - known
        attempts = [a for session_id in new for a in self.router.sessions.attempts(session_id)]
        marked = any(a.mark is not DispatchMark.CLAIMED for a in attempts)
        assert marked or self._prompts() == before, "a prompt left although its mark was never durable"
        assert [] == [p for a in attempts if a.process_group for p in group_members(a.process_group)]
        # The cause is gone, and whoever held the session is taken to be gone, too.
        self.clock.advance(OWNER_LEASE_S + 1)
        await self.router.run_worker(until_idle=True, poll_s=0.01)
        assert self._prompts() <= before + 1, "nothing is ever sent twice"
        for session_id in new:
            found = self.router.sessions.snapshot(session_id)
            asked = (State.ACTION_REQUIRED, Reason.AMBIGUOUS_DISPATCH)
            done = (State.ACTIVE, Reason.SUCCEEDED)
            assert (asked if marked and raised else done) == (found.state, found.reason)
            assert self._prompts() == before + 1
        assert new or raised
        return raised

    def _prompts(self) -> int:
        return self.world.prompts()["fable"]

    def _sessions(self) -> set[str]:
        return {s.session_id for s in self.router.sessions.list(limit=500)}


@pytest.fixture
def waits() -> CountingClock:
    """The store's own clock."""
    return CountingClock()


@pytest.fixture
def fault(database_url: str, waits: CountingClock) -> Iterator[Fault]:
    if database_url.startswith("sqlite"):
        yield fills
        return
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as other:
        yield loses_the_connection(waits, other)


@pytest.fixture
def stage(database_url: str, tmp_path: Path, waits: CountingClock, fault: Fault) -> Iterator[Stage]:
    world = World(tmp_path, database_url, clock=FakeClock())
    world.agent("fable", answers().tool(line="ran").say("done"))
    with open_store(database_url, clock=waits, timeout_s=TIMEOUT_S) as store:
        wire = Tripwire(store)
        with world.router(store=store) as router:
            yield Stage(world, router, wire, fault)


@pytest.mark.parametrize("times", [1, FOR_GOOD])
def test_each_commit_of_a_session_s_life_may_fail(stage: Stage, database_url: str, times: int) -> None:
    """Counted until a life has no such commit: nothing leaves before its mark is durable, and nothing leaves twice."""

    async def lives() -> int:
        for first in count(1):
            raised = await stage.lives(first, times)
            if stage.wire.hits == 0:
                assert raised is None
                return first - 1
            passes = times == 1 and (database_url.startswith("postgresql") or stage.output_failed)
            assert passes == (raised is None), "a connection that is lost once is nobody's business"
        raise AssertionError

    # It is begun, claimed, marked, its process noted, its first sign noted, and settled.
    assert 6 <= anyio.run(lives)

"""Two hundred sessions at once in one process (R-CON-6, R-CON-11, R-ENG-9)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from kandev_routing_sdk import AgentSaid, Progress, Router, Settings
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.process.group import live_processes, marked_attempts
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.testing import ScriptedAdapter
from kandev_routing_sdk.types import AttemptOutcome
from tests.sessions._crowd import Crowd, held, many_files

MANY = 200
FEW = 60

TURN = ["session.turn_started", "session.turn_ended"]
SAID = "session.user_message"
OPENED = ["session.route_changed", "session.capabilities_replaced"]
FAILED = ["session.turn_started", "session.turn_failed", "session.route_changing"]


class Play:
    """So many sessions, all of them in mid-turn at one moment."""

    def __init__(self, folder: Path, number: int) -> None:
        self.crowd, self.number = Crowd(folder), number
        profiles, problems = parse_profiles(self.crowd.profiles, families=None)
        assert [] == problems
        self.settings = Settings(f"sqlite:///{folder}/routing.db", dynamic_agent_routing=True, profiles=profiles)
        self.seen: dict[int, Snapshot] = {}
        self.begun: set[int] = set()
        self.all_begun = asyncio.Event()

    def main(self) -> None:
        """Play it, and keep what is left of it."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        self.all_begun = asyncio.Event()
        router = Router.open(settings=self.settings, adapters=[ScriptedAdapter()], plugins=False)
        try:
            async with anyio.create_task_group() as group:
                for number in range(self.number):
                    group.start_soon(self._one, router, number)
                with anyio.fail_after(120):
                    await self.all_begun.wait()
                self.in_mid_turn = held()
                self.crowd.gate.open()
            self.events = {n: router.events(session_id=s.session_id) for n, s in self.seen.items()}
            self.attempts = {n: router.sessions.attempts(s.session_id) for n, s in self.seen.items()}
        finally:
            router.close()

    async def _one(self, router: Router, number: int) -> None:
        def on_progress(progress: Progress) -> None:
            if isinstance(progress, AgentSaid) and "begin" in str(progress.update):
                self.begun.add(number)
                if len(self.begun) == self.number:
                    self.all_begun.set()

        profile = "frontier" if number % 2 else "codex"
        options: dict[str, Any] = {"cwd": self.crowd.folder, "here": True, "on_progress": on_progress}
        self.seen[number] = await router.sessions.start(profile, f"task {number}", **options)


def _kinds(events: list[EventRecord]) -> tuple[str, ...]:
    """Without what the agent said, which comes in as many rows as it takes."""
    return tuple(e.kind.value for e in events if e.kind is not EventKind.TURN_OUTPUT)


def in_order(events: list[EventRecord]) -> bool:
    """Whether they are one session's, each once, as they happened."""
    numbers = [e.sequence for e in events]
    return numbers == sorted(set(numbers)) and 1 == len({e.session_id for e in events})


@pytest.mark.exhaustive
def test_two_hundred_sessions_at_once(tmp_path: Path) -> None:
    """All settle, each event stands in its order, nobody is left behind, and this process holds what it held before."""
    with many_files():
        Play(tmp_path / "few", FEW).main()  # what is loaded and kept once
        before = held()
        play = Play(tmp_path / "many", MANY)
        play.main()
        in_mid_turn = play.in_mid_turn
        _everything_is_told(play)
        del play
        after = held()

    assert 4 * MANY <= in_mid_turn.files - before.files, "they really were there at once"
    assert (before.files, before.threads) == (after.files, after.threads)
    assert after.objects - before.objects < 2 * MANY, "caches that are bounded, and nothing of each session"
    assert after.memory < 1.5 * before.memory, f"{before.memory >> 20} MiB to {after.memory >> 20} MiB"


def _everything_is_told(play: Play) -> None:
    assert {"active": MANY} == Counter(seen.state for seen in play.seen.values())
    switched, straight = range(1, MANY, 2), range(0, MANY, 2)
    assert {"codex"} == {seen.execution_profile_id for seen in play.seen.values()}
    assert all(in_order(events) for events in play.events.values())
    assert {(SAID, *OPENED, *TURN)} == {_kinds(play.events[n]) for n in straight}
    assert {(SAID, *OPENED, *FAILED, *OPENED, *TURN)} == {_kinds(play.events[n]) for n in switched}
    assert all(a.outcome is not AttemptOutcome.LOST for rows in play.attempts.values() for a in rows)

    groups = {a.process_group for rows in play.attempts.values() for a in rows}
    assert MANY + len(switched) == len(groups)
    assert [] == [p for p in live_processes() if p.group in groups]
    assert set() == {a.attempt_id for rows in play.attempts.values() for a in rows} & marked_attempts()

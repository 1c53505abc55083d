"""Two hundred sessions at once in one process (R-CON-6, R-CON-11, R-ENG-9)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import anyio
import pytest

from kandev_routing_sdk import EventKind, EventRecord, Router, Settings
from kandev_routing_sdk.process.group import live_processes, marked_attempts
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.testing import ScriptedAdapter
from kandev_routing_sdk.types import AttemptOutcome
from tests.sessions._crowd import ANSWER, Crowd, held, many_files

MANY = 200
FEW = 30

ASKED = [EventKind.USER_MESSAGE]
OPENED = [EventKind.ROUTE_CHANGED, EventKind.CAPABILITIES_REPLACED, EventKind.TURN_STARTED]
FAILED = [EventKind.TURN_FAILED, EventKind.ROUTE_CHANGING]


class Play:
    """So many sessions, all of them in mid-turn at one moment, and each followed while it runs."""

    def __init__(self, folder: Path, number: int) -> None:
        self.crowd, self.number = Crowd(folder), number
        profiles, problems = parse_profiles(self.crowd.profiles, families=None)
        assert [] == problems
        self.settings = Settings(f"sqlite:///{folder}/routing.db", dynamic_agent_routing=True, profiles=profiles)
        self.seen: dict[int, Snapshot] = {}
        self.followed: dict[int, list[EventRecord]] = {}
        self.attempts: dict[int, list[AttemptRecord]] = {}
        self.stored: dict[int, list[EventRecord]] = {}
        self.begun: set[int] = set()

    def main(self) -> None:
        """Play it, and keep what is left of it."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        self.all_begun = asyncio.Event()
        async with Router.open(settings=self.settings, adapters=[ScriptedAdapter()], plugins=False) as router:
            async with anyio.create_task_group() as group:
                for number in range(self.number):
                    group.start_soon(self._one, router, number)
                with anyio.fail_after(120):
                    await self.all_begun.wait()
                self.in_mid_turn = held()
                self.crowd.gate.open()
            for number, seen in self.seen.items():
                self.stored[number] = router.events(session_id=seen.session_id)

    async def _one(self, router: Router, number: int) -> None:
        profile = "frontier" if number % 2 else "codex"
        session = await router.start_session(profile, cwd=self.crowd.folder, prompt=f"task {number}")
        heard = self.followed[number] = []
        async for event in session.events():
            heard.append(event)
            if number not in self.begun and "begin" in said(heard):
                self.begun.add(number)
                if len(self.begun) == self.number:
                    self.all_begun.set()
            if event.kind is EventKind.TURN_ENDED:
                break
        self.seen[number] = await session.snapshot()
        self.attempts[number] = list(await session.attempts())


def said(events: list[EventRecord]) -> str:
    """The answer, as its events have it."""
    output = (e.params for e in events if e.kind is EventKind.TURN_OUTPUT)
    return "".join(str(p["text"]) for p in output if p["type"] == "text")


def turned(events: list[EventRecord]) -> list[EventKind]:
    """What happened, without what was said."""
    return [e.kind for e in events if e.kind is not EventKind.TURN_OUTPUT]


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
    assert after.objects - before.objects < 4 * MANY, "caches that are bounded, and nothing of each session"
    assert after.memory < 1.5 * before.memory, f"{before.memory >> 20} MiB to {after.memory >> 20} MiB"


def _everything_is_told(play: Play) -> None:
    assert {("active", "codex"): MANY} == Counter((s.state, s.execution_profile_id) for s in play.seen.values())
    for number in range(MANY):
        events = play.stored[number]
        sequence = [e.sequence for e in events]
        assert sequence == sorted(set(sequence))
        assert events == play.followed[number], "who followed has heard all of it, once, in order"
        assert [*ASKED, *(OPENED + FAILED) * (number % 2), *OPENED, EventKind.TURN_ENDED] == turned(events)
        answered = {e.generation for e in events if e.kind is EventKind.TURN_OUTPUT}
        assert (ANSWER, {number % 2 + 1}) == (said(events), answered)
    rows = [row for found in play.attempts.values() for row in found]
    assert {AttemptOutcome.SUCCESS: MANY, AttemptOutcome.FAILED: MANY // 2} == Counter(row.outcome for row in rows)
    groups = {row.process_group for row in rows}
    assert len(rows) == len(groups)
    assert [] == [p for p in live_processes() if p.group in groups]
    assert set() == {row.attempt_id for row in rows} & marked_attempts()

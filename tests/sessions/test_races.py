"""Eight processes at once: one of them wins a session, all get their share of many, one asks a provider that may be back.

The agents' log is the provider's: it holds every prompt and every probe that reached it.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.testing.scripted import bodies
from kandev_routing_sdk.types import CircuitState
from tests._nursery import Nursery
from tests._processes import live_processes, wait_for
from tests.sessions._campaign import SIGKILLED, Case, Databases, told
from tests.sessions._programs import WORK, Agent, Op, Program, answers

COUNT = 8
SESSIONS = 200
START_S = 0.5
"""From the order to the start, for all at once."""
PATIENCE_S = 150.0
"""For all of them, on however busy a machine."""


class Race:
    """Sessions of one program, prepared by one process, and then eight at them."""

    def __init__(self, workers: Nursery, folder: Path, databases: Databases, program: Program) -> None:
        self.workers, self.program = workers, program
        self.case = Case.of(workers, folder, databases, program)

    def begin(self, count: int, *then: Op, **fields: Any) -> None:
        """Begin so many sessions, and let one process work as long as there is something to do."""
        starts: list[Op] = [("start", self.program.name, f"do {number}") for number in range(count)]
        done = self.case.run([*starts, *then], room=1, adapter="unasked", **fields)
        assert done is not None
        assert "error" not in done, done["error"]

    def start(self, *ops: Op, **fields: Any) -> tuple[list[dict[str, Any]], list[int], float]:
        """Start eight; return their jobs, their process ids, and when they all begin."""
        at = time.time() + START_S
        jobs = [self.case.job([("at", at), *ops], **fields) for _ in range(COUNT)]
        return jobs, self.workers.start(jobs), at

    def run(self, *ops: Op, **fields: Any) -> list[dict[str, Any]]:
        """Start eight, and return what they tell once all have ended."""
        jobs, _, _ = self.start(*ops, **fields)
        assert [0] * COUNT == self.workers.wait()
        found = [told(job) for job in jobs]
        assert [] == [done["error"] for done in found if "error" in done]
        return found

    def asked(self, *kinds: str) -> int:
        """How often the provider was asked."""
        return sum(1 for entry in self.case.log() if entry["event"] in (kinds or ("prompt", "probe")))

    def states(self) -> list[str]:
        with open_store(self.case.url, migrate=False) as store:
            return sorted(route.state.value for route in store.sessions(limit=1000))


def test_one_of_eight_wins_a_generation(workers: Nursery, databases: Databases, tmp_path: Path) -> None:
    """R-ENG-2, R-ENG-7, R-ENG-8: all ask for the same retry; each generation has one winner, and one prompt."""
    goal = 8
    race = Race(workers, tmp_path / "one", databases, Program("one", (Agent("fable", (answers().fail_puzzling(),)),)))
    race.begin(1, WORK)
    found = race.run(("race", goal))
    assert list(range(1, goal)) == sorted(generation for done in found for generation in done["won"])
    assert 0 < sum(done["lost"] for done in found), "there was a race"
    assert goal == race.asked("prompt")
    with open_store(race.case.url, migrate=False) as store:
        (route,) = store.sessions()
        assert list(range(1, goal + 1)) == [s.generation for s in store.selections(route.session_id)]
        assert list(range(1, goal + 1)) == [a.generation for a in store.attempts(route.session_id)]


def test_two_hundred_sessions_are_shared_by_eight(workers: Nursery, databases: Databases, tmp_path: Path) -> None:
    """R-PRF-6, R-DUR-4: each is led once, nobody waits ten times as long as most, every process has its share."""
    many = Program("many", (Agent("fable", (answers().say("done"),)),))
    race = Race(workers, tmp_path / "many", databases, many)
    race.begin(SESSIONS)
    jobs, _, began = race.start(WORK, room=4, poll_s=0.1, kill_after_s=PATIENCE_S)
    assert [0] * COUNT == workers.wait()
    reports = [told(job)["report"][0] for job in jobs]
    assert SESSIONS == sum(claimed for claimed, *_ in reports)
    assert SESSIONS == race.asked("prompt")
    assert ["active"] * SESSIONS == race.states()
    with open_store(race.case.url, migrate=False) as store:
        attempts = [a for route in store.sessions(limit=1000) for a in store.attempts(route.session_id)]
    waits = [attempt.created_at.timestamp() - began for attempt in attempts]
    assert SESSIONS == len(waits)
    assert max(waits) <= 10 * statistics.median(waits), sorted(waits)
    shares = [claimed for claimed, *_ in reports]
    assert min(shares) >= statistics.median(shares) / 10, shares


def _limited(name: str, *later: ScriptBuilder, probe: Mapping[str, Any] | None = None) -> Program:
    """An account whose allowance is used up for a minute."""
    agent = Agent("fable", (answers().fail_quota(60), *later))
    return Program(name, (agent,), probe=probe)


@pytest.mark.parametrize("adapter", ["asked", "unasked"])
def test_one_of_eight_asks_a_provider_that_may_be_back(
    adapter: str, workers: Nursery, databases: Databases, tmp_path: Path
) -> None:
    """R-CIR-6, R-CIR-8: eight sessions wait for one circuit; when it may be probed, one does, by a launch or a cheap probe."""
    program = _limited("back", answers().sleep(0.5).fail_quota(7200), probe={"fail": bodies.quota_limited(7200)})
    race = Race(workers, tmp_path / "back", databases, program)
    race.begin(COUNT, WORK)
    assert 1 == race.asked()
    assert ["waiting"] * COUNT == race.states()
    race.run(WORK, ("later", 5), WORK, ahead_s=30.0, adapter=adapter)
    assert 1 == race.asked(), "while it is open nobody asks"
    race.run(WORK, ("later", 5), WORK, ahead_s=70.0, adapter=adapter)
    assert 2 == race.asked(), "exactly one probe"
    assert ["waiting"] * COUNT == race.states()


def _kill_in_mid_probe(race: Race, event: str, **fields: Any) -> None:
    """Start eight, and kill the one whose probe the provider does not answer."""
    before = race.asked()
    _, pids, _ = race.start(WORK, **fields)
    (entry,) = wait_for(lambda: [e for e in race.case.log() if e["event"] in {"prompt", "probe"}][before:])
    assert event == entry["event"]
    # What asked a cheap probe may be gone already; the worker that still waits for it is the only one left.
    parent = live_processes()[entry["pid"]][0] if event == "prompt" else None
    prober = parent or wait_for(lambda: _only(set(pids) & set(live_processes())))
    assert prober in pids
    os.kill(prober, signal.SIGKILL)
    assert 1 == race.workers.wait().count(SIGKILLED)


def _only(found: set[int]) -> int | None:
    return found.pop() if len(found) == 1 else None


def test_the_probe_of_a_launch_that_died_has_one_successor(
    workers: Nursery, databases: Databases, tmp_path: Path
) -> None:
    """R-CIR-6: a crashed prober's lease expires; until then nobody asks, and then exactly one."""
    race = Race(workers, tmp_path / "dead", databases, _limited("dead", answers().hang(), answers().fail_quota(7200)))
    race.begin(COUNT, WORK)
    _kill_in_mid_probe(race, "prompt", ahead_s=70.0, adapter="unasked")
    assert 2 == race.asked()
    race.run(WORK, ("later", 10), WORK, ahead_s=90.0, adapter="unasked")
    assert 2 == race.asked(), "its lease is not over"
    race.run(WORK, ("later", 5), WORK, ahead_s=200.0, adapter="unasked")
    assert 3 == race.asked(), "exactly one successor"
    # the session of the dead one may have been served: a person is asked
    assert ["action_required", *["waiting"] * (COUNT - 1)] == race.states()


def test_a_cheap_probe_that_died_has_one_successor(workers: Nursery, databases: Databases, tmp_path: Path) -> None:
    """As with a launch, where no session waits and a worker asks for its own sake."""
    program = _limited("cheap", probe={"fail": bodies.quota_limited(7200)})
    race = Race(workers, tmp_path / "cheap", databases, program)
    race.begin(1, WORK, ("act", "stop"))
    assert ["stopped"] == race.states()
    _kill_in_mid_probe(race, "probe", ahead_s=70.0, adapter="slow")
    assert 2 == race.asked()
    race.run(WORK, ahead_s=80.0)
    assert 2 == race.asked(), "its lease is not over"
    race.run(WORK, ahead_s=130.0)
    assert 3 == race.asked(), "exactly one successor"
    with open_store(race.case.url, migrate=False) as store:
        assert [CircuitState.OPEN] == [circuit.state for circuit in store.circuits()]

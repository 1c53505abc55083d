"""The crash campaign: workers are killed at every commit, and at any moment; nothing is repeated, nothing is lost, nobody is left.

Each kill is a real process that ends by SIGKILL while it drives real agents; another one takes over, later. What the agents wrote
down is the witness (:meth:`tests.sessions._campaign.Case.check`).
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._nursery import Nursery
from tests._postgres import PostgresServer
from tests._processes import wait_for
from tests.sessions._campaign import AHEAD_S, SIGKILLED, Case, Databases, postgresql_databases, told
from tests.sessions._programs import MIXED, PROGRAMS, WORK

LEAST_KILLS = 150
"""For each engine, whatever ``--kills`` adds."""
SEED = 5


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """``--kills``."""
    found: int = request.config.getoption("--kills")
    return found


def test_there_are_kills_enough() -> None:
    assert LEAST_KILLS <= sum(program.least for program in PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kill_at_any_commit(name: str, workers: Nursery, databases: Databases, tmp_path: Path) -> None:
    """Just before it and just after it; R-DUR-3, R-SAFE-3, R-CON-11, R-ENG-8, design §6."""
    program, kills = PROGRAMS[name], 0
    for number in itertools.count(program.since):
        for moment in ("before", "after"):
            case = Case.of(workers, tmp_path / f"{number}-{moment}", databases, program)
            survived = case.run(case.whole(), fatal=(number, moment))
            if survived is not None:
                assert "error" not in survived, survived["error"]
                # one that is stopped while it runs has a commit more or less
                assert number > survived["commits"], "it was to be killed"
                assert program.least <= kills
                print(f"{kills} kills")
                return
            kills += 1
            case.settle()


def test_a_kill_at_any_moment(workers: Nursery, databases: Databases, tmp_path: Path, kills: int) -> None:
    """Several sessions at once, of whom nobody knows how far they are; those who take over may be killed, too."""
    draw, killed = random.Random(SEED), 0
    shortest_s = float("inf")  # how long one takes here if nobody disturbs it
    for number in itertools.count():
        programs = [PROGRAMS[name] for name in draw.sample(MIXED, 3)]
        case = Case.of(workers, tmp_path / str(number), databases, *programs)
        kill = {} if number == 0 else {"kill_after_s": draw.uniform(0.05, 0.9) * shortest_s}
        began = time.monotonic()
        if case.run(case.whole(), **kill) is None:
            killed += 1
        else:
            shortest_s = min(shortest_s, time.monotonic() - began)
        if number and draw.random() < 0.3:
            killed += case.recover(kill_after_s=draw.uniform(0.05, 0.5) * shortest_s) is None
        case.settle()
        if killed >= kills:
            break
        assert number < 20 * kills, "some of them are to be killed"


def test_a_call_that_died_leaves_no_agent_to_a_running_worker(
    workers: Nursery, databases: Databases, tmp_path: Path
) -> None:
    """R-CON-11: whoever finds the call interrupted ends its agent, not only who opens a router later."""
    case = Case.of(workers, tmp_path / "call", databases, PROGRAMS["stop"])
    (pid,) = workers.start([case.job([("call", "stop", "do it")])])
    wait_for(lambda: any(entry["event"] == "child" for entry in case.log()))
    os.kill(pid, signal.SIGKILL)
    assert [SIGKILLED] == workers.wait()
    left = case.run([("look",), ("later", AHEAD_S), WORK, ("look",)])
    assert left is not None
    before, after = left["looks"]
    assert before["alive"]
    assert [] == after["alive"]


@pytest.fixture
def restless(postgres_server: PostgresServer, postgres_url: str) -> Iterator[tuple[PostgresServer, Databases]]:
    with postgresql_databases(postgres_url) as found:
        yield postgres_server, found


@pytest.mark.parametrize("disturbance", ["backends", "restart"])
def test_a_database_that_goes_away(
    disturbance: str, workers: Nursery, restless: tuple[PostgresServer, Databases], tmp_path: Path
) -> None:
    """A worker whose connections are ended, or whose server is killed and comes back, goes on by itself or says why not."""
    server, databases = restless
    draw, done = random.Random(SEED), 0
    for number in range(8 if disturbance == "backends" else 4):
        programs = [PROGRAMS[name] for name in draw.sample(MIXED, 3)]
        case = Case.of(workers, tmp_path / str(number), databases, *programs)
        job = case.job(case.whole())
        workers.start([job])
        for _ in range(3 if disturbance == "backends" else 1):
            time.sleep(draw.uniform(0.05, 0.3))
            if disturbance == "backends":
                done += server.kill_backends(databases.url)
            else:
                server.restart(immediate=True)
                done += 1
        assert [0] == workers.wait()
        ended = told(job)
        assert "error" not in ended or ended["error"][1] is not None, ended["error"]
        case.settle()
    assert done >= (8 if disturbance == "backends" else 4)

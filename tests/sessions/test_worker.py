"""The worker: what it takes and when, what it leaves alone, and how it ends (R-DUR-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kandev_routing_sdk.errors import StoreError, StoreUnavailable, UsageError
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.scheduler import Worker, WorkerOptions, WorkerReport
from kandev_routing_sdk.sessions.reading import snapshot
from tests.sessions._home import retries
from tests.sessions._played import profiles_table
from tests.sessions._town import FOLDER, WRITES, Process, Town

SPREAD_S = 2.0
CONCRETE = {"fable": ("played", "fable", "acme"), "sol": ("played", "sol", "other")}


def begun(town: Town, number: int, *, policy: dict[str, Any] | None = None) -> list[str]:
    """Sessions with fable as their only candidate, that nobody is at."""
    town.shelf.put(profiles_table(CONCRETE, {"frontier": [{"profile": "fable", "policy": policy or {}}]}))
    host = town.process()
    started = [town.do(host, host.router.sessions.start("frontier", f"task {n}", cwd=FOLDER)) for n in range(number)]
    town.shut(host)
    return [one.session_id for one in started]


def see(town: Town, session_id: str) -> Snapshot:
    return snapshot(town.store, session_id)


def states(town: Town, sessions: list[str]) -> Counter[str]:
    return Counter(see(town, s).state for s in sessions)


# --- what it takes ---


def test_as_many_as_it_has_room_for(town: Town) -> None:
    """One look takes no more than there is room for, and the rest stays for others."""
    sessions = begun(town, 7)
    one, two = town.process(), town.process()
    town.look(one, most=3)
    assert Counter(active=3, selecting=4) == states(town, sessions)
    town.look(two, most=9)
    assert Counter(active=7) == states(town, sessions)
    assert 7 == len(town.stage.sent)


def test_only_what_is_due(town: Town) -> None:
    """A deadline that is not there yet is left alone; those that are there are all taken."""
    town.stage.plays["fable"] = ["overloaded"]
    first = begun(town, 1, policy=retries(3))
    town.look(town.process())
    town.clock.advance(3)
    assert "retry_wait" == see(town, first[0]).state
    revision = see(town, first[0]).revision
    town.look(town.process(), most=5)
    assert revision == see(town, first[0]).revision
    town.clock.advance(2)
    town.stage.plays["fable"] = ["answer"]
    town.look(town.process(), most=5)
    assert "active" == see(town, first[0]).state


def test_nothing_is_written_when_nothing_is_due(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs a few reads, however many wait (R-DUR-4)."""
    town.stage.plays["fable"] = ["far_quota"]
    looks = []
    for number in (2, 20):
        sessions = begun(town, number)
        host = town.process()
        for _ in range(3):
            town.look(host, most=number)
        assert {"waiting"} == set(states(town, sessions))
        calls = _calls(town, host)
        looks.append(calls)
        assert not set(calls) & {*WRITES} - {"claim"}
    assert looks[0] == looks[1]


def _calls(town: Town, host: Process) -> Counter[str]:
    """What one look asks of the store."""
    calls: Counter[str] = Counter()
    store: Any = host.engine.store
    answered = type(store).__getattr__

    class Counting(type(store)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            calls[name] += 1
            return answered(self, name)

    store.__class__ = Counting
    town.look(host, most=5)
    return calls


def test_those_who_wait_for_one_moment_come_back_spread(town: Town) -> None:
    """No thundering herd: not two of many at the same microsecond, and all within a little while (R-DUR-4)."""
    town.stage.plays["fable"] = ["quota"]
    sessions = begun(town, 25)
    host = town.process()
    for _ in range(3):
        town.look(host, most=25)
    deadlines = [see(town, s).deadline for s in sessions]
    first = min(d for d in deadlines if d is not None)
    late = [(d - first).total_seconds() for d in deadlines if d is not None]
    assert 25 == len(late)
    assert max(late) <= SPREAD_S
    assert len(set(late)) > 20
    assert max(late) > SPREAD_S / 2


def test_one_sessions_fault_is_not_the_others(town: Town) -> None:
    """A profile that breaks its adapter, a session that somebody moved: the rest goes on (R-PLG-2)."""
    town.stage.plays["fable"] = ["breaks", "answer", "answer"]
    sessions = begun(town, 3)
    host = town.process()
    town.look(host, most=3)
    found = states(town, sessions)
    assert 2 == found["active"]
    assert 3 == sum(found.values())
    assert [] == town.bugs


# --- how it ends, and what it says ---


def run(town: Town, host: Process, work: Callable[[Worker], Any], **options: Any) -> WorkerReport:
    """Run a whole worker beside ``work``."""
    worker = Worker(host.engine, WorkerOptions(**options), lambda _: lambda _: None)

    async def main() -> WorkerReport:
        async with anyio.create_task_group() as group:
            group.start_soon(worker.run)
            await work(worker)
        return worker.report

    report: WorkerReport = town.runner.run(_of(town, host, main))
    return report


async def _of(town: Town, host: Process, main: Callable[[], Any]) -> Any:
    from tests.sessions._played import HOST

    HOST.set(host.host)
    return await main()


async def _until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not holds():  # noqa: ASYNC110  # whatever it is that has to come true
            await anyio.sleep(0.01)


def test_a_graceful_stop_waits_for_running_turns(town: Town) -> None:
    """As long as the grace lasts; nothing new is taken meanwhile."""
    town.stage.plays["fable"] = ["slow:answer"]
    (running,) = begun(town, 1)
    late: list[str] = []

    async def work(worker: Worker) -> None:
        await _until(lambda: bool(town.stage.sent))
        worker.stop.set()
        await anyio.sleep(0.2)
        assert town.stage.live(running)
        for agent in town.stage.live(running):
            agent.go.set()

    report = run(town, town.process(), work, poll_s=0.02, grace_s=20)
    assert (1, 1, 0) == (report.claimed, report.settled, report.given_up)
    assert "active" == see(town, running).state
    assert [] == late


def test_a_graceful_stop_ends_what_does_not_end(town: Town) -> None:
    """Beyond the grace the agent is ended, a person is asked, and the session is nobody's (R-CON-11)."""
    town.stage.plays["fable"] = ["slow:answer"]
    (running,) = begun(town, 1)

    async def work(worker: Worker) -> None:
        await _until(lambda: bool(town.stage.sent))
        worker.stop.set()

    run(town, town.process(), work, poll_s=0.02, grace_s=0.1)
    assert [] == town.stage.live(running)
    route = town.store.load(running)
    assert route is not None
    assert ("action_required", "ambiguous_dispatch", None) == (route.state, route.reason, route.owner_id)


def test_until_idle_ends_when_there_is_nothing_to_do(town: Town) -> None:
    """And says what it did."""
    sessions = begun(town, 5)

    async def nothing(worker: Worker) -> None:
        """It ends by itself."""

    report = run(town, town.process(), nothing, until_idle=True, poll_s=0.01, max_sessions=2)
    assert Counter(active=5) == states(town, sessions)
    assert (5, 5, 0) == (report.claimed, report.settled, report.given_up)


def test_a_database_that_is_away_for_a_while(town: Town) -> None:
    """A standing worker tries again; one that was to work until there is nothing to do says that it cannot know."""
    (session_id,) = begun(town, 1)
    host = town.process()
    away = _away(host)

    async def work(worker: Worker) -> None:
        await _until(lambda: away["refused"] >= 3)
        away["for"] = 0
        await _until(lambda: bool(town.stage.sent))
        worker.stop.set()

    run(town, host, work, poll_s=0.01)
    assert "active" == see(town, session_id).state

    away["for"] = 10**9
    with pytest.raises(ExceptionGroup) as raised:
        run(town, host, lambda _: anyio.lowlevel.checkpoint(), until_idle=True, poll_s=0.01)
    assert raised.group_contains(StoreError)


def _away(host: Process) -> dict[str, int]:
    """Let the host's store refuse so many calls."""
    count = {"for": 10**9, "refused": 0}
    store: Any = host.engine.store
    answered = type(store).__getattr__

    class Away(type(store)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            method = answered(self, name)

            def call(*args: Any, **kwargs: Any) -> Any:
                if count["for"] > 0:
                    count["for"] -= 1
                    count["refused"] += 1
                    raise StoreUnavailable("the database is away")
                return method(*args, **kwargs)

            return call

    store.__class__ = Away
    return count


@pytest.mark.parametrize("wrong", [{"max_sessions": 0}, {"poll_s": 0.0}, {"grace_s": -1.0}])
def test_options_out_of_bounds(town: Town, wrong: dict[str, Any]) -> None:
    """One clear sentence, before anything is taken."""
    host = town.process()
    with pytest.raises(UsageError, match="max_sessions"):
        town.do(host, host.router.run_worker(until_idle=True, **wrong))

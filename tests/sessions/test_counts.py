"""What hosts over one store count together: each fact once, whoever it happened to (R-OBS-2, R-ENG-9)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.conductor.attempt import Attempt
from kandev_routing_sdk.errors import StaleGeneration, StaleRevision
from kandev_routing_sdk.sessions import Crew, EventFeed, SessionHost, go_on
from kandev_routing_sdk.telemetry import SpanName, Telemetry, Totals
from kandev_routing_sdk.types import DispatchMark
from tests.sessions._home import retries
from tests.sessions._played import Fuse
from tests.sessions._scenes import act, begin, look, rested, see, shelve, stored
from tests.sessions._town import Process, Town
from tests.store._values import attempt, settled


@pytest.fixture
def totals(town: Town, monkeypatch: pytest.MonkeyPatch) -> Totals:
    """What every host of the town counts."""
    totals, start = Totals(), town.process

    def process(namespace: str = "here") -> Process:
        host = start(namespace)
        host.engine.telemetry.add_sink(totals)
        return host

    monkeypatch.setattr(town, "process", process)
    return totals


def counts(totals: Totals, *labels: str) -> dict[str, int]:
    """Sums by metric and the values of ``labels``, each without what every name of ours begins and ends with."""
    found: dict[str, int] = {}
    for (metric, named), count in totals.read().items():
        values = [value for name, value in named if name in labels and value != "none"]
        name = " ".join([metric.name.removeprefix("routing_").removesuffix("_total"), *values])
        found[name] = found.get(name, 0) + count
    return found


def test_a_session_that_falls_back_is_counted_in_full(town: Town, totals: Totals) -> None:
    town.stage.plays["fable"] = ["quota"]
    seen = rested(town, town.process())
    assert "active" == seen.state
    assert {
        "route_attempts failed": 1,
        "route_attempts success": 1,
        "decisions chosen": 2,
        "decisions skip": 1,
        "classifications": 1,
        "fallback": 1,
        "resource_circuit_opened": 1,
    } == {name: n for name, n in counts(totals, "outcome", "result").items() if name != "continuations"}


@pytest.mark.parametrize("profile", ["fable", "frontier"])
def test_an_armed_retry_is_its_circuits_probe_and_a_retry(town: Town, totals: Totals, profile: str) -> None:
    """R-CIR-5, R-OBS-2: whether a person watches or not."""
    shelve(town, frontier=[{"profile": "fable", "policy": retries(1)}])
    town.stage.plays["fable"] = ["overloaded", "answer"]
    seen = rested(town, town.process(), profile)
    look(town, after_s=10)
    assert "active" == see(town, seen).state
    found = counts(totals, "asked_by", "state")
    assert (1, 1) == (found["half_open_probes launch"], found["same_route_retries retry_wait"])


def test_an_action_that_came_too_late_is_dropped_and_fenced(town: Town, totals: Totals) -> None:
    host = town.process()
    seen = rested(town, host)
    with pytest.raises(StaleGeneration):
        act(town, host, seen, "stop", expected_generation=seen.generation - 1)
    found = counts(totals, "what", "fence")
    assert (1, 1) == (found["stale_dropped action"], found["fence_refusals generation"])


def test_a_repeated_action_is_no_stale_one(town: Town, totals: Totals) -> None:
    host = town.process()
    seen = rested(town, host)
    for _ in range(2):
        act(town, host, seen, "stop", action_id="once")
    assert not [name for name in counts(totals) if name in {"stale_dropped", "fence_refusals"}]


def test_whoever_commits_second_is_refused_and_counted(town: Town, totals: Totals) -> None:
    host = town.process()
    seen = begin(town, host)
    before = stored(town, seen)
    town.look(host)
    with pytest.raises(StaleRevision):
        town.do(host, go_on(host.engine, before, lambda _: None))
    assert 1 == counts(totals, "fence")["fence_refusals revision"]


@pytest.mark.parametrize(
    ("mark", "expected"),
    [(DispatchMark.CLAIMED, "rearmed"), (DispatchMark.DISPATCHING, "asked")],
    ids=["provably unsent", "perhaps sent"],
)
def test_what_becomes_of_a_dead_owners_session(town: Town, totals: Totals, mark: DispatchMark, expected: str) -> None:
    """R-DUR-3."""
    host = town.process()
    seen = begin(town, host)
    town.shut(host)

    def meant(name: str, what: Any) -> bool:
        written = (what.new_attempt or what.update_attempt) if name == "commit" else None
        return written is not None and written.mark is mark

    dying = town.process()
    dying.host.fuse = Fuse(meant, after=True)
    town.look(dying)
    assert dying.host.dead
    town.kill(dying)
    town.clock.advance(60)
    town.look(town.process())
    found = counts(totals, "result", "outcome")
    assert {f"restart_reconciliations {expected}": 1} == {n: c for n, c in found.items() if "reconcil" in n}
    assert 1 == found["route_attempts lost"]
    assert (expected == "asked") is (see(town, seen).state == "action_required")


@pytest.mark.parametrize(("timer", "expected"), [(True, {"stale_dropped timer": 1}), (False, {})])
def test_a_host_counts_a_timer_that_somebody_else_was_faster_than(timer: bool, expected: dict[str, int]) -> None:
    """R-ENG-9: as a worker does; what a person asked for is no timer."""
    totals = Totals()
    engine: Any = SimpleNamespace(telemetry=Telemetry(sinks=[totals]), store=None)

    async def late() -> Any:
        raise StaleRevision("s1", 3)

    async def main() -> None:
        crew = Crew()
        host = SessionHost(engine, crew, EventFeed(engine.store, crew, poll_s=1), poll_s=1)
        await host._move("s1", late(), timer=timer)

    anyio.run(main)
    assert expected == counts(totals, "what")


def test_frames_that_were_not_of_an_attempt_are_counted_when_it_is_over() -> None:
    """R-EVI-4."""
    totals = Totals()
    telemetry = Telemetry(sinks=[totals])
    ended: Any = SimpleNamespace(
        record=settled(attempt()),
        downstream=SimpleNamespace(stale_frames=100_000),
        voice=SimpleNamespace(late=1),
        telemetry=telemetry,
        span=telemetry.begin(SpanName.ATTEMPT),
    )
    Attempt.over(ended)
    assert {"stale_dropped frame": 100_001} == counts(totals, "what")

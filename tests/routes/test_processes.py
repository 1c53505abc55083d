"""Several processes and one store: what one learns all know, and one of them finds out whether a resource is back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.types import CircuitState
from tests._nursery import Nursery
from tests.routes._world import World, answers


def call(workers: Nursery, world: World, times: int = 1) -> list[dict[str, Any]]:
    """Make so many calls at once, each in a process of its own; return what came of each."""
    jobs = [world.job() for _ in range(times)]
    assert [0] * times == workers.run(*jobs)
    return [json.loads(Path(job["result"]).read_text("utf-8")) for job in jobs]


def make_due(world: World) -> None:
    """Let the only circuit's deadline be now: what a test must not wait for, on however slow a machine."""
    with open_store(world.url) as store:
        (circuit,) = store.circuits()
        assert store.put_circuit(circuit, replace(circuit, deadline=SystemClock().now()))


@pytest.fixture
def shared(tmp_path: Path, database_url: str) -> World:
    """A world on each back end, in real time."""
    return World(tmp_path / "world", database_url, clock=SystemClock())


def test_an_open_circuit_is_known_to_every_process_and_one_probes_it(workers: Nursery, shared: World) -> None:
    """R-CIR-6: while open, a second process sends nothing; once due, two started together send exactly one."""
    shared.folder.mkdir()
    shared.agent("fable", answers().fail_quota(3600), answers().sleep(6).say("back"))
    (first,) = call(workers, shared)
    assert "waiting" == first["outcome"]
    (second,) = call(workers, shared)
    assert "waiting" == second["outcome"]
    assert {"fable": 1} == shared.prompts(), "while it is open nobody asks"

    make_due(shared)
    outcomes = sorted(done["outcome"] for done in call(workers, shared, 2))
    assert ["success", "waiting"] == outcomes
    assert {"fable": 2} == shared.prompts(), "exactly one probe"
    with open_store(shared.url) as store:
        assert [CircuitState.CLOSED] == [c.state for c in store.circuits()]


def test_the_loser_of_a_probe_takes_an_alternative(workers: Nursery, shared: World) -> None:
    """R-CIR-8: other sessions skip meanwhile."""
    shared.folder.mkdir()
    shared.agent("fable", answers().fail_quota(3600), answers().sleep(6).say("back"))
    shared.agent("sol", answers().say("done"))
    (first,) = call(workers, shared)
    assert ("success", "sol") == (first["outcome"], first["by"])
    make_due(shared)
    assert ["fable", "sol"] == sorted(done["by"] for done in call(workers, shared, 2))
    assert 2 == shared.prompts()["fable"]


def test_eight_processes_share_one_database(workers: Nursery, shared: World) -> None:
    """R-PRF-6: every call has its own generations; nobody fails for being one of many."""
    shared.folder.mkdir()
    shared.agent("fable", answers().say("done"))
    assert ["success"] * 8 == [done["outcome"] for done in call(workers, shared, 8)]
    assert {"fable": 8} == shared.prompts()
    with open_store(shared.url) as store:
        routes = store.sessions()
        assert [1] * 8 == [route.generation for route in routes]
        assert 8 == len({route.session_id for route in routes})

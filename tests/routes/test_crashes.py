"""A call's process is killed at every commit boundary: no prompt is repeated, nothing is half written, no agent is left."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from kandev_routing_sdk import Router
from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import FakeClock, ScriptedAdapter
from kandev_routing_sdk.types import DispatchMark
from tests._nursery import Nursery
from tests._processes import group_members
from tests.routes._world import World, answers

_WRITES = 14
"""Durable writes of the call below; held by a test, so that no boundary is forgotten."""


def build(folder: Path) -> World:
    """A world in which every kind of write happens: a handover, an answer, and a settled call."""
    world = World(folder, f"sqlite:///{folder / 'routing.db'}", clock=SystemClock())
    world.agent("fable", answers().fail_quota(3600))
    world.agent("sol", answers().tool(line="ran").say("done"))
    return world


def dispatched(world: World) -> dict[str, int]:
    """Count the prompts that really left: an agent whose caller died before it wrote reads an empty one."""
    return {name: sum(1 for p in agent.prompts if p.prompt) for name, agent in world.agents.items()}


def test_every_write_of_the_call_is_known(workers: Nursery, tmp_path: Path) -> None:
    """Otherwise the campaign below would miss boundaries."""
    job = build(tmp_path).job()
    assert [0] == workers.run(job)
    assert {"outcome": "success", "by": "sol", "writes": _WRITES} == json.loads(Path(job["result"]).read_text("utf-8"))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("fatal", list(range(1, _WRITES + 1)))
def test_a_kill_at_any_write_repeats_nothing(workers: Nursery, tmp_path: Path, fatal: int, moment: str) -> None:
    """Design §6, invariants 1, 3, 4; R-UTL-4: the call is interrupted, never re-armed, and its agent is ended."""
    world = build(tmp_path)
    assert [-9] == workers.run(world.job(fatal=(fatal, moment)))
    before = dispatched(world)
    assert all(count <= 1 for count in before.values())

    later = FakeClock(SystemClock().now() + timedelta(minutes=10))
    with Router.open(settings=world.settings, adapters=[ScriptedAdapter()], plugins=False, clock=later) as router:
        finished = fatal == _WRITES or (fatal, moment) == (
            _WRITES - 1,
            "after",
        )  # the record comes before the route's end
        started = fatal > 2 or (fatal, moment) == (2, "after")  # the session, then the call's record
        expected = (["success"] if finished else ["interrupted"]) if started else []
        assert expected == [call.outcome for call in router.calls()]
        assert before == dispatched(world), "opening a router sends nothing"
    with open_store(world.url) as store:
        for route in store.sessions():
            assert "stopped" == route.state
            generations = [s.generation for s in store.selections(route.session_id)]
            assert list(range(1, len(generations) + 1)) == generations
            for attempt in store.attempts(route.session_id):
                if before[attempt.execution_profile_id]:
                    assert attempt.mark is not DispatchMark.CLAIMED, "a prompt left before its mark was durable"
                if attempt.process_group is not None:
                    assert [] == group_members(attempt.process_group)
    assert world.agents["sol"].effects in ([], ["ran"])

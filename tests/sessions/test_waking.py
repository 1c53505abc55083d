"""A machine that slept, or whose clock was set: everybody's lease looks over, and nobody is dead (R-DUR-5, R-ENG-8)."""

from __future__ import annotations

import asyncio

import pytest

from kandev_routing_sdk.scheduler import worker
from tests.sessions._played import Agent
from tests.sessions._scenes import begin, got, look, see
from tests.sessions._town import Process, Town

HOUR_S = 3600


def at_work(town: Town) -> tuple[Process, Agent]:
    """A process whose agent works on something."""
    town.stage.plays["fable"] = ["slow:answer"]
    host = town.process()
    seen = begin(town, host)
    town.look(host)
    (agent,) = town.stage.live(seen.session_id)
    return host, agent


def answers(town: Town, agent: Agent) -> None:
    """The agent comes to its end, and that is what the session is told."""
    assert agent.live
    agent.go.set()
    town.settle()
    (session,) = town.processes[0].router.sessions.list()
    assert ("active", "succeeded") == (session.state, session.reason)
    assert ["fable"] == got(town)


def test_a_worker_that_slept_keeps_its_own_turns(town: Town) -> None:
    """It renews what it drives before it looks who is lost, so that no other one takes it either."""
    host, agent = at_work(town)
    town.clock.advance(HOUR_S)

    town.look(host)
    look(town)

    answers(town, agent)


def test_a_worker_that_slept_gives_others_time_to_wake_up(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is no worker renews at its next heartbeat only."""
    monkeypatch.setattr(worker, "PATIENCE_S", 0.1)
    owner, agent = at_work(town)
    other = look(town)
    town.clock.advance(HOUR_S)

    town.look(other)
    assert agent.live
    town.beat(owner)
    town.runner.run(asyncio.sleep(0.15))
    town.look(other)

    answers(town, agent)


def test_who_does_not_wake_up_is_dead_all_the_same(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends."""
    monkeypatch.setattr(worker, "PATIENCE_S", 0.1)
    owner, agent = at_work(town)
    other = look(town)
    town.kill(owner)
    town.clock.advance(HOUR_S)

    town.look(other)
    assert [agent] == town.stage.live(agent.session_id)
    town.runner.run(asyncio.sleep(0.15))
    town.look(other)

    assert [] == town.stage.live(agent.session_id)
    (session,) = other.router.sessions.list()
    assert "ambiguous_dispatch" == session.reason


def test_a_sleep_keeps_nobody_from_what_is_due(town: Town) -> None:
    """Only the dead are waited for."""
    host = look(town)
    seen = begin(town, host)
    town.stage.plays["fable"] = ["near_quota", "answer"]
    town.stage.plays["sol"] = ["near_quota", "answer"]
    town.look(host)
    assert "waiting" == see(town, seen).state
    town.clock.advance(HOUR_S)
    town.look(host)
    assert "active" == see(town, seen).state

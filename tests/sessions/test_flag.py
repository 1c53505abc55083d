"""The flag goes off and on while sessions wait, run and stop: nothing of theirs runs meanwhile, nothing is lost (R-RES-4)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.errors import DynamicRoutingDisabled, StaleGeneration
from kandev_routing_sdk.scheduler.keeper import Keeper
from kandev_routing_sdk.types import AttemptOutcome
from tests.sessions._home import retries, waits
from tests.sessions._scenes import act, ask, begin, circuit, got, leased, look, rested, rows, see, shelve, stored, where
from tests.sessions._town import Process, Town


def alone(town: Town, play: str, policy: dict[str, Any] | None = None) -> None:
    """fable is the only candidate, plays this, and then answers."""
    shelve(town, frontier=[{"profile": "fable", "policy": policy or {}}])
    town.stage.plays["fable"] = [play, "answer"]


def off(town: Town) -> Process:
    """Only workers with the flag off are left, and each looked at everything."""
    town.flag = False
    return look(town, afresh=True)


def on(town: Town) -> Process:
    """A worker with the flag on starts."""
    town.flag = True
    return look(town, afresh=True)


def test_a_turn_whose_owner_died_is_settled_before_the_flag_stops_it(town: Town) -> None:
    """Its agent is ended and it rests, so that nobody takes it for lost again and again (R-DUR-4, R-ENG-8)."""
    town.stage.plays["fable"] = ["slow:answer"]
    host = town.process()
    seen = begin(town, host)
    town.look(host)
    town.kill(host)

    town.flag = False
    look(town, after_s=60)

    stopped = see(town, seen)
    assert ("action_required", "dynamic_routing_disabled") == (stopped.state, stopped.reason)
    assert (False, [AttemptOutcome.LOST]) == (stopped.turn_running, [row.outcome for row in rows(town, seen)])
    assert [] == town.stage.live(seen.session_id)
    for _ in range(3):
        look(town, after_s=60)
    assert stopped == see(town, seen)
    on(town)
    restored = see(town, seen)
    assert ("action_required", "ambiguous_dispatch", True) == (
        restored.state,
        restored.reason,
        restored.potentially_effectful,
    )
    assert ["fable"] == got(town)


def test_flag_off_lets_a_running_turn_end_and_then_stops_its_session(town: Town) -> None:
    """A rolling restart: the turn of a process that has the flag on is left alone; who has it off looks again until that is over."""
    town.stage.plays["fable"] = ["slow:answer", "answer"]
    host = town.process()
    seen = begin(town, host)
    town.look(host)
    town.flag = False
    off_host = town.process()
    keeper = Keeper(off_host.engine)
    town.do(off_host, keeper.catch_up())
    assert see(town, seen).turn_running
    (agent,) = town.stage.live(seen.session_id)
    agent.go.set()
    town.settle()
    assert ("active", 1, "fable") == where(see(town, seen))

    town.do(off_host, keeper.catch_up())

    stopped = see(town, seen)
    assert ("action_required", "dynamic_routing_disabled") == (stopped.state, stopped.reason)
    with pytest.raises(DynamicRoutingDisabled):
        ask(town, off_host, seen)
    on(town)
    assert ("active", 1, "fable") == where(see(town, seen))
    ask(town, town.process(), seen, here=True)
    assert ["fable"] * 2 == got(town)


def test_flag_off_refuses_the_stale_and_the_fresh_alike_and_on_again_fences_them(town: Town) -> None:
    """An action that was meant for what the flag stopped is still fenced by its generation afterwards (R-ENG-7)."""
    alone(town, "overloaded", retries(3, first_s=600))
    seen = rested(town, town.process())
    host = off(town)
    for generation in (seen.generation, seen.generation - 1):
        with pytest.raises(DynamicRoutingDisabled):
            act(town, host, seen, "retry_now", expected_generation=generation)
    host = on(town)
    with pytest.raises(StaleGeneration):
        act(town, host, seen, "retry_now", expected_generation=seen.generation - 1)
    assert ("active", 1, "fable") == where(act(town, host, seen, "retry_now", here=True))


@pytest.mark.parametrize("how", ["due", "closed"])
def test_nobody_is_woken_while_the_flag_is_off(town: Town, how: str) -> None:
    """What a session waited for comes back: a look that cannot use it writes nothing (R-DUR-4)."""
    alone(town, "quota")
    seen = rested(town, town.process())
    host = off(town)
    stopped = see(town, seen)
    if how == "closed":
        host.router.reset_circuit(circuit(town).key.key)

    for _ in range(3):
        look(town, after_s=1000)

    assert stopped == see(town, seen)
    on(town)
    look(town)
    assert "active" == see(town, seen).state


def test_who_is_stopped_meanwhile_waits_for_nothing_any_more(town: Town) -> None:
    """``stopped`` is for good: no worker ever takes it again (state machine, R-DUR-4)."""
    alone(town, "quota")
    seen = rested(town, town.process())
    host = off(town)
    town.do(host, host.router.sessions.stop(seen.session_id))
    stopped = see(town, seen)
    assert "stopped" == stopped.state
    host.router.reset_circuit(circuit(town).key.key)

    town.flag = True
    for _ in range(3):
        look(town, after_s=1000)

    assert stopped == see(town, seen)


def test_a_wait_for_a_reset_goes_on_as_it_was(town: Town) -> None:
    """It still ends early when its circuit closes (state machine, ``waiting_for_reset``)."""
    alone(town, "quota", waits(3600))
    seen = rested(town, town.process())
    assert "waiting_for_reset" == seen.state

    off(town)
    host = on(town)
    assert ("waiting_for_reset", seen.deadline) == (see(town, seen).state, see(town, seen).deadline)
    host.router.reset_circuit(circuit(town).key.key)
    look(town)

    assert ("active", 1, "fable") == where(see(town, seen))


@pytest.mark.parametrize(("play", "policy"), [("overloaded", retries(3)), ("near_quota", waits(600))])
def test_a_retry_that_will_not_come_keeps_no_probe(town: Town, play: str, policy: dict[str, Any]) -> None:
    """Calls of concrete profiles go on while the flag is off (R-CIR-5)."""
    alone(town, play, policy)
    rested(town, town.process())
    assert 1 == len(leased(town))
    off(town)
    assert [] == leased(town)


def test_nobody_is_told_of_a_moment_that_will_pass_unused(town: Town) -> None:
    """The deadline is kept, and shown again when it counts (R-ENG-7: the snapshot is what is true)."""
    alone(town, "overloaded", retries(3, first_s=3600))
    seen = rested(town, town.process())
    assert seen.deadline is not None
    off(town)
    assert (None, None) == (see(town, seen).deadline, see(town, seen).pending_outcome)
    on(town)
    assert seen.deadline == see(town, seen).deadline


def test_a_worker_notices_what_another_ones_flag_stopped(town: Town) -> None:
    """A rolling restart: the old worker looks once more, after the new one looked (R-RES-4)."""
    alone(town, "overloaded", retries(3, first_s=600))
    host = town.process()
    seen = rested(town, host)
    keeper = Keeper(host.engine)
    town.do(host, keeper.catch_up())
    off(town)
    assert "action_required" == see(town, seen).state

    for _ in range(10):
        town.do(host, keeper.catch_up())

    assert "retry_wait" == see(town, seen).state


@pytest.mark.parametrize("how", ["prompt", "retry_now"])
def test_a_person_need_not_wait_for_a_worker_to_notice(town: Town, how: str) -> None:
    """Whoever has the flag on goes on with what was stopped by it (R-RES-4)."""
    alone(town, "overloaded", retries(3, first_s=600))
    seen = rested(town, town.process())
    off(town)
    town.flag = True
    host = town.process()

    if how == "prompt":
        ask(town, host, seen)
    else:
        act(town, host, seen, how)
    look(town)

    assert (None, "active") == (stored(town, seen).prior_state, see(town, seen).state)
    assert ["fable"] * 2 == got(town)


@pytest.mark.parametrize(("how", "state"), [("stop", "stopped"), ("cancel_wait", "action_required")])
def test_what_a_person_asks_comes_before_the_look_that_the_flag_allows(town: Town, how: str, state: str) -> None:
    """Nothing was on its way that it could disturb (R-ENG-7)."""
    alone(town, "quota")
    seen = rested(town, town.process())
    assert "waiting" == seen.state
    off(town)
    town.flag = True

    after = act(town, town.process(), seen, how)

    assert state == after.state
    look(town, after_s=1000)
    assert ["fable"] == got(town)

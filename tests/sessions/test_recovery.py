"""What becomes of a session whose owner died, mark by mark, on both engines (R-DUR-3, R-ENG-8, R-SAFE-3, state machine)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.errors import StaleRevision
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.sessions import go_on
from kandev_routing_sdk.sessions.reading import snapshot
from kandev_routing_sdk.types import AttemptOutcome, Delivery, DispatchMark
from tests.sessions._played import Fuse
from tests.sessions._town import FOLDER, Process, Town

LEASE_S = 60


@pytest.fixture
def town(either_town: Town) -> Town:
    """On both engines."""
    return either_town


Meant = Callable[[str, Any], bool]


def begun(town: Town, text: str = "the request") -> str:
    """A session that nobody is at."""
    host = town.process()
    started: Snapshot = town.do(host, host.router.sessions.start("frontier", text, cwd=FOLDER))
    town.shut(host)
    return started.session_id


def see(town: Town, session_id: str) -> Snapshot:
    return snapshot(town.store, session_id)


def rows(town: Town, session_id: str) -> list[AttemptRecord]:
    return town.store.attempts(session_id)


def got(town: Town) -> list[str]:
    """Which agents got a prompt, in order."""
    return [sent.agent for sent in town.stage.sent]


def choosing(name: str, what: Any) -> bool:
    """A candidate is committed."""
    return name == "commit" and what.new_attempt is not None


def spawned(name: str, what: Any) -> bool:
    """The process group is written down."""
    return name == "mark_attempt" and what.mark is DispatchMark.CLAIMED


def dispatching(name: str, what: Any) -> bool:
    """The prompt is about to leave."""
    return name == "commit" and what.update_attempt is not None and what.update_attempt.mark is DispatchMark.DISPATCHING


def delivered(name: str, what: Any) -> bool:
    """Something came back."""
    return name == "mark_attempt" and what.mark is DispatchMark.DELIVERED


def settled(name: str, what: Any) -> bool:
    """The result is written down."""
    return name == "commit" and what.update_attempt is not None and what.update_attempt.mark is DispatchMark.SETTLED


def dies(town: Town, meant: Meant, *, after: bool, namespace: str = "here") -> Process:
    """A worker takes what there is, and dies just before or after the write that is meant."""
    worker = town.process(namespace)
    worker.host.fuse = Fuse(meant, after)
    town.look(worker)
    assert worker.host.dead, "it did not come to that write"
    town.kill(worker)
    return worker


def taken_over(town: Town, *, after_s: float = LEASE_S) -> Process:
    """Time passes, and another worker looks."""
    town.clock.advance(after_s)
    worker = town.process()
    town.look(worker)
    return worker


# --- nothing can have left ---


def test_owner_died_while_choosing(town: Town) -> None:
    """Nothing was committed, nothing was started: the choice is made again (state ``selecting``)."""
    session_id = begun(town)
    dies(town, choosing, after=False)
    assert "selecting" == see(town, session_id).state
    assert {} == town.stage.agents

    taken_over(town)

    assert ("active", 1) == (see(town, session_id).state, see(town, session_id).generation)
    assert ["fable"] == got(town)


BEFORE_LAUNCH = {
    "before_launch": (False, choosing, True),
    "launched": (True, spawned, True),
    "unwritten": (True, spawned, False),
}


@pytest.mark.parametrize(("early", "meant", "after"), BEFORE_LAUNCH.values(), ids=BEFORE_LAUNCH.keys())
def test_owner_died_with_the_attempt_only_claimed(town: Town, early: bool, meant: Meant, after: bool) -> None:
    """Provably nothing left, once its process is gone, whether its group was written down or not: the same generation again, with an
    attempt of its own; what was there is ended first.
    """
    town.stage.early = early
    session_id = begun(town)
    dies(town, meant, after=after)
    assert ("starting", 1) == (see(town, session_id).state, len(rows(town, session_id)))
    orphans = town.stage.live(session_id)
    assert (1 if early else 0) == len(orphans)

    taken_over(town)

    first, second = rows(town, session_id)
    assert (AttemptOutcome.LOST, Delivery.NOT_SENT) == (
        first.outcome,
        first.effects.delivery if first.effects else None,
    )
    assert (AttemptOutcome.SUCCESS, 1, 2) == (second.outcome, second.generation, second.ordinal)
    assert ("active", 1, False) == _where(see(town, session_id))
    assert ["fable"] == got(town)
    assert not any(agent.live for agent in orphans)


def _where(seen: Snapshot) -> tuple[str, int, bool]:
    return seen.state, seen.generation, seen.potentially_effectful


def test_nobody_takes_it_before_the_lease_ends(town: Town) -> None:
    """An owner is believed alive for a minute (R-ENG-8)."""
    session_id = begun(town)
    dies(town, choosing, after=True)
    taken_over(town, after_s=LEASE_S - 1)
    assert "starting" == see(town, session_id).state
    taken_over(town, after_s=1)
    assert "active" == see(town, session_id).state


def test_a_claimed_attempt_on_another_machine_is_not_trusted(town: Town) -> None:
    """Its processes cannot be seen from here: a person is asked."""
    town.stage.early = True
    session_id = begun(town)
    dies(town, spawned, after=True, namespace="far")

    taken_over(town)

    seen = see(town, session_id)
    assert ("action_required", "ambiguous_dispatch") == (seen.state, seen.reason)
    assert seen.has_prompt
    assert [] == got(town)


# --- something may have left ---

AMBIGUOUS = {
    "dispatching": (dispatching, True),
    "output_seen": (delivered, True),
    "answered_but_not_recorded": (settled, False),
}


@pytest.mark.parametrize("play", ["answer", "quota", "tool_then_overloaded"])
@pytest.mark.parametrize(("meant", "after"), AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_owner_died_when_something_may_have_left(town: Town, meant: Meant, after: bool, play: str) -> None:
    """Nothing is sent again by itself, not after a day, a change of settings or a flag; a person is asked (R-SAFE-3, R-ENG-6). The
    prompt is still there, and the agent is ended.
    """
    town.stage.plays["fable"] = [play, "answer"]
    session_id = begun(town)
    dies(town, meant, after=after)
    before = got(town)

    worker = taken_over(town)

    seen = see(town, session_id)
    assert ("action_required", "ambiguous_dispatch", True) == (seen.state, seen.reason, seen.potentially_effectful)
    assert seen.has_prompt
    assert AttemptOutcome.LOST is rows(town, session_id)[-1].outcome
    assert [] == town.stage.live(session_id)
    worker.router.credentials_changed()
    taken_over(town, after_s=24 * 3600)
    assert seen == see(town, session_id)
    assert before == got(town)


@pytest.mark.parametrize(("action", "whom"), [("retry_now", "fable"), ("skip_now", "sol")])
def test_a_person_goes_on_after_an_ambiguous_dispatch(town: Town, action: str, whom: str) -> None:
    """A person may; the successor is told that something may have happened (R-SAFE-4)."""
    session_id = begun(town)
    dies(town, delivered, after=True)
    worker = taken_over(town)
    seen = see(town, session_id)

    town.do(worker, worker.router.sessions.act(session_id, action, expected_generation=seen.generation, here=True))

    assert ("active", whom) == (see(town, session_id).state, see(town, session_id).execution_profile_id)
    last = town.stage.sent[-1]
    assert whom == last.agent
    assert last.text.startswith("the request\n\n--- Continuation note")
    assert "repeat nothing before you have verified" in last.text


# --- the result is there ---


@pytest.mark.parametrize("namespace", ["here", "far"])
def test_no_successor_while_a_predecessor_may_act(town: Town, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-CON-8: not of this machine, whatever a person wants. Another machine's cannot be seen at all, which the person knew."""
    session_id = begun(town)
    dies(town, delivered, after=True, namespace=namespace)
    worker = taken_over(town)

    async def stubborn(*_: object) -> bool:
        return False

    def again() -> Snapshot:
        generation = see(town, session_id).generation
        town.do(worker, worker.router.sessions.act(session_id, "retry_now", expected_generation=generation, here=True))
        return see(town, session_id)

    with monkeypatch.context() as patch:
        patch.setattr("kandev_routing_sdk.conductor.recovery.reap_group", stubborn)
        seen = again()
    if namespace == "here":
        assert ("action_required", "handover_failed", True) == (seen.state, seen.reason, seen.potentially_effectful)
        assert (["fable"], True) == (got(town), seen.has_prompt)
        seen = again()
    assert ("active", ["fable", "fable"]) == (seen.state, got(town))


def test_owner_died_after_the_answer_was_recorded(town: Town) -> None:
    """Nothing is left to do, and nobody does anything."""
    session_id = begun(town)
    dies(town, settled, after=True)
    seen = see(town, session_id)
    assert ("active", "succeeded", False) == (seen.state, seen.reason, seen.has_prompt)
    taken_over(town)
    assert seen == see(town, session_id)
    assert ["fable"] == got(town)


def test_owner_died_after_a_wait_was_recorded(town: Town) -> None:
    """The deadline is in the database: whoever comes first goes on then."""
    policy = {"transient": {"retry": {"enabled": True, "max_retries": 3, "initial_interval_seconds": 5}}}
    _policy(town, policy)
    town.stage.plays["fable"] = ["overloaded", "answer"]
    session_id = begun(town)
    dies(town, settled, after=True)
    assert "retry_wait" == see(town, session_id).state

    taken_over(town, after_s=4.9)
    assert "retry_wait" == see(town, session_id).state
    taken_over(town, after_s=0.1)
    assert ("active", 1) == (see(town, session_id).state, see(town, session_id).generation)
    assert ["fable", "fable"] == got(town)


def test_owner_died_between_two_candidates(town: Town) -> None:
    """The failure is recorded, the successor is not: it is chosen by whoever comes, with the continuation."""
    town.stage.plays["fable"] = ["quota"]
    session_id = begun(town)
    dies(town, settled, after=True)
    assert "switching" == see(town, session_id).state

    taken_over(town)

    assert ("active", "sol") == (see(town, session_id).state, see(town, session_id).execution_profile_id)
    assert ["fable", "sol"] == got(town)
    assert "Why the agent changed: quota_limited" in town.stage.sent[-1].text


def _policy(town: Town, policy: dict[str, Any]) -> None:
    frontier = town.shelf.profiles["frontier"]
    table = {
        "fable": {"family": "played", "options": {"account": "fable", "provider_id": "acme"}},
        "sol": {"family": "played", "options": {"account": "sol", "provider_id": "other"}},
        "frontier": {
            "kind": "dynamic",
            "name": frontier.name,
            "candidates": [{"profile": "fable", "policy": policy}, {"profile": "sol"}],
        },
    }
    town.shelf.put(table)


# --- not dead at all ---


def test_an_owner_that_was_only_asleep(town: Town) -> None:
    """Its lease ended, and another took over: what it does afterwards is refused, and its agent was ended before anybody was asked
    (R-ENG-8, R-ENG-9).
    """
    town.stage.plays["fable"] = ["slow:answer"]
    session_id = begun(town)
    asleep = town.process()
    town.look(asleep)
    (agent,) = town.stage.live(session_id)

    taken_over(town)
    assert not agent.live
    seen = see(town, session_id)
    assert "ambiguous_dispatch" == seen.reason

    agent.go.set()
    town.settle()
    assert town.has_ended(asleep), "it noticed"
    assert seen == see(town, session_id)
    assert [] == town.bugs


def test_an_owner_that_renews_is_left_alone(town: Town) -> None:
    """A heartbeat in time keeps the session, for however long the turn takes."""
    town.stage.plays["fable"] = ["slow:answer"]
    session_id = begun(town)
    owner = town.process()
    town.look(owner)
    (agent,) = town.stage.live(session_id)
    for _ in range(10):
        town.clock.advance(LEASE_S - 1)
        town.beat(owner)
        taken_over(town, after_s=0)
    assert agent.live

    agent.go.set()
    town.settle()
    assert ("active", "succeeded") == (see(town, session_id).state, see(town, session_id).reason)
    assert ["fable"] == got(town)


def test_an_owner_whose_session_was_taken_ends_its_agent_at_its_heartbeat(town: Town) -> None:
    """Also where nobody could reach it: a turn on another machine (R-ENG-8)."""
    town.stage.plays["fable"] = ["slow:answer"]
    session_id = begun(town)
    far = town.process("far")
    town.look(far)
    (agent,) = town.stage.live(session_id)
    taken_over(town)
    assert [agent] == town.stage.live(session_id), "from here it cannot be seen"
    assert "ambiguous_dispatch" == see(town, session_id).reason

    town.beat(far)
    assert [] == town.stage.live(session_id)
    assert town.has_ended(far)


@pytest.mark.parametrize("namespace", ["here", "far"])
def test_stop_session_reaches_the_agent(town: Town, namespace: str) -> None:
    """``stop_session()`` ends it from any state, whoever runs it; elsewhere its owner does at its next heartbeat (R-ENG-7)."""
    town.stage.plays["fable"] = ["slow:answer"]
    session_id = begun(town)
    owner = town.process(namespace)
    town.look(owner)
    (agent,) = town.stage.live(session_id)

    other = town.process()
    stopped = town.do(other, other.router.sessions.stop(session_id))
    town.beat(owner)

    assert ("stopped", ()) == (stopped.state, stopped.actions)
    assert not agent.live
    town.settle()
    assert stopped == see(town, session_id)
    assert AttemptOutcome.CANCELLED is rows(town, session_id)[-1].outcome
    assert [] == town.store.circuits(), "a stop charges nothing"


# --- asked to end ---


def test_a_worker_that_is_ended_hands_on_at_once(town: Town) -> None:
    """Nobody has to wait for its lease: what was not started goes on elsewhere, at once."""
    town.stage.early = True
    session_id = begun(town)
    worker = town.process()
    worker.host.fuse = Fuse(lambda name, what: spawned(name, what) and _shut(town, worker), after=False)
    town.look(worker)
    town.shut(worker)
    assert "starting" == see(town, session_id).state

    taken_over(town, after_s=0)
    assert "active" == see(town, session_id).state
    assert ["fable"] == got(town)


def _shut(town: Town, worker: Process) -> bool:
    for task in worker.tasks:
        task.cancel()
    return False


def test_a_worker_that_is_ended_in_mid_turn_says_what_it_saw(town: Town) -> None:
    """Its agent is ended, and a person is asked, at once; what had come back is kept."""
    town.stage.plays["fable"] = ["slow:answer"]
    session_id = begun(town)
    worker = town.process()
    town.look(worker)
    (agent,) = town.stage.live(session_id)

    town.shut(worker)

    assert not agent.live
    seen = see(town, session_id)
    assert ("action_required", "ambiguous_dispatch") == (seen.state, seen.reason)
    last = rows(town, session_id)[-1]
    assert (AttemptOutcome.LOST, Delivery.SENT) == (last.outcome, last.effects.delivery if last.effects else None)


def test_two_hosts_take_one_session(town: Town) -> None:
    """One of them gets it, and one prompt leaves."""
    session_id = begun(town)
    one, two = town.process(), town.process()
    won: list[str] = []

    async def takes(host: Process) -> None:
        route = town.store.load(session_id)
        assert route is not None
        mine = route.model_copy(update={"owner_id": host.engine.owner_id})
        with suppress(StaleRevision):
            await go_on(host.engine, mine, lambda _: None)
            won.append(host.host.name)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            for host in (one, two):
                group.start_soon(takes, host)

    town.do(one, both())
    assert 1 == len(won)
    assert ["fable"] == got(town)
    assert [1] == [s.generation for s in town.store.selections(session_id)]

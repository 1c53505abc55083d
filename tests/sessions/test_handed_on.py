"""What a person asks in one process, and a worker does in another, perhaps on another machine: the same as if it were done at once.

``here=False`` is the default of every verb, of the command line and of hosts that serve an API.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.conductor import Ledger
from kandev_routing_sdk.errors import StaleRevision, StoreUnavailable
from kandev_routing_sdk.records import Claim
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.sessions import go_on
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, DispatchMark
from tests.sessions._home import retries, waits
from tests.sessions._played import PlayedDownstream
from tests.sessions._scenes import (
    act,
    ask,
    begin,
    circuit,
    got,
    leased,
    look,
    rested,
    rows,
    see,
    shelve,
    stored,
    where,
    without_agents,
)
from tests.sessions._town import Process, Town

HERE = pytest.mark.parametrize("here", [True, False], ids=["here", "left to a worker"])


def fable(**fields: Any) -> dict[str, Any]:
    return {"profile": "fable", **fields}


def goes_on(town: Town, *, here: bool) -> None:
    """A worker does what was not done where it was asked."""
    if not here:
        look(town)


# --- what is asked is what is done ---


@HERE
def test_after_effects_the_next_agent_is_told_whoever_starts_it(town: Town, here: bool) -> None:
    """A new message ends nothing that an earlier attempt may have done (R-SAFE-4)."""
    town.stage.plays["fable"] = ["tool_then_overloaded"]
    host = town.process()
    seen = rested(town, host)
    assert ("action_required", True) == (seen.state, seen.potentially_effectful)

    ask(town, host, seen, "please go on", here=here)
    goes_on(town, here=here)

    last = town.stage.sent[-1]
    assert "sol" == last.agent
    assert "please go on" in last.text
    assert "may have changed files" in last.text


@HERE
@pytest.mark.parametrize("play", ["quota", "auth"])
def test_retry_now_is_a_try_whoever_makes_it(town: Town, play: str, here: bool) -> None:
    """``waiting`` and ``action_required``: ``retry_now`` may probe early (state machine, R-ENG-7)."""
    shelve(town, frontier=["fable"])
    town.stage.plays["fable"] = [play, "answer"]
    host = town.process()
    seen = rested(town, host)
    assert {"quota": "waiting", "auth": "action_required"}[play] == seen.state

    act(town, host, seen, "retry_now", here=here)
    goes_on(town, here=here)

    assert ("active", 2, "fable") == where(see(town, seen))
    assert ["fable", "fable"] == got(town)


@HERE
def test_a_wish_counts_once(town: Town, here: bool) -> None:
    """What failed again is asked again when it is due, and not before (R-CIR-6)."""
    shelve(town, frontier=["fable"])
    town.stage.plays["fable"] = ["quota"]
    host = town.process()
    seen = rested(town, host)

    act(town, host, seen, "retry_now", here=here)
    for _ in range(3):
        look(town, after_s=60)

    assert "waiting" == see(town, seen).state
    assert ["fable"] * 2 == got(town)


def test_retry_now_asks_the_pinned_candidate_though_another_is_free(town: Town) -> None:
    """``action_required``: the same candidate (R-ENG-7)."""
    shelve(town, frontier=[fable(policy={"hard": {"on_exhausted": "stop"}}), "sol"])
    town.stage.plays["fable"] = ["quota", "answer"]
    host = town.process()
    seen = rested(town, host)

    act(town, host, seen, "retry_now")
    look(town)

    assert ["fable", "fable"] == got(town)


def test_retry_now_walks_when_its_candidate_was_disabled(town: Town) -> None:
    """A full walk, if there is none to be pinned (R-ENG-7)."""
    town.stage.plays["fable"] = ["puzzling"]
    host = town.process()
    seen = rested(town, host)
    assert "action_required" == seen.state
    shelve(town, frontier=[fable(enabled=False), "sol"])

    act(town, host, seen, "retry_now")
    look(town)

    assert ["fable", "sol"] == got(town)


def test_after_effects_a_skipped_candidate_does_not_get_the_request_later(town: Town) -> None:
    """A person asked for another one; nobody was free; nothing then goes on by itself (R-ENG-6, design §6, 1)."""
    shelve(town, frontier=["fable"])
    town.stage.plays["fable"] = ["tool_then_overloaded", "answer"]
    host = town.process()
    seen = rested(town, host)

    act(town, host, seen, "skip_now")
    look(town)
    assert ("action_required", "no_eligible_candidate") == (see(town, seen).state, see(town, seen).reason)
    for _ in range(8):
        look(town, after_s=3600)

    assert ["fable"] == got(town)


# --- health does not come between a person and the own candidate ---


def other_waits_for_fable(town: Town, host: Process) -> None:
    """Another session armed a retry of fable's account."""
    other = rested(town, host, "second")
    assert "waiting_for_reset" == other.state
    assert 1 == len(leased(town))


@HERE
def test_an_active_session_stays_with_its_candidate(town: Town, here: bool) -> None:
    """Somebody else found its account exhausted, and has a retry armed: what a person says is sent all the same (R-CIR-8)."""
    shelve(town, frontier=["fable", "sol"], second=[fable(policy=waits(600))])
    town.stage.plays["fable"] = ["answer", "near_quota", "answer"]
    host = town.process()
    seen = rested(town, host)
    other_waits_for_fable(town, host)

    ask(town, host, seen, here=here)
    goes_on(town, here=here)

    assert ("active", 1, "fable") == where(see(town, seen))
    assert ["fable"] * 3 == got(town)
    assert [AttemptOutcome.SUCCESS] * 2 == [row.outcome for row in rows(town, seen)]


@HERE
def test_a_message_into_a_far_wait_closes_what_it_proves_well(town: Town, here: bool) -> None:
    """Nobody held its probe, so this is it, and those who wait go on (R-CIR-6)."""
    shelve(town, frontier=[fable(policy=waits(8 * 3600))], second=["fable"])
    town.stage.plays["fable"] = ["far_quota", "answer"]
    host = town.process()
    seen = rested(town, host)
    other = rested(town, host, "second")
    assert ["waiting_for_reset", "waiting"] == [seen.state, other.state]

    ask(town, host, seen, "I bought more", here=here)
    goes_on(town, here=here)

    assert CircuitState.CLOSED is circuit(town).state
    look(town)
    assert ["active"] * 2 == [see(town, s).state for s in (seen, other)]


@HERE
@pytest.mark.parametrize("how", ["resume", "prompt"])
def test_a_concrete_session_is_not_blocked_by_circuits(town: Town, how: str, here: bool) -> None:
    """Not by one that another session is about to ask, either (R-CIR-8)."""
    shelve(town, second=[fable(policy=waits(600))])
    town.stage.plays["fable"] = ["near_quota", "near_quota", "answer"]
    host = town.process()
    other_waits_for_fable(town, host)
    seen = rested(town, host, "fable")
    assert ["fable"] * 2 == got(town)

    if how == "resume":
        act(town, host, seen, how, here=here)
    else:
        ask(town, host, seen, here=here)
    goes_on(town, here=here)

    assert "active" == see(town, seen).state
    assert ["fable"] * 3 == got(town)


@HERE
@pytest.mark.parametrize("profile", ["fable", "frontier"])
def test_a_turn_is_told_to_begin_once(town: Town, profile: str, here: bool) -> None:
    """When its agent is ready, with the labels that count; and as often as it ends (R-CON-5, R-CON-6)."""
    host = town.process()
    seen = rested(town, host, profile)
    ask(town, host, seen, here=here)
    goes_on(town, here=here)
    told = town.store.events(session_id=seen.session_id)
    events = [e for e in told if e.kind.startswith("session.turn_") and e.kind != "session.turn_output"]
    assert [
        ("session.turn_started", 1),
        ("session.turn_ended", 1),
        ("session.turn_started", 2),
        ("session.turn_ended", 2),
    ] == [(event.kind.value, event.params["prompt_number"]) for event in events]
    assert "fable" == events[-2].params["profile"]


def test_the_end_of_a_turn_names_the_model_that_really_answered(town: Town) -> None:
    """R-PRO-3: whatever was planned when it began."""
    shelve(town, frontier=["fable", "sol"])
    town.stage.plays["fable"] = ["quota"]
    seen = rested(town, town.process())
    told = [e for e in town.store.events(session_id=seen.session_id) if "served_model" in e.params]
    assert [("session.turn_failed", "fable-served"), ("session.turn_ended", "sol-served")] == [
        (event.kind.value, event.params["served_model"]) for event in told
    ]


# --- whoever asks needs no agent ---


def test_a_process_that_can_start_nothing_passes_a_message_on(town: Town) -> None:
    """Its own lack of adapters, secrets and executables is no reason to leave a candidate (R-ENG-4)."""
    town.stage.plays["fable"] = ["near_quota", "answer"]
    seen = rested(town, town.process())
    assert "sol" == seen.execution_profile_id
    town.clock.advance(120)

    ask(town, without_agents(town), seen)
    look(town)

    assert ("active", "sol") == (see(town, seen).state, see(town, seen).execution_profile_id)
    assert ["fable", "sol", "sol"] == got(town)


def test_a_process_that_can_start_nothing_passes_a_retry_on(town: Town) -> None:
    """``retry_now``: the same candidate (R-ENG-7)."""
    shelve(town, frontier=[fable(policy=retries(3)), "sol"])
    town.stage.plays["fable"] = ["overloaded", "answer"]
    seen = rested(town, town.process())

    act(town, without_agents(town), seen, "retry_now")
    look(town)

    assert ["fable", "fable"] == got(town)


@pytest.mark.parametrize("how", ["prompt", "retry_now"])
def test_another_machine_does_what_was_asked_here(town: Town, how: str) -> None:
    """Nothing was started where it was asked, and everybody can know that (R-DUR-1, R-DUR-3)."""
    shelve(town, frontier=[fable(policy=retries(3))])
    town.stage.plays["fable"] = ["answer" if how == "prompt" else "overloaded", "answer"]
    seen = rested(town, town.process("there"))

    asker = town.process("here")
    asked = ask(town, asker, seen) if how == "prompt" else act(town, asker, seen, how)
    assert 1 == len(rows(town, seen)), "the attempt is whose who starts it"
    assert 1 == asked.generation
    look(town, namespace="there")

    assert ("active", 1, "fable") == where(see(town, seen))
    assert ["fable"] * 2 == got(town)


def test_another_machine_starts_what_a_worker_left_unstarted(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saw its agent end before the prompt left, and says so: nobody has to believe a namespace (R-DUR-3)."""

    async def hangs(self: PlayedDownstream, turn: object) -> None:
        await anyio.sleep_forever()

    first = town.process("there")
    seen = begin(town, first)
    with monkeypatch.context() as patch:
        patch.setattr(PlayedDownstream, "start", hangs)
        town.look(first)
        town.shut(first)
    assert [DispatchMark.CLAIMED] == [row.mark for row in rows(town, seen)]

    look(town, namespace="here")

    assert ("active", 1, "fable") == where(see(town, seen))


@pytest.mark.parametrize("play", ["answer", "overloaded"], ids=["idle", "waiting for a retry"])
def test_a_message_to_a_candidate_that_is_gone_starts_nothing_where_it_is_given(town: Town, play: str) -> None:
    """It is parked in one commit, and the next candidate gets it alone (R-CON-11, R-ENG-4)."""
    shelve(town, frontier=[fable(policy=retries(3, first_s=3600))])
    town.stage.plays["fable"] = [play]
    host = town.process()
    seen = rested(town, host)
    shelve(town, frontier=["sol"])
    town.stage.plays["sol"] = ["answer"]

    asked = ask(town, host, seen, "the second")
    assert ("switching", 1) == (asked.state, len(town.stage.agents))
    assert (stored(town, seen).parked_prompt or "").endswith("the second")
    assert [] == leased(town), "the retry that will not come keeps no probe"
    look(town)

    assert ["fable", "sol"] == got(town)
    assert "the second" in town.stage.sent[-1].text


def test_what_is_durable_is_not_refused_afterwards(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told that a message failed sends it again: it must not have been kept (R-DUR-2)."""

    async def fails(self: Ledger, *, after_s: float = 0.0) -> None:
        raise StoreUnavailable("gone")

    host = town.process()
    seen = rested(town, host)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "hand_on", fails)
        asked = ask(town, host, seen)
    assert asked.turn_running
    look(town, after_s=60)
    assert ["fable", "fable"] == got(town)


def test_one_request_sent_four_times_at_once_is_answered_four_times(town: Town) -> None:
    """A repeated id is carried out once, and is no error, also beside an expected revision (R-ENG-7)."""
    shelve(town, frontier=[fable(policy=retries(3))])
    town.stage.plays["fable"] = ["overloaded"]
    seen = rested(town, town.process())
    hosts = [town.process() for _ in range(4)]

    def click(host: Process) -> Any:
        return host.router.sessions.act(
            seen.session_id,
            "cancel_wait",
            expected_generation=seen.generation,
            expected_revision=seen.revision,
            action_id="click",
        )

    tasks = town.race([(host, click(host)) for host in hosts])

    assert ["action_required"] * 4 == [task.result().state for task in tasks]


# --- a drive owns what it drives, and nothing else of its process ---


def claimed(town: Town, host: Process, why: Claim) -> Route:
    """What a worker in ``host`` claims, and has not driven yet."""
    now = town.clock.now()
    (route,) = town.store.claim(
        why, now=now, owner_id=host.engine.new_owner(), until=now + timedelta(seconds=60), limit=1
    )
    return route


def test_who_lost_a_race_leaves_the_winners_turn_alone(town: Town) -> None:
    """A worker and a person in one process: the one that comes second ends nothing of the first's (R-ENG-8, design §6, 2)."""
    shelve(town, frontier=[fable(policy=retries(3))])
    town.stage.plays["fable"] = ["overloaded", "slow:answer"]
    host = town.process()
    seen = rested(town, host)
    town.clock.advance(6)
    late = claimed(town, host, Claim.DUE)
    act(town, host, seen, "retry_now", here=True)
    (agent,) = town.stage.live(seen.session_id)

    with pytest.raises(StaleRevision):
        town.do(host, go_on(host.engine, late, lambda _: None, woken=True))

    assert agent.live
    assert see(town, seen).turn_running
    agent.go.set()
    town.settle()
    assert ("active", "succeeded") == (see(town, seen).state, see(town, seen).reason)


def test_who_found_nothing_to_do_gives_up_nothing_of_anybody_elses(town: Town) -> None:
    """What a person asked for meanwhile is found by the next worker (design §6, 5)."""
    shelve(town, frontier=["fable"])
    town.stage.plays["fable"] = ["quota", "answer"]
    host = town.process()
    seen = rested(town, host)
    town.clock.advance(1000)
    town.store.claim(Claim.DUE, now=town.clock.now(), owner_id="here/dead", until=town.clock.now(), limit=1)
    late = claimed(town, host, Claim.LOST)
    act(town, host, seen, "retry_now")

    town.do(host, go_on(host.engine, late, lambda _: None))
    look(town)

    assert "active" == see(town, seen).state

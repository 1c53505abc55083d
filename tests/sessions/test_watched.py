"""A session of a concrete profile, and the person who watches it: the same profile or nobody, and nothing unasked (R-POL-7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kandev_routing_sdk.errors import IllegalTransition, StaleGeneration, TurnInProgress
from kandev_routing_sdk.events import EventRecord
from kandev_routing_sdk.policy import INTERACTIVE_SECONDS, Context
from kandev_routing_sdk.policy.pace import JITTER
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.scheduler.keeper import Keeper
from kandev_routing_sdk.types import AttemptOutcome, CircuitState
from tests.sessions._played import profiles_table
from tests.sessions._scenes import (
    CONCRETE,
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
)
from tests.sessions._town import Process, Town


def watched(town: Town, *plays: str) -> tuple[Process, Snapshot]:
    """A session of fable itself, which plays this; a worker brought it to rest."""
    shelve(town, frontier=["fable", "sol"])
    town.stage.plays["fable"] = list(plays)
    host = town.process()
    return host, rested(town, host, "fable")


def told(town: Town, of: Snapshot, kind: str = "session.route_waiting") -> list[EventRecord]:
    """What a person who looks at the session was told."""
    return [event for event in town.store.events(session_id=of.session_id) if event.kind == kind]


def all_the_same(town: Town, host: Process, of: Snapshot) -> bool:
    """Whether every decision, made again from what was stored of it, is the same (R-ENG-11)."""
    again = host.router.sessions.why(of.session_id)
    assert again
    return all(decision.same for decision in again)


# --- the same profile again ---


def test_five_retries_each_at_an_announced_moment_and_then_the_person(town: Town) -> None:
    """5, 10, 20, 40 and 60 s, give or take the jitter; each is published as a moment and may be cancelled."""
    host, seen = watched(town, "overloaded")
    waited = []
    for ordinal in range(1, 6):
        assert ("retry_wait", "retry_scheduled", ordinal, 5, "stop") == (
            seen.state,
            seen.reason,
            seen.ordinal,
            seen.maximum,
            seen.pending_outcome,
        )
        assert ("retry_now", "start_fresh", "cancel_wait", "stop") == seen.actions
        event = told(town, seen)[-1]
        assert seen.deadline is not None
        assert (seen.deadline.isoformat(), ordinal, list(seen.actions)) == tuple(
            event.params[name] for name in ("deadline", "ordinal", "actions")
        )
        waited.append((seen.deadline - town.clock.now()).total_seconds())
        town.clock.set(seen.deadline - timedelta(milliseconds=1))
        town.look(host)
        assert ordinal == len(town.stage.sent), "not before its time"
        town.clock.set(seen.deadline)
        town.look(host)
        seen = see(town, seen)

    for nominal, found in zip(INTERACTIVE_SECONDS, waited, strict=True):
        assert nominal * (1 - JITTER) <= found <= nominal * (1 + JITTER)
    assert ["fable"] * 6 == got(town)
    assert ("action_required", "recovery_exhausted", 1) == (seen.state, seen.reason, seen.generation)
    assert ("resume", "start_fresh", "cancel_wait", "stop") == seen.actions
    assert ["resume", "start_fresh"] == list(told(town, seen)[-1].params["actions"])[:2]  # type: ignore[arg-type]
    assert all_the_same(town, host, seen)


def test_the_retry_that_answers_ends_it(town: Town) -> None:
    """It had the lease of its own retry, so that its answer closes the circuit that its failure opened (R-CIR-5, R-CIR-8)."""
    host, seen = watched(town, "overloaded", "answer")
    assert [CircuitState.HALF_OPEN] == [c.state for c in town.store.circuits()]
    look(town, after_s=6)
    assert ("active", 1, "fable") == where(see(town, seen))
    assert [CircuitState.CLOSED] == [c.state for c in town.store.circuits()]
    assert all_the_same(town, host, seen)


def test_the_budget_is_the_prompts(town: Town) -> None:
    """Not each class's: two troubles that take turns are tried five times in all, and the next prompt has five of its own."""
    _, seen = watched(
        town, "overloaded", "start_fails", "network", "overloaded", "start_fails", "network", "overloaded"
    )
    for _ in range(5):
        assert "retry_wait" == see(town, seen).state
        look(town, after_s=75)
    assert "action_required" == see(town, seen).state
    assert 6 == len(rows(town, seen))

    ask(town, town.process(), seen)
    look(town)
    assert ("retry_wait", 1) == (see(town, seen).state, see(town, seen).ordinal)


@pytest.mark.parametrize("play", ["quota", "near_quota", "auth"])
def test_a_hard_failure_is_shown_and_never_replayed(town: Town, play: str) -> None:
    """Not at its reset, and not when somebody else finds that the account is back."""
    host, seen = watched(town, play, "answer")
    assert ("action_required", "recovery_exhausted") == (seen.state, seen.reason)
    assert ("resume", "start_fresh", "cancel_wait", "stop") == seen.actions

    host.router.reset_circuit(circuit(town).key.key)
    for _ in range(3):
        look(town, after_s=4000, afresh=True)

    assert ["fable"] == got(town)
    assert all_the_same(town, host, seen)


def test_a_short_throttle_is_waited_for(town: Town) -> None:
    """``rate_limited`` only when the hint is short, and never before it."""
    _, seen = watched(town, "throttled", "answer")
    assert seen.deadline is not None
    assert seen.deadline - town.clock.now() >= timedelta(seconds=20)
    look(town, after_s=30)
    assert "active" == see(town, seen).state


@pytest.mark.parametrize("play", ["tool_then_overloaded", "text_then_quota", "lost", "puzzling", "empty"])
def test_after_an_effect_or_without_a_name_a_person_is_asked_at_once(town: Town, play: str) -> None:
    """The effect gate is everybody's (R-SAFE-1)."""
    host, seen = watched(town, play, "answer")
    assert "action_required" == seen.state
    look(town, after_s=24 * 3600)
    assert ["fable"] == got(town)
    assert all_the_same(town, host, seen)


# --- what disarms it ---


def test_cancel_wait_disarms_the_retry(town: Town) -> None:
    """And gives its lease back."""
    host, seen = watched(town, "overloaded", "answer")
    after = act(town, host, seen, "cancel_wait")
    assert ("action_required", "user_action", None) == (after.state, after.reason, after.deadline)
    assert ("resume", "start_fresh", "cancel_wait", "stop") == after.actions
    assert [] == leased(town)
    look(town, after_s=24 * 3600)
    assert ["fable"] == got(town)


def test_a_new_prompt_disarms_the_retry(town: Town) -> None:
    """Both messages go at once, in a turn of their own."""
    host, seen = watched(town, "overloaded", "answer")
    ask(town, host, seen, "and this")
    look(town)
    assert ("active", 1, "fable") == where(see(town, seen))
    assert town.stage.sent[-1].text.startswith("the request\n\nand this")
    look(town, after_s=24 * 3600)
    assert ["fable"] * 2 == got(town)


@pytest.mark.parametrize("what", ["version", "account"])
def test_an_edit_of_the_profile_disarms_the_retry(town: Town, what: str) -> None:
    """What was to be tried again is not what would be tried, whether its version says so or not."""
    _, seen = watched(town, "overloaded", "answer")
    if what == "account":
        town.shelf.version -= 1
        town.shelf.put(profiles_table({**CONCRETE, "fable": ("played", "another", "acme")}, {}))
    else:
        shelve(town, frontier=["fable", "sol"])
    look(town, after_s=10)
    after = see(town, seen)
    assert ("action_required", "settings_changed") == (after.state, after.reason)
    assert ("resume", "start_fresh") == after.actions[:2]
    assert (["fable"], []) == (got(town), leased(town))


@pytest.mark.parametrize("how", ["retry_now", "prompt"])
@pytest.mark.parametrize("here", [True, False], ids=["here", "left to a worker"])
def test_what_a_person_asks_meanwhile_has_the_retrys_lease(town: Town, how: str, here: bool) -> None:
    """Its answer closes the circuit as that of the retry would have (R-CIR-5)."""
    host, seen = watched(town, "overloaded", "answer")
    if how == "prompt":
        ask(town, host, seen, here=here)
    else:
        act(town, host, seen, how, here=here)
    look(town)
    assert ("active", 1, "fable") == where(see(town, seen))
    assert [CircuitState.CLOSED] == [c.state for c in town.store.circuits()]


def test_a_retry_by_hand_is_the_next_one(town: Town) -> None:
    """It takes a slot (R-ENG-7)."""
    host, seen = watched(town, "overloaded")
    act(town, host, seen, "retry_now")
    look(town)
    assert ("retry_wait", 3) == (see(town, seen).state, see(town, seen).ordinal)
    assert ["fable"] * 2 == got(town)


# --- the person's two ---


@pytest.mark.parametrize("here", [True, False], ids=["here", "left to a worker"])
def test_resume_goes_on_in_the_profiles_own_session(town: Town, here: bool) -> None:
    """The same profile, which keeps what it has of a native session; the prompt is sent again, and what may have happened is told."""
    host, seen = watched(town, "tool_then_overloaded", "answer")
    native = stored(town, seen).native_session_id
    assert native is not None
    act(town, host, seen, "resume", here=here, action_id="click")
    starting = stored(town, seen)
    assert here or ("selecting", native) == (starting.state, starting.native_session_id)
    look(town)
    assert ("active", 2, "fable") == where(see(town, seen))
    assert "repeat nothing before you have verified" in town.stage.sent[-1].text


@pytest.mark.parametrize("state", ["retry_wait", "action_required"])
def test_start_fresh_leaves_the_native_session(town: Town, state: str) -> None:
    """The binding is gone with the transition; the new session is told what is known (R-CON-2, R-CON-4)."""
    play = {"retry_wait": "overloaded", "action_required": "puzzling"}[state]
    host, seen = watched(town, play, "answer")
    assert (state, True) == (seen.state, stored(town, seen).native_session_id is not None)

    after = act(town, host, seen, "start_fresh")

    route = stored(town, seen)
    assert ("selecting", "user_action", None) == (after.state, after.reason, after.deadline)
    assert (None, None) == (route.native_session_id, route.native_profile_id)
    assert [] == leased(town)
    look(town)
    assert ("active", 2, "fable") == where(see(town, seen))
    assert "Continuation note" in town.stage.sent[-1].text
    assert all_the_same(town, host, seen)


@pytest.mark.parametrize("action", ["resume", "start_fresh"])
def test_stale_actions_of_a_watched_session_change_nothing(town: Town, action: str) -> None:
    """Fenced by the generation, once for an id, refused while a turn is on its way (R-ENG-7)."""
    host, seen = watched(town, "auth", "auth", "slow:answer")
    first = act(town, host, seen, action, action_id="click")
    assert first == act(town, host, seen, action, action_id="click")
    look(town)
    after = see(town, seen)
    assert ("action_required", 2) == (after.state, after.generation)
    with pytest.raises(StaleGeneration):
        act(town, host, seen, action)
    assert after == see(town, seen)
    act(town, host, after, action)
    look(town)
    running = see(town, seen)
    assert running.turn_running
    with pytest.raises(TurnInProgress):
        act(town, host, running, action)


@pytest.mark.parametrize(
    ("profile", "refused"), [("fable", ("retry_now", "skip_now")), ("frontier", ("resume", "start_fresh"))]
)
def test_each_kind_of_profile_has_its_own_actions(town: Town, profile: str, refused: tuple[str, ...]) -> None:
    """A concrete one has nobody else to go to; a dynamic one chooses (R-POL-7)."""
    town.stage.plays["fable"] = ["puzzling"]
    host = town.process()
    seen = rested(town, host, profile)
    assert Context.INTERACTIVE.value == seen.context if profile == "fable" else "dynamic" == seen.context
    assert not set(refused) & set(seen.actions)
    for action in refused:
        with pytest.raises(IllegalTransition):
            act(town, host, seen, action)
    assert seen == see(town, seen)


# --- what a person is told ---


def test_changed_credentials_are_told_and_start_nothing(town: Town) -> None:
    """Whoever signed in again sees that it may work now; whether to repeat the request stays with them (R-POL-7, R-CIR-7)."""
    host, seen = watched(town, "auth", "answer")
    assert not seen.may_be_back
    host.router.credentials_changed()
    for _ in range(3):
        look(town, after_s=60)

    after = see(town, seen)
    assert ("action_required", "recovery_exhausted", True, ["fable"]) == (
        after.state,
        after.reason,
        after.may_be_back,
        got(town),
    )
    assert [None, True] == [event.params.get("may_be_back") for event in told(town, seen)], "once"
    resumed = act(town, host, after, "resume", here=True)
    assert ("active", False) == (resumed.state, resumed.may_be_back)


def test_a_reset_that_passed_is_told_and_starts_nothing(town: Town) -> None:
    """After effects as well: nothing is done but to say it."""
    _, seen = watched(town, "text_then_quota", "answer")
    look(town, after_s=800)
    assert not see(town, seen).may_be_back
    look(town, after_s=200)
    assert ("action_required", "unsafe_effects", True) == (
        see(town, seen).state,
        see(town, seen).reason,
        see(town, seen).may_be_back,
    )
    assert ["fable"] == got(town)


def test_who_cancelled_is_told_nothing_any_more(town: Town) -> None:
    """``cancel_wait`` of what is retried: there is nothing that a person was shown."""
    host, seen = watched(town, "overloaded", "answer")
    act(town, host, seen, "cancel_wait")
    look(town, after_s=24 * 3600)
    assert not see(town, seen).may_be_back


# --- the profile itself ---


def concrete_without(town: Town, **changes: dict[str, Any] | None) -> None:
    """The concrete profiles with these changes (None: without it), and ``frontier``."""
    table = profiles_table(CONCRETE, {"frontier": [{"profile": "sol"}]})
    for name, change in changes.items():
        if change is None:
            del table[name]
        else:
            table[name] |= change
    town.shelf.put(table)


@pytest.mark.parametrize(("how", "word"), [("disabled", "disabled"), ("deleted", "missing")])
def test_a_profile_that_may_not_be_used_fails_closed(town: Town, how: str, word: str) -> None:
    """At the next decision, with the reason as a word; nobody takes its place, and the message stays (R-RES-3, R-CON-10)."""
    host, seen = watched(town, "answer")
    assert "active" == seen.state
    concrete_without(town, fable={"enabled": False} if how == "disabled" else None)
    ask(town, host, seen, "and then")
    look(town)

    after = see(town, seen)
    assert ("action_required", "no_eligible_candidate", True) == (after.state, after.reason, after.has_prompt)
    assert [("fable", word)] == [(c["profile_id"], c["reason"]) for c in after.candidates]
    assert word == told(town, seen)[-1].params["profile_problem"]
    assert ("resume", "start_fresh") == after.actions[:2]
    stuck = act(town, host, after, "resume", here=True)
    assert ("action_required", "no_eligible_candidate") == (stuck.state, stuck.reason)
    assert ["fable"] == got(town)

    shelve(town, frontier=["sol"])
    look(town, afresh=True)
    assert (True, ["fable"]) == (see(town, seen).may_be_back, got(town)), "told, and not started"
    resumed = act(town, host, stuck, "resume", here=True)
    assert ("active", "fable") == (resumed.state, resumed.execution_profile_id)
    assert all_the_same(town, host, seen)


def test_a_profile_that_can_be_used_again_is_told_by_a_worker_that_stands_by(town: Town) -> None:
    """At its next look at the settings; and once."""
    host, seen = watched(town, "answer")
    concrete_without(town, fable={"enabled": False})
    ask(town, host, seen, here=True)
    keeper = Keeper(host.engine)
    assert not town.do(host, keeper.catch_up())
    shelve(town, frontier=["sol"])
    assert town.do(host, keeper.catch_up())
    assert see(town, seen).may_be_back
    concrete_without(town, fable={"enabled": False})
    town.do(host, keeper.catch_up())
    shelve(town, frontier=["sol"])
    assert not town.do(host, keeper.catch_up())
    assert [None, True] == [event.params.get("may_be_back") for event in told(town, seen)]


def test_a_disabled_profile_keeps_its_running_turn(town: Town) -> None:
    """It goes on to its end, and no further (R-ENG-4)."""
    shelve(town, frontier=["fable", "sol"])
    town.stage.plays["fable"] = ["slow:answer"]
    host = town.process()
    seen = begin(town, host, "fable")
    town.look(host)
    concrete_without(town, fable={"enabled": False})
    town.beat(host)
    assert ("reroute_pending", True) == (see(town, seen).state, see(town, seen).turn_running)

    (agent,) = town.stage.live(seen.session_id)
    agent.go.set()
    town.settle()

    after = see(town, seen)
    assert ("action_required", "no_eligible_candidate", False) == (after.state, after.reason, after.has_prompt)
    assert [AttemptOutcome.SUCCESS] == [row.outcome for row in rows(town, seen)]


def test_a_profile_that_became_dynamic_is_not_the_one_that_was_selected(town: Town) -> None:
    """An id that means something else now is no profile of this session's (R-RES-3)."""
    host, seen = watched(town, "answer")
    names = {name: value for name, value in CONCRETE.items() if name != "fable"}
    town.shelf.put(profiles_table(names, {"fable": [{"profile": "sol"}]}))
    ask(town, host, seen)
    look(town)
    after = see(town, seen)
    assert ("action_required", [("fable", "incompatible")]) == (
        after.state,
        [(c["profile_id"], c["reason"]) for c in after.candidates],
    )


# --- the flag ---


@pytest.mark.parametrize("plays", [("overloaded", "answer"), ("auth", "answer"), ("answer", "answer")])
def test_the_flag_is_none_of_its_business(town: Town, plays: tuple[str, ...]) -> None:
    """Off, and on again: a concrete profile's session is where it was, waits, is acted upon and answers (R-RES-4)."""
    _, seen = watched(town, *plays)
    town.flag = False
    off = look(town, afresh=True)
    assert seen == see(town, seen)
    if seen.state == "retry_wait":
        look(town, after_s=10)
    elif seen.state == "action_required":
        act(town, off, seen, "resume", here=True)
    else:
        ask(town, off, seen, here=True)
    assert ("active", "fable") == (see(town, seen).state, see(town, seen).execution_profile_id)
    answered = see(town, seen)
    town.flag = True
    look(town, afresh=True)
    assert answered == see(town, seen)

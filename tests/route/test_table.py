"""THE TABLE against a second, hand-written one (R-ENG-1): for every state, trigger and guard the same next state or refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from kandev_routing_sdk.errors import DynamicRoutingDisabled, IllegalTransition, TurnInProgress
from kandev_routing_sdk.policy import Context, Decision, DecisionKind
from kandev_routing_sdk.route import TABLE, Facts, matching, step
from kandev_routing_sdk.route.guards import ACTIONS, holds
from kandev_routing_sdk.route.model import Effect, Reason, Route, State, Trigger
from kandev_routing_sdk.route.rows import Goes, Guard, Write
from kandev_routing_sdk.route.writes import Move, apply
from kandev_routing_sdk.types import Code, ErrorClass
from tests.route._routes import CLEAN, NOW, a_failure, a_policy, a_route, decide

S, T = State, Trigger


class Case(NamedTuple):
    running: bool = False
    prompt: bool = False
    capped: bool = False
    removed: bool = False
    safe: bool = True
    deadline: bool = True
    then: str = "skip"
    flag_off: bool = False
    reason: Reason = Reason.NO_ELIGIBLE_CANDIDATE
    effectful: bool = False
    unlisted: bool = False
    concrete: bool = False
    told: bool = False


Next = Callable[[Case], State | None]


def to(state: State) -> Next:
    return lambda _: state


def idle(state: State) -> Next:
    return lambda c: None if c.running else state


def listed(state: State) -> Next:
    return lambda c: S.SWITCHING if c.unlisted else state


def dynamic(state: State) -> Next:
    return lambda c: None if c.concrete else state


def concrete(state: State) -> Next:
    return lambda c: state if c.concrete else None


def while_idle(of: Next) -> Next:
    return lambda c: None if c.running else of(c)


def running(state: State) -> Next:
    return lambda c: state if c.running else None


def capped(state: State) -> Next:
    return lambda c: S.ACTION_REQUIRED if c.capped else state


def while_running(of: Next) -> Next:
    return lambda c: of(c) if c.running else None


def waits(state: State) -> Next:
    def of(c: Case) -> State:
        if c.capped:
            return S.ACTION_REQUIRED
        if c.removed:
            return S.SWITCHING if c.safe else S.ACTION_REQUIRED
        return state

    return of


def skips(c: Case) -> State:
    return S.ACTION_REQUIRED if c.capped or not c.safe else S.SWITCHING


def stops(*, in_flight: bool = False) -> Next:
    """R-ENG-7: only when settled; a prompt that waits for a launch is not."""
    return lambda c: None if c.running or (in_flight and c.prompt) else S.STOPPED


def not_admitted(state: State) -> Next:
    def of(c: Case) -> State:
        if c.deadline:
            return state
        return S.SWITCHING if c.then == "skip" else S.ACTION_REQUIRED

    return of


EVALUATE: dict[Trigger, Next] = {
    T.FAILED_WAIT: waits(S.WAITING_FOR_RESET),
    T.FAILED_RETRY: waits(S.RETRY_WAIT),
    T.FAILED_SKIP: skips,
    T.FAILED_STOP: to(S.ACTION_REQUIRED),
}


def _selecting(state: State) -> dict[Trigger, Next]:
    return {
        T.CANDIDATE_COMMITTED: capped(S.STARTING),
        T.NOBODY_RECOVERY_KNOWN: lambda c: S.ACTION_REQUIRED if c.effectful else S.WAITING,
        T.NOBODY_PERSON_NEEDED: to(S.ACTION_REQUIRED),
        T.HANDOVER_FAILED: to(S.ACTION_REQUIRED),
        T.OWNER_LOST_UNDISPATCHED: to(state),
        T.LATE_EFFECT: to(S.ACTION_REQUIRED),
        T.STOP: stops(in_flight=True),
    }


def _starting(state: State) -> dict[Trigger, Next]:
    return {
        T.READY: lambda c: S.REROUTE_PENDING if c.removed else S.ACTIVE,
        **EVALUATE,
        T.ADAPTER_EXCEPTION: to(S.SWITCHING),
        T.RESUME_FAILED: to(state),
        T.CANDIDATE_REMOVED: to(state),
        T.OWNER_LOST_UNDISPATCHED: capped(state),
        T.OWNER_LOST_AMBIGUOUS: to(S.ACTION_REQUIRED),
        T.LATE_EFFECT: to(S.ACTION_REQUIRED),
        T.STOP: stops(in_flight=True),
    }


def _timed(state: State) -> dict[Trigger, Next]:
    return {
        T.DUE: capped(S.RETRYING),
        T.DUE_NOT_ADMITTED: not_admitted(state),
        T.RETRY_NOW: to(S.RETRYING),
        T.SKIP_NOW: dynamic(S.SWITCHING),
        T.START_FRESH: concrete(S.SELECTING),
        T.CANCEL_WAIT: to(S.ACTION_REQUIRED),
        T.CANDIDATE_REMOVED: to(S.SWITCHING),
        T.PROMPT: listed(S.RETRYING),
        T.LATE_EFFECT: to(S.ACTION_REQUIRED),
        T.STOP: stops(),
    }


def _on(of: Next) -> Next:
    """In ``action_required``: while the flag is on."""
    return lambda c: None if c.flag_off else of(c)


LEGAL: Mapping[State, Mapping[Trigger, Next]] = {
    S.SELECTING: _selecting(S.SELECTING),
    S.SWITCHING: _selecting(S.SWITCHING),
    S.STARTING: _starting(S.STARTING),
    S.RETRYING: _starting(S.RETRYING),
    S.ACTIVE: {
        T.PROMPT: while_idle(listed(S.ACTIVE)),
        T.PROCESS_GONE: idle(S.STARTING),
        T.CANDIDATE_REMOVED: to(S.REROUTE_PENDING),
        T.TURN_SUCCEEDED: running(S.ACTIVE),
        T.TURN_CANCELLED: running(S.ACTIVE),
        **{trigger: while_running(of) for trigger, of in EVALUATE.items()},
        T.OWNER_LOST_UNDISPATCHED: while_running(capped(S.STARTING)),
        T.OWNER_LOST_AMBIGUOUS: running(S.ACTION_REQUIRED),
        T.STOP: stops(),
    },
    S.REROUTE_PENDING: {
        T.TURN_SUCCEEDED: running(S.SWITCHING),
        T.SETTLED: idle(S.SWITCHING),
        **{trigger: while_running(skips) for trigger in EVALUATE},
        T.CANDIDATE_RESTORED: to(S.ACTIVE),
        T.OWNER_LOST_UNDISPATCHED: running(S.SWITCHING),
        T.OWNER_LOST_AMBIGUOUS: running(S.ACTION_REQUIRED),
        T.STOP: stops(),
    },
    S.RETRY_WAIT: _timed(S.RETRY_WAIT),
    S.WAITING_FOR_RESET: {**_timed(S.WAITING_FOR_RESET), T.RECOVERED_EARLY: capped(S.RETRYING)},
    S.WAITING: {
        T.DUE: to(S.SELECTING),
        T.RECOVERED_EARLY: to(S.SELECTING),
        T.DUE_NOT_ADMITTED: lambda c: S.WAITING if c.deadline else None,
        T.SETTINGS_CHANGED: to(S.SELECTING),
        T.NO_RECOVERY_LEFT: to(S.ACTION_REQUIRED),
        T.RETRY_NOW: to(S.SELECTING),
        T.SKIP_NOW: to(S.SELECTING),
        T.CANCEL_WAIT: to(S.ACTION_REQUIRED),
        T.PROMPT: to(S.SELECTING),
        T.LATE_EFFECT: to(S.ACTION_REQUIRED),
        T.STOP: stops(),
    },
    S.ACTION_REQUIRED: {
        T.SETTINGS_CHANGED: _on(
            lambda c: (
                (None if c.told else S.ACTION_REQUIRED)
                if c.concrete
                else S.SELECTING
                if c.reason in {Reason.NO_ELIGIBLE_CANDIDATE, Reason.RECOVERY_EXHAUSTED} and not c.effectful
                else None
            )
        ),
        T.RETRY_NOW: _on(dynamic(S.SELECTING)),
        T.RESUME: _on(concrete(S.SELECTING)),
        T.START_FRESH: _on(concrete(S.SELECTING)),
        T.SKIP_NOW: _on(dynamic(S.SWITCHING)),
        T.CANCEL_WAIT: _on(to(S.ACTION_REQUIRED)),
        T.PROMPT: _on(to(S.SELECTING)),
        T.LATE_EFFECT: _on(to(S.ACTION_REQUIRED)),
        T.FLAG_ON: lambda c: S.WAITING if c.flag_off else None,
        T.STOP: stops(),
    },
    S.STOPPED: {},
}


def expected(state: State, trigger: Trigger, case: Case) -> State | None:
    if state is not S.STOPPED and trigger is T.STOP_SESSION:
        return S.STOPPED
    if state is not S.STOPPED and trigger is T.FLAG_OFF:
        return S.ACTION_REQUIRED
    of = LEGAL[state].get(trigger)
    return None if of is None else of(case)


BOTH = (False, True)
CASES = [
    *(
        Case(run, prompt, cap, gone, safe, deadline, then)
        for run, prompt, cap, gone, safe, deadline in itertools.product(BOTH, BOTH, BOTH, BOTH, BOTH, BOTH)
        for then in ("skip", "stop")
    ),
    *(
        Case(running=run, flag_off=off, reason=reason, effectful=effectful)
        for run, off, reason, effectful in itertools.product(
            (False, True),
            (False, True),
            (Reason.NO_ELIGIBLE_CANDIDATE, Reason.RECOVERY_EXHAUSTED, Reason.UNSAFE_EFFECTS, Reason.ATTEMPT_CAP),
            (False, True),
        )
    ),
    *(Case(running=run, unlisted=True) for run in BOTH),
    *(
        Case(running=run, flag_off=off, concrete=True, told=told, reason=reason, effectful=told)
        for run, off, told in itertools.product(BOTH, BOTH, BOTH)
        for reason in (Reason.RECOVERY_EXHAUSTED, Reason.UNSAFE_EFFECTS)
    ),
]


def a_decision(then: str) -> Decision:
    return Decision(
        kind=DecisionKind.RETRY,
        error_class=ErrorClass.TRANSIENT,
        code=Code.MODEL_CAPACITY,
        ordinal=1,
        deadline=NOW,
        pending_outcome="skip" if then == "skip" else "stop",
        catalogue_version="1",
    )


def route_of(state: State, case: Case) -> Route:
    return a_route(
        state,
        turn_running=case.running,
        parked_prompt="hello" if case.prompt else None,
        attempts_in_turn=20 if case.capped else 3,
        removal_pending=case.removed,
        decision=a_decision(case.then),
        reason=case.reason,
        potentially_effectful=case.effectful,
        context=Context.INTERACTIVE if case.concrete else Context.DYNAMIC,
        may_be_back=case.told,
        prior_state=S.WAITING if case.flag_off and state is S.ACTION_REQUIRED else None,
    )


def facts_of(trigger: Trigger, case: Case) -> Facts:
    needs_deadline = trigger is T.NOBODY_RECOVERY_KNOWN
    return Facts(
        profile_id="codex",
        attempt_id="a8",
        prompt="next",
        decision=a_decision(case.then) if trigger.startswith("failed") else None,
        deadline=NOW if case.deadline or needs_deadline else None,
        automatic=case.safe,
        candidate_gone=case.unlisted,
    )


@pytest.mark.parametrize("state", list(State))
def test_every_pair_steps_or_refuses_and_a_refusal_changes_nothing(state: State) -> None:
    """R-ENG-1, in every state, for every trigger, under every guard; at most one row of a pair matches."""
    for case in CASES:
        route = route_of(state, case)
        twin = route.model_copy(deep=True)
        for trigger in Trigger:
            facts = facts_of(trigger, case)
            rows = [r for r in TABLE.get((state, trigger), ()) if all(holds(g, route, facts) for g in r.when)]
            assert len(rows) <= 1, (trigger, case)
            wanted = expected(state, trigger, case)
            if wanted is None:
                with pytest.raises((IllegalTransition, TurnInProgress, DynamicRoutingDisabled)):
                    step(route, trigger, facts, now=NOW)
            else:
                assert wanted is step(route, trigger, facts, now=NOW).after.state, (trigger, case)
        assert twin == route


def test_every_row_of_the_table_is_reached() -> None:
    """A row that no guard lets through is not a transition."""
    reached = {
        (state, trigger, row)
        for state, trigger, case in itertools.product(State, Trigger, CASES)
        if (row := matching(route_of(state, case), trigger, facts_of(trigger, case))) is not None
    }
    assert {(s, t, row) for (s, t), rows in TABLE.items() for row in rows} == reached


@pytest.mark.parametrize("state", [s for s in State if s is not S.STOPPED])
def test_a_prompt_that_is_refused_meets_a_turn_in_progress(state: State) -> None:
    route = a_route(state, turn_running=True, parked_prompt="hello")
    if expected(state, T.PROMPT, Case(running=True, prompt=True)) is None:
        with pytest.raises(TurnInProgress, match="s1"):
            step(route, T.PROMPT, Facts(prompt="next", attempt_id="a8"), now=NOW)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_during_a_turn_is_a_failed_precondition(action: Trigger) -> None:
    """R-ENG-7."""
    for state in (S.ACTIVE, S.REROUTE_PENDING):
        with pytest.raises(TurnInProgress):
            step(a_route(state, turn_running=True), action, now=NOW)
    with pytest.raises(TurnInProgress):
        step(a_route(S.STARTING, parked_prompt="hello"), action, now=NOW)


@pytest.mark.parametrize("action", [*(a for a in ACTIONS if a is not T.STOP), T.PROMPT])
def test_an_action_while_the_flag_is_off_says_so(action: Trigger) -> None:
    """R-RES-4."""
    with pytest.raises(DynamicRoutingDisabled):
        step(a_route(S.ACTION_REQUIRED, prior_state=S.WAITING), action, Facts(prompt="x"), now=NOW)


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_stopped_session_is_terminal(trigger: Trigger) -> None:
    """R-ENG-10."""
    with pytest.raises(IllegalTransition):
        step(a_route(S.STOPPED), trigger, facts_of(trigger, Case()), now=NOW)


ROWS = [(s, t, row) for (s, t), rows in TABLE.items() for row in rows]


def test_only_a_committed_candidate_takes_a_generation() -> None:
    taking = {(s, t) for s, t, row in ROWS if Write.NEW_GENERATION in row.writes}
    assert {(S.SELECTING, T.CANDIDATE_COMMITTED), (S.SWITCHING, T.CANDIDATE_COMMITTED)} == taking


def test_no_launch_without_a_decision_and_no_timer_without_a_deadline() -> None:
    """Design §6, 4. A flag that goes on again arms the deadline that was kept."""
    for state, trigger, row in ROWS:
        if Effect.ARM_DEADLINE in row.effects:
            assert Write.SET_DEADLINE in row.writes or row.to is Goes.BACK, (state, trigger)
        if Effect.LAUNCH in row.effects:
            taken = {Write.NEW_GENERATION, Write.NEW_ATTEMPT, Write.REDO_ATTEMPT} & set(row.writes)
            assert taken, (state, trigger)


def test_nothing_is_launched_or_selected_before_the_predecessor_is_stopped() -> None:
    """R-CON-8: where a predecessor may live, stopping comes first."""
    for state, trigger, row in ROWS:
        effects = row.effects
        if Effect.SELECT in effects:
            assert effects.index(Effect.STOP_DOWNSTREAM) < effects.index(Effect.SELECT), (state, trigger)
        if Effect.LAUNCH in effects and trigger is not T.CANDIDATE_COMMITTED:
            assert effects.index(Effect.STOP_DOWNSTREAM) < effects.index(Effect.LAUNCH), (state, trigger)


def test_every_switch_builds_a_continuation_before_it_selects() -> None:
    """R-SAFE-5."""
    for state, trigger, row in ROWS:
        if row.to is S.SWITCHING:
            effects = row.effects
            assert effects.index(Effect.BUILD_CONTINUATION) < effects.index(Effect.SELECT), (state, trigger)


def test_leaving_a_wait_disarms_it() -> None:
    waits_ = {S.RETRY_WAIT, S.WAITING_FOR_RESET, S.WAITING}
    for state, trigger, row in ROWS:
        if state in waits_ and row.to not in {state, Goes.NOWHERE}:
            assert Effect.DISARM_DEADLINE in row.effects, (state, trigger)


def test_policy_stop_never_leads_to_stopped() -> None:
    assert {T.STOP, T.STOP_SESSION} == {t for _, t, row in ROWS if row.to is S.STOPPED}


def test_every_guard_and_write_is_used() -> None:
    assert set(Guard) == {g for _, _, row in ROWS for g in row.when}
    assert set(Write) == {w for _, _, row in ROWS for w in row.writes}
    assert set(Effect) == {e for _, _, row in ROWS for e in row.effects}
    assert set(Trigger) == {t for _, t, _ in ROWS}


@pytest.mark.parametrize("write", Write)
def test_nothing_gives_a_session_to_another_logical_profile(write: Write) -> None:
    """R-CON-1: whoever wants another one begins another session. No action names one either."""
    decision = decide(a_route(S.ACTIVE), a_failure(), a_policy(retries=1), NOW, CLEAN)
    facts = Facts(profile_id="codex", attempt_id="a8", prompt="and then", decision=decision, native_session_id="n1")
    before = a_route(S.SELECTING, decision=decision)
    after = apply(write, before, Move(before, T.CANDIDATE_COMMITTED, facts))
    whose = ("session_id", "kind", "logical_profile_id", "context", "cwd")
    assert [getattr(before, name) for name in whose] == [getattr(after, name) for name in whose]
    assert {"retry_now", "resume", "start_fresh", "skip_now", "cancel_wait", "stop"} == set(ACTIONS)

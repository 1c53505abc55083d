"""What single steps write, and the scenarios of the state machine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kandev_routing_sdk.errors import IllegalTransition, StaleGeneration, StaleRevision, TurnInProgress, UsageError
from kandev_routing_sdk.policy import DecisionKind
from kandev_routing_sdk.route import (
    ATTEMPT_CAP,
    Facts,
    attempts_left,
    begin,
    check_seen,
    step,
    trigger_for,
    valid_actions,
)
from kandev_routing_sdk.route.drafts import retry_ordinal
from kandev_routing_sdk.route.model import Effect, EventKind, Reason, Round, Route, State, Trigger, Visit
from kandev_routing_sdk.types import Code, ErrorClass
from tests.route._routes import CLEAN, NOW, SPOKE, a_failure, a_policy, a_route, decide, fail

S, T = State, Trigger


def commit(route: Route, profile_id: str, attempt_id: str, continuation: str | None = None) -> Route:
    facts = Facts(profile_id=profile_id, attempt_id=attempt_id, continuation=continuation)
    return step(route, T.CANDIDATE_COMMITTED, facts, now=NOW).after


def running(profile_id: str = "fable", prompt: str = "do it") -> Route:
    """A route whose first turn runs."""
    route = commit(begin("s1", "frontier", now=NOW, prompt=prompt).after, profile_id, "a1")
    return step(route, T.READY, Facts(native_session_id=f"native-{profile_id}"), now=NOW).after


def again(route: Route, attempt_id: str, trigger: Trigger = T.DUE) -> Route:
    """The wait is over and the agent is ready again."""
    retrying = step(route, trigger, Facts(attempt_id=attempt_id), now=NOW).after
    return step(retrying, T.READY, now=NOW).after


def renumbered(route: Route, like: Route) -> Route:
    """``route`` with the revision of another one: each step takes the next."""
    return route.model_copy(update={"revision": like.revision})


def test_a_route_begins_by_selecting() -> None:
    begun = begin("s1", "frontier", now=NOW, prompt="do it", owner_id="w1", owner_until=NOW)
    assert (Effect.SELECT,) == begun.effects
    assert (S.SELECTING, "do it", 1, 0, 1) == (
        begun.after.state,
        begun.after.parked_prompt,
        begun.after.prompt_number,
        begun.after.generation,
        begun.after.revision,
    )
    assert 0 == begin("s2", "frontier", now=NOW).after.prompt_number


def test_a_prompt_gets_done_by_the_first_candidate() -> None:
    route = running()
    assert (S.ACTIVE, True, 1, "a1") == (route.state, route.turn_running, route.generation, route.attempt_id)
    done = step(route, T.TURN_SUCCEEDED, now=NOW + timedelta(seconds=3))
    assert (False, None, 0, Round()) == (
        done.after.turn_running,
        done.after.parked_prompt,
        done.after.attempts_in_turn,
        done.after.round,
    )
    assert NOW + timedelta(seconds=3) == done.after.updated_at
    assert [EventKind.TURN_ENDED] == [e.kind for e in done.events]


def test_each_step_takes_the_next_revision() -> None:
    assert 41 == step(a_route(S.ACTIVE, turn_running=True), T.TURN_SUCCEEDED, now=NOW).after.revision


def test_three_retries_from_five_seconds_wait_5_10_and_20_and_then_skip() -> None:
    """A seed scenario of R-POL-2; the ordinals belong to one visit (R-ENG-5)."""
    policy, route, waited = a_policy(retries=3, initial=5), running(), []
    for attempt in ("a2", "a3", "a4"):
        failed = fail(route, policy)
        assert S.RETRY_WAIT is failed.after.state
        assert failed.after.deadline is not None
        waited.append((failed.after.deadline - NOW).total_seconds())
        route = again(failed.after, attempt)
    assert [5, 10, 20] == waited
    assert 1 == route.generation
    exhausted = fail(route, policy)
    assert (S.SWITCHING, ("fable",)) == (exhausted.after.state, exhausted.after.round.excluded)
    assert None is exhausted.after.deadline


def test_three_retries_and_then_a_person() -> None:
    route = fail(running(), a_policy(retries=1, then="stop")).after
    stopped = fail(again(route, "a2"), a_policy(retries=1, then="stop"))
    assert (S.ACTION_REQUIRED, Reason.RECOVERY_EXHAUSTED) == (stopped.after.state, stopped.after.reason)
    assert not stopped.after.potentially_effectful


def test_of_three_candidates_two_fail_and_the_third_gets_the_continuation() -> None:
    """R-ENG-5: one failing successor does not strand the next."""
    route = fail(running("fable"), a_policy()).after
    route = commit(route, "codex", "a2", continuation="note 1")
    assert (2, None, None) == (route.generation, route.native_session_id, route.native_profile_id)
    route = fail(step(route, T.READY, now=NOW).after, a_policy()).after
    assert ("fable", "codex") == route.round.excluded
    route = commit(route, "sol", "a3", continuation="note 2")
    ready = step(route, T.READY, now=NOW)
    assert ("sol", 3, "note 2", "do it") == (
        ready.after.execution_profile_id,
        ready.after.generation,
        ready.after.continuation,
        ready.after.parked_prompt,
    )
    assert (Effect.SEND_PROMPT,) == ready.effects
    done = step(ready.after, T.TURN_SUCCEEDED, now=NOW).after
    assert (None, Round()) == (done.continuation, done.round)


def test_an_excluded_candidate_cannot_be_committed() -> None:
    """R-ENG-5, whatever the caller chose."""
    route = fail(running("fable"), a_policy()).after
    with pytest.raises(IllegalTransition):
        commit(route, "fable", "a2")


@pytest.mark.parametrize(
    ("state", "way_out"), [(S.STOPPED, "begin another one"), (S.WAITING, "the actions of its snapshot")]
)
def test_what_a_state_does_not_take_is_said_with_the_way_out(state: State, way_out: str) -> None:
    with pytest.raises(IllegalTransition, match=way_out):
        step(a_route(state), T.READY, now=NOW)


def test_skip_now_at_generation_7_leaves_the_current_candidate_out_of_one_decision() -> None:
    """A seed scenario of R-ENG-7."""
    waiting = a_route(S.WAITING, deadline=NOW, parked_prompt="do it")
    skipped = step(waiting, T.SKIP_NOW, now=NOW).after
    assert (S.SELECTING, 7, ("fable",), ()) == (
        skipped.state,
        skipped.generation,
        skipped.round.skip_once,
        skipped.round.excluded,
    )
    with pytest.raises(IllegalTransition):
        commit(skipped, "fable", "a8")
    chosen = commit(skipped, "codex", "a8")
    assert (8, ()) == (chosen.generation, chosen.round.skip_once)


def test_a_delayed_retry_now_for_generation_7_meets_generation_8() -> None:
    """A seed scenario of R-ENG-7; staleness is told before anything else."""
    route = a_route(S.RETRY_WAIT, generation=8, deadline=NOW)
    with pytest.raises(StaleGeneration) as stale:
        check_seen(route, expected_generation=7, expected_revision=None)
    assert (7, 8) == (stale.value.expected, stale.value.current)
    with pytest.raises(StaleRevision):
        check_seen(route, expected_generation=8, expected_revision=39)
    check_seen(route, expected_generation=8, expected_revision=40)
    check_seen(route, expected_generation=8, expected_revision=None)


def test_skip_now_in_a_retry_wait_excludes_for_the_round() -> None:
    """It had its visit."""
    skipped = step(fail(running(), a_policy(retries=3)).after, T.SKIP_NOW, now=NOW).after
    assert (S.SWITCHING, ("fable",)) == (skipped.state, skipped.round.excluded)


def test_skip_now_in_action_required_skips_once_in_a_new_round() -> None:
    route = a_route(S.ACTION_REQUIRED, round=Round(excluded=("codex",)), reason=Reason.UNSAFE_EFFECTS)
    skipped = step(route, T.SKIP_NOW, now=NOW)
    assert Round(skip_once=("fable",)) == skipped.after.round
    assert Round() == step(route.model_copy(update={"execution_profile_id": None}), T.SKIP_NOW, now=NOW).after.round


def test_retry_now_takes_the_next_retry_slot() -> None:
    """Ordinal + 1: of three retries the schedule took one and the person one, so the next failure waits for the third."""
    policy = a_policy(retries=3)
    waiting = fail(running(), policy).after
    assert 1 == retry_ordinal(waiting, ErrorClass.TRANSIENT)
    route = again(waiting, "a2", T.RETRY_NOW)
    assert (2, None) == (retry_ordinal(route, ErrorClass.TRANSIENT), route.deadline)
    third = fail(route, policy).after
    assert third.deadline is not None
    assert 20 == (third.deadline - NOW).total_seconds()


def test_retry_now_beyond_the_budget_takes_the_exhausted_outcome_on_failure() -> None:
    route = again(fail(running(), a_policy(retries=1)).after, "a2", T.RETRY_NOW)
    assert S.SWITCHING is fail(route, a_policy(retries=1)).after.state


def test_a_reset_in_a_minute_is_waited_for_once() -> None:
    """A seed scenario: same candidate, same generation, no retry used (R-POL-3)."""
    policy, quota = a_policy(wait=300), a_failure(Code.QUOTA_LIMITED, reset_in=60)
    waiting = fail(running(), policy, quota)
    assert (S.WAITING_FOR_RESET, NOW + timedelta(seconds=60)) == (waiting.after.state, waiting.after.deadline)
    assert (Effect.STOP_DOWNSTREAM, Effect.ARM_DEADLINE) == waiting.effects
    visit = waiting.after.round.visit("fable")
    assert ({}, (ErrorClass.HARD,)) == (visit.retries_used, visit.reset_waits_used)
    route = again(waiting.after, "a2")
    assert (1, "fable", "a2", 2) == (
        route.generation,
        route.execution_profile_id,
        route.attempt_id,
        route.attempts_in_turn,
    )
    assert S.SWITCHING is fail(route, policy, quota).after.state


def test_the_budget_of_one_class_leaves_the_other_alone() -> None:
    route = fail(running(), a_policy(retries=2)).after
    route = fail(again(route, "a2"), a_policy(retries=2), a_failure(Code.QUOTA_LIMITED)).after
    assert {ErrorClass.TRANSIENT: 1, ErrorClass.HARD: 1} == dict(route.round.visit("fable").retries_used)


def test_a_recovered_circuit_ends_a_reset_wait_early_but_no_retry_wait() -> None:
    waiting = fail(running(), a_policy(wait=300), a_failure(Code.QUOTA_LIMITED, reset_in=60)).after
    early = step(waiting, T.RECOVERED_EARLY, Facts(attempt_id="a2"), now=NOW).after
    assert (S.RETRYING, Reason.RECOVERED) == (early.state, early.reason)
    with pytest.raises(IllegalTransition):
        step(fail(running(), a_policy(retries=1)).after, T.RECOVERED_EARLY, Facts(attempt_id="a2"), now=NOW)


def test_not_admitted_costs_nothing_but_time() -> None:
    """R-CIR-8."""
    waiting = fail(running(), a_policy(retries=2)).after
    later = NOW + timedelta(minutes=2)
    moved = step(waiting, T.DUE_NOT_ADMITTED, Facts(deadline=later), now=NOW).after
    assert waiting.model_copy(update={"deadline": later, "revision": waiting.revision + 1}) == moved


@pytest.mark.parametrize(("then", "state"), [("skip", S.SWITCHING), ("stop", S.ACTION_REQUIRED)])
def test_not_admitted_beyond_the_bound_takes_the_pending_outcome(then: str, state: State) -> None:
    """R-CIR-8."""
    waiting = fail(running(), a_policy(retries=2, then=then)).after
    moved = step(waiting, T.DUE_NOT_ADMITTED, now=NOW).after
    assert (state, Reason.RECOVERY_EXHAUSTED, None) == (moved.state, moved.reason, moved.deadline)


def test_output_stops_for_a_person_and_marks_the_turn() -> None:
    """R-SAFE-1, R-SAFE-4: the mark stays with the turn until it succeeds."""
    route = fail(running(), a_policy(retries=3), effects=SPOKE)
    assert (S.ACTION_REQUIRED, Reason.UNSAFE_EFFECTS, True, "do it") == (
        route.after.state,
        route.after.reason,
        route.after.potentially_effectful,
        route.after.parked_prompt,
    )
    with pytest.raises(IllegalTransition):
        step(route.after, T.SETTINGS_CHANGED, now=NOW)
    by_hand = step(route.after, T.RETRY_NOW, now=NOW)
    assert ("fable", True) == (by_hand.after.pinned_profile_id, by_hand.after.potentially_effectful)
    assert Effect.BUILD_CONTINUATION in by_hand.effects
    committed = commit(by_hand.after, "fable", "a2", continuation="it may have …")
    assert (None, "native-fable") == (committed.pinned_profile_id, committed.native_session_id)
    ready = step(committed, T.READY, now=NOW).after
    assert not step(ready, T.TURN_SUCCEEDED, now=NOW).after.potentially_effectful


def test_the_mark_of_a_turn_outlives_a_later_clean_failure() -> None:
    marked = running().model_copy(update={"potentially_effectful": True})
    assert fail(marked, a_policy()).after.potentially_effectful


@pytest.mark.parametrize(
    ("state", "trigger"),
    [
        (S.WAITING, T.DUE),
        (S.WAITING, T.RECOVERED_EARLY),
        (S.WAITING, T.SETTINGS_CHANGED),
        (S.WAITING, T.RETRY_NOW),
        (S.ACTION_REQUIRED, T.SETTINGS_CHANGED),
        (S.ACTION_REQUIRED, T.RETRY_NOW),
    ],
)
def test_leaving_for_a_selection_starts_a_new_round_in_the_same_cycle(state: State, trigger: Trigger) -> None:
    """Exclusions and budgets go, the attempts of the turn stay unless a person renews them."""
    spent = Round(excluded=("fable", "codex"), visits=(Visit(profile_id="fable", retries_used={ErrorClass.HARD: 2}),))
    route = a_route(state, round=spent, attempts_in_turn=9, deadline=NOW, reason=Reason.NO_ELIGIBLE_CANDIDATE)
    moved = step(route, trigger, now=NOW).after
    assert (S.SELECTING, Round(), None) == (moved.state, moved.round, moved.deadline)
    assert (0 if trigger is T.RETRY_NOW else 9) == moved.attempts_in_turn


def test_a_failure_that_nothing_is_known_of_may_not_skip() -> None:
    """Not known is unsafe (R-EVI-3), even if somebody says skip."""
    moved = step(running(), T.FAILED_SKIP, now=NOW).after
    assert (S.ACTION_REQUIRED, Reason.UNSAFE_EFFECTS, True) == (moved.state, moved.reason, moved.potentially_effectful)


def test_a_clean_unclassified_failure_stops_without_a_mark() -> None:
    failure = a_failure(Code.TASK_ERROR)
    decision = decide(running(), failure, a_policy(), NOW, CLEAN)
    facts = Facts(decision=decision, classification=failure, clean=True, reason=Reason.UNCLASSIFIED)
    moved = step(running(), trigger_for(decision), facts, now=NOW).after
    assert (S.ACTION_REQUIRED, Reason.UNCLASSIFIED, False) == (moved.state, moved.reason, moved.potentially_effectful)
    assert failure == moved.classification


def test_a_new_prompt_in_a_wait_sends_the_parked_and_the_new_one_in_a_new_cycle() -> None:
    waiting = fail(running(), a_policy(retries=3)).after
    moved = step(waiting, T.PROMPT, Facts(prompt="and this", attempt_id="a2"), now=NOW).after
    assert (S.RETRYING, "do it\n\nand this", 2, Round(), 1) == (
        moved.state,
        moved.parked_prompt,
        moved.prompt_number,
        moved.round,
        moved.attempts_in_turn,
    )


def test_a_new_prompt_after_a_stop_selects_anew_and_keeps_the_mark() -> None:
    route = fail(running(), a_policy(), effects=SPOKE).after
    moved = step(route, T.PROMPT, Facts(prompt="go on"), now=NOW).after
    assert (S.SELECTING, "do it\n\ngo on", True) == (moved.state, moved.parked_prompt, moved.potentially_effectful)


def test_a_prompt_to_an_idle_session_is_a_new_turn() -> None:
    idle = step(running(), T.TURN_SUCCEEDED, now=NOW).after
    moved = step(idle, T.PROMPT, Facts(prompt="more", attempt_id="a2"), now=NOW)
    assert (S.ACTIVE, True, "a2", 2, 1, 1) == (
        moved.after.state,
        moved.after.turn_running,
        moved.after.attempt_id,
        moved.after.prompt_number,
        moved.after.generation,
        moved.after.attempts_in_turn,
    )
    (said,) = moved.events  # that its turn starts is told when its agent is ready, once
    assert (EventKind.USER_MESSAGE, {"text": "more", "prompt_number": 2}) == (said.kind, said.params)
    with pytest.raises(TurnInProgress):
        step(moved.after, T.PROMPT, Facts(prompt="and", attempt_id="a3"), now=NOW)


def test_a_cancelled_turn_leaves_the_session_idle_and_is_never_sent_again() -> None:
    moved = step(running(), T.TURN_CANCELLED, now=NOW).after
    assert (S.ACTIVE, False, None) == (moved.state, moved.turn_running, moved.parked_prompt)
    gone = step(moved, T.PROCESS_GONE, now=NOW)
    assert (S.STARTING, 1, "a1") == (gone.after.state, gone.after.generation, gone.after.attempt_id)
    assert () == step(gone.after, T.READY, now=NOW).effects


def test_a_removed_candidate_finishes_its_turn_and_then_hands_over() -> None:
    """R-ENG-4."""
    pending = step(running(), T.CANDIDATE_REMOVED, now=NOW)
    assert (S.REROUTE_PENDING, True, ()) == (pending.after.state, pending.after.turn_running, pending.effects)
    moved = step(pending.after, T.TURN_SUCCEEDED, now=NOW)
    assert (S.SWITCHING, None) == (moved.after.state, moved.after.parked_prompt)
    ready = step(commit(moved.after, "codex", "a2", continuation="note"), T.READY, now=NOW)
    assert ((), False, "note") == (ready.effects, ready.after.turn_running, ready.after.continuation)
    turn = step(ready.after, T.PROMPT, Facts(prompt="more", attempt_id="a3"), now=NOW).after
    assert "note" == turn.continuation, "it rides on the next prompt"


def test_a_removed_candidate_that_fails_has_no_policy_any_more() -> None:
    pending = step(running(), T.CANDIDATE_REMOVED, now=NOW).after
    moved = fail(pending, a_policy(retries=3, then="stop"))
    assert (S.SWITCHING, Reason.CANDIDATE_REMOVED, "do it", ("fable",)) == (
        moved.after.state,
        moved.after.reason,
        moved.after.parked_prompt,
        moved.after.round.excluded,
    )
    assert S.ACTION_REQUIRED is fail(pending, a_policy(), effects=SPOKE).after.state


def test_a_removal_while_starting_is_enforced_on_ready_before_the_prompt_leaves() -> None:
    route = commit(begin("s1", "frontier", now=NOW, prompt="do it").after, "fable", "a1")
    route = step(route, T.CANDIDATE_REMOVED, now=NOW).after
    assert (S.STARTING, True) == (route.state, route.removal_pending)
    ready = step(route, T.READY, now=NOW)
    assert (S.REROUTE_PENDING, (Effect.SETTLE,)) == (ready.after.state, ready.effects)
    moved = step(ready.after, T.SETTLED, now=NOW).after
    assert (S.SWITCHING, "do it", ("fable",)) == (moved.state, moved.parked_prompt, moved.round.excluded)


def test_a_restored_candidate_goes_on() -> None:
    pending = step(running(), T.CANDIDATE_REMOVED, now=NOW).after
    restored = step(pending, T.CANDIDATE_RESTORED, now=NOW)
    assert (S.ACTIVE, True, ()) == (restored.after.state, restored.after.turn_running, restored.effects)
    assert {"profile_id": "fable", "pending": False} == restored.events[0].params
    unsent = a_route(S.REROUTE_PENDING, parked_prompt="do it")
    assert (Effect.SEND_PROMPT,) == step(unsent, T.CANDIDATE_RESTORED, now=NOW).effects
    assert () == step(a_route(S.REROUTE_PENDING), T.CANDIDATE_RESTORED, now=NOW).effects


def test_a_removal_while_starting_and_a_failure_with_output_need_a_person() -> None:
    """A resume guarantee is the same candidate's only (R-SAFE-2), and why somebody is needed is not that a retry was planned."""
    route = a_route(S.STARTING, removal_pending=True, parked_prompt="do it")
    decision = decide(route, a_failure(), a_policy(retries=3), NOW, CLEAN)
    facts = Facts(decision=decision, classification=a_failure(), reason=Reason.RETRY_SCHEDULED)
    moved = step(route, T.FAILED_RETRY, facts, now=NOW).after
    assert (S.ACTION_REQUIRED, Reason.UNSAFE_EFFECTS, True) == (moved.state, moved.reason, moved.potentially_effectful)
    kept = step(route.model_copy(update={"removal_pending": False}), T.FAILED_RETRY, facts, now=NOW).after
    assert (S.RETRY_WAIT, Reason.RETRY_SCHEDULED, True) == (kept.state, kept.reason, kept.potentially_effectful)


def test_nobody_is_excluded_twice() -> None:
    route = a_route(S.RETRY_WAIT, deadline=NOW, round=Round(excluded=("fable",)))
    assert ("fable",) == step(route, T.SKIP_NOW, now=NOW).after.round.excluded


def test_an_adapter_exception_costs_the_candidate_its_round() -> None:
    route = commit(begin("s1", "frontier", now=NOW, prompt="do it").after, "fable", "a1")
    moved = step(route, T.ADAPTER_EXCEPTION, now=NOW).after
    assert (S.SWITCHING, ("fable",), Reason.ADAPTER_FAILURE) == (moved.state, moved.round.excluded, moved.reason)


def test_the_cap_of_20_attempts_ends_with_a_person_who_renews_it() -> None:
    """R-ENG-5. What the policy wanted does not count, nor does the reason it gave."""
    route = running().model_copy(update={"attempts_in_turn": ATTEMPT_CAP})
    assert 0 == attempts_left(route)
    failure = a_failure()
    decision = decide(route, failure, a_policy(retries=3), NOW, CLEAN)
    facts = Facts(decision=decision, classification=failure, automatic=True, reason=Reason.RETRY_SCHEDULED)
    capped = step(route, trigger_for(decision), facts, now=NOW).after
    assert (S.ACTION_REQUIRED, Reason.ATTEMPT_CAP) == (capped.state, capped.reason)
    with pytest.raises(IllegalTransition):
        step(capped, T.SETTINGS_CHANGED, now=NOW)
    assert ATTEMPT_CAP == attempts_left(step(capped, T.RETRY_NOW, now=NOW).after)


def test_a_candidate_committed_at_the_cap_takes_no_generation() -> None:
    route = a_route(S.SWITCHING, attempts_in_turn=ATTEMPT_CAP)
    moved = step(route, T.CANDIDATE_COMMITTED, Facts(profile_id="codex", attempt_id="a8"), now=NOW)
    assert (S.ACTION_REQUIRED, 7, "fable", ATTEMPT_CAP) == (
        moved.after.state,
        moved.after.generation,
        moved.after.execution_profile_id,
        moved.after.attempts_in_turn,
    )
    assert Effect.LAUNCH not in moved.effects


def test_a_lost_owner_whose_prompt_never_left_is_done_again_in_the_same_generation() -> None:
    """R-DUR-3."""
    route = a_route(S.STARTING, parked_prompt="do it", attempts_in_turn=1)
    again_ = step(route, T.OWNER_LOST_UNDISPATCHED, Facts(owner_id="w2", owner_until=NOW), now=NOW)
    assert (7, "a7", 1, "w2") == (
        again_.after.generation,
        again_.after.attempt_id,
        again_.after.attempts_in_turn,
        again_.after.owner_id,
    )
    assert (Effect.STOP_DOWNSTREAM, Effect.LAUNCH) == again_.effects
    fresh = step(route, T.OWNER_LOST_UNDISPATCHED, Facts(attempt_id="a8"), now=NOW).after
    assert ("a8", 2) == (fresh.attempt_id, fresh.attempts_in_turn)


@pytest.mark.parametrize("state", [S.STARTING, S.RETRYING, S.ACTIVE, S.REROUTE_PENDING])
def test_an_ambiguous_dispatch_is_never_sent_again(state: State) -> None:
    """R-SAFE-3."""
    route = a_route(state, turn_running=state in {S.ACTIVE, S.REROUTE_PENDING}, parked_prompt="do it")
    moved = step(route, T.OWNER_LOST_AMBIGUOUS, now=NOW)
    assert (S.ACTION_REQUIRED, Reason.AMBIGUOUS_DISPATCH, True, False) == (
        moved.after.state,
        moved.after.reason,
        moved.after.potentially_effectful,
        moved.after.turn_running,
    )
    assert not {Effect.LAUNCH, Effect.SEND_PROMPT, Effect.SELECT} & set(moved.effects)


def test_a_late_effect_revokes_a_retry() -> None:
    """R-SAFE-6."""
    waiting = fail(running(), a_policy(retries=3)).after
    moved = step(waiting, T.LATE_EFFECT, now=NOW)
    assert (S.ACTION_REQUIRED, Reason.UNSAFE_EFFECTS, True, None) == (
        moved.after.state,
        moved.after.reason,
        moved.after.potentially_effectful,
        moved.after.deadline,
    )
    assert Effect.DISARM_DEADLINE in moved.effects
    exhausted = a_route(S.ACTION_REQUIRED, reason=Reason.RECOVERY_EXHAUSTED)
    with pytest.raises(IllegalTransition):
        step(step(exhausted, T.LATE_EFFECT, now=NOW).after, T.SETTINGS_CHANGED, now=NOW)


def test_the_flag_keeps_everything_and_gives_it_back() -> None:
    """R-RES-4."""
    waiting = fail(running(), a_policy(retries=3)).after
    off = step(waiting, T.FLAG_OFF, now=NOW).after
    assert (S.ACTION_REQUIRED, Reason.DYNAMIC_ROUTING_DISABLED, S.RETRY_WAIT) == (
        off.state,
        off.reason,
        off.prior_state,
    )
    assert (T.STOP,) == valid_actions(off)
    twice = step(off, T.FLAG_OFF, now=NOW)
    assert (off, ()) == (renumbered(twice.after, off), twice.effects)
    on = step(off, T.FLAG_ON, now=NOW)
    assert (waiting, (Effect.ARM_DEADLINE,)) == (renumbered(on.after, waiting), on.effects)
    stopped_for = a_route(S.ACTION_REQUIRED, reason=Reason.UNSAFE_EFFECTS)
    back = step(step(stopped_for, T.FLAG_OFF, now=NOW).after, T.FLAG_ON, now=NOW)
    assert stopped_for == renumbered(back.after, stopped_for)
    idle = step(step(a_route(S.ACTIVE), T.FLAG_OFF, now=NOW).after, T.FLAG_ON, now=NOW)
    assert (S.ACTIVE, ()) == (idle.after.state, idle.events)


def test_stop_session_ends_a_running_turn_and_its_reason_is_the_callers() -> None:
    moved = step(running(), T.STOP_SESSION, Facts(reason=Reason.CALL_ENDED), now=NOW)
    assert (S.STOPPED, Reason.CALL_ENDED, False, None) == (
        moved.after.state,
        moved.after.reason,
        moved.after.turn_running,
        moved.after.owner_id,
    )
    assert Effect.STOP_DOWNSTREAM in moved.effects
    assert {"prior_state": "active", "profile_id": "fable"} == moved.events[0].params


def test_cancel_wait_twice_is_cancel_wait_once() -> None:
    """R-ENG-7."""
    once = step(fail(running(), a_policy(retries=1)).after, T.CANCEL_WAIT, now=NOW).after
    assert (S.ACTION_REQUIRED, Reason.USER_ACTION, None) == (once.state, once.reason, once.deadline)
    twice = step(once, T.CANCEL_WAIT, now=NOW)
    assert (once, (), ()) == (renumbered(twice.after, once), twice.effects, twice.events)


def test_a_waiting_event_says_what_a_person_needs() -> None:
    """R-ENG-6, R-CON-6."""
    failed = fail(running(), a_policy(retries=3, then="stop"))
    assert [EventKind.TURN_FAILED, EventKind.ROUTE_WAITING] == [e.kind for e in failed.events]
    assert {
        "state": "retry_wait",
        "profile_id": "fable",
        "deadline": "2026-01-02T03:04:10+00:00",
        "actions": ["retry_now", "skip_now", "cancel_wait", "stop"],
        "code": "model_capacity",
        "class": "transient",
        "ordinal": 1,
        "maximum": 3,
        "pending_outcome": "stop",
    } == failed.events[1].params


def test_a_switch_tells_the_prior_profile_and_the_next_one_when_it_is_ready() -> None:
    """R-CON-6."""
    switching = fail(running(), a_policy())
    changing = switching.events[-1]
    assert EventKind.ROUTE_CHANGING is changing.kind
    assert {"prior_profile_id": "fable", "code": "model_capacity", "class": "transient"} == changing.params
    starting = commit(switching.after, "codex", "a2")
    facts = Facts(labels={"provider": "acme"}, capabilities={"models": ["m"]}, native_session_id="n2", resumed=True)
    changed, replaced, started = step(starting, T.READY, facts, now=NOW).events
    assert {"profile_id": "codex", "resumed": True, "provider": "acme"} == changed.params
    assert {"profile_id": "codex", "capabilities": {"models": ["m"]}} == replaced.params
    assert EventKind.TURN_STARTED is started.kind


@pytest.mark.parametrize(
    ("state", "trigger", "missing"),
    [
        (S.SELECTING, T.CANDIDATE_COMMITTED, "profile_id"),
        (S.SELECTING, T.NOBODY_RECOVERY_KNOWN, "deadline"),
        (S.WAITING, T.PROMPT, "prompt"),
        (S.RETRY_WAIT, T.DUE, "attempt_id"),
        (S.STARTING, T.FAILED_RETRY, "decision"),
    ],
)
def test_a_missing_fact_is_named(state: State, trigger: Trigger, missing: str) -> None:
    with pytest.raises(UsageError, match=f"facts.{missing}"):
        step(a_route(state), trigger, now=NOW)


def test_each_answer_of_the_policy_is_a_trigger() -> None:
    decision = decide(running(), a_failure(), a_policy(), NOW, CLEAN)
    kinds = {k: trigger_for(decision.model_copy(update={"kind": k})) for k in DecisionKind}
    assert {
        DecisionKind.WAIT: T.FAILED_WAIT,
        DecisionKind.RETRY: T.FAILED_RETRY,
        DecisionKind.SKIP: T.FAILED_SKIP,
        DecisionKind.STOP: T.FAILED_STOP,
    } == kinds


def test_ordinals_of_nobody_are_zero() -> None:
    assert 0 == retry_ordinal(begin("s1", "frontier", now=NOW).after, ErrorClass.HARD)
    used = Round(visits=(Visit(profile_id="fable", retries_used={ErrorClass.HARD: 2}),))
    assert 2 == retry_ordinal(a_route(S.RETRYING, round=used), ErrorClass.HARD)

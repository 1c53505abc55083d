"""Office tiers, with nobody watching (R-POL-7, R-OFF-4, R-OFF-5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.policy import Context, DecisionKind, HealthMark, Offer, RouteHealth, RouteScope, route_scope
from kandev_routing_sdk.types import Code, Confidence, ErrorClass, Phase, Scope
from tests.policy._contexts import CLEAN, NOT_SENT, NOW, STATES, ask, failure, seconds

UNATTENDED = Context.UNATTENDED
STEPS = [(0, 5), (1, 10), (2, 20)]
START = [Phase.AUTH_CHECK, Phase.PROCESS_START, Phase.SESSION_INIT]
_uniform = st.floats(min_value=0, max_value=1, exclude_max=True)


@pytest.mark.parametrize(("used", "delay"), STEPS, ids=str)
def test_the_same_route_is_tried_three_times_while_others_wait(used: int, delay: int) -> None:
    """R-OFF-5: no degradation, no exclusion meanwhile."""
    decision = ask(UNATTENDED, failure(), retries_used=used)
    due = NOW + seconds(delay)
    assert (DecisionKind.RETRY, used + 1, 3, due, "skip") == (
        decision.kind,
        decision.ordinal,
        decision.maximum,
        decision.deadline,
        decision.pending_outcome,
    )
    assert RouteHealth(mark=HealthMark.SHORT_RETRY, scope=RouteScope.PROVIDER, until=due) == decision.health
    assert (Offer.RETRY_NOW, Offer.SKIP_NOW) == decision.offers


@pytest.mark.parametrize("used", [3, 4, 50])
def test_then_the_route_is_degraded_and_the_run_falls_through(used: int) -> None:
    """The ladder says for how long: a short hint has been proven wrong three times."""
    decision = ask(UNATTENDED, failure(retry_after=seconds(20)), retries_used=used)
    assert (DecisionKind.SKIP, ("retry: budget of 3 used",)) == (decision.kind, decision.because)
    assert RouteHealth(mark=HealthMark.DEGRADED, scope=RouteScope.PROVIDER) == decision.health


def test_a_long_hint_falls_through_at_once() -> None:
    reset = NOW + seconds(61)
    decision = ask(UNATTENDED, failure(Code.RATE_LIMITED, reset_at=reset))
    assert (DecisionKind.SKIP, ("retry: the hint is more than 60 s away",)) == (decision.kind, decision.because)
    assert RouteHealth(mark=HealthMark.DEGRADED, scope=RouteScope.PROVIDER, until=reset) == decision.health


def test_a_throttle_without_a_hint_is_not_known_to_be_short() -> None:
    decision = ask(UNATTENDED, failure(Code.RATE_LIMITED))
    assert ("retry: no hint says that this throttle is a short one",) == decision.because
    assert RouteHealth(mark=HealthMark.DEGRADED, scope=RouteScope.PROVIDER) == decision.health


@pytest.mark.parametrize(
    ("hint", "until"),
    [
        ({}, None),
        ({"retry_after": seconds(20)}, NOW + seconds(20)),
        ({"reset_at": NOW + timedelta(days=3)}, NOW + timedelta(days=3)),
        ({"reset_at": NOW - seconds(1)}, None),
        ({"reset_at": NOW + timedelta(days=32)}, None),
        ({"retry_after": seconds(5), "occurred_at": NOW - seconds(9)}, None),
    ],
    ids=str,
)
def test_a_used_up_quota_is_left_until_its_reset_or_to_the_ladder(hint: dict[str, Any], until: Any) -> None:
    decision = ask(UNATTENDED, failure(Code.QUOTA_LIMITED, **hint))
    assert (DecisionKind.SKIP, (Offer.REMEDY,)) == (decision.kind, decision.offers)
    assert RouteHealth(mark=HealthMark.DEGRADED, scope=RouteScope.PROVIDER, until=until) == decision.health


@pytest.mark.parametrize(
    ("code", "scope"),
    [
        (Code.AUTH_REQUIRED, RouteScope.PROVIDER),
        (Code.MISSING_CREDENTIALS, RouteScope.PROVIDER),
        (Code.SUBSCRIPTION_REQUIRED, RouteScope.PROVIDER),
        (Code.PROVIDER_NOT_CONFIGURED, RouteScope.TIER),
        (Code.MODEL_UNAVAILABLE, RouteScope.MODEL),
    ],
)
def test_what_a_person_has_to_put_right_has_no_time(code: Code, scope: RouteScope) -> None:
    """R-OFF-4: user-action rows have no retry time, whatever the provider says."""
    decision = ask(UNATTENDED, failure(code, retry_after=seconds(300)))
    assert (DecisionKind.SKIP, ("retry: a hard failure does not pass within seconds",)) == (
        decision.kind,
        decision.because,
    )
    assert RouteHealth(mark=HealthMark.ACTION_REQUIRED, scope=scope) == decision.health


SCOPES = {
    Code.NETWORK_UNAVAILABLE: RouteScope.PROVIDER,
    Code.PROVIDER_UNAVAILABLE: RouteScope.PROVIDER,
    Code.PROVIDER_OVERLOADED: RouteScope.PROVIDER,
    Code.MODEL_CAPACITY: RouteScope.MODEL,
    Code.RATE_LIMITED: RouteScope.PROVIDER,
    Code.AGENT_TRANSPORT_LOST: None,
    Code.QUOTA_LIMITED: RouteScope.PROVIDER,
    Code.SUBSCRIPTION_REQUIRED: RouteScope.PROVIDER,
    Code.AUTH_REQUIRED: RouteScope.PROVIDER,
    Code.MISSING_CREDENTIALS: RouteScope.PROVIDER,
    Code.PROVIDER_NOT_CONFIGURED: RouteScope.TIER,
    Code.MODEL_UNAVAILABLE: RouteScope.MODEL,
    Code.UNKNOWN_PROVIDER_ERROR: None,
    Code.AGENT_RUNTIME_ERROR: None,
    Code.TASK_ERROR: None,
    Code.REPO_ERROR: None,
    Code.PERMISSION_DENIED_BY_USER: None,
    Code.CANCELLED: None,
    Code.RESUME_CORRUPTED: None,
    Code.CONTEXT_EXHAUSTED: None,
    Code.CONTENT_REFUSED: None,
}


@pytest.mark.parametrize("code", list(Code))
def test_each_code_has_its_scope(code: Code) -> None:
    """R-OFF-4, ``ScopeFromCode``."""
    assert SCOPES[code] is route_scope(failure(code))


@pytest.mark.parametrize("code", [Code.RATE_LIMITED, Code.QUOTA_LIMITED])
def test_a_limit_that_names_its_model_is_that_models(code: Code) -> None:
    assert RouteScope.MODEL is route_scope(failure(code, scope=Scope.MODEL, model_id="opus"))


@pytest.mark.parametrize(("used", "delay"), STEPS, ids=str)
@pytest.mark.parametrize("phase", [*START, Phase.PROMPT_SEND])
def test_a_lost_agent_is_launched_three_times(phase: Phase, used: int, delay: int) -> None:
    lost = failure(Code.AGENT_TRANSPORT_LOST, phase=phase)
    decision = ask(UNATTENDED, lost, effects=NOT_SENT, retries_used=used)
    assert (DecisionKind.RETRY, used + 1, NOW + seconds(delay), "stop", None) == (
        decision.kind,
        decision.ordinal,
        decision.deadline,
        decision.pending_outcome,
        decision.health,
    )


def test_then_it_is_given_up_without_degradation_or_fallback() -> None:
    lost = failure(Code.AGENT_TRANSPORT_LOST, phase=Phase.SESSION_INIT)
    decision = ask(UNATTENDED, lost, effects=NOT_SENT, retries_used=3)
    assert (DecisionKind.STOP, None) == (decision.kind, decision.health)
    assert (
        "retry: budget of 3 used",
        "fall through: a lost agent says nothing against its provider",
    ) == decision.because


@pytest.mark.parametrize("phase", [Phase.STREAMING, Phase.TOOL_EXECUTION, Phase.SHUTDOWN])
def test_a_lost_agent_in_mid_turn_is_not_retried(phase: Phase) -> None:
    """Not even if the ledger claims that nothing was sent: the two contradict each other."""
    lost = failure(Code.AGENT_TRANSPORT_LOST, phase=phase)
    decision = ask(UNATTENDED, lost, effects=NOT_SENT)
    assert (DecisionKind.STOP, "retry: the agent was lost in mid-turn") == (decision.kind, decision.because[0])


def test_no_hint_makes_a_launch_retry_wait_for_hours() -> None:
    lost = failure(Code.AGENT_TRANSPORT_LOST, phase=Phase.SESSION_INIT, retry_after=timedelta(hours=3))
    assert NOW + seconds(5) == ask(UNATTENDED, lost, effects=NOT_SENT).deadline


UNKNOWN = [Code.UNKNOWN_PROVIDER_ERROR, Code.AGENT_RUNTIME_ERROR]


@pytest.mark.parametrize("confidence", list(Confidence))
@pytest.mark.parametrize("phase", START)
@pytest.mark.parametrize("code", UNKNOWN)
def test_what_is_unknown_may_fall_through_before_the_session(code: Code, phase: Phase, confidence: Confidence) -> None:
    """Nothing is recorded of the route: nobody knows whose fault it was."""
    decision = ask(UNATTENDED, failure(code, phase=phase, confidence=confidence), effects=NOT_SENT)
    assert (DecisionKind.SKIP, None, ()) == (decision.kind, decision.health, decision.offers)


@pytest.mark.parametrize(
    ("phase", "effects", "because"),
    [
        (Phase.PROMPT_SEND, NOT_SENT, "the session had started, and the failure is unclassified"),
        (Phase.STREAMING, NOT_SENT, "the session had started, and the failure is unclassified"),
        (Phase.SESSION_INIT, CLEAN, "the prompt was sent, and the failure is unclassified"),
        (Phase.SESSION_INIT, NOT_SENT.model_copy(update={"complete": False}), "observation was incomplete"),
        (Phase.SESSION_INIT, NOT_SENT.model_copy(update={"output": True}), "output was seen"),
        (Phase.SESSION_INIT, None, "nothing is known of the effects"),
    ],
)
def test_and_never_later(phase: Phase, effects: Any, because: str) -> None:
    decision = ask(UNATTENDED, failure(Code.UNKNOWN_PROVIDER_ERROR, phase=phase), effects=effects)
    assert (DecisionKind.STOP, (f"gate: {because}",)) == (decision.kind, decision.because)


@pytest.mark.parametrize(
    "doubt",
    [
        {"confidence": Confidence.LOW, "error_class": ErrorClass.UNCLASSIFIED},
        {"confidence": Confidence.LOW},
        {"error_class": ErrorClass.UNCLASSIFIED},
    ],
    ids=["low and unclassified", "low", "unclassified"],
)
@pytest.mark.parametrize("code", list(Code))
def test_a_guess_is_worth_no_more_than_an_unknown_failure(code: Code, doubt: dict[str, Any]) -> None:
    """Low confidence is unclassified (R-CLS-2); a guess at a lost agent or at the task excuses no change of provider."""
    guess = failure(code, phase=Phase.SESSION_INIT, retry_after=seconds(9), **doubt)
    early, late = ask(UNATTENDED, guess, effects=NOT_SENT), ask(UNATTENDED, guess)
    own = set(Code) - {*UNKNOWN, *(c for c in Code if failure(c).error_class is not ErrorClass.UNCLASSIFIED)}
    wanted = DecisionKind.STOP if code in {*own, Code.AGENT_TRANSPORT_LOST} else DecisionKind.SKIP
    assert (wanted, DecisionKind.STOP) == (early.kind, late.kind)
    assert (None, None) == (early.health, late.health)


def test_medium_confidence_acts_while_nothing_was_sent_and_records_nothing() -> None:
    """R-SAFE-1 for this run, R-CIR-5 for the others."""
    likely = failure(Code.AUTH_REQUIRED, confidence=Confidence.MEDIUM)
    early, late = ask(UNATTENDED, likely, effects=NOT_SENT), ask(UNATTENDED, likely)
    assert (DecisionKind.SKIP, None) == (early.kind, early.health)
    assert (DecisionKind.STOP, None, ("gate: confidence is medium",)) == (late.kind, late.health, late.because)
    brief = failure(confidence=Confidence.MEDIUM)
    assert DecisionKind.RETRY is ask(UNATTENDED, brief, effects=NOT_SENT).kind


@pytest.mark.parametrize("effects", [NOT_SENT, CLEAN, None], ids=["not sent", "clean", "unknown"])
@pytest.mark.parametrize("code", list(Code))
def test_stale_evidence_authorises_and_records_nothing(code: Code, effects: Any) -> None:
    """R-EVI-4."""
    decision = ask(UNATTENDED, failure(code, phase=Phase.SESSION_INIT), effects=effects, stale=True)
    assert (DecisionKind.STOP, None, ("gate: the evidence is stale",)) == (
        decision.kind,
        decision.health,
        decision.because,
    )


@pytest.mark.parametrize("used", [0, 3])
def test_what_was_learnt_of_an_account_outlives_the_runs_own_effects(used: int) -> None:
    """R-CIR-5: effect safety does not matter to health. A short trouble is recorded only once its three tries are gone."""
    quota = ask(UNATTENDED, failure(Code.QUOTA_LIMITED), effects=STATES["e"], retries_used=used)
    brief = ask(UNATTENDED, failure(), effects=STATES["e"], retries_used=used)
    assert (DecisionKind.STOP, ("gate: a tool ran",)) == (quota.kind, quota.because)
    assert RouteHealth(mark=HealthMark.DEGRADED, scope=RouteScope.PROVIDER) == quota.health
    assert (DecisionKind.STOP, quota.health if used else None) == (brief.kind, brief.health)


def test_without_an_alternative_nobody_is_offered_one() -> None:
    for classification, used in ((failure(), 0), (failure(), 3), (failure(Code.AUTH_REQUIRED), 0)):
        for effects in STATES.values():
            decision = ask(UNATTENDED, classification, effects=effects, retries_used=used, alternative=False)
            assert Offer.SKIP_NOW not in decision.offers


def test_a_code_outranks_a_class_that_does_not_fit_it() -> None:
    decision = ask(UNATTENDED, failure(Code.TASK_ERROR, error_class=ErrorClass.TRANSIENT))
    assert (DecisionKind.STOP, "gate: the failure is unclassified") == (
        decision.kind,
        decision.because[-1],
    )


@given(used=st.integers(min_value=0, max_value=2), uniform=_uniform)
def test_jitter_stays_within_a_fifth(used: int, uniform: float) -> None:
    delay = dict(STEPS)[used]
    deadline = ask(UNATTENDED, failure(), retries_used=used, uniform=uniform).deadline
    assert deadline is not None
    assert 0.8 * delay <= (deadline - NOW).total_seconds() <= 1.2 * delay


@given(uniforms=st.lists(_uniform, min_size=3, max_size=3))
def test_no_retry_waits_less_long_than_the_one_before_it(uniforms: list[float]) -> None:
    deadlines = [
        ask(UNATTENDED, failure(), retries_used=used, uniform=uniform).deadline or NOW
        for used, uniform in enumerate(uniforms)
    ]
    assert sorted(deadlines) == deadlines


@pytest.mark.parametrize(
    "changes",
    [
        {"mark": "same_route_short_retry", "scope": "provider"},
        {"mark": "user_action_required", "scope": "provider", "until": NOW},
    ],
)
def test_health_cannot_contradict_itself(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="time"):
        RouteHealth.model_validate(changes)

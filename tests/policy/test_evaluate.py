"""The order of decisions after a failure (R-POL-3, R-POL-4, R-POL-6, R-POL-8) behind the gate (R-SAFE-1, R-SAFE-2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import (
    ClassPolicy,
    Decision,
    DecisionKind,
    PolicyDocument,
    RetryPolicy,
    WaitPolicy,
    evaluate,
    retry_delay,
)
from kandev_routing_sdk.types import Code, Confidence, Delivery, ErrorClass, Phase

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLEAN = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
NOT_SENT = Effects(delivery=Delivery.NOT_SENT, complete=True)
DAY = timedelta(days=1)


def failure(code: Code = Code.PROVIDER_OVERLOADED, **changes: Any) -> Classification:
    row = CODES[code]
    values: dict[str, Any] = {
        "code": code,
        "error_class": row.error_class,
        "confidence": Confidence.HIGH,
        "scope": row.scope,
        "classifier_rule": "test.1",
        "catalogue_version": "7",
        "phase": Phase.PROMPT_SEND,
        "occurred_at": NOW,
    }
    return Classification(**(values | changes))


def retries(n: int = 3, first: int = 5) -> RetryPolicy:
    return RetryPolicy(enabled=True, max_retries=n, initial_interval_seconds=first)


def wait(seconds: int = 300) -> WaitPolicy:
    return WaitPolicy(enabled=True, max_wait_seconds=seconds)


def both(**changes: Any) -> PolicyDocument:
    policy = ClassPolicy(**changes)
    return PolicyDocument(transient=policy, hard=policy)


def decide(policy: PolicyDocument, classification: Classification, **changes: Any) -> Decision:
    arguments: dict[str, Any] = {"effects": CLEAN, "retries_used": 0, "reset_wait_used": False, "now": NOW}
    return evaluate(policy, classification, **(arguments | changes))


def test_the_default_policy_skips_at_once_and_says_why() -> None:
    """R-POL-2: retry off, wait off, skip."""
    decision = decide(PolicyDocument(), failure())
    assert DecisionKind.SKIP == decision.kind
    assert ("wait_for_reset: disabled", "retry: disabled") == decision.because
    assert (None, None, None) == (decision.ordinal, decision.deadline, decision.pending_outcome)
    assert (ErrorClass.TRANSIENT, Code.PROVIDER_OVERLOADED, "7") == (
        decision.error_class,
        decision.code,
        decision.catalogue_version,
    )
    assert ClassPolicy() == decision.policy


def test_an_exhausted_stop_stops() -> None:
    assert DecisionKind.STOP == decide(both(on_exhausted="stop"), failure()).kind


def test_each_class_has_its_own_policy() -> None:
    policy = PolicyDocument(transient=ClassPolicy(on_exhausted="stop"), hard=ClassPolicy(on_exhausted="skip"))
    assert DecisionKind.STOP == decide(policy, failure(Code.RATE_LIMITED)).kind
    assert DecisionKind.SKIP == decide(policy, failure(Code.QUOTA_LIMITED)).kind


@pytest.mark.parametrize(("used", "seconds"), [(0, 5), (1, 10), (2, 20), (3, 40), (9, 2560)], ids=str)
def test_retry_n_waits_twice_as_long_as_the_one_before(used: int, seconds: int) -> None:
    """R-POL-3: ordinal n waits initial · 2^(n-1)."""
    decision = decide(both(retry=retries(10)), failure(), retries_used=used)
    assert (DecisionKind.RETRY, used + 1, NOW + timedelta(seconds=seconds), "skip") == (
        decision.kind,
        decision.ordinal,
        decision.deadline,
        decision.pending_outcome,
    )
    assert ("wait_for_reset: disabled",) == decision.because


def test_no_delay_is_longer_than_a_day() -> None:
    """R-POL-2."""
    assert DAY == retry_delay(retries(10, 3600), 10)
    assert timedelta(hours=16) == retry_delay(retries(10, 3600), 5)


def test_a_used_budget_takes_the_exhausted_outcome() -> None:
    decision = decide(both(retry=retries(3)), failure(), retries_used=3)
    assert DecisionKind.SKIP == decision.kind
    assert ("wait_for_reset: disabled", "retry: budget of 3 used") == decision.because


def test_a_person_may_have_gone_beyond_the_budget() -> None:
    """State machine: a manual retry beyond the budget that fails takes the exhausted outcome."""
    assert DecisionKind.SKIP == decide(both(retry=retries(3)), failure(), retries_used=4).kind


@pytest.mark.parametrize(
    "hint",
    [{"reset_at": NOW + timedelta(seconds=300)}, {"retry_after": timedelta(seconds=300)}],
    ids=["reset", "after"],
)
def test_a_named_reset_within_the_maximum_is_waited_for(hint: dict[str, Any]) -> None:
    decision = decide(both(wait_for_reset=wait(300), retry=retries()), failure(Code.QUOTA_LIMITED, **hint))
    assert (DecisionKind.WAIT, NOW + timedelta(seconds=300), None, "skip", ()) == (
        decision.kind,
        decision.deadline,
        decision.ordinal,
        decision.pending_outcome,
        decision.because,
    )


@pytest.mark.parametrize(
    ("hint", "used", "because"),
    [
        ({"reset_at": NOW + timedelta(seconds=301)}, False, "reset is beyond max_wait_seconds"),
        ({"reset_at": NOW}, False, "reset is already past"),
        ({}, False, "no reset time is known"),
        ({"reset_at": NOW + timedelta(seconds=10)}, True, "already used in this round"),
    ],
)
def test_a_reset_that_may_not_be_waited_for_is_not_shortened(hint: dict[str, Any], used: bool, because: str) -> None:
    """R-POL-3: beyond the maximum it is neither waited for nor shortened; each candidate and class waits once a round."""
    decision = decide(both(wait_for_reset=wait(300)), failure(Code.QUOTA_LIMITED, **hint), reset_wait_used=used)
    assert DecisionKind.SKIP == decision.kind
    assert (f"wait_for_reset: {because}", "retry: disabled") == decision.because


def test_waiting_does_not_consume_the_retry_budget() -> None:
    """R-POL-3."""
    policy = both(wait_for_reset=wait(300), retry=retries(1))
    quota = failure(Code.QUOTA_LIMITED, reset_at=NOW + timedelta(seconds=60))
    first = decide(policy, quota)
    second = decide(policy, quota, reset_wait_used=True)
    assert (DecisionKind.WAIT, DecisionKind.RETRY, 1) == (first.kind, second.kind, second.ordinal)


@pytest.mark.parametrize(
    ("after", "wait_policy", "delay"),
    [
        (timedelta(seconds=30), WaitPolicy(), timedelta(seconds=30)),
        (timedelta(seconds=2), WaitPolicy(), timedelta(seconds=5)),
        (DAY, WaitPolicy(), DAY),
        (DAY + timedelta(seconds=1), WaitPolicy(), timedelta(seconds=5)),
        (timedelta(seconds=301), wait(300), timedelta(seconds=5)),
    ],
    ids=["longer", "shorter", "a day", "more than a day", "beyond the enabled wait"],
)
def test_a_retry_after_that_is_not_waited_for_is_a_lower_bound(
    after: timedelta, wait_policy: WaitPolicy, delay: timedelta
) -> None:
    """R-POL-4."""
    decision = decide(both(retry=retries(), wait_for_reset=wait_policy), failure(retry_after=after))
    assert (DecisionKind.RETRY, NOW + delay) == (decision.kind, decision.deadline)


@pytest.mark.parametrize("seconds", [200, 300])
def test_a_used_wait_leaves_its_hint_as_a_lower_bound(seconds: int) -> None:
    """R-POL-4: the hint is within the enabled maximum, only the one wait is spent."""
    policy = both(retry=retries(), wait_for_reset=wait(300))
    decision = decide(policy, failure(retry_after=timedelta(seconds=seconds)), reset_wait_used=True)
    assert NOW + timedelta(seconds=seconds) == decision.deadline


def test_a_retry_after_counts_from_when_it_was_said() -> None:
    said = failure(retry_after=timedelta(seconds=60), occurred_at=NOW - timedelta(seconds=20))
    assert NOW + timedelta(seconds=40) == decide(both(retry=retries()), said).deadline


def test_a_reset_time_is_no_lower_bound() -> None:
    """R-POL-4 speaks of retry_after only: a far reset does not hold up a retry that the policy asked for."""
    far = failure(Code.QUOTA_LIMITED, reset_at=NOW + timedelta(hours=5))
    assert NOW + timedelta(seconds=5) == decide(both(retry=retries()), far).deadline


@pytest.mark.parametrize(
    ("classification", "changes", "because"),
    [
        (failure(), {"stale": True}, "the evidence is stale"),
        (failure(Code.TASK_ERROR), {}, "the failure is unclassified"),
        (failure(), {"effects": None}, "nothing is known of the effects"),
        (failure(), {"effects": CLEAN.model_copy(update={"output": True})}, "output was seen"),
        (failure(), {"effects": CLEAN.model_copy(update={"thinking": True})}, "thinking was seen"),
        (failure(), {"effects": CLEAN.model_copy(update={"tool_call": True})}, "a tool was called"),
        (failure(), {"effects": CLEAN.model_copy(update={"complete": False})}, "observation was incomplete"),
        (failure(confidence=Confidence.MEDIUM), {}, "confidence is medium"),
        (
            failure(Code.AGENT_TRANSPORT_LOST),
            {},
            "the agent was lost after the prompt may have been sent",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_the_gate_refuses_stops_for_a_person(
    classification: Classification, changes: dict[str, Any], because: str
) -> None:
    """R-POL-3 (a), R-POL-8, R-SAFE-1: no policy overrides it."""
    decision = decide(both(retry=retries(), wait_for_reset=wait()), classification, **changes)
    assert DecisionKind.STOP == decision.kind
    assert (f"gate: {because}",) == decision.because


def test_a_lost_transport_is_automatic_while_nothing_was_sent() -> None:
    """R-CLS-2."""
    lost = failure(Code.AGENT_TRANSPORT_LOST)
    assert DecisionKind.RETRY == decide(both(retry=retries()), lost, effects=NOT_SENT).kind


def test_an_unclassified_failure_has_no_policy() -> None:
    assert decide(both(), failure(Code.UNKNOWN_PROVIDER_ERROR)).policy is None


def test_a_resume_guarantee_is_good_for_the_same_candidate_only() -> None:
    """R-SAFE-2: it stands in for "no output", but nobody else may go on after output."""
    seen = CLEAN.model_copy(update={"output": True})
    policy = both(retry=retries(1))
    again = decide(policy, failure(), effects=seen, resume_guarantee=True)
    assert (DecisionKind.RETRY, "stop") == (again.kind, again.pending_outcome)
    spent = decide(policy, failure(), effects=seen, resume_guarantee=True, retries_used=1)
    assert DecisionKind.STOP == spent.kind
    assert "skip: output was seen, and the resume guarantee is this candidate's only" == spent.because[-1]
    stopping = decide(both(on_exhausted="stop"), failure(), effects=seen, resume_guarantee=True)
    assert (DecisionKind.STOP, ("wait_for_reset: disabled", "retry: disabled")) == (stopping.kind, stopping.because)


def test_a_resume_guarantee_is_no_guarantee_about_tools() -> None:
    ran = CLEAN.model_copy(update={"tool_effect": True})
    assert DecisionKind.STOP == decide(both(retry=retries()), failure(), effects=ran, resume_guarantee=True).kind


def test_a_decision_survives_storage() -> None:
    """R-POL-6: everything a person is shown comes from the stored value."""
    decision = decide(both(retry=retries()), failure())
    assert decision == Decision.model_validate_json(decision.model_dump_json())


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "wait"},
        {"kind": "skip", "deadline": NOW},
        {"kind": "stop", "pending_outcome": "skip"},
        {"kind": "retry", "deadline": NOW, "pending_outcome": "skip"},
        {"kind": "wait", "deadline": NOW, "pending_outcome": "skip", "ordinal": 1},
    ],
)
def test_a_decision_cannot_contradict_itself(changes: dict[str, Any]) -> None:
    base = {"error_class": "hard", "code": "quota_limited", "catalogue_version": "7"}
    with pytest.raises(ValidationError, match="belong"):
        Decision.model_validate(base | changes)


# --- properties ---

_retry = st.one_of(
    st.just(RetryPolicy()),
    st.builds(retries, st.integers(min_value=1, max_value=10), st.integers(min_value=1, max_value=3600)),
)
_wait = st.one_of(st.just(WaitPolicy()), st.builds(wait, st.integers(min_value=1, max_value=604_800)))
_class_policy = st.builds(
    ClassPolicy, retry=_retry, wait_for_reset=_wait, on_exhausted=st.sampled_from(["skip", "stop"])
)
_documents = st.builds(PolicyDocument, transient=_class_policy, hard=_class_policy)
_span = st.none() | st.integers(min_value=-100_000, max_value=2_678_400).map(lambda s: timedelta(seconds=s))
_effects = st.none() | st.builds(
    Effects,
    delivery=st.sampled_from(Delivery),
    output=st.booleans(),
    thinking=st.booleans(),
    tool_call=st.booleans(),
    tool_effect=st.booleans(),
    complete=st.booleans(),
)


@st.composite
def _failures(draw: st.DrawFn) -> Classification:
    reset = draw(_span)
    return failure(
        draw(st.sampled_from(Code)),
        confidence=draw(st.sampled_from(Confidence)),
        retry_after=draw(_span),
        reset_at=None if reset is None else NOW + reset,
        occurred_at=draw(st.sampled_from([None, NOW, NOW - timedelta(minutes=3)])),
    )


_circumstances = st.fixed_dictionaries(
    {
        "effects": _effects,
        "retries_used": st.integers(min_value=0, max_value=12),
        "reset_wait_used": st.booleans(),
        "stale": st.booleans(),
        "resume_guarantee": st.booleans(),
    }
)


@given(policy=_documents, classification=_failures(), given_=_circumstances)
def test_whatever_is_decided_is_allowed(
    policy: PolicyDocument, classification: Classification, given_: dict[str, Any]
) -> None:
    """R-POL-8: no document, however odd, gets past the gate or the bounds. Checked against the rules written out once more."""
    decision = evaluate(policy, classification, now=NOW, **given_)
    effects, used = given_["effects"], given_["retries_used"]
    mine = policy.for_class(classification.error_class)
    if decision.kind is not DecisionKind.STOP:
        assert mine is not None
        assert not given_["stale"]
        assert effects is not None
        assert effects.complete
        assert not effects.tool_call
        assert not effects.tool_effect
        assert effects.delivery in {Delivery.NOT_SENT, Delivery.ACKNOWLEDGED}
        assert not (effects.output or effects.thinking) or (
            given_["resume_guarantee"] and decision.kind is not DecisionKind.SKIP
        )
        assert classification.confidence is Confidence.HIGH or (
            classification.confidence is Confidence.MEDIUM and effects.delivery is Delivery.NOT_SENT
        )
    match decision.kind:
        case DecisionKind.WAIT:
            assert mine is not None
            assert mine.wait_for_reset.enabled
            assert not given_["reset_wait_used"]
            assert decision.deadline is not None
            assert NOW < decision.deadline <= NOW + timedelta(seconds=mine.wait_for_reset.max_wait_seconds)
        case DecisionKind.RETRY:
            assert mine is not None
            assert decision.deadline is not None
            assert used < mine.retry.max_retries
            assert used + 1 == decision.ordinal
            assert retry_delay(mine.retry, used + 1) <= decision.deadline - NOW <= DAY
        case DecisionKind.SKIP:
            assert mine is not None
            assert "skip" == mine.on_exhausted
        case DecisionKind.STOP:
            assert decision.because


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="retries_used must not be negative, got -1"):
        decide(both(), failure(), retries_used=-1)


def test_what_a_code_means_is_not_for_its_maker_to_say() -> None:
    """R-CLS-2: a host's own classification that calls a task's error transient authorises nothing."""
    assert DecisionKind.STOP is decide(both(), failure(Code.TASK_ERROR, error_class=ErrorClass.TRANSIENT)).kind

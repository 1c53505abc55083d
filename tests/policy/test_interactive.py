"""A concrete profile with a person watching (R-POL-7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.policy import Context, DecisionKind, Offer
from kandev_routing_sdk.policy.interactive import interactive
from kandev_routing_sdk.types import Code, Confidence, ErrorClass
from tests.policy._contexts import CLEAN, NOT_SENT, NOW, STATES, ask, failure, seconds

INTERACTIVE = Context.INTERACTIVE
FIRST = [(0, 5), (1, 10), (2, 20), (3, 40), (4, 60)]
_uniform = st.floats(min_value=0, max_value=1, exclude_max=True)
_transient = st.sampled_from(
    [Code.NETWORK_UNAVAILABLE, Code.PROVIDER_UNAVAILABLE, Code.PROVIDER_OVERLOADED, Code.MODEL_CAPACITY]
)


@pytest.mark.parametrize(("used", "delay"), FIRST, ids=str)
def test_the_same_profile_is_tried_five_times(used: int, delay: int) -> None:
    decision = ask(INTERACTIVE, failure(), retries_used=used)
    assert (DecisionKind.RETRY, used + 1, 5, NOW + seconds(delay), "stop") == (
        decision.kind,
        decision.ordinal,
        decision.maximum,
        decision.deadline,
        decision.pending_outcome,
    )
    assert (Offer.RETRY_NOW, Offer.CANCEL_WAIT) == decision.offers
    assert (None, None, ()) == (decision.policy, decision.health, decision.because)


@pytest.mark.parametrize("used", [5, 6, 100])
def test_exhausted_it_offers_to_resume_and_to_start_fresh(used: int) -> None:
    """R-POL-7. A person may have gone beyond the budget."""
    decision = ask(INTERACTIVE, failure(), retries_used=used)
    assert (DecisionKind.STOP, (Offer.RESUME, Offer.START_FRESH)) == (decision.kind, decision.offers)
    assert ("retry: budget of 5 used",) == decision.because
    assert (None, None, None, None) == (
        decision.ordinal,
        decision.maximum,
        decision.deadline,
        decision.pending_outcome,
    )


@pytest.mark.parametrize("confidence", [Confidence.MEDIUM, Confidence.LOW])
@pytest.mark.parametrize("effects", [NOT_SENT, CLEAN], ids=["not sent", "clean"])
def test_only_high_confidence_will_do(confidence: Confidence, effects: Any) -> None:
    """R-POL-7: not even medium while nothing was sent, which R-SAFE-1 would let through."""
    decision = ask(INTERACTIVE, failure(confidence=confidence), effects=effects)
    assert (DecisionKind.STOP, (f"gate: confidence is {confidence}",)) == (decision.kind, decision.because)


def test_stale_evidence_authorises_nothing() -> None:
    """R-EVI-4."""
    decision = ask(INTERACTIVE, failure(), effects=NOT_SENT, stale=True)
    assert (DecisionKind.STOP, ("gate: the evidence is stale",)) == (decision.kind, decision.because)


@pytest.mark.parametrize(
    ("hint", "because"),
    [
        ({}, "no hint says that this throttle is a short one"),
        ({"retry_after": timedelta(0)}, "no hint says that this throttle is a short one"),
        ({"retry_after": seconds(-5)}, "no hint says that this throttle is a short one"),
        ({"reset_at": NOW - seconds(1)}, "no hint says that this throttle is a short one"),
        ({"retry_after": timedelta(days=31, seconds=1)}, "no hint says that this throttle is a short one"),
        ({"reset_at": NOW + timedelta(days=32)}, "no hint says that this throttle is a short one"),
        ({"retry_after": timedelta(days=31)}, "the throttle lasts more than 60 s"),
        ({"retry_after": seconds(60.001)}, "the throttle lasts more than 60 s"),
        ({"reset_at": NOW + seconds(61)}, "the throttle lasts more than 60 s"),
    ],
    ids=str,
)
def test_a_throttle_that_is_not_known_to_be_short_is_shown(hint: dict[str, Any], because: str) -> None:
    decision = ask(INTERACTIVE, failure(Code.RATE_LIMITED, **hint))
    assert (DecisionKind.STOP, (f"retry: {because}",)) == (decision.kind, decision.because)


@pytest.mark.parametrize(
    "hint",
    [
        {"retry_after": seconds(1)},
        {"retry_after": seconds(60)},
        {"reset_at": NOW + seconds(60)},
        {"reset_at": NOW - seconds(60), "retry_after": seconds(20)},
        {"reset_at": NOW + timedelta(days=400), "retry_after": seconds(20)},
        # said ten minutes ago, a moment is left of it
        {"reset_at": NOW + seconds(3), "occurred_at": NOW - timedelta(minutes=10)},
        # its second passed while the agent was drained
        {"retry_after": seconds(1), "occurred_at": NOW - seconds(2)},
        {"retry_after": seconds(30), "occurred_at": None},
    ],
    ids=str,
)
def test_a_short_throttle_is_retried(hint: dict[str, Any]) -> None:
    assert DecisionKind.RETRY is ask(INTERACTIVE, failure(Code.RATE_LIMITED, **hint)).kind


@pytest.mark.parametrize(
    ("hint", "used", "delay"),
    [
        ({"retry_after": seconds(30)}, 0, 30.5),
        ({"reset_at": NOW + seconds(30)}, 0, 30.5),
        ({"retry_after": seconds(30), "occurred_at": NOW - seconds(10)}, 0, 20.5),
        ({"retry_after": seconds(2)}, 0, 5),
        ({"retry_after": seconds(30)}, 3, 40),
        ({"retry_after": seconds(60)}, 4, 66),
    ],
    ids=str,
)
def test_a_short_hint_is_a_lower_bound(hint: dict[str, Any], used: int, delay: float) -> None:
    """Those who wait for the same moment come after it, half of their spread later in this case."""
    decision = ask(INTERACTIVE, failure(**hint), retries_used=used)
    assert (NOW + seconds(delay), ()) == (decision.deadline, decision.because)


def test_a_long_hint_binds_no_transient_but_is_mentioned() -> None:
    decision = ask(INTERACTIVE, failure(retry_after=timedelta(hours=1)))
    assert (NOW + seconds(5), ("hint: more than 60 s away, so no lower bound",)) == (
        decision.deadline,
        decision.because,
    )


@pytest.mark.parametrize("code", [c for c in Code if failure(c).error_class is ErrorClass.HARD])
def test_a_hard_error_is_shown_with_its_remedy(code: Code) -> None:
    decision = ask(INTERACTIVE, failure(code, retry_after=seconds(5)), effects=NOT_SENT)
    assert ("retry: a hard failure is shown, never replayed",) == decision.because
    assert (DecisionKind.STOP, (Offer.REMEDY, Offer.RESUME, Offer.START_FRESH)) == (decision.kind, decision.offers)


def test_a_code_outranks_a_class_that_does_not_fit_it() -> None:
    """A host's own classification may contradict itself; the code is what the table is about."""
    odd = failure(Code.TASK_ERROR, error_class=ErrorClass.TRANSIENT)
    assert ("gate: the failure is unclassified",) == ask(INTERACTIVE, odd).because


def test_a_resume_guarantee_stands_in_for_no_output() -> None:
    """R-SAFE-2: for output and thinking, on the same profile, which is the only one here."""
    for state in ("o", "t"):
        decision = ask(INTERACTIVE, failure(), effects=STATES[state], resume_guarantee=True)
        assert (DecisionKind.RETRY, "stop") == (decision.kind, decision.pending_outcome)
    for state in ("k", "e", "i", "s", "?", "-"):
        assert DecisionKind.STOP is ask(INTERACTIVE, failure(), effects=STATES[state], resume_guarantee=True).kind
    hard = ask(INTERACTIVE, failure(Code.QUOTA_LIMITED), effects=STATES["o"], resume_guarantee=True)
    assert DecisionKind.STOP is hard.kind


@given(code=_transient, used=st.integers(min_value=0, max_value=4), uniform=_uniform)
def test_jitter_stays_within_a_fifth(code: Code, used: int, uniform: float) -> None:
    delay = dict(FIRST)[used]
    deadline = ask(INTERACTIVE, failure(code), retries_used=used, uniform=uniform).deadline
    assert deadline is not None
    assert 0.8 * delay <= (deadline - NOW).total_seconds() <= 1.2 * delay


@given(uniforms=st.lists(_uniform, min_size=5, max_size=5))
def test_no_retry_waits_less_long_than_the_one_before_it(uniforms: list[float]) -> None:
    deadlines = [
        interactive(failure(), effects=CLEAN, retries_used=used, now=NOW, uniform=uniform).deadline or NOW
        for used, uniform in enumerate(uniforms)
    ]
    assert sorted(deadlines) == deadlines


@given(
    used=st.integers(min_value=0, max_value=4),
    uniform=_uniform,
    hint=st.floats(min_value=0.001, max_value=60),
    ago=st.floats(min_value=0, max_value=120),
)
def test_no_retry_comes_before_a_short_hint_nor_long_after_it(
    used: int, uniform: float, hint: float, ago: float
) -> None:
    said = failure(Code.RATE_LIMITED, retry_after=seconds(hint), occurred_at=NOW - seconds(ago))
    deadline = ask(INTERACTIVE, said, retries_used=used, uniform=uniform).deadline
    due = said.due_at(NOW)
    assert deadline is not None
    assert due is not None
    spread = seconds(0.2 * dict(FIRST)[used])
    assert max(due, NOW + seconds(dict(FIRST)[used]) - spread) <= deadline
    assert deadline <= max(due, NOW + seconds(dict(FIRST)[used])) + spread

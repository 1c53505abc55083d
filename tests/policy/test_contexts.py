"""What holds in every execution context (R-POL-6 to R-POL-8, R-SAFE-1), whatever the input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import (
    ClassPolicy,
    Context,
    Decision,
    DecisionKind,
    HealthMark,
    Offer,
    PolicyDocument,
    RetryPolicy,
    WaitPolicy,
    dynamic,
    evaluate,
    interactive,
    unattended,
)
from kandev_routing_sdk.policy.offers import offers
from kandev_routing_sdk.types import Code, Confidence, Delivery, ErrorClass, Phase, Scope
from tests.policy._contexts import NOW, ask, failure

_retry = st.just(RetryPolicy()) | st.builds(
    RetryPolicy,
    enabled=st.just(True),
    max_retries=st.integers(min_value=1, max_value=10),
    initial_interval_seconds=st.integers(min_value=1, max_value=3600),
)
_wait = st.just(WaitPolicy()) | st.builds(
    WaitPolicy,
    enabled=st.just(True),
    max_wait_seconds=st.integers(min_value=1, max_value=604_800),
)
_policy = st.builds(ClassPolicy, retry=_retry, wait_for_reset=_wait, on_exhausted=st.sampled_from(["skip", "stop"]))
_documents = st.builds(PolicyDocument, transient=_policy, hard=_policy)
_marks = st.booleans()
_effects = st.none() | st.builds(
    Effects,
    delivery=st.sampled_from(Delivery),
    output=_marks,
    thinking=_marks,
    tool_call=_marks,
    tool_effect=_marks,
    complete=st.sampled_from([True, True, False]),
)
_span = st.none() | st.integers(min_value=-5000, max_value=3_000_000).map(lambda s: timedelta(seconds=s))
_near = st.none() | st.integers(min_value=-120, max_value=120).map(lambda s: timedelta(seconds=s))
_times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # bounds are naive


@st.composite
def _failures(draw: st.DrawFn, now: datetime) -> Classification:
    """Any, classes that do not fit their code included: a host may bring its own."""
    code, reset, ago = draw(st.sampled_from(Code)), draw(_span | _near), draw(_near)
    return failure(
        code,
        error_class=draw(st.sampled_from([failure(code).error_class, *ErrorClass])),
        confidence=draw(st.sampled_from([Confidence.HIGH, *Confidence])),
        scope=draw(st.sampled_from(Scope)),
        phase=draw(st.sampled_from(Phase)),
        retry_after=draw(_span | _near),
        reset_at=None if reset is None else now + reset,
        occurred_at=None if ago is None else now - ago,
    )


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Decision, Classification, Effects | None, dict[str, Any]]:
    now = draw(_times)
    classification, effects = draw(_failures(now)), draw(_effects)
    given_: dict[str, Any] = {"retries_used": draw(st.integers(min_value=0, max_value=12)), "now": now}
    given_["stale"] = draw(st.sampled_from([False, False, True]))
    uniform = draw(st.floats(min_value=0, max_value=1, exclude_max=True))
    guaranteed = draw(st.booleans())
    context = draw(st.sampled_from(Context))
    match context:
        case Context.DYNAMIC:
            decision = dynamic(
                draw(_documents),
                classification,
                effects=effects,
                reset_wait_used=draw(st.booleans()),
                resume_guarantee=guaranteed,
                **given_,
            )
        case Context.INTERACTIVE:
            decision = interactive(
                classification, effects=effects, uniform=uniform, resume_guarantee=guaranteed, **given_
            )
        case Context.UNATTENDED:
            guaranteed = False
            decision = unattended(
                classification, effects=effects, uniform=uniform, alternative=draw(st.booleans()), **given_
            )
    assert context is decision.context
    return decision, classification, effects, given_ | {"guaranteed": guaranteed}


@given(case=_cases())
def test_nothing_automatic_ever_follows_an_effect(
    case: tuple[Decision, Classification, Effects | None, dict[str, Any]],
) -> None:
    """R-SAFE-1 and R-SAFE-2, written out once more. The one exception of R-POL-7 is spelt out, too."""
    decision, classification, effects, given_ = case
    if decision.kind is DecisionKind.STOP:
        assert decision.because
        return
    assert not given_["stale"]
    assert effects is not None
    assert effects.complete
    assert not effects.tool_call
    assert not effects.tool_effect
    assert effects.delivery in {Delivery.NOT_SENT, Delivery.ACKNOWLEDGED}
    same = decision.kind in {DecisionKind.RETRY, DecisionKind.WAIT}
    assert not (effects.output or effects.thinking) or (given_["guaranteed"] and same)
    not_sent = effects.delivery is Delivery.NOT_SENT
    assert not_sent or classification.code is not Code.AGENT_TRANSPORT_LOST
    unknown = classification.error_class is ErrorClass.UNCLASSIFIED or classification.confidence is Confidence.LOW
    before = classification.phase in {Phase.AUTH_CHECK, Phase.PROCESS_START, Phase.SESSION_INIT}
    if unknown or (
        decision.context is Context.UNATTENDED
        and classification.code in {Code.UNKNOWN_PROVIDER_ERROR, Code.AGENT_RUNTIME_ERROR}
    ):
        assert decision.context is Context.UNATTENDED
        assert decision.kind is DecisionKind.SKIP
        assert not_sent
        assert before
    else:
        assert classification.confidence is Confidence.HIGH or (
            classification.confidence is Confidence.MEDIUM and not_sent and decision.context is not Context.INTERACTIVE
        )


@given(case=_cases())
def test_whatever_is_decided_is_within_its_context(
    case: tuple[Decision, Classification, Effects | None, dict[str, Any]],
) -> None:
    decision, classification, _, given_ = case
    assert (classification.code, classification.error_class) == (decision.code, decision.error_class)
    if decision.deadline is not None:
        assert UTC is decision.deadline.tzinfo
        assert given_["now"] < decision.deadline
    if decision.kind is DecisionKind.RETRY:
        assert decision.ordinal is not None
        assert decision.maximum is not None
        assert given_["retries_used"] + 1 == decision.ordinal <= decision.maximum
    match decision.context:
        case Context.INTERACTIVE:
            assert decision.kind in {DecisionKind.RETRY, DecisionKind.STOP}
            assert decision.kind is DecisionKind.STOP or "hard" != CLASSES[decision.code]
            assert decision.deadline is None or decision.deadline - given_["now"] <= timedelta(seconds=72)
        case Context.UNATTENDED:
            assert decision.kind is not DecisionKind.WAIT
            assert decision.deadline is None or decision.deadline - given_["now"] <= timedelta(seconds=64)
            short = decision.health is not None and decision.health.mark is HealthMark.SHORT_RETRY
            assert not short or decision.kind is DecisionKind.RETRY
            assert decision.health is None or Confidence.LOW is not classification.confidence
        case Context.DYNAMIC:
            assert decision.health is None


CLASSES = {code: failure(code).error_class.value for code in Code}


@given(case=_cases())
def test_every_answer_survives_storage(
    case: tuple[Decision, Classification, Effects | None, dict[str, Any]],
) -> None:
    """R-POL-6: everything a person is shown comes from the stored value."""
    assert case[0] == Decision.model_validate_json(case[0].model_dump_json())


def test_an_answer_from_before_the_contexts_is_read_as_what_it_was() -> None:
    """Rows are stored as JSON; those written earlier know no context, offers or maximum."""
    old = '{"kind": "skip", "error_class": "hard", "code": "quota_limited", "catalogue_version": "1", "because": []}'
    decision = Decision.model_validate_json(old)
    assert (Context.DYNAMIC, (), None) == (decision.context, decision.offers, decision.health)


def test_dynamic_is_the_evaluator() -> None:
    assert evaluate is dynamic
    decision = ask(Context.DYNAMIC, failure())
    assert (3, (Offer.RETRY_NOW, Offer.SKIP_NOW, Offer.CANCEL_WAIT)) == (decision.maximum, decision.offers)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "stop", "maximum": 3},
        {"kind": "retry", "ordinal": 1, "maximum": 0, "deadline": NOW, "pending_outcome": "stop"},
        {"kind": "stop", "health": {"mark": "degraded", "scope": "provider"}},
        {"kind": "stop", "context": "interactive", "health": {"mark": "degraded", "scope": "provider"}},
    ],
    ids=str,
)
def test_an_answer_cannot_contradict_itself(changes: dict[str, Any]) -> None:
    base = {"error_class": "hard", "code": "quota_limited", "catalogue_version": "7"}
    with pytest.raises(ValidationError):
        Decision.model_validate(base | changes)


# Time -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", list(Context))
@pytest.mark.parametrize(
    "wall",
    [
        datetime(2026, 3, 29, 0, 59, 58, tzinfo=ZoneInfo("Europe/London")),
        datetime(2026, 10, 25, 1, 59, 58, fold=0, tzinfo=ZoneInfo("Europe/London")),
        datetime(2026, 3, 1, 17, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ],
    ids=["clocks go forward", "clocks go back", "half an hour off"],
)
def test_five_seconds_are_five_seconds_wherever_now_was_read(context: Context, wall: datetime) -> None:
    """Adding to a local time may add or lose an hour."""
    now = wall.astimezone(UTC)
    deadline = ask(context, failure(occurred_at=now), now=wall).deadline
    assert deadline is not None
    assert (now + timedelta(seconds=5), UTC) == (deadline, deadline.tzinfo)


@pytest.mark.parametrize("context", list(Context))
@pytest.mark.parametrize("code", [Code.PROVIDER_OVERLOADED, Code.TASK_ERROR])
def test_a_naive_time_is_refused(context: Context, code: Code) -> None:
    """Whatever the answer would be: it would mean another moment on each machine."""
    with pytest.raises(ValueError, match="now must be an aware time"):
        ask(context, failure(code), now=datetime(2026, 3, 1, 12))  # noqa: DTZ001  # on purpose


@pytest.mark.parametrize("context", [Context.INTERACTIVE, Context.UNATTENDED])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"uniform": 1.0}, "uniform must be"),
        ({"uniform": -0.1}, "uniform must be"),
        ({"uniform": float("nan")}, "uniform must be"),
        ({"retries_used": -1}, "retries_used must not be negative"),
    ],
    ids=str,
)
def test_an_impossible_argument_is_refused(context: Context, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(context, failure(), **wrong)


# What a person is offered -----------------------------------------------------------------------------------------------

RETRY_NOW, SKIP_NOW, RESUME, FRESH, REMEDY = (
    Offer.RETRY_NOW,
    Offer.SKIP_NOW,
    Offer.RESUME,
    Offer.START_FRESH,
    Offer.REMEDY,
)
AGAIN: dict[Context, tuple[Offer, ...]] = {
    Context.DYNAMIC: (RETRY_NOW, SKIP_NOW),
    Context.INTERACTIVE: (RESUME, FRESH),
    Context.UNATTENDED: (RETRY_NOW, SKIP_NOW),
}
ODD: dict[Code, dict[Context, tuple[Offer, ...]]] = {
    **{
        code: AGAIN | {Context.UNATTENDED: (RETRY_NOW,)}
        for code in (Code.TASK_ERROR, Code.REPO_ERROR, Code.PERMISSION_DENIED_BY_USER)
    },
    **{
        code: AGAIN | {Context.INTERACTIVE: (FRESH,), Context.UNATTENDED: (RETRY_NOW,)}
        for code in (Code.RESUME_CORRUPTED, Code.CONTEXT_EXHAUSTED)
    },
    Code.CONTENT_REFUSED: {Context.DYNAMIC: (SKIP_NOW,), Context.INTERACTIVE: (), Context.UNATTENDED: ()},
    Code.CANCELLED: dict.fromkeys(Context, ()),
}


@pytest.mark.parametrize("context", list(Context))
@pytest.mark.parametrize("code", list(Code))
def test_when_a_person_decides_each_code_has_its_offers(context: Context, code: Code) -> None:
    hard = CLASSES[code] == "hard"
    wanted = ODD.get(code, AGAIN)[context]
    assert ((REMEDY, *wanted) if hard else wanted) == offers(context, DecisionKind.STOP, code)


@pytest.mark.parametrize("context", list(Context))
@pytest.mark.parametrize("code", list(Code))
def test_while_something_else_goes_on_only_a_remedy_is_worth_saying(context: Context, code: Code) -> None:
    wanted = (REMEDY,) if CLASSES[code] == "hard" else ()
    assert wanted == offers(context, DecisionKind.SKIP, code)


@pytest.mark.parametrize("kind", [DecisionKind.RETRY, DecisionKind.WAIT])
def test_a_pending_try_can_be_hurried_or_called_off(kind: DecisionKind) -> None:
    assert {
        Context.DYNAMIC: (RETRY_NOW, SKIP_NOW, Offer.CANCEL_WAIT),
        Context.INTERACTIVE: (RETRY_NOW, Offer.CANCEL_WAIT),
        Context.UNATTENDED: (RETRY_NOW, SKIP_NOW),
    } == {context: offers(context, kind, Code.PROVIDER_OVERLOADED) for context in Context}

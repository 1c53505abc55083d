"""The interactive context (R-POL-7): a concrete profile, and a person who watches.

The same profile, or nobody. It is tried again for short troubles that were proven, at most five times in a good two minutes;
everything else is shown.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto
from typing import Final, assert_never

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy.decision import Context, Decision, DecisionKind
from kandev_routing_sdk.policy.offers import offers
from kandev_routing_sdk.policy.pace import checked, hinted, is_short, retry_time
from kandev_routing_sdk.types import Code, Confidence

INTERACTIVE_SECONDS: Final = (5, 10, 20, 40, 60)
"""Nominal delay of each retry."""


class _Treatment(Enum):
    RETRY = auto()
    RETRY_IF_SHORT = auto()
    SHOW = auto()
    BY_HAND = auto()


def interactive(
    classification: Classification,
    *,
    effects: Effects | None,
    retries_used: int,
    now: datetime,
    uniform: float,
    stale: bool = False,
    resume_guarantee: bool = False,
) -> Decision:
    """Decide what follows a failure of a concrete profile's session: ``retry`` or ``stop``, nothing else.

    Args:
        classification: what the failure was.
        effects: what the prompt may have caused; None (unknown) is unsafe.
        retries_used: retries already taken for this prompt.
        now: aware time.
        uniform: jitter in [0, 1), made by the caller.
        stale: the evidence belongs to another attempt, generation or prompt (R-EVI-4).
        resume_guarantee: the agent resumes this very session without repeating completed work (R-SAFE-2).

    Raises :class:`ValueError` for a naive ``now``, a ``uniform`` out of bounds and negative ``retries_used``.
    """
    now = checked(now, uniform, retries_used)
    refusal = _gate(classification, effects, stale=stale, resume_guarantee=resume_guarantee)
    if refusal is not None:
        return _stop(classification, f"gate: {refusal}")
    due = hinted(classification, now)
    not_retrying = _retry_refusal(classification.code, due, retries_used, now)
    if not_retrying is not None:
        return _stop(classification, f"retry: {not_retrying}")

    return Decision(
        kind=DecisionKind.RETRY,
        context=Context.INTERACTIVE,
        error_class=classification.error_class,
        code=classification.code,
        ordinal=retries_used + 1,
        maximum=len(INTERACTIVE_SECONDS),
        deadline=retry_time(INTERACTIVE_SECONDS[retries_used], due, uniform=uniform, now=now),
        pending_outcome="stop",
        catalogue_version=classification.catalogue_version,
        offers=offers(Context.INTERACTIVE, DecisionKind.RETRY, classification.code),
        because=() if due is None or is_short(due, now) else ("hint: more than 60 s away, so no lower bound",),
    )


def _treatment(code: Code) -> _Treatment:
    match code:
        case (
            Code.NETWORK_UNAVAILABLE
            | Code.PROVIDER_UNAVAILABLE
            | Code.PROVIDER_OVERLOADED
            | Code.MODEL_CAPACITY
            # the gate lets it through only while nothing was sent (R-CLS-2)
            | Code.AGENT_TRANSPORT_LOST
        ):
            return _Treatment.RETRY
        case Code.RATE_LIMITED:
            return _Treatment.RETRY_IF_SHORT
        case (
            Code.QUOTA_LIMITED
            | Code.SUBSCRIPTION_REQUIRED
            | Code.AUTH_REQUIRED
            | Code.MISSING_CREDENTIALS
            | Code.PROVIDER_NOT_CONFIGURED
            | Code.MODEL_UNAVAILABLE
        ):
            return _Treatment.SHOW
        case (
            Code.UNKNOWN_PROVIDER_ERROR
            | Code.AGENT_RUNTIME_ERROR
            | Code.TASK_ERROR
            | Code.REPO_ERROR
            | Code.PERMISSION_DENIED_BY_USER
            | Code.CANCELLED
            | Code.RESUME_CORRUPTED
            | Code.CONTEXT_EXHAUSTED
            | Code.CONTENT_REFUSED
        ):
            return _Treatment.BY_HAND
        case _:
            assert_never(code)


def _gate(
    classification: Classification, effects: Effects | None, *, stale: bool, resume_guarantee: bool
) -> str | None:
    if stale:
        return "the evidence is stale"
    refusal = classification.automatic_refusal(effects, resume_guarantee=resume_guarantee)
    if refusal is None and classification.confidence is not Confidence.HIGH:
        # elsewhere medium is enough while nothing was sent; here a person is there to ask
        return f"confidence is {classification.confidence}"
    return refusal


def _retry_refusal(code: Code, due: datetime | None, used: int, now: datetime) -> str | None:
    match _treatment(code):
        case _Treatment.BY_HAND:
            return f"nothing automatic follows {code}"
        case _Treatment.SHOW:
            return "a hard failure is shown, never replayed"
        case _Treatment.RETRY_IF_SHORT:
            if due is None:
                return "no hint says that this throttle is a short one"
            if not is_short(due, now):
                return "the throttle lasts more than 60 s"
        case _Treatment.RETRY:
            pass
        case treatment:
            assert_never(treatment)
    return f"budget of {len(INTERACTIVE_SECONDS)} used" if used >= len(INTERACTIVE_SECONDS) else None


def _stop(classification: Classification, because: str) -> Decision:
    return Decision(
        kind=DecisionKind.STOP,
        context=Context.INTERACTIVE,
        error_class=classification.error_class,
        code=classification.code,
        catalogue_version=classification.catalogue_version,
        offers=offers(Context.INTERACTIVE, DecisionKind.STOP, classification.code),
        because=(because,),
    )

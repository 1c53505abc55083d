"""What to do after one failure of a dynamic profile's candidate (R-POL-3, R-POL-4, R-POL-6, R-POL-8): the context ``dynamic``.

Always in this order: (a) the gate, (b) wait for a named reset, (c) retry, (d) the exhausted outcome. The answer is a value that
says everything a person is shown.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy.decision import Context, Decision, DecisionKind
from kandev_routing_sdk.policy.document import MAX_DELAY_SECONDS, ClassPolicy, Outcome, PolicyDocument, RetryPolicy
from kandev_routing_sdk.policy.offers import offers
from kandev_routing_sdk.policy.pace import checked

_MAX_DELAY = timedelta(seconds=MAX_DELAY_SECONDS)


def evaluate(
    policy: PolicyDocument,
    classification: Classification,
    *,
    effects: Effects | None,
    retries_used: int,
    reset_wait_used: bool,
    now: datetime,
    stale: bool = False,
    resume_guarantee: bool = False,
) -> Decision:
    """Decide what follows a failure of one candidate.

    Args:
        policy: the candidate's document.
        classification: what the failure was.
        effects: what the prompt may have caused; None (unknown) is unsafe.
        retries_used: retries already taken for this candidate and class in this round.
        reset_wait_used: whether the one reset wait of this candidate, class and round is spent.
        now: aware time.
        stale: the evidence belongs to another attempt, generation or prompt (R-EVI-4).
        resume_guarantee: the agent resumes this very session without repeating completed work (R-SAFE-2); good for the same
            candidate only, so an exhausted ``skip`` still stops for a person when output was seen.

    Raises :class:`ValueError` for a naive ``now`` and negative ``retries_used``.
    """
    now = checked(now, 0.0, retries_used)
    applied = policy.for_class(classification.error_class)
    refusal = _gate(classification, effects, stale=stale, resume_guarantee=resume_guarantee)
    if applied is None or refusal is not None:
        return _decision(
            DecisionKind.STOP, classification, applied, (f"gate: {refusal or 'the failure is unclassified'}",)
        )

    elsewhere = _gate(classification, effects, stale=stale, resume_guarantee=False)
    last: Outcome = "stop" if elsewhere is not None else applied.on_exhausted

    not_waiting = _wait_refusal(applied, classification, used=reset_wait_used, now=now)
    if not_waiting is None:
        due = classification.due_at(now)
        return _decision(DecisionKind.WAIT, classification, applied, (), deadline=due, pending=last)
    because = [f"wait_for_reset: {not_waiting}"]

    not_retrying = _retry_refusal(applied.retry, retries_used)
    if not_retrying is None:
        ordinal = retries_used + 1
        delay = max(retry_delay(applied.retry, ordinal), _hinted_delay(applied, classification, now))
        return _decision(
            DecisionKind.RETRY,
            classification,
            applied,
            tuple(because),
            ordinal=ordinal,
            deadline=now + delay,
            pending=last,
        )
    because.append(f"retry: {not_retrying}")

    if elsewhere is not None and applied.on_exhausted == "skip":
        because.append(f"skip: {elsewhere}, and the resume guarantee is this candidate's only")
    return _decision(DecisionKind(last), classification, applied, tuple(because))


dynamic: Final = evaluate
"""The same, by the name of its context (R-POL-7)."""


def retry_delay(policy: RetryPolicy, ordinal: int) -> timedelta:
    """Return how long retry ``ordinal`` (from 1) waits: it doubles each time, up to 24 h (R-POL-2).

    The whole schedule is shown to people before anything fails, hence public.
    """
    return min(timedelta(seconds=policy.initial_interval_seconds * 2 ** (ordinal - 1)), _MAX_DELAY)


def _gate(
    classification: Classification, effects: Effects | None, *, stale: bool, resume_guarantee: bool
) -> str | None:
    if stale:
        return "the evidence is stale"
    return classification.automatic_refusal(effects, resume_guarantee=resume_guarantee)


def _wait_refusal(policy: ClassPolicy, classification: Classification, *, used: bool, now: datetime) -> str | None:
    wait = policy.wait_for_reset
    if not wait.enabled:
        return "disabled"
    if used:
        return "already used in this round"
    due = classification.due_at(now)
    if due is None:
        return "no reset time is known"
    if due <= now:
        return "reset is already past"
    if due - now > timedelta(seconds=wait.max_wait_seconds):
        return "reset is beyond max_wait_seconds"
    return None


def _retry_refusal(retry: RetryPolicy, used: int) -> str | None:
    if not retry.enabled:
        return "disabled"
    if used >= retry.max_retries:
        return f"budget of {retry.max_retries} used"
    return None


def _hinted_delay(policy: ClassPolicy, classification: Classification, now: datetime) -> timedelta:
    """Return the provider's ``retry_after`` as a lower bound, or zero where it binds nobody (R-POL-4)."""
    if classification.retry_after is None:
        return timedelta(0)
    left = (classification.occurred_at or now) + classification.retry_after - now
    wait = policy.wait_for_reset
    beyond_wait = wait.enabled and left > timedelta(seconds=wait.max_wait_seconds)
    return timedelta(0) if beyond_wait or left > _MAX_DELAY else left


def _decision(
    kind: DecisionKind,
    classification: Classification,
    policy: ClassPolicy | None,
    because: tuple[str, ...],
    *,
    ordinal: int | None = None,
    deadline: datetime | None = None,
    pending: Outcome | None = None,
) -> Decision:
    return Decision(
        kind=kind,
        error_class=classification.error_class,
        code=classification.code,
        ordinal=ordinal,
        maximum=policy.retry.max_retries if policy is not None and ordinal is not None else None,
        deadline=deadline,
        pending_outcome=pending,
        catalogue_version=classification.catalogue_version,
        policy=policy,
        offers=offers(Context.DYNAMIC, kind, classification.code),
        because=because,
    )

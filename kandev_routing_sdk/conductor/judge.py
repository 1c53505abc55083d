"""From a turn's report to a decision: classify, book health, ask the policy. No I/O: the caller commits what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.circuits import (
    FAR_RESET,
    ArmedRetry,
    FailureFact,
    ResourceIdentity,
    ResourceKey,
    keys_of_failure,
    needs_person,
)
from kandev_routing_sdk.evidence.correlation import Correlation, staleness
from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.evidence.turn import TurnReport
from kandev_routing_sdk.policy import Context, Decision, DecisionKind, PolicyDocument
from kandev_routing_sdk.records import (
    CircuitChange,
    CircuitFailed,
    CircuitHandedBack,
    CircuitSucceeded,
    DecisionRecord,
    DecisionSort,
    Wait,
)
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import is_watched, leaves_by_itself
from kandev_routing_sdk.route.model import Reason, Route, State, Visit
from kandev_routing_sdk.route.past import PolicyInputs
from kandev_routing_sdk.types import AttemptOutcome, Confidence, ErrorClass, Phase, Scope

ARMED_LEASE: Final = timedelta(seconds=60)
"""How long the lease of an armed retry outlives its due time: enough to start an agent."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The probe leases of one visit."""

    token: str
    owner: str
    held: frozenset[str] = frozenset()
    """Key strings whose lease is held under ``token``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one settled attempt means."""

    outcome: AttemptOutcome
    reason: Reason
    automatic: bool = False
    classification: Classification | None = None
    decision: Decision | None = None
    circuits: tuple[CircuitChange, ...] = ()
    inputs: PolicyInputs | None = None
    """What the decision was made from, besides the attempt."""

    def record(self, attempt_id: str) -> DecisionRecord | None:
        """Return what is written down of the decision, if there was one."""
        if self.inputs is None or self.decision is None:
            return None
        answer = self.decision.model_dump(mode="json")
        return DecisionRecord(DecisionSort.POLICY, self.inputs.to_json(), answer, attempt_id)


def judge_success(keys: tuple[ResourceKey, ...], lease: Lease, *, credential_doubted: bool = False) -> Verdict:
    """The provider answered, so every lease held closes its circuit (R-CIR-6); not that of an account that may be another."""
    changes = tuple(
        CircuitHandedBack(k, lease.token)
        if credential_doubted and k.scope is Scope.ACCOUNT
        else CircuitSucceeded(k, lease.token)
        for k in keys
        if k.key in lease.held
    )
    return Verdict(AttemptOutcome.SUCCESS, Reason.SUCCEEDED, circuits=changes)


def judge_neutral(outcome: AttemptOutcome, reason: Reason, keys: tuple[ResourceKey, ...], lease: Lease) -> Verdict:
    """A cancel, a silent attempt, a crash of ours: nothing was learnt, leases go back unchanged."""
    return Verdict(outcome, reason, circuits=_handed_back(keys, lease))


@dataclass(frozen=True, slots=True)
class Standing:
    """What an attempt is judged by: who it is, its candidate's policy and budgets, and the resources it was launched with."""

    correlation: Correlation
    policy: PolicyDocument
    visit: Visit
    identity: ResourceIdentity
    keys: tuple[ResourceKey, ...]
    lease: Lease
    resume_guarantee: bool = False
    context: Context = Context.DYNAMIC


def judge_failure(
    catalogue: Catalogue, report: TurnReport, standing: Standing, *, now: datetime, uniform: float = 0.0
) -> Verdict:
    """Classify and decide. What it means for shared health is :func:`book_failure`'s to say, once the step is known.

    ``uniform``: jitter in [0, 1) for the context that has some, made by the caller.
    """
    classification = _classified(catalogue, report)
    stale = staleness(report.evidence, standing.correlation) is not None
    inputs = PolicyInputs(
        policy=standing.policy,
        retries_used=_retries_used(standing, classification.error_class),
        reset_wait_used=classification.error_class in standing.visit.reset_waits_used,
        now=now,
        stale=stale,
        resume_guarantee=standing.resume_guarantee,
        context=standing.context,
        uniform=uniform,
    )
    decision = inputs.evaluate(classification, report.effects)
    automatic = not stale and classification.automatic_refusal(report.effects) is None
    return Verdict(
        outcome=AttemptOutcome.FAILED,
        reason=_reason(report, classification, decision, automatic=automatic),
        automatic=automatic,
        classification=classification,
        decision=decision,
        inputs=inputs,
    )


def book_failure(
    verdict: Verdict, report: TurnReport, standing: Standing, after: Route, *, uniform: float, now: datetime
) -> Verdict:
    """Return ``verdict`` with what it means for shared health: nothing, if the evidence is another attempt's (R-EVI-4).

    Args:
        verdict: of :func:`judge_failure`.
        report: the attempt's.
        standing: what it was judged by.
        after: where the step leads. Only a route that really waits for the same candidate arms a retry, whatever the policy said.
        uniform: jitter in [0, 1), made by the caller (pure code makes no randomness).
        now: aware UTC time.
    """
    assert verdict.inputs is not None  # noqa: S101  # a failure's verdict has them
    assert verdict.classification is not None  # noqa: S101
    if verdict.inputs.stale:
        return replace(verdict, circuits=_handed_back(standing.keys, standing.lease))
    due = after.deadline if after.state in {State.RETRY_WAIT, State.WAITING_FOR_RESET} else None
    known = not report.credential_doubted and standing.identity.binding is not None
    booked = _bookings(verdict.classification, due, standing, known=known, uniform=uniform, now=now)
    return replace(verdict, circuits=booked)


def facts_of(verdict: Verdict, report: TurnReport) -> Facts:
    """Return what the state machine is told of a failure. What is not proven safe is not called so."""
    return Facts(
        decision=verdict.decision,
        classification=verdict.classification,
        deadline=verdict.decision.deadline if verdict.decision else None,
        reason=verdict.reason,
        automatic=verdict.automatic,
        clean=effect_refusal(report.effects) is None,
        native_session_id=report.native_session_id,
        served_model=report.model,
    )


def waits_of(verdict: Verdict, route: Route) -> tuple[Wait, ...]:
    """Return what a route waits for that a failure brought to rest, besides its deadline (R-CIR-6, R-ENG-6).

    A concrete profile's person is told as soon as a try may work again (R-POL-7).
    """
    failed = [change for change in verdict.circuits if isinstance(change, CircuitFailed)]
    if route.state is State.WAITING_FOR_RESET:
        return tuple(Wait(change.key.key, until_closed=True) for change in failed)
    if is_watched(route):
        opened = (change for change in failed if change.fact.confidence is Confidence.HIGH)
        return tuple(Wait(change.key.key) for change in opened)
    if route.state is State.ACTION_REQUIRED and leaves_by_itself(route):
        return tuple(Wait(change.key.key, until_closed=not needs_person(change.fact.code)) for change in failed)
    return ()


def is_empty_answer(report: TurnReport) -> bool:
    """An ``end_turn`` with no content, tool or usage is not an answer (R-CON-7)."""
    used = report.usage is not None and report.usage.input_tokens + report.usage.output_tokens > 0
    return report.outcome is AttemptOutcome.SUCCESS and not report.effects.any_activity and not used


def _classified(catalogue: Catalogue, report: TurnReport) -> Classification:
    """What a failure was. An agent that says it is done, and has nothing, is a person's, whatever else was said (R-CON-7)."""
    found = catalogue.classify(report.evidence, sanitised=True)
    if not is_empty_answer(report):
        return found
    why = (*found.because, "the agent said that it was done, and there is nothing")
    unsure = {"confidence": Confidence.LOW, "error_class": ErrorClass.UNCLASSIFIED, "because": why}
    return found.model_copy(update=unsure)


def _retries_used(standing: Standing, error_class: ErrorClass) -> int:
    """A candidate's document has a budget for each class; whoever watches has one for the prompt (R-POL-7)."""
    used = standing.visit.retries_used
    return sum(used.values()) if standing.context is Context.INTERACTIVE else used.get(error_class, 0)


def _reason(report: TurnReport, classification: Classification, decision: Decision, *, automatic: bool) -> Reason:
    if is_empty_answer(report) and report.stop_reason == "end_turn":
        return Reason.EMPTY_ANSWER
    match decision.kind:
        case DecisionKind.WAIT:
            return Reason.RESET_WAIT
        case DecisionKind.RETRY:
            return Reason.RETRY_SCHEDULED
        case DecisionKind.SKIP:
            return Reason.PROVIDER_FAILURE
        case DecisionKind.STOP if classification.error_class is ErrorClass.UNCLASSIFIED:
            opening = report.evidence.phase is Phase.SESSION_INIT  # no session, so nobody knows what it would offer
            return Reason.CAPABILITY_FAILURE if opening else Reason.UNCLASSIFIED
        case DecisionKind.STOP:
            return Reason.RECOVERY_EXHAUSTED if automatic else Reason.UNSAFE_EFFECTS


def _bookings(
    classification: Classification,
    due: datetime | None,
    standing: Standing,
    *,
    known: bool,
    uniform: float,
    now: datetime,
) -> tuple[CircuitChange, ...]:
    """A failure extends its own keys and hands the others back unchanged (R-CIR-8).

    ``due``: of the owner's next try. If that is far away, its circuit may be asked before, and the try takes its lease then.
    """
    lease = standing.lease
    arms = due is not None and due - now <= FAR_RESET
    failed = keys_of_failure(standing.identity, classification, descriptor_known=known)
    fact = FailureFact(
        code=classification.code,
        confidence=classification.confidence,
        due_at=classification.due_at(now),
        owner_delay_s=(due - now).total_seconds() if due is not None else None,
        exhausted=due is None,
        arm=ArmedRetry(lease.token, lease.owner, due, ARMED_LEASE) if due is not None and arms else None,
    )
    booked, ours = {key.key for key in failed}, {key.key for key in standing.keys}

    def fact_of(key: ResourceKey) -> FailureFact:
        # a key that only the evidence names is no part of the next try, which could not close it
        arm = fact.arm if key.key in ours else None
        return replace(fact, arm=arm, lease_token=lease.token if key.key in lease.held else None)

    return (
        *(CircuitFailed(key, fact_of(key), uniform) for key in failed),
        *_handed_back([key for key in standing.keys if key.key not in booked], lease),
    )


def _handed_back(keys: Sequence[ResourceKey], lease: Lease) -> tuple[CircuitChange, ...]:
    """Give the leases of ``keys`` back unchanged, as far as they are held."""
    return tuple(CircuitHandedBack(key, lease.token) for key in keys if key.key in lease.held)

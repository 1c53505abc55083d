"""The unattended context (R-POL-7): Office tiers, nobody watching, other routes configured.

Short troubles get three tries on the same route while the other runs wait for it; what lasts longer makes the route ineligible and
the next one takes over. The effect gate holds here too: after effects nobody goes on by itself (R-SAFE-1).
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto
from typing import Final, NamedTuple, assert_never

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy.decision import Context, Decision, DecisionKind, HealthMark, RouteHealth, RouteScope
from kandev_routing_sdk.policy.document import Outcome
from kandev_routing_sdk.policy.offers import offers
from kandev_routing_sdk.policy.pace import checked, hinted, is_short, retry_time
from kandev_routing_sdk.types import Code, Confidence, Delivery, ErrorClass, Phase, Scope

UNATTENDED_SECONDS: Final = (5, 10, 20)
"""Nominal delay of each retry of the short phase."""
_BUDGET: Final = len(UNATTENDED_SECONDS)


class _Treatment(Enum):
    SHORT = auto()
    """Short phase, then the next route."""
    THROTTLE = auto()
    """As ``SHORT`` if the provider says that it is short, else as ``BLOCK``."""
    LAUNCH = auto()
    """Launch retries, then a person; the route is not to blame."""
    BLOCK = auto()
    """The next route at once; this one comes back by itself."""
    ACTION = auto()
    """The next route at once; this one needs a person."""
    UNKNOWN = auto()
    """The next route, if the session never started."""
    OWN = auto()
    """Not the provider's doing: no route would fare better."""


def unattended(
    classification: Classification,
    *,
    effects: Effects | None,
    retries_used: int,
    now: datetime,
    uniform: float,
    stale: bool = False,
    alternative: bool = True,
) -> Decision:
    """Decide what follows a failure of an Office run's route: ``retry``, ``skip`` (fall through) or ``stop``.

    ``health`` says what other runs are to know of the route. It does not depend on this run's effects (R-CIR-5): a run that
    stops for a person may still have learnt that the account is used up. There is no resume guarantee here.

    Args:
        classification: what the failure was.
        effects: what the prompt may have caused; None (unknown) is unsafe.
        retries_used: short retries already taken on this route.
        now: aware time.
        uniform: jitter in [0, 1), made by the caller.
        stale: the evidence belongs to another attempt, generation or prompt (R-EVI-4).
        alternative: whether another route is configured; decides only what a person is offered. A ``skip`` that finds nobody
            parks the run.

    Raises :class:`ValueError` for a naive ``now``, a ``uniform`` out of bounds and negative ``retries_used``.
    """
    now = checked(now, uniform, retries_used)
    step = (
        _Step(DecisionKind.STOP, ("gate: the evidence is stale",))
        if stale
        else _step(classification, effects, _Clock(retries_used, now, uniform))
    )
    retrying = step.kind is DecisionKind.RETRY
    return Decision(
        kind=step.kind,
        context=Context.UNATTENDED,
        error_class=classification.error_class,
        code=classification.code,
        ordinal=retries_used + 1 if retrying else None,
        maximum=_BUDGET if retrying else None,
        deadline=step.deadline,
        pending_outcome=step.pending,
        catalogue_version=classification.catalogue_version,
        health=step.health,
        offers=offers(Context.UNATTENDED, step.kind, classification.code, alternative=alternative),
        because=step.because,
    )


class _Clock(NamedTuple):
    used: int
    now: datetime
    uniform: float


class _Step(NamedTuple):
    kind: DecisionKind
    because: tuple[str, ...] = ()
    health: RouteHealth | None = None
    deadline: datetime | None = None
    pending: Outcome | None = None


def _step(classification: Classification, effects: Effects | None, clock: _Clock) -> _Step:
    treatment = _treatment_of(classification)
    if treatment is _Treatment.UNKNOWN:
        refusal = _start_refusal(classification, effects)
        if refusal is None:
            return _Step(DecisionKind.SKIP, ("retry: the cause is unknown",))
        return _Step(DecisionKind.STOP, (f"gate: {refusal}",))

    due = hinted(classification, clock.now)
    not_retrying = _retry_refusal(treatment, classification.phase, due, clock)
    health = None if not_retrying is None else _health(treatment, classification, due, clock.now)
    refusal = classification.automatic_refusal(effects)
    if refusal is not None:
        return _Step(DecisionKind.STOP, (f"gate: {refusal}",), health)
    if not_retrying is None:
        deadline = retry_time(UNATTENDED_SECONDS[clock.used], due, uniform=clock.uniform, now=clock.now)
        pause = _pause(classification, deadline)
        last: Outcome = "stop" if treatment is _Treatment.LAUNCH else "skip"
        return _Step(DecisionKind.RETRY, (), pause, deadline, last)
    not_elsewhere = _fall_through_refusal(treatment)
    if not_elsewhere is None:
        return _Step(DecisionKind.SKIP, (f"retry: {not_retrying}",), health)
    return _Step(DecisionKind.STOP, (f"retry: {not_retrying}", f"fall through: {not_elsewhere}"), health)


def route_scope(classification: Classification) -> RouteScope | None:
    """Return what of the launched route the failure speaks of (R-OFF-4, ``ScopeFromCode``); None: nothing of it."""
    match classification.code:
        case Code.MODEL_CAPACITY | Code.MODEL_UNAVAILABLE:
            return RouteScope.MODEL
        case Code.PROVIDER_NOT_CONFIGURED:
            return RouteScope.TIER
        case Code.RATE_LIMITED | Code.QUOTA_LIMITED:
            return RouteScope.MODEL if classification.scope is Scope.MODEL else RouteScope.PROVIDER
        case (
            Code.NETWORK_UNAVAILABLE
            | Code.PROVIDER_UNAVAILABLE
            | Code.PROVIDER_OVERLOADED
            | Code.SUBSCRIPTION_REQUIRED
            | Code.AUTH_REQUIRED
            | Code.MISSING_CREDENTIALS
        ):
            return RouteScope.PROVIDER
        case (
            Code.AGENT_TRANSPORT_LOST
            | Code.UNKNOWN_PROVIDER_ERROR
            | Code.AGENT_RUNTIME_ERROR
            | Code.TASK_ERROR
            | Code.REPO_ERROR
            | Code.PERMISSION_DENIED_BY_USER
            | Code.CANCELLED
            | Code.RESUME_CORRUPTED
            | Code.CONTEXT_EXHAUSTED
            | Code.CONTENT_REFUSED
        ):
            return None
        case _:
            assert_never(classification.code)


def _treatment(code: Code) -> _Treatment:
    match code:
        case Code.NETWORK_UNAVAILABLE | Code.PROVIDER_UNAVAILABLE | Code.PROVIDER_OVERLOADED | Code.MODEL_CAPACITY:
            return _Treatment.SHORT
        case Code.RATE_LIMITED:
            return _Treatment.THROTTLE
        case Code.AGENT_TRANSPORT_LOST:
            return _Treatment.LAUNCH
        case Code.QUOTA_LIMITED:
            return _Treatment.BLOCK
        case (
            Code.SUBSCRIPTION_REQUIRED
            | Code.AUTH_REQUIRED
            | Code.MISSING_CREDENTIALS
            | Code.PROVIDER_NOT_CONFIGURED
            | Code.MODEL_UNAVAILABLE
        ):
            return _Treatment.ACTION
        case Code.UNKNOWN_PROVIDER_ERROR | Code.AGENT_RUNTIME_ERROR:
            return _Treatment.UNKNOWN
        case (
            Code.TASK_ERROR
            | Code.REPO_ERROR
            | Code.PERMISSION_DENIED_BY_USER
            | Code.CANCELLED
            | Code.RESUME_CORRUPTED
            | Code.CONTEXT_EXHAUSTED
            | Code.CONTENT_REFUSED
        ):
            return _Treatment.OWN
        case _:
            assert_never(code)


def _treatment_of(classification: Classification) -> _Treatment:
    """A guess at a provider's failure is as good as an unknown one; a guess at a lost agent excuses no change of provider."""
    treatment = _treatment(classification.code)
    guessed = classification.confidence is Confidence.LOW or classification.error_class is ErrorClass.UNCLASSIFIED
    if guessed and treatment not in {_Treatment.OWN, _Treatment.LAUNCH}:
        return _Treatment.UNKNOWN
    return treatment


def _start_refusal(classification: Classification, effects: Effects | None) -> str | None:
    """Return why an unknown failure stops, or None when it provably came before the session started."""
    refusal = effect_refusal(effects)
    if refusal is not None:
        return refusal
    if effects is not None and effects.delivery is not Delivery.NOT_SENT:
        return "the prompt was sent, and the failure is unclassified"
    if _moment(classification.phase) is not _Moment.START:
        return "the session had started, and the failure is unclassified"
    return None


class _Moment(Enum):
    START = auto()
    """Before there is a session."""
    DISPATCH = auto()
    """There is one, and the prompt is about to go."""
    TURN = auto()


def _moment(phase: Phase) -> _Moment:
    match phase:
        case Phase.AUTH_CHECK | Phase.PROCESS_START | Phase.SESSION_INIT:
            return _Moment.START
        case Phase.PROMPT_SEND:
            return _Moment.DISPATCH
        case Phase.STREAMING | Phase.TOOL_EXECUTION | Phase.SHUTDOWN:
            return _Moment.TURN
        case _:
            assert_never(phase)


def _retry_refusal(treatment: _Treatment, phase: Phase, due: datetime | None, clock: _Clock) -> str | None:
    match treatment:
        case _Treatment.LAUNCH:
            if _moment(phase) is _Moment.TURN:
                return "the agent was lost in mid-turn"
        case _Treatment.THROTTLE if due is None:
            return "no hint says that this throttle is a short one"
        case _Treatment.SHORT | _Treatment.THROTTLE:
            if due is not None and not is_short(due, clock.now):
                return "the hint is more than 60 s away"
        case _Treatment.BLOCK | _Treatment.ACTION:
            return "a hard failure does not pass within seconds"
        case _Treatment.UNKNOWN | _Treatment.OWN:
            return "it is no failure of the route"
        case _:
            assert_never(treatment)
    return f"budget of {_BUDGET} used" if clock.used >= _BUDGET else None


def _fall_through_refusal(treatment: _Treatment) -> str | None:
    match treatment:
        case _Treatment.LAUNCH:
            return "a lost agent says nothing against its provider"
        case _Treatment.UNKNOWN | _Treatment.OWN:
            return "another route would fare no better"
        case _Treatment.SHORT | _Treatment.THROTTLE | _Treatment.BLOCK | _Treatment.ACTION:
            return None
        case _:
            assert_never(treatment)


def _pause(classification: Classification, until: datetime) -> RouteHealth | None:
    scope = route_scope(classification)
    return None if scope is None else RouteHealth(mark=HealthMark.SHORT_RETRY, scope=scope, until=until)


def _health(
    treatment: _Treatment, classification: Classification, due: datetime | None, now: datetime
) -> RouteHealth | None:
    """Return what the end of the same route's chances means for others; only what is sure counts (R-CIR-5)."""
    scope = route_scope(classification)
    if scope is None or classification.confidence is not Confidence.HIGH:
        return None
    if treatment is _Treatment.ACTION:
        return RouteHealth(mark=HealthMark.ACTION_REQUIRED, scope=scope)
    # a quota's reset counts however near; of a trouble that outlived its short hints, the ladder knows more than the hint
    named = due is not None and (due > now if treatment is _Treatment.BLOCK else not is_short(due, now))
    return RouteHealth(mark=HealthMark.DEGRADED, scope=scope, until=due if named else None)

"""Routes, facts and failures for the tests of this folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import Decision, PolicyDocument, evaluate
from kandev_routing_sdk.route import Facts, Transition, step, trigger_for
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.types import Code, Confidence, Delivery, ErrorClass, Phase, Scope

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLEAN = Effects(delivery=Delivery.NOT_SENT, complete=True)
SPOKE = Effects(delivery=Delivery.ACKNOWLEDGED, output=True, complete=True)


def a_route(state: State, **changes: Any) -> Route:
    known: dict[str, Any] = {
        "session_id": "s1",
        "logical_profile_id": "frontier",
        "execution_profile_id": "fable",
        "attempt_id": "a7",
        "generation": 7,
        "revision": 40,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Route(**(known | {"state": state} | changes))


def a_policy(
    *, retries: int = 0, initial: int = 5, wait: int = 0, then: str = "skip", both: bool = True
) -> PolicyDocument:
    of_class = {
        "retry": {
            "enabled": retries > 0,
            "max_retries": retries,
            "initial_interval_seconds": initial if retries else 0,
        },
        "wait_for_reset": {"enabled": wait > 0, "max_wait_seconds": wait},
        "on_exhausted": then,
    }
    return PolicyDocument.model_validate({"transient": of_class, "hard": of_class})


def a_failure(
    code: Code = Code.MODEL_CAPACITY, *, reset_in: float | None = None, now: datetime = NOW
) -> Classification:
    hard = code in {Code.QUOTA_LIMITED, Code.AUTH_REQUIRED, Code.SUBSCRIPTION_REQUIRED}
    kind = ErrorClass.HARD if hard else ErrorClass.TRANSIENT
    if code in {Code.TASK_ERROR, Code.UNKNOWN_PROVIDER_ERROR}:
        kind = ErrorClass.UNCLASSIFIED
    return Classification(
        code=code,
        error_class=kind,
        confidence=Confidence.HIGH,
        scope=Scope.PROVIDER,
        classifier_rule="r",
        catalogue_version="1",
        phase=Phase.STREAMING,
        reset_at=None if reset_in is None else now + timedelta(seconds=reset_in),
    )


def decide(route: Route, failure: Classification, policy: PolicyDocument, now: datetime, effects: Effects) -> Decision:
    visit = route.round.visit(route.execution_profile_id or "")
    return evaluate(
        policy,
        failure,
        effects=effects,
        retries_used=visit.retries_used.get(failure.error_class, 0),
        reset_wait_used=failure.error_class in visit.reset_waits_used,
        now=now,
    )


def fail(
    route: Route,
    policy: PolicyDocument,
    failure: Classification | None = None,
    *,
    now: datetime = NOW,
    effects: Effects = CLEAN,
) -> Transition:
    """What the conductor does with a settled failure: the policy decides, the table moves."""
    failure = failure or a_failure(now=now)
    decision = decide(route, failure, policy, now, effects)
    automatic = effects is CLEAN and failure.error_class is not ErrorClass.UNCLASSIFIED
    facts = Facts(decision=decision, classification=failure, automatic=automatic, clean=effects is CLEAN)
    return step(route, trigger_for(decision), facts, now=now)

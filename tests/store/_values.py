"""Records for the store's tests; each helper fills in what its test does not care about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kandev_routing_sdk.catalogue.classification import Classification, HintProvenance
from kandev_routing_sdk.circuits import FailureFact, ResourceKey
from kandev_routing_sdk.events import EventDraft, EventKind
from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
from kandev_routing_sdk.policy import Decision, DecisionKind
from kandev_routing_sdk.ports import AttemptRecord, CallRecord, CircuitFailed, Commit, ProfileChange, SelectionRecord
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.types import (
    AttemptOutcome,
    Channel,
    Code,
    Confidence,
    Delivery,
    DispatchMark,
    ErrorClass,
    Phase,
    Scope,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)

ACCOUNT = ResourceKey("account:acme:v1:aa", Scope.ACCOUNT, provider_id="acme")
MODEL = ResourceKey("model:acme:m1", Scope.MODEL, provider_id="acme", model_id="m1")
PROFILE = ResourceKey("profile:sol", Scope.PROFILE, profile_id="sol")


def route(session_id: str = "s1", **changes: Any) -> Route:
    values: dict[str, Any] = {"logical_profile_id": "frontier", "created_at": NOW, "updated_at": NOW}
    return Route(session_id=session_id, **values | changes)


def attempt(attempt_id: str = "a1", **changes: Any) -> AttemptRecord:
    values: dict[str, Any] = {
        "session_id": "s1",
        "generation": 1,
        "ordinal": 1,
        "prompt_number": 1,
        "execution_profile_id": "sol",
        "profile_version": 3,
        "family": "codex",
        "mark": DispatchMark.CLAIMED,
        "resource_keys": (ACCOUNT, PROFILE),
        "provider_id": "acme",
        "model_id": "m1",
        "catalogue_version": "7",
        "created_at": NOW,
    }
    return AttemptRecord(attempt_id=attempt_id, **values | changes)


def selection(generation: int = 1) -> SelectionRecord:
    return SelectionRecord(
        generation=generation,
        chosen_profile_id="sol",
        walk=(
            {"profile_id": "fable", "reason": "circuit_open", "until": None},
            {"profile_id": "sol", "reason": "chosen"},
        ),
    )


def event(reason: Reason = Reason.STARTED, **params: Any) -> EventDraft:
    return EventDraft(EventKind.ROUTE_CHANGED, reason, params)


def call(call_id: str = "c1", **changes: Any) -> CallRecord:
    values: dict[str, Any] = {"session_id": "s1", "logical_profile_id": "frontier", "started_at": NOW}
    return CallRecord(call_id=call_id, **values | changes)


def made(profile_id: str, expected: int | None = None, **changes: Any) -> ProfileChange:
    """A write of a concrete profile; ``expected``: over this version."""
    values: dict[str, Any] = {"name": profile_id.title(), "family": "acme", **changes}
    return ProfileChange(profile_id, expected, ConcreteProfile(id=profile_id, **values))


def create(session_id: str = "s1", *, now: datetime = NOW, **commit: Any) -> Commit:
    after = commit.pop("after", None) or route(session_id)
    return Commit(before=None, after=after.model_copy(update={"revision": 1}), now=now, **commit)


def advance(before: Route, *, now: datetime = NOW, **commit: Any) -> Commit:
    after = commit.pop("after", None) or before.model_copy(update=commit.pop("to", {"state": State.ACTIVE}))
    return Commit(before=before, after=after.model_copy(update={"revision": before.revision + 1}), now=now, **commit)


def failure(key: ResourceKey = ACCOUNT, code: Code = Code.QUOTA_LIMITED, **fact: Any) -> CircuitFailed:
    return CircuitFailed(key, FailureFact(code=code, confidence=Confidence.HIGH, **fact), uniform=0.5)


def classification(**changes: Any) -> Classification:
    values: dict[str, Any] = {
        "code": Code.QUOTA_LIMITED,
        "error_class": ErrorClass.HARD,
        "confidence": Confidence.HIGH,
        "scope": Scope.ACCOUNT,
        "classifier_rule": "acme.quota.1",
        "catalogue_version": "7",
        "phase": Phase.STREAMING,
        "occurred_at": NOW,
        "retry_after": timedelta(seconds=90, microseconds=1),
        "reset_at": NOW + timedelta(hours=3),
        "hint": HintProvenance(source="text", written="3pm", zone="adapter"),
        "safe_excerpt": "usage limit reached",
        "because": ("matched acme.quota.1",),
    }
    return Classification(**values | changes)


def decision() -> Decision:
    return Decision(
        kind=DecisionKind.SKIP,
        error_class=ErrorClass.HARD,
        code=Code.QUOTA_LIMITED,
        catalogue_version="7",
        because=("retry: disabled",),
    )


def evidence() -> Evidence:
    return Evidence(
        family="codex",
        phase=Phase.STREAMING,
        signals=(
            Signal(channel=Channel.ACP_ERROR, data={"a": None, "b": [1, {"c": "\0"}]}, code=-32603, at=NOW),
            Signal(channel=Channel.STDERR, text="Grüße \0 \U0001f600", headers={"retry-after": "3"}),
        ),
        observed_at=NOW,
        local_zone="Europe/Berlin",
        effects=Effects(delivery=Delivery.ACKNOWLEDGED, complete=True),
        dropped=2,
    )


def settled(record: AttemptRecord, **changes: Any) -> AttemptRecord:
    """``record`` with everything a failed attempt can hold."""
    from dataclasses import replace

    values: dict[str, Any] = {
        "mark": DispatchMark.SETTLED,
        "outcome": AttemptOutcome.FAILED,
        "stop_reason": "refusal",
        "served_model": "m1-2026",
        "process_group": 4_194_304,
        "process_started_at": NOW + timedelta(microseconds=1),
        "lease_token": "token",
        "effects": Effects(delivery=Delivery.SENT, tool_call=True),
        "evidence": evidence(),
        "classification": classification(),
        "decision": decision(),
        "input_tokens": 3_000_000_000,
        "output_tokens": 0,
        "inner_retries": 2,
        "settled_at": NOW + timedelta(seconds=5),
    }
    return replace(record, **values | changes)

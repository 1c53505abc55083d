"""Results as JSON documents: the shape of ``run --json`` is part of the public contract."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.cli.output import SCHEMA_VERSION
from kandev_routing_sdk.evidence.updates import Usage
from kandev_routing_sdk.policy import Decision
from kandev_routing_sdk.results import AttemptReport, CallResult, Explanation


def utc(at: datetime | None) -> str | None:
    """Return a time as ISO 8601 in UTC with a ``Z``."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def result_document(result: CallResult, exit_code: int | None = None) -> dict[str, Any]:
    """Return the document of a call. ``exit_code``: what the process really exits with (a cancel by SIGTERM is 143)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "call_id": result.call_id,
        "outcome": result.outcome.value,
        "exit_code": result.exit_code if exit_code is None else exit_code,
        "text": result.text,
        "stop_reason": result.stop_reason,
        "logical_profile_id": result.logical_profile_id,
        "execution_profile_id": result.execution_profile_id,
        "family": result.family,
        "provider_id": result.provider_id,
        "model": result.model,
        "usage": _usage(result.usage),
        "deadline": utc(result.deadline),
        "duration_s": round(result.duration_s, 3),
        "attempts": [_attempt(a) for a in result.attempts],
        "reason": result.reason,
        "rejected": [
            {"profile_id": r.profile_id, "reason": r.reason, "detail": r.detail, "until": utc(r.until)}
            for r in result.rejected
        ],
    }


def _usage(usage: Usage | None) -> dict[str, int] | None:
    if usage is None:
        return None
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


def _attempt(attempt: AttemptReport) -> dict[str, Any]:
    return {
        "ordinal": attempt.ordinal,
        "generation": attempt.generation,
        "execution_profile_id": attempt.execution_profile_id,
        "outcome": attempt.outcome.value,
        "automatic": attempt.automatic,
        "inner_retries": attempt.inner_retries,
        "effects": attempt.effects.model_dump(mode="json"),
        "classification": _classification(attempt.classification),
        "decision": _decision(attempt.decision),
    }


def _classification(found: Classification | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "code": found.code.value,
        "class": found.error_class.value,
        "confidence": found.confidence.value,
        "scope": found.scope.value,
        "classifier_rule": found.classifier_rule,
        "retry_after_s": found.retry_after.total_seconds() if found.retry_after is not None else None,
        # one time for readers, whichever way the provider named it
        "reset_at": utc(found.reset_at or (found.due_at(found.occurred_at) if found.occurred_at else None)),
        "safe_excerpt": found.safe_excerpt,
    }


def _decision(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {"kind": decision.kind.value, "because": list(decision.because), "deadline": utc(decision.deadline)}


def explanation_document(explanation: Explanation, policies: Mapping[str, str]) -> dict[str, Any]:
    """Return the document of ``explain``; ``policies``: each candidate's policy in words."""
    return {
        "schema_version": SCHEMA_VERSION,
        "profile_id": explanation.profile_id,
        "kind": explanation.kind.value,
        "enabled": explanation.enabled,
        "chosen_profile_id": explanation.chosen_profile_id,
        "earliest": utc(explanation.earliest),
        "walk": [{**entry.to_json(), "until": utc(entry.until)} for entry in explanation.walk],
        "policies": {
            profile_id: {"document": policy.model_dump(mode="json"), "words": policies.get(profile_id, "")}
            for profile_id, policy in explanation.policies.items()
        },
        "argv": {profile_id: list(argv) for profile_id, argv in explanation.argv.items()},
    }

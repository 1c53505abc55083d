"""What a commit made true, as counts. Each committed fact is told once, from here and nowhere else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.policy import Decision
from kandev_routing_sdk.policy.decision import Context
from kandev_routing_sdk.records import (
    AttemptRecord,
    CallRecord,
    CircuitChange,
    CircuitSucceeded,
    CircuitTransition,
    Commit,
    Committed,
    DecisionSort,
)
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.telemetry import table
from kandev_routing_sdk.telemetry.table import Metric
from kandev_routing_sdk.types import CircuitState, DispatchMark

Count = tuple[Metric, Mapping[str, str | None]]
"""A metric and its labels, not bounded yet; None does not apply."""

_WAITS = frozenset({State.WAITING, State.RETRY_WAIT, State.WAITING_FOR_RESET, State.ACTION_REQUIRED})
_PAUSES = frozenset({State.RETRY_WAIT, State.WAITING_FOR_RESET})


def of_commit(commit: Commit, committed: Committed) -> Iterator[Count]:
    """Return the counts of one transition."""
    before, after = commit.before, committed.route
    yield from _settled(commit, after)
    yield from _decided(commit, after)
    if commit.new_attempt is not None and before is not None:
        yield from _began(commit.new_attempt, before, after)
    if after.state in _WAITS and (before is None or before.state is not after.state):
        yield (
            table.WAITING,
            _route(after) | _failure(after.classification) | {"state": after.state, "reason": after.reason},
        )
    if after.continuation is not None and (before is None or before.continuation != after.continuation):
        effectful = "true" if after.potentially_effectful else "false"
        yield table.CONTINUATIONS, _route(after) | {"reason": after.reason, "effectful": effectful}
    yield from of_circuits(committed.transitions, commit.circuits)
    yield from of_probes(committed.leased, table.ProbeKind.LAUNCH)


def of_circuits(transitions: Iterable[CircuitTransition], changes: Iterable[CircuitChange] = ()) -> Iterator[Count]:
    """Return the counts of changed health. A success that closed nothing came from a lease that was somebody else's by then."""
    closed = set()
    for change in transitions:
        was_open = change.before is not None and change.before.state is not CircuitState.CLOSED
        is_open = change.after.state is not CircuitState.CLOSED
        code = change.after.code or (change.before.code if change.before is not None else None)
        labels = _resource(change.after.key) | {"code": code}
        if is_open and not was_open:
            yield table.OPENED, labels
        elif was_open and not is_open:
            closed.add(change.after.key.key)
            yield table.CLOSED, labels
    for told in changes:
        if isinstance(told, CircuitSucceeded) and told.key.key not in closed:
            yield table.STALE, {"what": table.Stale.PROBE_RESULT}


def of_probes(leased: Iterable[ResourceKey], asked_by: table.ProbeKind) -> Iterator[Count]:
    """Return the counts of leases that were taken."""
    for key in leased:
        yield table.PROBES, _resource(key) | {"asked_by": asked_by}


def of_call(call: CallRecord) -> Iterator[Count]:
    """Return the count of a call that ended."""
    yield table.CALLS, {"family": call.family, "provider": call.provider_id, "outcome": call.outcome, "code": call.code}


def _settled(commit: Commit, after: Route) -> Iterator[Count]:
    attempt = commit.update_attempt
    if attempt is None or attempt.mark is not DispatchMark.SETTLED:
        return
    found = attempt.classification
    yield (
        table.ATTEMPTS,
        _route(after, attempt.decision) | _agent(attempt) | _failure(found) | {"outcome": attempt.outcome},
    )
    if found is not None:
        labels = {"family": attempt.family, "rule": found.classifier_rule, "confidence": found.confidence}
        yield table.CLASSIFICATIONS, _failure(found) | labels


def _decided(commit: Commit, after: Route) -> Iterator[Count]:
    record, attempt = commit.decision, commit.update_attempt
    if record is None:
        return
    if record.sort is DecisionSort.SELECTION:
        result = "nobody" if commit.new_attempt is None else "chosen"
        yield table.DECISIONS, _route(after) | {"sort": record.sort, "result": result}
        return
    decision = None if attempt is None else attempt.decision
    failure = _failure(None if attempt is None else attempt.classification)
    kind = None if decision is None else decision.kind
    yield table.DECISIONS, _route(after, decision) | failure | {"sort": record.sort, "result": kind}
    if record.inputs.get("stale") is True:
        yield table.STALE, {"what": table.Stale.EVIDENCE}


def _began(attempt: AttemptRecord, before: Route, after: Route) -> Iterator[Count]:
    labels = _route(after, before.decision) | _agent(attempt) | _failure(before.classification)
    same = attempt.execution_profile_id == before.execution_profile_id
    # a person's retry was given its attempt with the action; any other one of a retry is the same again for a reason of ours
    asked = before.state is State.RETRYING and before.attempt_id == attempt.attempt_id
    if same and (asked or before.state in _PAUSES):
        yield table.RETRIES, labels | {"state": before.state}
    elif (
        not same
        and before.execution_profile_id is not None
        and (before.state is State.SWITCHING or before.attempts_in_turn > 0)
    ):
        yield table.FALLBACKS, labels


def _route(route: Route, decision: Decision | None = None) -> dict[str, str | None]:
    decision = decision or route.decision
    if decision is not None:
        context = decision.context
    else:  # a concrete profile is its own candidate (R-RES-2); the interactive context is for sessions only (R-UTL-4)
        concrete = route.kind == "session" and route.execution_profile_id == route.logical_profile_id
        context = Context.INTERACTIVE if concrete else Context.DYNAMIC
    return {"route": route.kind, "context": context}


def _agent(attempt: AttemptRecord) -> dict[str, str | None]:
    return {"family": attempt.family, "provider": attempt.provider_id}


def _resource(key: ResourceKey) -> dict[str, str | None]:
    return {"scope": key.scope, "provider": key.provider_id}


def _failure(found: Classification | None) -> dict[str, str | None]:
    return {} if found is None else {"code": found.code, "class": found.error_class}

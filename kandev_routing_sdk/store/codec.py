"""Values to columns and back. Exact both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import pydantic_core
from pydantic import BaseModel, SecretBytes

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import Circuit, ResourceKey
from kandev_routing_sdk.events import EventDraft, EventKind, EventRecord
from kandev_routing_sdk.evidence.model import Effects, Evidence
from kandev_routing_sdk.policy import Decision
from kandev_routing_sdk.ports import AttemptRecord, CallRecord, SelectionRecord
from kandev_routing_sdk.route.model import Reason, Route
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Code, Confidence, DispatchMark, Scope

Values = dict[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_COMPACT: Final = json.JSONEncoder(separators=(",", ":")).encode


def to_micros(at: datetime) -> int:
    """Return microseconds since 1970. Raises ``TypeError`` for a naive time."""
    return (at - _EPOCH) // _MICROSECOND


def to_micros_or_none(at: datetime | None) -> int | None:
    """Return microseconds since 1970, or None."""
    return None if at is None else to_micros(at)


def from_micros(value: int) -> datetime:
    """Return the aware UTC time."""
    return _EPOCH + timedelta(microseconds=value)


def from_micros_or_none(value: int | None) -> datetime | None:
    """Return the aware UTC time, or None."""
    return None if value is None else from_micros(value)


def to_json(value: object) -> str:
    """Return compact JSON, in ASCII: neither engine gets a NUL or half a surrogate pair to see."""
    try:
        return pydantic_core.to_json(value, ensure_ascii=True).decode()
    except pydantic_core.PydanticSerializationError:  # half a surrogate pair
        return _COMPACT(value)


def _model(value: BaseModel | None) -> str | None:
    # Everything is written out: a default that changes later must not change what was recorded (R-ENG-11).
    return None if value is None else value.model_dump_json()


def _foreign(text: str | None) -> str | None:
    """Return what an agent said without what a text column cannot hold."""
    if text is None or text.isascii():
        return text if text is None or "\0" not in text else text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


# --- routes ---

ROUTE_TIMES: Final = ("deadline", "owner_until", "created_at", "updated_at")
ROUTE_COLUMNS: Final = (
    "session_id",
    "kind",
    "logical_profile_id",
    "profile_version",
    "state",
    "generation",
    "revision",
    "execution_profile_id",
    "attempt_id",
    "reason",
    "owner_id",
    *ROUTE_TIMES,
)


def encode_route(route: Route) -> Values:
    """Return the columns of ``route``."""
    return {
        "session_id": route.session_id,
        "kind": route.kind,
        "logical_profile_id": route.logical_profile_id,
        "profile_version": route.profile_version,
        "state": str(route.state),
        "generation": route.generation,
        "revision": route.revision,
        "execution_profile_id": route.execution_profile_id,
        "attempt_id": route.attempt_id,
        "reason": str(route.reason),
        "owner_id": route.owner_id,
        "deadline": to_micros_or_none(route.deadline),
        "owner_until": to_micros_or_none(route.owner_until),
        "created_at": to_micros(route.created_at),
        "updated_at": to_micros(route.updated_at),
        "body": _body(route),
    }


_NESTED: Final = ("round", "decision", "classification")
_UNTOUCHED: Final[Mapping[str, Any]] = {
    name: field.default for name, field in Route.model_fields.items() if name not in ROUTE_COLUMNS
}


def _body(route: Route) -> str:
    """Return what is in no column, as far as it is not as in an untouched route (R-PRF-5)."""
    known = route.__dict__  # read 20 times on the decision path
    changed = {name: known[name] for name, default in _UNTOUCHED.items() if known[name] is not default}
    nested = [f'"{name}":{_rendered(_Same(changed.pop(name)))}' for name in _NESTED if name in changed]
    plain = [pydantic_core.to_json(changed).decode()[1:-1]] if changed else []
    return f"{{{','.join(plain + nested)}}}"


class _Same:
    """Stands for an object itself, whatever it equals."""

    __slots__ = ("value",)

    def __init__(self, value: BaseModel) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@lru_cache(maxsize=256)
def _rendered(same: _Same) -> str:
    """Return the JSON of what never changes and goes through many transitions: made once (R-PRF-1)."""
    return same.value.model_dump_json(exclude_defaults=True)


def decode_route(row: tuple[Any, ...]) -> Route:
    """Return the route of a row of ``ROUTE_COLUMNS`` and ``body``."""
    values: Values = json.loads(row[-1])
    values.update(zip(ROUTE_COLUMNS, row, strict=False))
    for name in ROUTE_TIMES:
        values[name] = from_micros_or_none(values[name])
    return Route.model_validate(values)


# --- selections, events ---


def encode_selection(session_id: str, selection: SelectionRecord, now: datetime) -> Values:
    """Return the columns of a selection."""
    return {
        "session_id": session_id,
        "generation": selection.generation,
        "chosen_profile_id": selection.chosen_profile_id,
        "walk": to_json(selection.walk),
        "at": to_micros(now),
    }


def decode_selection(row: tuple[Any, ...]) -> SelectionRecord:
    """Return the selection of (generation, chosen_profile_id, walk)."""
    return SelectionRecord(generation=row[0], chosen_profile_id=row[1], walk=tuple(json.loads(row[2])))


def encode_event(route: Route, draft: EventDraft, now: datetime) -> Values:
    """Return the columns of an event, all but its sequence."""
    return {
        "session_id": route.session_id,
        "generation": route.generation,
        "kind": str(draft.kind),
        "reason": str(draft.reason),
        "params": to_json(draft.params),
        "at": to_micros(now),
    }


def decode_event(row: tuple[Any, ...]) -> EventRecord:
    """Return the event of (sequence, session_id, generation, kind, reason, params, at)."""
    return EventRecord(
        sequence=row[0],
        session_id=row[1],
        generation=row[2],
        kind=EventKind(row[3]),
        reason=Reason(row[4]),
        params=json.loads(row[5]),
        at=from_micros(row[6]),
    )


# --- attempts ---


def encode_attempt(attempt: AttemptRecord) -> Values:
    """Return the columns of an attempt."""
    return {
        "attempt_id": attempt.attempt_id,
        "session_id": attempt.session_id,
        "generation": attempt.generation,
        "ordinal": attempt.ordinal,
        "prompt_number": attempt.prompt_number,
        "execution_profile_id": attempt.execution_profile_id,
        "profile_version": attempt.profile_version,
        "family": attempt.family,
        "mark": str(attempt.mark),
        "resource_keys": _key_documents(attempt.resource_keys),
        "provider_id": _foreign(attempt.provider_id),
        "model_id": _foreign(attempt.model_id),
        "catalogue_version": attempt.catalogue_version,
        "created_at": to_micros(attempt.created_at),
        "owner_id": attempt.owner_id,
        "lease_token": attempt.lease_token,
        "process_group": attempt.process_group,
        "process_started_at": to_micros_or_none(attempt.process_started_at),
        "outcome": None if attempt.outcome is None else str(attempt.outcome),
        "stop_reason": _foreign(attempt.stop_reason),
        "served_model": _foreign(attempt.served_model),
        "effects": _model(attempt.effects),
        "evidence": _model(attempt.evidence),
        "classification": _model(attempt.classification),
        "decision": _model(attempt.decision),
        "input_tokens": attempt.input_tokens,
        "output_tokens": attempt.output_tokens,
        "inner_retries": attempt.inner_retries,
        "settled_at": to_micros_or_none(attempt.settled_at),
    }


def decode_attempt(values: Mapping[str, Any]) -> AttemptRecord:
    """Return the attempt of a row by column name."""
    known = dict(values)
    for name, model in (
        ("effects", Effects),
        ("evidence", Evidence),
        ("classification", Classification),
        ("decision", Decision),
    ):
        known[name] = None if values[name] is None else model.model_validate_json(values[name])
    return AttemptRecord(
        **known
        | {
            "mark": DispatchMark(values["mark"]),
            "outcome": None if values["outcome"] is None else AttemptOutcome(values["outcome"]),
            "resource_keys": tuple(_document_key(document) for document in json.loads(values["resource_keys"])),
            "created_at": from_micros(values["created_at"]),
            "process_started_at": from_micros_or_none(values["process_started_at"]),
            "settled_at": from_micros_or_none(values["settled_at"]),
        }
    )


@lru_cache(maxsize=256)
def _key_documents(keys: tuple[ResourceKey, ...]) -> str:
    """The same for every attempt of a candidate, until its credentials change."""
    return to_json([_key_document(key) for key in keys])


def _key_document(key: ResourceKey) -> Values:
    document = {
        "key": key.key,
        "scope": str(key.scope),
        "provider_id": key.provider_id,
        "model_id": key.model_id,
        "profile_id": key.profile_id,
        "executor_namespace": key.executor_namespace,
        "version": key.version,
    }
    return {name: value for name, value in document.items() if value is not None}


def _document_key(document: Values) -> ResourceKey:
    return ResourceKey(**document | {"scope": Scope(document["scope"])})


# --- circuits ---


def encode_circuit(circuit: Circuit) -> Values:
    """Return the columns of a circuit."""
    key = circuit.key
    return {
        "key": key.key,
        "scope": str(key.scope),
        "provider_id": key.provider_id,
        "model_id": key.model_id,
        "profile_id": key.profile_id,
        "executor_namespace": key.executor_namespace,
        "resource_version": key.version,
        "key_version": circuit.key_version,
        "state": str(circuit.state),
        "code": None if circuit.code is None else str(circuit.code),
        "confidence": None if circuit.confidence is None else str(circuit.confidence),
        "failures": circuit.failures,
        "deadline": to_micros_or_none(circuit.deadline),
        "action_required": int(circuit.action_required),
        "ladder_step": circuit.ladder_step,
        "backoff_s": circuit.backoff_s,
        "probe_token": circuit.probe_token,
        "probe_owner": circuit.probe_owner,
        "probe_until": to_micros_or_none(circuit.probe_until),
        "probe_since": to_micros_or_none(circuit.probe_since),
        "last_success_at": to_micros_or_none(circuit.last_success_at),
        "closed_at": to_micros_or_none(circuit.closed_at),
        "updated_at": to_micros(circuit.updated_at),
    }


def decode_circuit(values: Mapping[str, Any]) -> Circuit:
    """Return the circuit of a row by column name."""
    return Circuit(
        key=ResourceKey(
            key=values["key"],
            scope=Scope(values["scope"]),
            provider_id=values["provider_id"],
            model_id=values["model_id"],
            profile_id=values["profile_id"],
            executor_namespace=values["executor_namespace"],
            version=values["resource_version"],
        ),
        key_version=values["key_version"],
        state=CircuitState(values["state"]),
        code=None if values["code"] is None else Code(values["code"]),
        confidence=None if values["confidence"] is None else Confidence(values["confidence"]),
        failures=values["failures"],
        deadline=from_micros_or_none(values["deadline"]),
        action_required=bool(values["action_required"]),
        ladder_step=values["ladder_step"],
        backoff_s=values["backoff_s"],
        probe_token=values["probe_token"],
        probe_owner=values["probe_owner"],
        probe_until=from_micros_or_none(values["probe_until"]),
        probe_since=from_micros_or_none(values["probe_since"]),
        last_success_at=from_micros_or_none(values["last_success_at"]),
        closed_at=from_micros_or_none(values["closed_at"]),
        updated_at=from_micros(values["updated_at"]),
    )


# --- calls, keys ---


def encode_call(call: CallRecord) -> Values:
    """Return the columns of a call."""
    return {
        "call_id": call.call_id,
        "session_id": call.session_id,
        "logical_profile_id": call.logical_profile_id,
        "started_at": to_micros(call.started_at),
        "execution_profile_id": call.execution_profile_id,
        "family": call.family,
        "provider_id": _foreign(call.provider_id),
        "model": _foreign(call.model),
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "outcome": call.outcome,
        "exit_code": call.exit_code,
        "code": call.code,
        "attempts": call.attempts,
        "deadline": to_micros_or_none(call.deadline),
        "ended_at": to_micros_or_none(call.ended_at),
        "summary": to_json(call.summary),
    }


def decode_call(values: Mapping[str, Any]) -> CallRecord:
    """Return the call of a row by column name."""
    return CallRecord(
        **dict(values)
        | {
            "started_at": from_micros(values["started_at"]),
            "deadline": from_micros_or_none(values["deadline"]),
            "ended_at": from_micros_or_none(values["ended_at"]),
            "summary": json.loads(values["summary"]),
        }
    )


def encode_key(key: InstallationKey) -> Values:
    """Return the columns of an installation key."""
    return {"version": key.version, "material": key.material.get_secret_value()}


def decode_key(row: tuple[Any, ...]) -> InstallationKey:
    """Return the key of (version, material)."""
    return InstallationKey(version=row[0], material=SecretBytes(bytes(row[1])))

"""The wire form: one evidence record in, one result out (`classify --jsonl`)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import automatic
from kandev_routing_sdk.catalogue.sentences import kind, near, shown
from kandev_routing_sdk.errors import InputDataError
from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.types import Channel, Code, Confidence, Delivery, ErrorClass, Phase, Scope

RecordId = str | int | None
MAX_SIGNALS: Final = 4096
"""Signals that one record may bring. More than an adapter's envelope holds: a record may be a whole log."""
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_MODELS: Final[Mapping[str, type[BaseModel]]] = {"evidence": Evidence, "signals": Signal, "effects": Effects}
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "channel": [c.value for c in Channel],
    "phase": [p.value for p in Phase],
    "delivery": [d.value for d in Delivery],
}

_MEANT: Final = ("evidence", "signals")
_WORDS: Final = ("family", "provider_id", "model_id", "local_zone", "exit_signal", "session_id", "attempt_id")
"""What an envelope says beside its signals, in words of whoever wrote it."""
_MAX_PATH: Final = 200
_WANTED: Final[Mapping[str, str]] = {
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "string_type": "a string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
"""What a field takes, in the words of JSON instead of Python's."""


def parse_record(
    record: JsonValue, index: int, *, sanitiser: Sanitiser | None = None, bare: bool = False
) -> tuple[RecordId, Evidence]:
    """Read one record: its id as given, and its evidence, sanitised (R-EVI-5).

    Args:
        record: what one line held.
        index: its number, counted from 1, for the error message.
        sanitiser: a host's own; default a plain one.
        bare: ``record`` is the evidence itself; sentences name its fields as they stand there.

    Raises:
        InputDataError: the record is not what it must be; one sentence that names the field and the way out.
    """
    if not isinstance(record, dict):
        raise InputDataError(
            f'record {index}: it is {kind(record)}; a record is an object: {{"id": …, "evidence": {{…}}}}'
        )
    given = None if bare else record.get("id")
    if given is not None and (isinstance(given, bool) or not isinstance(given, (str, int))):
        raise InputDataError(f"record {index}: id: it is {kind(given)}; give it a string or a whole number")
    where = f"record {index}" if given is None else f"record {index} (id {shown(given)})"
    if not bare and "evidence" not in record:
        raise InputDataError(
            f"{where}: evidence is missing; put family, phase and signals in it{near('evidence', record)}"
        )
    try:
        evidence = Evidence.model_validate(record if bare else record["evidence"])
    except ValidationError as e:
        raise InputDataError(f"{where}: {_sentence(e.errors(include_url=False)[0], bare=bare)}") from None
    if len(evidence.signals) > MAX_SIGNALS:
        raise InputDataError(
            f"{where}: {'' if bare else 'evidence.'}signals: {len(evidence.signals)} signals; at most {MAX_SIGNALS} are read"
        )
    return given, clean(evidence, sanitiser or Sanitiser())


def is_bare(record: JsonValue) -> bool:
    """Whether ``record`` is evidence without its wrapper, be it whole or not."""
    if not isinstance(record, dict) or "evidence" in record:
        return False
    return "signals" in record or record.get("phase") in _CHOICES["phase"] or _only_fields(record)


def is_record(value: JsonValue) -> bool:
    """Whether somebody who wrote ``value`` meant a record, and not, say, a provider's error body."""
    if not isinstance(value, dict):
        return False
    meant = (
        k for k, v in value.items() if isinstance(v, (dict, list)) and difflib.get_close_matches(k, _MEANT, 1, 0.8)
    )
    return "evidence" in value or is_bare(value) or next(meant, None) is not None


def _only_fields(record: Mapping[str, Any]) -> bool:
    return len(record) > 0 and record.keys() <= Evidence.model_fields.keys() | {"id"} and record.keys() != {"id"}


def clean(evidence: Evidence, sanitiser: Sanitiser) -> Evidence:
    """Return ``evidence`` without secrets; its structure and whole length stay, so that a decisive word counts anywhere."""
    words = {name: sanitiser.text(value) for name in _WORDS if (value := getattr(evidence, name)) is not None}
    return evidence.model_copy(update={**words, "signals": tuple(_clean(s, sanitiser) for s in evidence.signals)})


def _clean(signal: Signal, sanitiser: Sanitiser) -> Signal:
    return signal.model_copy(
        update={
            "text": None if signal.text is None else sanitiser.text(signal.text),
            "data": None if signal.data is None else sanitiser.value(signal.data),
            "headers": None if signal.headers is None else sanitiser.headers(signal.headers),
            "code": sanitiser.text(signal.code) if isinstance(signal.code, str) else signal.code,
        }
    )


def result_record(record_id: RecordId, classification: Classification, evidence: Evidence) -> dict[str, JsonValue]:
    """Return the result line of one record."""
    c = classification
    hint: JsonValue = None
    if c.hint is not None:
        hint = {"source": c.hint.source, "written": c.hint.written, "zone": c.hint.zone}
    return {
        "id": record_id,
        "code": c.code.value,
        "class": c.error_class.value,
        "confidence": c.confidence.value,
        "scope": c.scope.value,
        "classifier_rule": c.classifier_rule,
        "catalogue_version": c.catalogue_version,
        "provider_id": c.provider_id,
        "model_id": c.model_id,
        "phase": c.phase.value,
        "occurred_at": _time(c.occurred_at),
        "retry_after_s": None if c.retry_after is None else _number(c.retry_after.total_seconds()),
        "reset_at": _time(c.reset_at),
        "hint": hint,
        "automatic": automatic(c, evidence),
        "safe_excerpt": c.safe_excerpt,
    }


def evidence_schema() -> dict[str, Any]:
    """Return the JSON Schema of a record. Keys beside ``id`` and ``evidence`` are allowed and ignored."""
    schema = Evidence.model_json_schema(mode="validation", ref_template="#/$defs/{model}")
    definitions = schema.pop("$defs", {})
    return {
        "$schema": _DIALECT,
        "title": "Evidence record",
        "type": "object",
        "required": ["evidence"],
        "properties": {"id": {"type": ["string", "integer", "null"]}, "evidence": {"$ref": "#/$defs/Evidence"}},
        "$defs": {**definitions, "Evidence": schema},
    }


def result_schema() -> dict[str, Any]:
    """Return the JSON Schema of a result."""
    text: dict[str, Any] = {"type": ["string", "null"]}
    time: dict[str, Any] = {"type": ["string", "null"], "format": "date-time"}
    hint = {
        "type": ["object", "null"],
        "additionalProperties": False,
        "required": ["source", "written", "zone"],
        "properties": {
            "source": {"enum": ["header", "field", "text"]},
            "written": {"type": "string"},
            "zone": {"enum": ["text", "adapter", "utc", "none"]},
        },
    }
    properties: dict[str, Any] = {
        "id": {"type": ["string", "integer", "null"]},
        "code": {"enum": [c.value for c in Code]},
        "class": {"enum": [c.value for c in ErrorClass]},
        "confidence": {"enum": [c.value for c in Confidence]},
        "scope": {"enum": [s.value for s in Scope]},
        "classifier_rule": text,
        "catalogue_version": {"type": "string"},
        "provider_id": text,
        "model_id": text,
        "phase": {"enum": [p.value for p in Phase]},
        "occurred_at": time,
        "retry_after_s": {"type": ["number", "null"], "minimum": 0},
        "reset_at": time,
        "hint": hint,
        "automatic": {"type": "boolean"},
        "safe_excerpt": {"type": ["string", "null"], "maxLength": 4096},
    }
    return {
        "$schema": _DIALECT,
        "title": "Classification result",
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def _time(value: Any) -> str | None:  # noqa: ANN401  (a datetime in UTC, or None)
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def _number(seconds: float) -> int | float:
    return int(seconds) if seconds.is_integer() else seconds


def _sentence(error: ErrorDetails, *, bare: bool) -> str:
    loc = [p for i, p in enumerate(error["loc"]) if not (i and error["loc"][i - 1] == "code" and p in {"int", "str"})]
    path = _path(loc, bare=bare)
    last = str(loc[-1]) if loc else "evidence"
    type_, given = error["type"], error["input"]
    if type_ == "extra_forbidden":
        parent = next((str(p) for p in reversed(loc[:-1]) if isinstance(p, str)), "evidence")
        if parent == "evidence" and last in {"id", "evidence"}:
            return f'{path} is no field of evidence; a record with an id is {{"id": …, "evidence": {{…}}}}'
        known = list(_MODELS.get(parent, Evidence).model_fields)
        what = {"signals": "a signal"}.get(parent, parent)
        return f"{path} is no field of {what}{near(last, known) or '; its fields are ' + ', '.join(known)}"
    if type_ == "missing":
        close = difflib.get_close_matches(last, list(given), n=1) if isinstance(given, dict) else []
        return f"{path} is missing; give it{f' in place of {shown(close[0])!r}' if close else ''}"
    if type_ == "enum" and last in _CHOICES:
        choices = _CHOICES[last]
        return f"{path}: {shown(given)!r} is none of {', '.join(choices)}{near(str(given), choices)}"
    if type_.startswith(("timezone", "datetime")):
        wrong = "the time has no zone" if type_.startswith("timezone") else f"it is {kind(given)} that names no time"
        return f"{path}: {wrong}; write it as 2026-04-29T14:58:12Z"
    if type_.startswith("recursion"):
        return f"{_path(loc[:3], bare=bare)}: it is nested too deeply; flatten it"
    if type_ in _WANTED:
        wanted = "a whole number or a string" if last == "code" else _WANTED[type_]
        return f"{path}: it is {kind(given)}; give it {wanted}"
    return f"{path}: {error['msg'][:1].lower()}{error['msg'][1:]}, not {kind(given)}"


def _path(loc: Sequence[int | str], *, bare: bool) -> str:
    """Return where in a record something is, cut where it gets too long to help."""
    path = "" if bare else "evidence"
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f"{'.' if path else ''}{_name(part)}"
        if len(path) > _MAX_PATH:
            return f"{path[:_MAX_PATH]}…"
    return path or "the record"


def _name(key: str) -> str:
    """Return a member's name as a sentence can hold it."""
    name = shown(key)
    return name if name.isidentifier() else repr(name)

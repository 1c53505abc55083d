"""Timing in structured error data: the fields that name a reset or a wait, wherever they are nested (R-CLS-5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Literal, NamedTuple

from kandev_routing_sdk.evidence.linear import compile_linear, well_formed
from kandev_routing_sdk.evidence.timing.headers import hints_from_headers, retry_after
from kandev_routing_sdk.evidence.timing.model import TimingHint, Trust, relative
from kandev_routing_sdk.evidence.timing.spans import span
from kandev_routing_sdk.evidence.timing.values import reset_value
from kandev_routing_sdk.types import JsonValue

__all__ = ["hints_from_data", "hints_from_field", "is_timing_field", "snake"]

_MAX_DEPTH: Final = 12
_MAX_NODES: Final = 4096
_LONGEST: Final = 128

_Bare = Literal["seconds", "milliseconds", "none"]


class _Field(NamedTuple):
    bare: _Bare
    trust: int


_FIELDS: Final[Mapping[str, _Field]] = {
    "reset": _Field("none", Trust.DIMENSION),
    "resets": _Field("none", Trust.DIMENSION),
    "resets_at": _Field("none", Trust.LIMIT_FIELD),
    "reset_at": _Field("none", Trust.LIMIT_FIELD),
    "resets_at_ms": _Field("none", Trust.LIMIT_FIELD),
    "reset_at_ms": _Field("none", Trust.LIMIT_FIELD),
    "reset_time": _Field("none", Trust.LIMIT_FIELD),
    "reset_timestamp": _Field("none", Trust.LIMIT_FIELD),
    "reset_date": _Field("none", Trust.LIMIT_FIELD),
    "quota_reset_date": _Field("none", Trust.LIMIT_FIELD),
    "quota_reset_date_utc": _Field("none", Trust.LIMIT_FIELD),
    "limited_user_reset_date": _Field("none", Trust.LIMIT_FIELD),
    "quota_reset_time": _Field("none", Trust.LIMIT_FIELD),
    "quota_reset_time_stamp": _Field("none", Trust.LIMIT_FIELD),
    "quota_reset_timestamp": _Field("none", Trust.LIMIT_FIELD),
    "quota_reset_delay": _Field("seconds", Trust.LIMIT_FIELD),
    "resets_in": _Field("seconds", Trust.LIMIT_FIELD),
    "reset_in": _Field("seconds", Trust.LIMIT_FIELD),
    "resets_in_seconds": _Field("seconds", Trust.LIMIT_FIELD),
    "reset_in_seconds": _Field("seconds", Trust.LIMIT_FIELD),
    "reset_after": _Field("seconds", Trust.LIMIT_FIELD),
    "resets_after": _Field("seconds", Trust.LIMIT_FIELD),
    "reset_after_seconds": _Field("seconds", Trust.LIMIT_FIELD),
    "resets_after_seconds": _Field("seconds", Trust.LIMIT_FIELD),
    "reset_seconds": _Field("seconds", Trust.LIMIT_FIELD),
    "seconds_until_reset": _Field("seconds", Trust.LIMIT_FIELD),
    "cooldown_seconds": _Field("seconds", Trust.LIMIT_FIELD),
    "resets_in_ms": _Field("milliseconds", Trust.LIMIT_FIELD),
    "reset_in_ms": _Field("milliseconds", Trust.LIMIT_FIELD),
    "reset_after_ms": _Field("milliseconds", Trust.LIMIT_FIELD),
    "retry_at": _Field("none", Trust.RETRY_AFTER),
    "retry_after_at": _Field("none", Trust.RETRY_AFTER),
    "available_at": _Field("none", Trust.RETRY_AFTER),
    "retry_after_seconds": _Field("seconds", Trust.RETRY_AFTER),
    "retry_after_sec": _Field("seconds", Trust.RETRY_AFTER),
    "retry_after_secs": _Field("seconds", Trust.RETRY_AFTER),
    "retry_after_in_seconds": _Field("seconds", Trust.RETRY_AFTER),
    "retry_after_s": _Field("seconds", Trust.RETRY_AFTER),
    "retry_after_ms": _Field("milliseconds", Trust.RETRY_AFTER),
    "retry_after_millis": _Field("milliseconds", Trust.RETRY_AFTER),
    "retry_in_seconds": _Field("seconds", Trust.RETRY_AFTER),
    "wait_seconds": _Field("seconds", Trust.RETRY_AFTER),
    "retry_delay": _Field("none", Trust.RETRY_AFTER - 1),
    "retry_delay_seconds": _Field("seconds", Trust.OWN_BACKOFF),
    "retry_delay_ms": _Field("milliseconds", Trust.OWN_BACKOFF),
    "retry_in_ms": _Field("milliseconds", Trust.OWN_BACKOFF),
    "next_retry_at": _Field("none", Trust.OWN_BACKOFF),
}
_CAMEL: Final = compile_linear(r"([a-z0-9])([A-Z])")
_DECIMAL: Final = compile_linear(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_REMAINING: Final = frozenset(
    {"remaining", "remaining_fraction", "remaining_percent", "remaining_requests", "remaining_tokens"}
)
_WORKING: Final = frozenset({"allowed", "allowed_warning", "ok", "active", "available"})


def snake(name: str) -> str:
    """A field name in one spelling: ``resetsAt``, ``resets-at`` and ``resets_at`` are the same field."""
    return _CAMEL.sub(r"\1_\2", well_formed(name)).replace("-", "_").lower()


def is_timing_field(name: str) -> bool:
    """Whether :func:`hints_from_field` knows the field."""
    name = snake(name)
    return name in _FIELDS or name == "retry_after"


def hints_from_data(data: JsonValue, *, observed_at: datetime | None) -> list[TimingHint]:
    """Every hint in the fields of ``data``, outer ones first; nesting is followed to a bounded depth and number.

    An object that says of itself that it is not exhausted (``status: allowed``, something remaining, less than all
    used) gives none. Objects named ``headers`` are read as response headers. Sentences are not read here: give them
    to :func:`hints_from_text`.
    """
    hints: list[TimingHint] = []
    for fields in _objects(data):
        for name, value in fields.items():
            if len(name) > _LONGEST:
                continue
            if isinstance(value, dict):
                if snake(name) in {"headers", "response_headers"}:
                    hints += hints_from_headers(_texts(value), observed_at=observed_at)
                elif snake(name) == "retry_delay":
                    hints += _protobuf(value)
            elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
                hints += hints_from_field(name, value, observed_at=observed_at)
        if fields.get("type") == "retry" and isinstance(fields.get("next"), (int, float)):
            hints += hints_from_field("next_retry_at", fields["next"], observed_at=observed_at)
    return hints


def hints_from_field(name: str, value: JsonValue, *, observed_at: datetime | None) -> list[TimingHint]:
    """The hint of one named field; nothing for a field without timing meaning or a value it cannot have."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return []
    # `repr` keeps all digits of a float and turns NaN and 1e9 into what no notation takes.
    text = well_formed(value.strip()) if isinstance(value, str) else _digits(value)
    written = f"{name}: {text}"
    if len(text) > _LONGEST:
        return []
    key = snake(name)
    if key == "retry_after" and isinstance(value, str):
        strict = retry_after(text, observed_at=observed_at, source="field", written=written)
        if strict or text.replace(".", "", 1).isdigit():
            return strict
    field = _FIELDS.get(key) if key != "retry_after" else _Field("seconds", Trust.RETRY_AFTER)
    if field is None:
        return []
    return reset_value(
        text, source="field", written=written, trust=field.trust, observed_at=observed_at, bare=field.bare
    )


def _texts(headers: Mapping[str, JsonValue]) -> dict[str, str]:
    """Headers as text; some clients keep a list for each, as a name may come twice."""
    single = {key: item[0] if isinstance(item, list) and len(item) == 1 else item for key, item in headers.items()}
    return {
        key: item if isinstance(item, str) else _digits(item)
        for key, item in single.items()
        if isinstance(item, (str, int))
    }


def _digits(value: float) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of thousands of digits, which Python refuses to print
        return ""


def _protobuf(value: Mapping[str, JsonValue]) -> list[TimingHint]:
    """``google.protobuf.Duration`` as an object."""
    parts = [value.get("seconds", 0), value.get("nanos", 0)]
    try:
        seconds, nanos = (float(part) if isinstance(part, (str, int, float)) else 0.0 for part in parts)
    except (ValueError, OverflowError):
        return []
    written = f"retryDelay: {parts[0]}s"
    return relative(span(seconds + nanos / 1e9), source="field", written=written, trust=Trust.RETRY_AFTER - 1)


def _objects(data: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """The objects of ``data``, breadth first, without those that say that nothing is exhausted."""
    level: list[JsonValue] = [data]
    nodes = 0
    for _ in range(_MAX_DEPTH):
        below: list[JsonValue] = []
        for node in level:
            nodes += 1
            if nodes > _MAX_NODES:
                return
            if isinstance(node, dict):
                if _working(node):
                    continue
                yield node
                below += node.values()
            elif isinstance(node, list):
                below += node
        level = below


def _working(fields: Mapping[str, JsonValue]) -> bool:
    status = fields.get("status")
    if (isinstance(status, str) and status.lower() in _WORKING) or fields.get("limit_reached") is False:
        return True
    for name, value in fields.items():
        key = snake(name) if len(name) <= _LONGEST else ""
        if isinstance(value, str) and key in _REMAINING and _DECIMAL.fullmatch(value):
            value = float(value)  # noqa: PLW2901 - the same number
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if key in _REMAINING and value > 0:
            return True
        if (key == "used_percent" and value < 100) or (key == "utilization" and value < 1):  # noqa: PLR2004
            return "status" not in fields
    return False

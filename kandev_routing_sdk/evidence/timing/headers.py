"""Timing in response headers: Retry-After, rate-limit dimensions, the unified limits of a plan (R-CLS-5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from kandev_routing_sdk.evidence.linear import compile_linear, well_formed
from kandev_routing_sdk.evidence.timing.model import Source, TimingHint, Trust, absolute, due_at, relative
from kandev_routing_sdk.evidence.timing.notation import http_date, retry_after_seconds
from kandev_routing_sdk.evidence.timing.spans import span
from kandev_routing_sdk.evidence.timing.values import reset_value

__all__ = ["hints_from_headers", "names_timing", "retry_after"]

_UNIFIED: Final = "anthropic-ratelimit-unified-"
_CLAIMS: Final[Mapping[str, str]] = {
    "five_hour": "5h",
    "seven_day": "7d",
    "seven_day_opus": "7d_opus",
    "seven_day_sonnet": "7d_sonnet",
}
_CODEX: Final = compile_linear(r"(x-codex(?:-[a-z0-9-]+)?-(?:primary|secondary)-)(?:reset-after-seconds|reset-at)")
_DIMENSION: Final = compile_linear(r"(?:x-)?(?:[a-z]+-)?ratelimit(?:by[a-z]+)?-(?:[a-z0-9_-]+-)?reset(?:-[a-z0-9_-]+)?")
# The draft of a standard: one header for all, `"minute";r=0;t=30`, or `limit=10, remaining=0, reset=30` as it was.
_POLICY: Final = compile_linear(r"(?i)(?:\br=0\s*;\s*t=|\bremaining=0\s*,\s*reset=)([0-9]{1,9})\b")
_MILLISECONDS: Final = compile_linear(r"(?:x-ms-)?retry-after-ms")
_DIGITS: Final = compile_linear(r"[0-9]{1,12}")
_DECIMAL: Final = compile_linear(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_LONGEST: Final = 128
_EXHAUSTED_PERCENT: Final = 100.0


def names_timing(name: str) -> bool:
    """Whether a header of this lower-case name may carry timing, or says which limit is exhausted."""
    return (
        name.startswith("x-codex-") or "ratelimit" in name or name == "retry-after" or bool(_MILLISECONDS.match(name))
    )


def hints_from_headers(
    headers: Mapping[str, str], *, observed_at: datetime | None, source: Source = "header"
) -> list[TimingHint]:
    """Every hint that response headers give. Names are compared without case; values are read by their own grammar.

    A rate-limit dimension counts only while it is exhausted: where its remaining count or its status is there and
    says otherwise, its reset time is no hint.
    """
    low = {
        well_formed(name.strip().lower()): well_formed(value.strip())
        for name, value in headers.items()
        if len(value) <= _LONGEST
    }
    hints = _unified(low, observed_at, source)
    hints += _codex(low, observed_at, source)
    for name, value in low.items():
        if name == "retry-after":
            hints += retry_after(value, observed_at=observed_at, source=source, written=f"{name}: {value}")
        elif _MILLISECONDS.fullmatch(name) and _DIGITS.fullmatch(value):
            hints += relative(
                span(int(value) / 1000), source=source, written=f"{name}: {value}", trust=Trust.RETRY_AFTER + 1
            )
    return hints + _dimensions(low, observed_at, source)


def retry_after(value: str, *, observed_at: datetime | None, source: Source, written: str) -> list[TimingHint]:
    """``Retry-After`` by its grammar: digits, or an HTTP date. Anything else is no hint."""
    wait = retry_after_seconds(value)
    if wait is not None:
        return relative(wait, source=source, written=written, trust=Trust.RETRY_AFTER)
    return absolute(
        http_date(value, observed_at=observed_at),
        source=source,
        written=written,
        zone="utc",
        trust=Trust.RETRY_AFTER,
        observed_at=observed_at,
    )


def _unified(low: Mapping[str, str], observed_at: datetime | None, source: Source) -> list[TimingHint]:
    """The plan limits: the reset of the representative claim, if the request was rejected by it."""
    if low.get(_UNIFIED + "status", "rejected") != "rejected":
        return []
    claim = low.get(_UNIFIED + "representative-claim", "")
    window = _CLAIMS.get(claim, claim)
    names = [_UNIFIED + "reset"]
    names += [f"{_UNIFIED}{window}-reset"] if window else []
    names += sorted(
        name
        for name in low
        if name.startswith(_UNIFIED) and low.get(name.removesuffix("-reset") + "-status") == "rejected"
    )
    hints: list[TimingHint] = []
    for rank, name in enumerate(dict.fromkeys(names)):
        if name in low and name.endswith("-reset") and not name.endswith("-overage-reset"):
            hints += reset_value(
                low[name],
                source=source,
                written=f"{name}: {low[name]}",
                trust=Trust.LIMIT_FIELD - min(rank, 2),
                observed_at=observed_at,
                bare="none",
            )
    return hints


def _codex(low: Mapping[str, str], observed_at: datetime | None, source: Source) -> list[TimingHint]:
    """Codex plan windows: of each, its own wait before its instant, and only where all of it is, or may be, used."""
    hints: list[TimingHint] = []
    for name, value in low.items():
        found = _CODEX.fullmatch(name)
        percent = low.get(f"{found.group(1)}used-percent") if found is not None else None
        if found is None or _below_limit(percent):
            continue
        is_wait = name.endswith("seconds")
        proven = Trust.DIMENSION_UNPROVEN if percent is None else Trust.LIMIT_FIELD
        hints += reset_value(
            value,
            source=source,
            written=f"{name}: {value}",
            trust=proven - (0 if is_wait else 1),
            observed_at=observed_at,
            bare="seconds" if is_wait else "none",
        )
    # Of two used windows, both must pass.
    return sorted(hints, key=lambda hint: _due(hint, observed_at), reverse=True)


def _below_limit(percent: str | None) -> bool:
    return percent is not None and bool(_DECIMAL.fullmatch(percent)) and float(percent) < _EXHAUSTED_PERCENT


def _dimensions(low: Mapping[str, str], observed_at: datetime | None, source: Source) -> list[TimingHint]:
    """Rate-limit dimensions. All exhausted ones must pass, so of two the later comes first."""
    hints: list[TimingHint] = []
    for name, value in low.items():
        if name.startswith(_UNIFIED) or not _DIMENSION.fullmatch(name):
            continue
        remaining = low.get(name.replace("reset-after", "reset").replace("reset", "remaining"))
        if remaining is not None and not _spent(remaining):
            continue
        hints += reset_value(
            value,
            source=source,
            written=f"{name}: {value}",
            trust=Trust.DIMENSION_UNPROVEN if remaining is None else Trust.DIMENSION,
            observed_at=observed_at,
            bare="either",
        )
    for found in _POLICY.finditer(low.get("ratelimit", "")):
        hints += relative(
            span(int(found.group(1) or 0)),
            source=source,
            written=f"ratelimit: {low['ratelimit']}",
            trust=Trust.DIMENSION,
        )
    return sorted(hints, key=lambda hint: _due(hint, observed_at), reverse=True)


def _spent(remaining: str) -> bool:
    return bool(_DECIMAL.fullmatch(remaining)) and float(remaining) == 0


def _due(hint: TimingHint, observed_at: datetime | None) -> datetime:
    """When a dimension passes, to compare it with others; a wait alone is compared with waits."""
    return due_at(hint, observed_at or datetime(2000, 1, 1, tzinfo=UTC)) or datetime.max.replace(tzinfo=UTC)

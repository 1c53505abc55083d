"""A hint, what makes it valid, and which of several to believe (R-CLS-5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Literal

__all__ = ["MAX_HORIZON", "TimingHint", "Trust", "absolute", "best_hint", "due_at", "is_valid", "relative"]

MAX_HORIZON: Final = timedelta(days=31)
"""Anything later is absurd and no hint."""
MAX_WRITTEN: Final = 160

Source = Literal["header", "field", "text"]
Zone = Literal["text", "adapter", "utc", "none"]


class Trust(IntEnum):
    """How far a kind of statement is believed; the higher wins, however short its wait.

    What names the end of an exhausted allowance outranks a generic ``Retry-After``: that one may be a short throttle
    on top of a limit that resets hours later. A sentence without a zone of its own is believed last.
    """

    LIMIT_FIELD = 90  # unified reset header, resets_at, resets_in_seconds
    LIMIT_TEXT = 85  # "resets 3pm (Europe/London)", "limit reached|1760000400"
    RETRY_AFTER = 80  # Retry-After, retry_after, RetryInfo
    DIMENSION = 70  # x-ratelimit-reset-* of a dimension proven exhausted
    DIMENSION_UNPROVEN = 60  # the same without its remaining count
    RELATIVE_TEXT = 55  # "try again in 6m0s"
    OWN_BACKOFF = 45  # "Retrying in 4 seconds…": the agent's own schedule, not the provider's word
    LOCAL_TEXT = 30  # "try again at 3:05 PM": the zone is the adapter's
    DATE_TEXT = 20  # "cycle ends on 11/17/2025": no time of day at all


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingHint:
    """One statement about when to come back. Exactly one of ``retry_after`` and ``reset_at`` is set.

    ``reset_at`` is UTC. ``written`` is what was read, at most 160 characters, not sanitised. ``zone`` says what the
    instant rests on: the text's own zone, the adapter's local zone, UTC by notation, or nothing (relative).
    """

    retry_after: timedelta | None
    reset_at: datetime | None
    source: Source
    written: str
    zone: Zone
    trust: int


def relative(wait: timedelta | None, *, source: Source, written: str, trust: int) -> list[TimingHint]:
    """The hint of a wait, or nothing for one that is absent, not positive, or beyond the horizon."""
    if wait is None or not timedelta(0) < wait <= MAX_HORIZON:
        return []
    written = " ".join(written.split())[:MAX_WRITTEN]
    return [TimingHint(retry_after=wait, reset_at=None, source=source, written=written, zone="none", trust=trust)]


def absolute(
    instant: datetime | None, *, source: Source, written: str, zone: Zone, trust: int, observed_at: datetime | None
) -> list[TimingHint]:
    """The hint of an instant, or nothing for one that is absent, past, or beyond the horizon (with ``observed_at``)."""
    if instant is None:
        return []
    written = " ".join(written.split())[:MAX_WRITTEN]
    hint = TimingHint(
        retry_after=None, reset_at=instant.astimezone(UTC), source=source, written=written, zone=zone, trust=trust
    )
    return [hint] if is_valid(hint, observed_at) else []


def due_at(hint: TimingHint, observed_at: datetime | None) -> datetime | None:
    """When the wait is over, in UTC; ``None`` when that needs an ``observed_at`` nobody has."""
    if hint.reset_at is not None:
        return hint.reset_at
    if hint.retry_after is None or observed_at is None:
        return None
    try:
        return (observed_at + hint.retry_after).astimezone(UTC)
    except OverflowError:
        return None


def is_valid(hint: TimingHint, observed_at: datetime | None) -> bool:
    """Whether a hint is in the future and within 31 days; an instant is taken as written without ``observed_at``."""
    if hint.retry_after is not None:
        return timedelta(0) < hint.retry_after <= MAX_HORIZON
    if hint.reset_at is None:
        return False
    return observed_at is None or timedelta(0) < hint.reset_at - observed_at <= MAX_HORIZON


def best_hint(hints: Iterable[TimingHint], *, observed_at: datetime | None) -> TimingHint | None:
    """The most trusted valid hint; of equals, the first. Invalid ones are passed over."""
    valid = [hint for hint in hints if is_valid(hint, observed_at)]
    return max(valid, key=lambda hint: hint.trust, default=None)

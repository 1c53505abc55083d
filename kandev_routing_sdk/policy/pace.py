"""When a fixed schedule tries again (R-POL-7): its delays, their jitter, and the provider's own word on time. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from kandev_routing_sdk.catalogue.classification import Classification

JITTER: Final = 0.2
"""Up to this part of a delay is added or taken. The most at which, with delays that double up to 40 s and then 60 s, no retry can
wait less long than the one before it."""
SHORT_HINT: Final = timedelta(seconds=60)
"""A provider that asks for more than this is not having a short trouble."""
MAX_HINT: Final = timedelta(days=31)
"""A time further off is no hint (R-CLS-5)."""


def utc(now: datetime) -> datetime:
    """Return ``now`` in UTC, where adding seconds adds seconds: elsewhere clocks are put forward and back.

    Raises :class:`ValueError` for a naive time.
    """
    if now.tzinfo is None or now.utcoffset() is None:
        raise ValueError("now must be an aware time; a naive one means another moment on each machine")
    return now.astimezone(UTC)


def checked(now: datetime, uniform: float, retries_used: int) -> datetime:
    """Return ``now`` in UTC; raise :class:`ValueError` for an argument that no answer can be computed from."""
    if not 0 <= uniform < 1:
        raise ValueError(f"uniform must be at least 0 and less than 1, got {uniform}")
    if retries_used < 0:
        raise ValueError(f"retries_used must not be negative, got {retries_used}")
    return utc(now)


def hinted(classification: Classification, now: datetime) -> datetime | None:
    """Return when the provider says that the cause is gone, or None.

    It may have passed meanwhile, while the agent was drained: then there is nothing left to wait for. What was past when it was
    said, or is absurdly far, is no hint, and the next source is asked (R-CLS-5).
    """
    said = classification.occurred_at or now
    waits = (
        None if classification.reset_at is None else classification.reset_at - said,
        classification.retry_after,
    )
    trusted = next((wait for wait in waits if wait is not None and timedelta(0) < wait <= MAX_HINT), None)
    return None if trusted is None else said + trusted


def is_short(due: datetime, now: datetime) -> bool:
    """Whether what is left of a hint is worth waiting for on the spot."""
    return due - now <= SHORT_HINT


def retry_time(seconds: int, due: datetime | None, *, uniform: float, now: datetime) -> datetime:
    """Return when a retry takes place: around ``now + seconds``, never before a short hint's ``due``; a long one binds nobody.

    Those who wait for one and the same ``due`` come after it, one by one.
    """
    spread = seconds * JITTER
    planned = now + timedelta(seconds=seconds + spread * (2 * uniform - 1))
    if due is None or not is_short(due, now):
        return planned
    return max(planned, due + timedelta(seconds=spread * uniform))

"""A clock that a test moves, and ids that a test can name."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio.lowlevel

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


class FakeClock:
    """Implements :class:`~kandev_routing_sdk.clock.Clock`: sleeping moves the time forward at once.

    A sleep lets every other ready task run once, before the time moves, so that two sleepers do not starve a third task.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = start.astimezone(UTC)
        self._elapsed = 0.0
        self.sleeps: list[float] = []
        """Every wait that was asked for, in seconds and in order."""

    def now(self) -> datetime:
        """Return the time that the test made it."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that have passed since the start."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Yield to the event loop, then move the time forward."""
        self.sleeps.append(seconds)
        await anyio.lowlevel.checkpoint()
        if seconds > 0:
            self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self._now += timedelta(seconds=seconds)
        self._elapsed += seconds

    def set(self, now: datetime) -> None:
        """Jump to ``now``, as a machine's wall clock may; the monotonic clock does not move."""
        self._now = now.astimezone(UTC)


class FakeIds:
    """Implements :class:`~kandev_routing_sdk.clock.IdSource`: numbered per prefix, and jitter that is always the same."""

    def __init__(self, uniform: float = 0.5) -> None:
        self._counts: Counter[str] = Counter()
        self._uniform = uniform

    def new(self, prefix: str) -> str:
        """Return ``prefix`` and the next number, wide enough to sort."""
        self._counts[prefix] += 1
        return f"{prefix}{self._counts[prefix]:06d}"

    def token(self) -> str:
        """Return the next token."""
        return self.new("token-")

    def uniform(self) -> float:
        """Return the number given to the constructor."""
        return self._uniform

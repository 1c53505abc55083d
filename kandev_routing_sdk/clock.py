"""The only door to time, randomness and fresh ids.

Everything else receives a ``Clock`` and an ``IdSource`` (or a plain ``now``), so that a test can play a week of waits in a
millisecond and a crash test can name every id it will see.
"""

from __future__ import annotations

import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Reads time and waits for it."""

    def now(self) -> datetime:
        """Return the current time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` (no wait when not positive)."""
        ...


@runtime_checkable
class IdSource(Protocol):
    """Makes ids and jitter."""

    def new(self, prefix: str) -> str:
        """Return a fresh id that starts with ``prefix`` and sorts by creation time within a millisecond."""
        ...

    def token(self) -> str:
        """Return a fresh unguessable token (leases, local servers)."""
        ...

    def uniform(self) -> float:
        """Return a number in [0, 1) for jitter."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return ``time.monotonic()``."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        import anyio  # noqa: PLC0415  # the event loop is not needed by those who only read time

        if seconds > 0:
            await anyio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Wait on this thread; for synchronous code that may not run on an event loop (the store's retries)."""
        if seconds > 0:
            time.sleep(seconds)


class SystemIds:
    """Random ids: 48 bits of milliseconds, then 64 random bits, in hex."""

    def new(self, prefix: str) -> str:
        """Return ``prefix`` followed by 28 hex digits."""
        return f"{prefix}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"

    def token(self) -> str:
        """Return 32 random bytes, URL-safe."""
        return secrets.token_urlsafe(32)

    def uniform(self) -> float:
        """Return a pseudo-random number; jitter needs spread, not secrecy."""
        return random.random()  # noqa: S311  # jitter, not a secret

"""A bounded time, of the real clock: sources and git take what they take, whatever a test's clock says."""

from __future__ import annotations

from kandev_routing_sdk.clock import SystemClock


class Budget:
    """So many seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self._clock = SystemClock()
        self._until = self._clock.monotonic() + seconds

    @property
    def left(self) -> float:
        """How many seconds are left, never less than none."""
        return max(0.0, self._until - self._clock.monotonic())

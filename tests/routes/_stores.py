"""A real store with something wrong at one of its writes."""

from __future__ import annotations

from typing import Any

WRITES = ("commit", "mark_attempt", "save_call")


class StoreAtWrites:
    """Passes everything on to a real store; says before and after each write which one it is, counted from 1."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.writes = 0

    def before(self, number: int) -> None:
        """Override to stop a write from being made."""

    def after(self, number: int) -> None:
        """Override to stop whoever made a write."""

    def __getattr__(self, name: str) -> Any:  # a stand-in for every method
        method = getattr(self._store, name)
        if name not in WRITES:
            return method

        def write(*args: Any, **kwargs: Any) -> Any:  # as above
            self.writes += 1
            number = self.writes
            self.before(number)
            answer = method(*args, **kwargs)
            self.after(number)
            return answer

        return write

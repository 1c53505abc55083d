"""What the agent of one attempt says, for as long as it is its turn (R-EVI-4, R-ENG-9)."""

from __future__ import annotations

from collections.abc import Callable

from kandev_routing_sdk.evidence.updates import AgentUpdate


class Voice:
    """Passes an agent's updates on until it is closed; what comes later changes nothing, and is counted."""

    def __init__(self, emit: Callable[[AgentUpdate], None]) -> None:
        self._emit = emit
        self._closed = False
        self.late: int = 0
        """Updates of a turn that was settled already, or of an agent that another one took the place of."""

    def __call__(self, update: AgentUpdate) -> None:
        """Take what the agent said."""
        if self._closed:
            self.late += 1
        else:
            self._emit(update)

    def close(self) -> None:
        """Its turn is over."""
        self._closed = True

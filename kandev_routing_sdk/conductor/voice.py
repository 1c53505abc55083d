"""What the agent of one attempt says, for as long as it is its turn (R-EVI-4, R-ENG-9)."""

from __future__ import annotations

from collections.abc import Callable

from kandev_routing_sdk.evidence.updates import AgentUpdate, TextDelta, ThinkingDelta, ToolCall, ToolResult


class Voice:
    """Passes an agent's updates on until it is closed; what comes later changes nothing, and is counted."""

    def __init__(self, emit: Callable[[AgentUpdate], None], at_end: Callable[[], None] | None = None) -> None:
        self._emit, self._at_end = emit, at_end
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
        if not self._closed and self._at_end is not None:
            self._at_end()
        self._closed = True


def is_answer(update: AgentUpdate) -> bool:
    """Whether a provider must have answered for the agent to say this."""
    return isinstance(update, (TextDelta, ThinkingDelta, ToolCall, ToolResult))

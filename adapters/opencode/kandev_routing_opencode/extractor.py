"""Reads the events of ``opencode run --format json`` (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

from kandev_routing_sdk.spec import AgentEvent, Exited, TurnRecord


class OpenCodeExtractor:
    """One turn of one headless OpenCode. No I/O, no clock."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        if isinstance(event, Exited) and not turn.ended:
            turn.failed("no_result")

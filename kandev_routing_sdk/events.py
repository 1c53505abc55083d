"""Durable route events (R-CON-6): an enum and parameters, never a composed sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from kandev_routing_sdk.route.model import EventDraft, EventKind, Reason

__all__ = ["EventDraft", "EventKind", "EventRecord"]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A written event. ``sequence`` grows over all sessions and is the cursor for replay."""

    sequence: int
    session_id: str
    generation: int
    kind: EventKind
    reason: Reason
    params: dict[str, JsonValue]
    at: datetime

"""Durable route events (R-CON-6): an enum and parameters, never a composed sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue

from kandev_routing_sdk.route.model import Reason


class EventKind(StrEnum):
    """What happened to a session."""

    ROUTE_CHANGING = "session.route_changing"
    ROUTE_CHANGED = "session.route_changed"
    CAPABILITIES_REPLACED = "session.capabilities_replaced"
    ROUTE_WAITING = "session.route_waiting"
    ROUTE_PENDING = "session.route_pending"
    TURN_STARTED = "session.turn_started"
    TURN_ENDED = "session.turn_ended"
    TURN_FAILED = "session.turn_failed"
    ROUTE_STOPPED = "session.route_stopped"


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event about to be written in the transaction that causes it."""

    kind: EventKind
    reason: Reason
    params: dict[str, JsonValue] = field(default_factory=dict)


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

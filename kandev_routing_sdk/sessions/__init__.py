"""Logical sessions: begun, gone on with by whoever owns them, and moved by a person (R-ENG-6 to R-ENG-8)."""

from __future__ import annotations

from kandev_routing_sdk.sessions.actions import Action
from kandev_routing_sdk.sessions.crew import Crew
from kandev_routing_sdk.sessions.feed import EventFeed, EventStream
from kandev_routing_sdk.sessions.handle import Session, Turn
from kandev_routing_sdk.sessions.host import SessionHost
from kandev_routing_sdk.sessions.life import LEAVE_S, Order, go_on, is_dynamic, reconsider, switch_flag
from kandev_routing_sdk.sessions.past import PastDecision
from kandev_routing_sdk.sessions.service import Sessions

__all__ = [
    "LEAVE_S",
    "Action",
    "Crew",
    "EventFeed",
    "EventStream",
    "Order",
    "PastDecision",
    "Session",
    "SessionHost",
    "Sessions",
    "Turn",
    "go_on",
    "is_dynamic",
    "reconsider",
    "switch_flag",
]

"""Logical sessions: begun, gone on with by whoever owns them, and moved by a person (R-ENG-6 to R-ENG-8)."""

from __future__ import annotations

from kandev_routing_sdk.sessions.actions import Action
from kandev_routing_sdk.sessions.life import LEAVE_S, go_on, is_dynamic, reconsider, switch_flag
from kandev_routing_sdk.sessions.past import PastDecision
from kandev_routing_sdk.sessions.service import Sessions

__all__ = ["LEAVE_S", "Action", "PastDecision", "Sessions", "go_on", "is_dynamic", "reconsider", "switch_flag"]

"""Agent processes: spawned in their own group, drained within bounds, and always ended (R-CON-11)."""

from __future__ import annotations

from kandev_routing_sdk.process.child import Child, ExitStatus
from kandev_routing_sdk.process.group import ATTEMPT_MARKER, marked_attempts, reap_group
from kandev_routing_sdk.process.headless import HeadlessDownstream
from kandev_routing_sdk.process.limits import DEFAULT_LIMITS, ProcessLimits

__all__ = [
    "ATTEMPT_MARKER",
    "DEFAULT_LIMITS",
    "Child",
    "ExitStatus",
    "HeadlessDownstream",
    "ProcessLimits",
    "marked_attempts",
    "reap_group",
]

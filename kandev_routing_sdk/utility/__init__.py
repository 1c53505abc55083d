"""Utility calls: one prompt, one answer, no session (R-UTL)."""

from __future__ import annotations

from kandev_routing_sdk.utility.call import CallRequest, run_call
from kandev_routing_sdk.utility.orphans import end_orphans

__all__ = ["CallRequest", "end_orphans", "run_call"]

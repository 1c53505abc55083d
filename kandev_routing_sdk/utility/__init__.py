"""Utility calls: one prompt, one answer, no session (R-UTL)."""

from __future__ import annotations

from kandev_routing_sdk.utility.call import CallRequest, run_call

__all__ = ["CallRequest", "run_call"]

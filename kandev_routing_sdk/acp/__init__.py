"""Agents that speak the Agent Client Protocol over standard input and output."""

from __future__ import annotations

from kandev_routing_sdk.acp.downstream import AcpDownstream

__all__ = ["AcpDownstream"]

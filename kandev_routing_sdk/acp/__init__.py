"""Agents that speak the Agent Client Protocol over standard input and output."""

from __future__ import annotations

from kandev_routing_sdk.acp.downstream import AcpDownstream
from kandev_routing_sdk.acp.extractor import StandardAcpExtractor

__all__ = ["AcpDownstream", "StandardAcpExtractor"]

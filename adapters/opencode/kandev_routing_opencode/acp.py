"""Reads OpenCode's side of the Agent Client Protocol (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

from kandev_routing_sdk.spec import StandardAcpExtractor


class OpenCodeAcpExtractor(StandardAcpExtractor):
    """One turn of ``opencode acp``. No I/O, no clock."""

"""What is secret in a profile's MCP servers."""

from __future__ import annotations

from kandev_routing_sdk.profiles import ConcreteProfile


def mcp_secrets(profile: ConcreteProfile, *keys: str) -> frozenset[str]:
    """Return the values under ``keys`` of every server in the profile's ``mcp``, for :attr:`LaunchPlan.secrets` (R-EVI-5).

    For adapters whose agents get their servers on the command line or in a file, so that nobody but the adapter knows which
    parts hold secrets. A value may be a text, or a table of texts such as ``env`` and ``headers``; others are passed over.
    """
    found: set[str] = set()
    for server in profile.mcp.values():
        for key in keys:
            value = server.get(key) if isinstance(server, dict) else None
            each = [*value.values()] if isinstance(value, dict) else [value]
            found |= {text for text in each if isinstance(text, str) and text}
    return frozenset(found)

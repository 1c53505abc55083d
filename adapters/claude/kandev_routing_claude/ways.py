"""The two ways to drive Claude, and which one a profile asks for (R-PLG-3)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.spec import ConcreteProfile, LaunchWay, Transport, asked_transport

_ELSE: Final = "so that it is on PATH, or set `command` in the profile"

WAYS: Final = (
    LaunchWay(
        Transport.HEADLESS,
        ("claude",),
        f"install Claude Code (npm install -g @anthropic-ai/claude-code) {_ELSE}",
        aliases=("claude-code",),
    ),
    LaunchWay(
        Transport.ACP,
        ("claude-agent-acp",),
        f"install it (npm install -g @agentclientprotocol/claude-agent-acp) {_ELSE}",
        aliases=("claude-code-acp",),
    ),
)
"""Headless first: what it says of failures is the runtime's own, and it needs no Node."""


def transport_of(profile: ConcreteProfile) -> Transport:
    """Return the transport that a profile is written for: its own, that of its command, else headless."""
    return asked_transport(profile, WAYS) or Transport.HEADLESS

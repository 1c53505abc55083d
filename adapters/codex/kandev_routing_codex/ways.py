"""The two ways to drive Codex, and which one a profile asks for (R-PLG-3)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.spec import ConcreteProfile, LaunchWay, Transport

_ELSE: Final = "so that it is on PATH, or set `command` in the profile"

WAYS: Final = (
    LaunchWay(
        Transport.ACP,
        ("codex-acp",),
        f"install it (npm install -g @agentclientprotocol/codex-acp) {_ELSE}",
    ),
    LaunchWay(Transport.HEADLESS, ("codex",), f"install Codex (npm install -g @openai/codex) {_ELSE}"),
)
"""ACP first: failures come out the same (docs/how-to/codex.md), and an answer is seen while it is written, also one that breaks
off."""


def asked_for(profile: ConcreteProfile) -> Transport | None:
    """Return the transport that a profile is written for: its own, or that of its command; None when it says neither.

    As :func:`~kandev_routing_sdk.spec.choose_way` has it, a command that names neither program wraps ``codex`` itself.
    """
    if profile.transport is not None or not profile.command:
        return profile.transport
    words = [word.rpartition("/")[2].partition("@")[0].partition(".")[0] for word in profile.command]
    return Transport.ACP if WAYS[0].command[0] in words else Transport.HEADLESS

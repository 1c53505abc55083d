"""The two ways to drive Codex (R-PLG-3)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.spec import LaunchWay, Transport

_ELSE: Final = "so that it is on PATH, or set `command` in the profile"

WAYS: Final = (
    LaunchWay(
        Transport.ACP,
        ("codex-acp",),
        f"install it (npm install -g @agentclientprotocol/codex-acp) {_ELSE}",
    ),
    LaunchWay(
        Transport.HEADLESS,
        ("codex", "exec", "--json", "--skip-git-repo-check"),
        f"install Codex (npm install -g @openai/codex) {_ELSE}",
    ),
)
"""ACP first: failures come out the same (docs/how-to/codex.md), and an answer is seen while it is written, also one that breaks
off."""

"""The command line and the environment of OpenCode, headless and over ACP."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.spec import LaunchWay, Transport

INSTALL_HINT: Final = (
    "install OpenCode (npm install -g opencode-ai) so that it is on PATH, or set `command` in the profile"
)
WAYS: Final = (
    LaunchWay(Transport.HEADLESS, ("opencode", "run", "--format=json"), INSTALL_HINT),
    LaunchWay(Transport.ACP, ("opencode", "acp"), INSTALL_HINT),
)
"""The best first: only `run --format json` tells the provider's status, headers and body."""

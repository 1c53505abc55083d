"""``kandev-routing``: the SDK on the command line (R-CLI).

One thin module a command; what it needs is imported when the command runs, so that ``--help`` and shell completion are fast.
"""

from __future__ import annotations

from kandev_routing_sdk.cli.entry import main

__all__ = ["main"]

"""OpenCode adapter for kandev-routing-sdk.

The module itself is the plugin: pluggy finds :func:`kandev_routing_adapters` in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kandev_routing_opencode.adapter import OpenCodeAdapter
from kandev_routing_sdk.spec import AgentAdapter, hookimpl

__all__ = ["OpenCodeAdapter", "kandev_routing_adapters"]


@hookimpl
def kandev_routing_adapters() -> Iterable[type[AgentAdapter]]:
    """Return this distribution's adapters (R-PLG-1)."""
    return (OpenCodeAdapter,)

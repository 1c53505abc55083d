"""The scripted agent as an installed plugin, so that a configuration and the command line can be tried without any account."""

from __future__ import annotations

from collections.abc import Iterable

from kandev_routing_sdk.spec import AgentAdapter, hookimpl
from kandev_routing_sdk.testing.scripted.adapter import ScriptedAdapter


@hookimpl
def kandev_routing_adapters() -> Iterable[type[AgentAdapter]]:
    """Return the testing aid's adapter (R-PLG-6)."""
    return (ScriptedAdapter,)

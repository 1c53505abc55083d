"""The pluggy hooks of the entry point group ``kandev_routing_sdk`` (R-PLG-1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pluggy

from kandev_routing_sdk.spec.adapter import AgentAdapter

GROUP: Final = "kandev_routing_sdk"
"""Entry point group and pluggy project name."""

hookspec: Final[pluggy.HookspecMarker] = pluggy.HookspecMarker(GROUP)
hookimpl: Final[pluggy.HookimplMarker] = pluggy.HookimplMarker(GROUP)
"""Marks a plugin's implementation of a hook."""


@hookspec
def kandev_routing_adapters() -> Iterable[type[AgentAdapter]]:
    """Return this distribution's adapter classes; ``family`` must be unique. Called once, when a router opens."""
    return ()

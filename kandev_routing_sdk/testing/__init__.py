"""Aids for tests of hosts and adapters: a scripted agent, a loopback provider, a clock that does not wait.

Everything is imported on first use; nothing here needs pytest to be imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kandev_routing_sdk.testing.clock import FakeClock, FakeIds
    from kandev_routing_sdk.testing.provider import LoopbackProvider
    from kandev_routing_sdk.testing.scripted.adapter import ScriptedAdapter
    from kandev_routing_sdk.testing.scripted.builder import ScriptBuilder, script
    from kandev_routing_sdk.testing.scripted.helper import LoggedPrompt, ScriptedAgent

_WHERE: Final[Mapping[str, str]] = {
    "FakeClock": "clock",
    "FakeIds": "clock",
    "LoggedPrompt": "scripted.helper",
    "LoopbackProvider": "provider",
    "ScriptBuilder": "scripted.builder",
    "ScriptedAdapter": "scripted.adapter",
    "ScriptedAgent": "scripted.helper",
    "script": "scripted.builder",
}

__all__ = [
    "FakeClock",
    "FakeIds",
    "LoggedPrompt",
    "LoopbackProvider",
    "ScriptBuilder",
    "ScriptedAdapter",
    "ScriptedAgent",
    "script",
]

if not TYPE_CHECKING:  # to a type checker a name that there is not is an error

    def __getattr__(name: str) -> object:
        if name in _WHERE:
            return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

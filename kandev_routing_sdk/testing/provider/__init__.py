"""A model provider on the loopback interface that fails as told: for tests of agents, without any account.

``LoopbackProvider`` speaks Anthropic Messages, OpenAI Responses and OpenAI Chat Completions, and answers by named
scenario: plan limits, overload, throttles, rejected logins, broken streams, silence. Third parties may use it to test
their own adapters; a scenario of their own is a ``Scenario`` whose steps are built from ``fail_with``, ``break_off`` and
the like.

For people: ``python -m kandev_routing_sdk.testing.provider --scenario overloaded --port 8123``.
"""

from __future__ import annotations

from kandev_routing_sdk.testing.provider.messages import (
    Ask,
    Dialect,
    Ending,
    Fault,
    Reply,
    Settings,
    SettingsChange,
    SseEvent,
    Step,
    Wire,
)
from kandev_routing_sdk.testing.provider.record import AuthKind, RequestRecord
from kandev_routing_sdk.testing.provider.scenarios import (
    SCENARIOS,
    Scenario,
    break_off,
    call_tool,
    fail_in_stream,
    fail_with,
    say_nothing,
    succeed,
)
from kandev_routing_sdk.testing.provider.server import LoopbackProvider

__all__ = [
    "SCENARIOS",
    "Ask",
    "AuthKind",
    "Dialect",
    "Ending",
    "Fault",
    "LoopbackProvider",
    "Reply",
    "RequestRecord",
    "Scenario",
    "Settings",
    "SettingsChange",
    "SseEvent",
    "Step",
    "Wire",
    "break_off",
    "call_tool",
    "fail_in_stream",
    "fail_with",
    "say_nothing",
    "succeed",
]

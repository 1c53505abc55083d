"""What a caller sees live, without the secrets that are known."""

from __future__ import annotations

from dataclasses import replace

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.updates import (
    AgentUpdate,
    CapabilitiesUpdate,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)


def masked(update: AgentUpdate, cleaner: Sanitiser) -> AgentUpdate:
    """What a caller sees live never holds a known secret; shapes are left alone, for they may be the answer."""
    match update:
        case TextDelta(text) | ThinkingDelta(text):
            return replace(update, text=cleaner.known_only(text))
        case ToolCall(tool_id, title):  # what the agent's runtime names is not the answer
            return ToolCall(cleaner.known_only(tool_id), cleaner.text(title))
        case ToolResult(tool_id):
            return replace(update, tool_id=cleaner.known_only(tool_id))
        case CapabilitiesUpdate(capabilities):
            return CapabilitiesUpdate({name: cleaner.value(value) for name, value in capabilities.items()})
        case _:
            return update

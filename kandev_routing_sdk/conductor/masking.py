"""What a caller sees live, without the secrets that are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.updates import (
    AgentUpdate,
    CapabilitiesUpdate,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)


class LiveText:
    """What one agent says, told while it says it; what may be the beginning of a secret waits until its kind goes on (R-EVI-5)."""

    def __init__(self, cleaner: Sanitiser, tell: Callable[[AgentUpdate], None]) -> None:
        self._cleaner: Final = cleaner
        self._tell: Final = tell
        self._held: dict[type[TextDelta | ThinkingDelta], str] = {}

    def say(self, update: AgentUpdate) -> None:
        """Mask an update and tell it."""
        if not isinstance(update, (TextDelta, ThinkingDelta)):
            self._tell(masked(update, self._cleaner))
            return
        kind = type(update)
        text = self._held.pop(kind, "") + update.text
        end = self._cleaner.known_until(text)
        if end < len(text):
            self._held[kind] = text[end:]
        if end or not text:
            self._tell(kind(self._cleaner.known_only(text[:end])))

    def end(self) -> None:
        """Nothing goes on: what waited was the beginning of nothing."""
        for kind, text in self._held.items():
            self._tell(kind(self._cleaner.known_only(text)))
        self._held.clear()


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

"""Agents that retry in mid-answer say its beginning again, under the same message id: it is shown once (R-CON-9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_MAX_CHUNKS: Final = 4096
_MIN_CHARS: Final = 4
"""Shorter chunks are repeated by honest answers too often to tell."""


@dataclass(slots=True)
class _Message:
    chunks: list[str] = field(default_factory=list)
    cursor: int = 0
    """How many chunks of a replay were recognised; 0: none is running."""
    held: str = ""
    """The first chunk of a possible replay, until the second one tells."""


class ChunkReplay:
    """Filters the chunks of messages. A replay is recognised when its first two chunks repeat those of the message."""

    def __init__(self) -> None:
        self._messages: dict[str, _Message] = {}

    def receive(self, message_id: str, chunk: str) -> list[str]:
        """Return what is to be shown now."""
        if not message_id:
            return [chunk]
        message = self._messages.setdefault(message_id, _Message())
        if 0 < message.cursor < len(message.chunks) and chunk == message.chunks[message.cursor]:
            message.held = ""
            message.cursor += 1
            return []
        if len(message.chunks) > 1 and chunk == message.chunks[0] and len(chunk.strip()) >= _MIN_CHARS:
            # the first of perhaps several replays, or another one after a complete or broken-off one
            unproven = [message.held] if message.held else []
            message.cursor, message.held = 1, chunk
            return unproven
        return self._new(message, chunk)

    def flush(self) -> list[str]:
        """Return what was held back and turned out to be no replay."""
        held = [m.held for m in self._messages.values() if m.held]
        for message in self._messages.values():
            message.held, message.cursor = "", 0
        return held

    def _new(self, message: _Message, chunk: str) -> list[str]:
        shown = [message.held, chunk] if message.held else [chunk]
        message.held, message.cursor = "", 0
        if len(message.chunks) < _MAX_CHUNKS:
            message.chunks.extend(shown)
        return shown

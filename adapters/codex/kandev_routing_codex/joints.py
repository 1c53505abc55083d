"""Where one message of the model ends and the next one begins, and which of its words are said for the first time."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.spec import ChunkReplay

_GAP: Final = "\n\n"


class Joints:
    """Shows each message once, and apart from the one before it."""

    def __init__(self) -> None:
        self._replay = ChunkReplay()
        self._name: str | None = None
        self._fresh = self._shown = False
        self._chunks = 0

    def cut(self) -> None:
        """What comes next is another message, or another try at the same one."""
        self._name = None

    def receive(self, name: str, chunk: str) -> list[str]:
        """Return what is to be shown of a chunk of the message ``name``; one without a name ends at a cut."""
        if name != self._name:
            self._name, self._fresh, self._chunks = name, True, 0
        self._chunks += 1
        return self._apart(self._replay.receive(name, chunk))

    def flush(self) -> list[str]:
        """Return what was held back as a possible replay."""
        return self._apart(self._replay.flush())

    def _apart(self, pieces: list[str]) -> list[str]:
        if not pieces:
            return []
        # a replay that goes on is no new message
        apart = self._fresh and self._shown and len(pieces) == self._chunks
        self._fresh, self._shown = False, True
        return [_GAP + pieces[0], *pieces[1:]] if apart else pieces

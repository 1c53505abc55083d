"""A message of which it is not known yet who said it: the model, or the runtime in place of an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RUNTIME_ID: Final = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The provider names its messages (``msg_…``, others have names of their own); the runtime takes a UUID, or none."""


@dataclass(frozen=True, slots=True)
class Held:
    """A whole message so far."""

    message_id: str
    text: str


class HeldMessage:
    """Holds back at most one message, for the runtime's own come in one piece; a second piece proves that the model speaks."""

    def __init__(self) -> None:
        self._held: Held | None = None
        self._streamed: set[str] = set()

    def receive(self, message_id: str, text: str) -> list[Held]:
        """Take a piece; return what is now known to be the model's, in order."""
        before = self.take()
        known = [] if before is None else [before]
        if message_id and not _RUNTIME_ID.fullmatch(message_id):
            return [*known, Held(message_id, text)]
        if message_id in self._streamed or (before is not None and before.message_id == message_id):
            self._streamed.add(message_id)
            return [*known, Held(message_id, text)]
        self._held = Held(message_id, text)
        return known

    def holds(self, message_id: str) -> bool:
        """Whether this very message is held."""
        return self._held is not None and self._held.message_id == message_id

    def take(self) -> Held | None:
        """Return what is held, and hold it no longer."""
        held, self._held = self._held, None
        return held

"""The text of an answer, shown once, although a retried request says its beginning again under the same message id (R-CON-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIN_CHARS: Final = 4
"""A shorter piece is repeated by honest answers too often to be taken for the beginning of a retry."""
_TWICE_CHARS: Final = 8
"""So much of a beginning, said twice on end, is that of two retries that broke off early."""
_PROOF_CHARS: Final = 16
"""So much is, when it is all that the message had said."""
_MAX_CHARS: Final = 64 * 1024
"""How much of a message is remembered: a retry whose beginning is longer is shown again from there on."""

_MAX_MESSAGES: Final = 8
"""How many of the last messages are remembered: only the newest one is ever tried again."""


@dataclass(slots=True)
class _Message:
    said: str = ""
    """All that is shown of it."""
    pieces: int = 0
    replayed: str = ""
    """What the running retry has said so far; empty when none runs."""
    proven: bool = False

    def piece(self, text: str) -> str:
        """Return what is to be shown now."""
        if self.replayed:
            return self._retried(text)
        if self.pieces and self._may_begin(text):
            return self._begin(text)
        return self._new(text)

    def rest(self) -> str:
        """Return what was held back and turned out to be no retry."""
        held, self.replayed = ("" if self.proven else self.replayed), ""
        return held

    def _begin(self, text: str) -> str:
        """A piece that may be the beginning of a retry: it is held back, unless it says more than was shown."""
        proven = len(text) >= _PROOF_CHARS and text.startswith(self.said)
        if proven and len(text) > len(self.said):
            return self._new(text[len(self.said) :])
        self.replayed, self.proven = text, proven
        return ""

    def _retried(self, text: str) -> str:
        replayed = self.replayed + text
        if self.said.startswith(replayed):
            self.replayed, self.proven = replayed, True
            return ""
        if self._may_begin(text):  # the retry broke off too, and here is the next one
            self.proven = self.proven or len(self.replayed.strip()) >= _TWICE_CHARS
            shown = self._new(self.rest())
            return shown + self._begin(text)
        if replayed.startswith(self.said):
            self.replayed = ""
            return self._new(replayed[len(self.said) :])
        return self._new(self.rest() + text)  # after the same beginning, other words

    def _may_begin(self, text: str) -> bool:
        return len(text.strip()) >= _MIN_CHARS and (self.said.startswith(text) or text.startswith(self.said))

    def _new(self, text: str) -> str:
        self.pieces += 1
        if len(self.said) < _MAX_CHARS:
            self.said += text
        return text


class RetriedText:
    """Decides what of a piece of text is new."""

    def __init__(self) -> None:
        self._messages: dict[str, _Message] = {}

    def piece(self, message_id: str, text: str) -> str:
        """Return what to show for a piece of a message; one without an id is always shown."""
        if not message_id:
            return text
        held = ""
        if message_id not in self._messages and len(self._messages) >= _MAX_MESSAGES:
            held = self._messages.pop(next(iter(self._messages))).rest()
        return held + self._messages.setdefault(message_id, _Message()).piece(text)

    def rest(self) -> str:
        """Return what was held back and is to be shown after all."""
        return "".join(message.rest() for message in self._messages.values())

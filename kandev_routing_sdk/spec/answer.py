"""The text of an answer that comes in pieces: each message apart from the one before, and what a retry says again shown once.

Agents that try again in mid-answer say its beginning again, under the same message id (R-CON-9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_GAP: Final = "\n\n"
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
    went_on: bool = False
    """Whether what was shown last goes on where a retry had been recognised."""

    def piece(self, text: str) -> str:
        """Return what is to be shown now."""
        self.went_on = False
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
            return self._go_on(text)
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
        if replayed.startswith(self.said) and (self.pieces > 1 or len(self.said.strip()) >= _TWICE_CHARS):
            self.replayed = ""
            return self._go_on(replayed)
        return self._new(self.rest() + text)  # after the same beginning, other words

    def _may_begin(self, text: str) -> bool:
        return len(text.strip()) >= _MIN_CHARS and (self.said.startswith(text) or text.startswith(self.said))

    def _go_on(self, replayed: str) -> str:
        self.went_on = True
        return self._new(replayed[len(self.said) :])

    def _new(self, text: str) -> str:
        self.pieces += bool(text)
        if len(self.said) < _MAX_CHARS:
            self.said += text
        return text


class StreamedAnswer:
    """Decides what of each piece is to be shown."""

    def __init__(self) -> None:
        self._messages: dict[str, _Message] = {}
        self._current: str | None = None
        """The message that is being said; None: the next piece begins one, or another try at one."""
        self._shown = self._apart = False

    def cut(self) -> None:
        """Something else happened: what comes next is another message, or another try at this one."""
        self._current = None

    def piece(self, message_id: str, text: str) -> str:
        """Return what to show for a piece of a message; one without an id is always shown, and ends at a cut."""
        held = ""
        if message_id != self._current:
            if message_id not in self._messages:
                held = self.rest()  # no retry of what came before: another message has begun
            self._current, self._apart = message_id, self._shown
        if not message_id:
            return held + self._show(text, goes_on=False)
        if message_id not in self._messages and len(self._messages) >= _MAX_MESSAGES:
            del self._messages[next(iter(self._messages))]
        message = self._messages.setdefault(message_id, _Message())
        shown = message.piece(text)
        return held + self._show(shown, goes_on=message.went_on)

    def rest(self) -> str:
        """Return what was held back and is to be shown after all."""
        return self._show("".join(message.rest() for message in self._messages.values()), goes_on=False)

    def _show(self, text: str, *, goes_on: bool) -> str:
        if not text:
            return ""
        gap = _GAP if self._apart and not goes_on else ""
        self._apart, self._shown = False, True
        return gap + text

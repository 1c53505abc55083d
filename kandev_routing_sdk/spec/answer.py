"""The text of an answer that comes in pieces: each message apart from the one before, and what a retry says again shown once.

Agents that try again in mid-answer say its beginning again (R-CON-9). Where the agent announces a try, that is all it takes.
Of an agent that is known to try again without a word, the same words under the same message id are taken for a retry if they
cannot well be an honest repetition: text that is shown twice is a blemish, text that is lost is a wrong answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_GAP: Final = "\n\n"
_MIN_PIECES: Final = 2
_MIN_CHARS: Final = 12
"""So much of a message's beginning, in as many different pieces, is taken for a retry that nobody announced."""
_MAX_HELD: Final = 64
"""How many pieces are held back for a proof."""
_MAX_CHARS: Final = 64 * 1024
"""How much of a message is remembered: a retry whose beginning is longer is shown again from there on."""
_MAX_MESSAGES: Final = 8
"""How many of the last messages are remembered: only the newest one is ever tried again."""


@dataclass(slots=True)
class _Message:
    said: list[str] = field(default_factory=list)
    """What is shown of it, as far as it is remembered."""
    chars: int = 0
    head: str = ""
    """The same as one text, made when it is compared."""
    held: list[str] = field(default_factory=list)
    """Pieces of what may be retries."""
    retry: list[str] = field(default_factory=list)
    """Those of the last one."""
    announced: bool = False
    """Whether the agent said that it tries again."""
    proven: bool = False
    whole: bool = False
    """Whether a retry had said all of it when the last one began: then that may just go on."""

    def piece(self, text: str) -> tuple[str, bool]:
        """Return what is to be shown now, and whether it goes on where a retry had been recognised."""
        if not self.held and not (self.announced or self._begins(text)):
            return self.new(text), False
        self.held.append(text)
        self.retry.append(text)
        again = "".join(self.retry)
        if self._head().startswith(again):
            self._weigh()
            return self._unless_too_much()
        if len(self.retry) > 1 and self._begins(text):  # that try broke off or is over, and here may be the next one
            self.whole = again == self.head + text
            self.retry = [text]
            return self._unless_too_much()
        if (self.announced or self.proven) and again.startswith(self.head):
            self._forget()
            return self.new(again[len(self.head) :]), True
        goes_on = self.whole and self.proven
        return self.release(), goes_on

    def _unless_too_much(self) -> tuple[str, bool]:
        """Hold back, but not for long."""
        if len(self.held) > _MAX_HELD and not (self.announced or self.proven):
            return self.release(), False
        return "", False

    def release(self) -> str:
        """Return what was held back, unless it is known to be a retry."""
        text = "".join(self.retry if self.proven else self.held)
        if self.proven and self._head().startswith(text):
            text = ""
        self._forget()
        return self.new(text)

    def begin_retry(self) -> None:
        """The agent says that it tries again; what was held is part of a try that it gave up, and was shown before."""
        self._forget()
        self.announced = True

    def new(self, text: str) -> str:
        """Take text that is to be shown."""
        if text and self.chars < _MAX_CHARS:
            self.said.append(text)
            self.chars += len(text)
        return text

    def _begins(self, text: str) -> bool:
        return bool(text.strip()) and self.chars > 0 and self._head().startswith(text)

    def _weigh(self) -> None:
        """Whether what is held cannot well be an honest repetition."""
        matched = "".join(self.retry)
        several = len(self.retry) >= _MIN_PIECES and len(set(self.retry)) > 1
        self.proven = self.proven or self.announced or (several and len(matched.strip()) >= _MIN_CHARS)

    def _forget(self) -> None:
        self.held, self.retry = [], []
        self.announced = self.proven = self.whole = False

    def _head(self) -> str:
        if len(self.head) != self.chars:
            self.head = "".join(self.said)
        return self.head


class StreamedAnswer:
    """Decides what of each piece is to be shown. ``silent_retries``: the agent may try again without saying so."""

    def __init__(self, *, silent_retries: bool = False) -> None:
        self._silent_retries = silent_retries
        self._messages: dict[str, _Message] = {}
        self._current: str | None = None
        """The message that is being said; None: the next piece begins one."""
        self._last: _Message | None = None
        self._tried_again = False
        self._shown = self._apart = False

    def cut(self) -> str:
        """Something else happened: what comes next is another message, or another part of this one. Returns what was held back."""
        held = self.rest()
        self._current = self._last = None
        return held

    def retry(self) -> None:
        """The agent says that it tries again: what comes next may say again what it said last, under whatever id."""
        self._current = None
        self._tried_again = self._last is not None

    def piece(self, message_id: str, text: str) -> str:
        """Return what to show for a piece of a message. One without an id ends at a cut."""
        held = ""
        if message_id != self._current:
            held = self._begin(message_id)
            self._current, self._apart = message_id, self._shown
        message = self._messages[message_id]
        if (message_id and self._silent_retries) or message.announced or message.held:
            shown, goes_on = message.piece(text)
        else:
            shown, goes_on = message.new(text), False
        return held + self._show(shown, goes_on=goes_on)

    def rest(self) -> str:
        """Return what was held back and is to be shown after all."""
        return self._show("".join(message.release() for message in self._messages.values()), goes_on=False)

    def _begin(self, message_id: str) -> str:
        """Turn to a message; return what was held back of the others, for they are over."""
        if self._tried_again and self._last is not None:
            self._tried_again = False
            self._messages = {message_id: self._last}  # nothing before it is ever tried again
            self._last.begin_retry()
            return ""
        held = self.rest()
        if not message_id or message_id not in self._messages:
            self._messages.pop(message_id, None)
            if len(self._messages) >= _MAX_MESSAGES:
                del self._messages[next(iter(self._messages))]
            self._messages[message_id] = _Message()
        self._last = self._messages[message_id]
        return held

    def _show(self, text: str, *, goes_on: bool) -> str:
        if not text:
            return ""
        gap = _GAP if self._apart and not goes_on else ""
        self._apart, self._shown = False, True
        return gap + text

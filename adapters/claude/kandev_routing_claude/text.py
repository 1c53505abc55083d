"""The text of the answer, shown once, although Claude says it several times."""

from __future__ import annotations

from typing import Final

_GAP: Final = "\n\n"


class AnswerText:
    """Decides what of a piece of text is new.

    With partial messages every text comes twice: in pieces, then as a whole. And when a broken stream is tried again,
    its beginning comes once more; it is left out for as long as the words are the same.
    """

    def __init__(self) -> None:
        self._streamed = ""
        """Pieces of the current message that no whole block has confirmed yet."""
        self._replay = ""
        """What an abandoned try had shown already."""
        self._fresh = False
        self.shown = False

    def begin_message(self) -> None:
        """A response begins; unconfirmed text belongs to a try that was given up."""
        if self._streamed:
            self._replay, self._streamed = self._streamed, ""

    def begin_block(self) -> None:
        """A block of text begins inside the message."""
        self._fresh = not self._replay

    def piece(self, text: str) -> str:
        """Return what to show for a streamed piece."""
        self._streamed += text
        if not self._replay:
            return self._show(text)
        if self._replay.startswith(self._streamed):
            return ""
        shown, self._replay = self._replay, ""
        if self._streamed.startswith(shown):
            return self._show(self._streamed[len(shown) :])
        self._fresh = True
        return self._show(self._streamed)

    def whole(self, text: str) -> str:
        """Return what to show for a complete block."""
        if self._streamed and self._streamed.startswith(text):
            self._streamed = self._streamed[len(text) :]
            self._replay = ""
            return ""
        known, self._streamed = self._streamed, ""
        if known and text.startswith(known):
            return self._show(text[len(known) :])
        self._fresh = True
        return self._show(text)

    def _show(self, text: str) -> str:
        if not text:
            return ""
        gap = _GAP if self._fresh and self.shown else ""
        self._fresh, self.shown = False, True
        return gap + text

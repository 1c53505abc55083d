"""The text of the answer, shown once, although Claude says it several times."""

from __future__ import annotations

from typing import Final

_GAP: Final = "\n\n"


class _Pieces:
    """A text that grows by pieces, put together only when it is looked at: an answer has very many."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        if text:
            self._pieces.append(text)

    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def take(self) -> str:
        text = self.text()
        self._pieces = []
        return text


class AnswerText:
    """Decides what of a piece of text is new.

    With partial messages every text comes twice: in pieces, then as a whole. And when a broken stream is tried again,
    its beginning comes once more; it is left out for as long as the words are the same.
    """

    def __init__(self) -> None:
        self._streamed = _Pieces()
        """Pieces of the current message that no whole block has confirmed yet."""
        self._replay = ""
        """What an abandoned try had shown already."""
        self._fresh = False
        self.shown = False

    def begin_message(self) -> None:
        """A response begins; unconfirmed text belongs to a try that was given up."""
        if streamed := self._streamed.take():
            self._replay = streamed

    def begin_block(self) -> None:
        """A block of text begins inside the message."""
        self._fresh = not self._replay

    def piece(self, text: str) -> str:
        """Return what to show for a streamed piece."""
        self._streamed.add(text)
        if not self._replay:
            return self._show(text)
        streamed = self._streamed.text()
        if self._replay.startswith(streamed):
            return ""
        shown, self._replay = self._replay, ""
        if streamed.startswith(shown):
            return self._show(streamed[len(shown) :])
        self._fresh = True
        return self._show(streamed)

    def whole(self, text: str) -> str:
        """Return what to show for a complete block."""
        known = self._streamed.take()
        if known and known.startswith(text):
            self._streamed.add(known[len(text) :])
            self._replay = ""
            return ""
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

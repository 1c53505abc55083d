"""Cuts a byte stream into lines of bounded length. Framing only: no I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

OVERLAP: Final = 32 * 1024
"""Bytes that two pieces of one line share: more than what goes of both beside the cut, and a sentence."""


class Line(NamedTuple):
    """One line without its newline, or a piece of one."""

    text: str
    truncated: bool
    """It was longer: the rest comes as the next piece, or was thrown away."""
    rest: bool = False
    """It begins in the middle of a line, a little before the end of the piece that came before."""


class LineSplitter:
    """Collects bytes until a newline, keeping at most ``limit`` of a line; the rest is thrown away, or (``pieces``) comes after."""

    def __init__(self, limit: int, *, pieces: bool = False) -> None:
        self._limit = limit
        self._overlap = min(OVERLAP, limit // 4) if pieces else None
        self._buffer = bytearray()
        self._overlong = False
        self._rest = False

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that ``chunk`` completes."""
        lines: list[Line] = []
        start = 0
        while (newline := chunk.find(b"\n", start)) >= 0:
            lines += self._keep(chunk, start, newline)
            lines.append(self._take())
            start = newline + 1
        lines += self._keep(chunk, start, len(chunk))
        return lines

    def flush(self) -> list[Line]:
        """Return the last, unterminated line, if there is one."""
        return [self._take()] if self._buffer or self._overlong else []

    def _keep(self, chunk: bytes, start: int, end: int) -> list[Line]:
        pieces: list[Line] = []
        while end - start > (room := self._limit - len(self._buffer)):
            self._buffer += memoryview(chunk)[start : start + room]
            if self._overlap is None:
                self._overlong = True
                return pieces
            pieces.append(Line(self._buffer.decode("utf-8", "replace"), truncated=True, rest=self._rest))
            del self._buffer[: len(self._buffer) - self._overlap]
            self._rest = True
            start += room
        self._buffer += memoryview(chunk)[start:end]
        return pieces

    def _take(self) -> Line:
        line = Line(self._buffer.decode("utf-8", "replace").removesuffix("\r"), self._overlong, self._rest)
        self._buffer.clear()
        self._overlong = self._rest = False
        return line

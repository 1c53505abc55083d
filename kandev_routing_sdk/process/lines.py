"""Cuts a byte stream into lines of bounded length. Framing only: no I/O."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One line without its newline; ``truncated``: it was longer, the rest was thrown away."""

    text: str
    truncated: bool


class LineSplitter:
    """Collects bytes until a newline, keeping at most ``limit`` of a line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._overlong = False

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that ``chunk`` completes."""
        lines: list[Line] = []
        start = 0
        while (newline := chunk.find(b"\n", start)) >= 0:
            self._keep(chunk, start, newline)
            lines.append(self._take())
            start = newline + 1
        self._keep(chunk, start, len(chunk))
        return lines

    def flush(self) -> list[Line]:
        """Return the last, unterminated line, if there is one."""
        return [self._take()] if self._buffer or self._overlong else []

    def _keep(self, chunk: bytes, start: int, end: int) -> None:
        room = self._limit - len(self._buffer)
        if end - start > room:
            self._overlong = True
            end = start + room
        self._buffer += memoryview(chunk)[start:end]

    def _take(self) -> Line:
        line = Line(self._buffer.decode("utf-8", "replace").removesuffix("\r"), self._overlong)
        self._buffer.clear()
        self._overlong = False
        return line

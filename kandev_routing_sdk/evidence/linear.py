r"""Patterns with a linear-time promise (R-EVI-5, R-CLS-7): the one door to RE2.

RE2 knows no backtracking, so no input makes a pattern super-linear; what it cannot promise that for it refuses to
compile. ``\b``, ``\w``, ``\d`` and ``\s`` are ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast

import re2

__all__ = ["START", "Match", "Pattern", "compile_linear", "well_formed"]

START: Final = r"(?:\\[nrtf]|\b)"
"""RE2 source of where a word starts, also after a line break that JSON has written out: its letter is no part of the word."""


class Match(Protocol):
    """What is used of a match; offsets are in characters."""

    def group(self, group: int | str = 0, /) -> str | None:
        """The text of a group, ``None`` when it took no part."""
        ...

    def start(self, group: int | str = 0, /) -> int:
        """Where a group starts."""
        ...

    def end(self, group: int | str = 0, /) -> int:
        """Where a group ends."""
        ...


class Pattern(Protocol):
    """What is used of a compiled pattern."""

    def match(self, text: str, /) -> Match | None:
        """A match at the start of ``text``."""
        ...

    def fullmatch(self, text: str, /) -> Match | None:
        """A match of the whole of ``text``."""
        ...

    def search(self, text: str, /) -> Match | None:
        """The leftmost match."""
        ...

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Every match, left to right, without overlap."""
        ...

    def sub(self, repl: Callable[[Match], str] | str, text: str, /) -> str:
        """``text`` with every match replaced."""
        ...


def compile_linear(pattern: str) -> Pattern:
    """Compile ``pattern`` with RE2; a pattern that RE2 refuses raises ``re2.error`` at import, not at use."""
    options = re2.Options()
    options.log_errors = False
    return cast("Pattern", re2.compile(pattern, options))


def well_formed(text: str) -> str:
    """``text`` without lone surrogates: they have no UTF-8, and a JSON string may carry them."""
    return text.encode("utf-8", "replace").decode("utf-8")

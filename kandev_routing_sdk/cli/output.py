"""What is printed, and where: results on standard output, everything else on standard error; plain when nobody watches."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from kandev_routing_sdk.errors import RoutingError

SCHEMA_VERSION: Final = 1
_NAME_WIDTH: Final = 40
"""So much of what names a row of a table stays on one line: a call's id, and enough of a circuit's key to tell it from others."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


class ReaderGone(Exception):
    """Nobody reads our standard output any more."""


class OutputFailed(RoutingError):
    """Standard output cannot be written: what was asked for was done, and its result could not be shown."""

    code = "output"

    def __str__(self) -> str:
        why = " ".join(str(a) for a in self.args)
        return (
            f"standard output cannot be written ({why}): the result could not be shown, what it took was done all the same; "
            "before running it again look at kandev-routing calls, or sessions"
        )


class Interrupted(SystemExit):
    """A signal ended a command that had nothing to lose.

    No ``Exception``: nothing on its way to the edge may take it for a fault of its own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.exit_code: int = 128 + number


# Text ------------------------------------------------------------------------------------------------------------------------


def one_line(text: str, limit: int = 300) -> str:
    """Return ``text`` on one line, without control characters, cut at ``limit`` characters: safe to show on a terminal."""
    line = " ".join("".join(c if _is_shown(c) else " " for c in text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def block(text: str) -> str:
    """Return ``text`` without control characters but with its lines and tabs: safe to show on a terminal."""
    return "".join(c for c in text if c in "\n\t" or _is_shown(c))


def _is_shown(character: str) -> bool:
    return (
        unicodedata.category(character) not in {"Cc", "Cs"}
        and character not in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
    )


def moment(at: datetime, now: datetime) -> str:
    """Return a time for a person: ``19:30 UTC`` today, with its date otherwise, and how far away it is."""
    at, today = at.astimezone(UTC), now.astimezone(UTC).date()
    seconds = at.second or (at - now).total_seconds() < _HOUR_S
    clock = at.strftime("%H:%M:%S UTC" if seconds else "%H:%M UTC")
    written = clock if at.date() == today else f"{at:%Y-%m-%d} {clock}"
    away = (at - now).total_seconds()
    return f"{written} (in {span(away)})" if away > 0 else written


def span(seconds: float) -> str:
    """Return a length of time for a person, with its two largest units."""
    if seconds < _MINUTE_S:
        return f"{round(seconds, 0 if seconds >= 10 else 1):g} s"  # noqa: PLR2004  # two digits are enough
    whole = round(seconds)
    for size, name, smaller, smaller_name in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "min"),
        (_MINUTE_S, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


# Streams ---------------------------------------------------------------------------------------------------------------------


def _watched() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches this stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _wants_style(stream: TextIO) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def print_text(text: str) -> None:
    """Print lines on standard output. On a terminal control characters are left out. Raises :class:`ReaderGone`."""
    _write(f"{block(text) if _watched() else text}\n")


def print_json(document: Any, *, on_one_line: bool = False) -> None:  # noqa: ANN401  # any JSON
    """Print one document on standard output: on one line when piped. Raises :class:`ReaderGone`."""
    indent = 2 if _watched() and not on_one_line else None
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    try:
        text.encode((sys.stdout and sys.stdout.encoding) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=indent)
    _write(f"{text}\n")


def _write(text: str) -> None:
    if sys.stdout is None:
        raise OutputFailed("it is closed")
    try:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as problem:
        raise OutputFailed(problem.strerror or type(problem).__name__) from None


def note(text: str, style: str = "") -> None:
    """Print a line for a person on standard error; coloured on a terminal, unless ``NO_COLOR`` is set."""
    if sys.stderr is not None:
        styled(sys.stderr, text, style)


def silent(text: str, style: str = "") -> None:
    """Say nothing: what :func:`note` would."""


def styled(stream: TextIO, text: str, style: str = "") -> None:
    """Print a line on ``stream``; coloured on a terminal. When nobody reads standard error, there is nobody to tell."""
    try:
        if style and _wants_style(stream):
            from rich.console import Console
            from rich.text import Text

            Console(file=stream, highlight=False).print(Text(block(text), style), soft_wrap=True)
            return
        encoding = stream.encoding or "utf-8"
        stream.write(f"{block(text)}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as problem:
        if stream is sys.stdout:
            if isinstance(problem, BrokenPipeError):
                raise ReaderGone from None
            raise OutputFailed(problem.strerror or type(problem).__name__) from None


def error_line(text: str) -> None:
    """Print the one line that says why a command failed."""
    note(f"error: {' '.join(block(text).split())}", "bold red")


def error_document(code: str, message: str, exit_code: int, problems: Sequence[object] = ()) -> dict[str, Any]:
    """Return what ``--json`` prints for an error."""
    return {
        "schema_version": SCHEMA_VERSION,
        "error": {
            "code": code,
            "message": message,
            "problems": [
                {
                    "path": getattr(p, "path", ""),
                    "message": getattr(p, "message", str(p)),
                    "code": getattr(p, "code", "invalid"),
                }
                for p in problems
            ],
        },
        "exit_code": exit_code,
    }


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print rows on standard output: a table on a terminal, tab-separated lines under a heading when piped."""
    if not is_terminal(sys.stdout):
        for row in [columns, *rows]:
            _write("\t".join(one_line(cell, 1000) for cell in row) + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    # the first column names the row: what is cut short there cannot be given to the next command
    longest = max((len(row[0]) for row in rows), default=0)
    whole = longest <= _NAME_WIDTH
    shown.add_column(columns[0], overflow="fold", min_width=min(longest, _NAME_WIDTH), no_wrap=whole)
    for heading in columns[1:]:
        shown.add_column(heading, overflow="fold")
    for number, row in enumerate(rows):
        shown.add_row(
            *(Text(one_line(cell, 1000)) for cell in row), style=styles[number] if number < len(styles) else None
        )
    try:
        Console(highlight=False, color_system="auto" if _wants_style(sys.stdout) else None).print(shown)
    except BrokenPipeError:
        raise ReaderGone from None

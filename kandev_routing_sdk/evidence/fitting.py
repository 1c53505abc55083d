"""Fits headers, structured data and texts into the bounds of a signal (R-EVI-2): what tells most is kept first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pydantic import JsonValue

MAX_SIGNAL_BYTES: Final = 4096
LEAST_TEXT: Final = 256
"""Bytes that are left for the words beside all structure."""
EDGE: Final = 2048
"""Characters beside a cut that are read and not kept: longer than any secret."""
_OVERLAP: Final = 160
"""Characters that two pieces of one line share, so that no sentence is cut in both."""
_HEADERS_SHARE: Final = 2048
_MOST_HEADERS: Final = 64
_MAX_DEPTH: Final = 6
_TELLING_HEADER: Final = re.compile(r"(?i)retry-after|.*ratelimit|x-codex-|anthropic-")
_TELLING_KEYS: Final = frozenset(
    {
        "api_error_status",
        "cause",
        "code",
        "codexerrorinfo",
        "data",
        "detail",
        "details",
        "error",
        "error_status",
        "errormessage",
        "errorname",
        "errors",
        "message",
        "name",
        "reason",
        "reset_at",
        "resets_at",
        "resets_in_seconds",
        "resetsat",
        "response",
        "result",
        "retry_after",
        "retryafter",
        "status",
        "statuscode",
        "subtype",
        "type",
    }
)
"""Names of what says why a request failed and until when, in lower case."""


def cut_utf8(text: str, limit: int) -> str:
    """Return the longest prefix of ``text`` that is at most ``limit`` bytes of UTF-8, on a character boundary."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def spans(text: str, first: int, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield where ``text`` is to be cut, at line ends where there are some; linear.

    Args:
        text: what is cut.
        first: bytes of UTF-8 that the first piece may have; all others may have 4 KiB.
        start: where it begins.
        end: where it ends; None: at the end of ``text``.
    """
    end = len(text) if end is None else end
    limit = max(first, LEAST_TEXT)
    while start < end:
        piece = cut_utf8(text[start : min(start + limit, end)], limit)
        stop = step = len(piece)
        if start + step < end:
            line_end = piece.rfind("\n") + 1
            stop, step = (line_end, line_end) if line_end else (step, max(step - _OVERLAP, 1))
        yield start, start + stop
        start += step
        limit = MAX_SIGNAL_BYTES


def as_json(value: object) -> bytes:
    """Return ``value`` as it is measured; nothing for None."""
    return b"" if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def first_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return what is read of headers: more than is kept, so that no secret in them is cut before it is seen."""
    return {name[:EDGE]: headers[name][:EDGE] for name in _chosen(headers, _MOST_HEADERS, _header_rank)}


def short_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers that fit, those first that tell how long to wait, with their long values cut."""
    if len(as_json(headers)) <= _HEADERS_SHARE:
        return headers
    room, kept = _HEADERS_SHARE, set[str]()
    for name in sorted(headers, key=_header_rank):
        room -= len(as_json({cut_utf8(name, 64): cut_utf8(headers[name], 256)}))
        if room < 0:
            break
        kept.add(name)
    return {cut_utf8(name, 64): cut_utf8(value, 256) for name, value in headers.items() if name in kept}


def fit(value: JsonValue, share: int) -> JsonValue:
    """Cut long strings, deep nesting, wide objects and long lists so that structure stays readable inside ``share`` bytes."""
    fitted: JsonValue = None
    for longest, items in ((1024, 32), (256, 16), (96, 8), (32, 4)):
        fitted = _shrink(value, longest, items, _MAX_DEPTH)
        if len(as_json(fitted)) <= share:
            return fitted
    return cut_utf8(json.dumps(fitted, ensure_ascii=False), share // 2)


def _shrink(value: JsonValue, longest: int, items: int, depth: int) -> JsonValue:
    if isinstance(value, str):
        return cut_utf8(value, longest)
    if isinstance(value, dict):
        if not depth:
            return "…"
        names = _chosen(value, items, _key_rank)
        return {cut_utf8(name, 128): _shrink(value[name], longest, items, depth - 1) for name in names}
    if isinstance(value, list):
        return [_shrink(v, longest, items, depth - 1) for v in value[:items]] if depth else "…"
    return value


def _chosen(names: Iterable[str], most: int, rank: Callable[[str], int]) -> list[str]:
    """Return ``most`` of ``names``, those of the lowest rank, in their order."""
    every = list(names)
    if len(every) <= most:
        return every
    kept = set(sorted(every, key=rank)[:most])
    return [name for name in every if name in kept]


def _header_rank(name: str) -> int:
    if _TELLING_HEADER.match(name[:EDGE]):
        return 0
    return 1 if name.lower() == "content-type" else 2


def _key_rank(name: str) -> int:
    return 0 if name.lower() in _TELLING_KEYS else 1

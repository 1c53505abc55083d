"""Secrets that do not look like themselves: percent-encoded, or broken over lines (R-EVI-5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

from kandev_routing_sdk.evidence.linear import Match, compile_linear
from kandev_routing_sdk.evidence.opaque import is_coded

__all__ = ["BREAK", "in_the_clear", "joined_up"]

Cleaner = Callable[[str], str]

_ENCODED: Final = compile_linear(r"[A-Za-z0-9%._~+/=&:;,@!$()*?#-]*%[0-9A-Fa-f]{2}[A-Za-z0-9%._~+/=&:;,@!$()*?#-]*")
_SAFE: Final = "[]:/~?&=;,.-_@!$()*+#"
_MARKER_SIGNS: Final = "[]:"
_BETWEEN: Final = "\n\x1e\n"
_SHORTEST_ENCODED: Final = 12

BREAK: Final = r"(?:[ \t]*(?:\r?\n|(?:\\+r)?\\+n)[ \t]*)"
"""RE2 source of a line break with its indentation, also as JSON writes it."""
_TOKEN: Final = r"[A-Za-z0-9+/_=.~%:-]"
_WRAPPED: Final = compile_linear(rf"{BREAK}?{_TOKEN}{{6,}}(?:{BREAK}{_TOKEN}{{4,}})+")
_BREAKS: Final = re.compile(r"([ \t]*(?:\r?\n|(?:\\+r)?\\+n)[ \t]*)")
_NO_REST: Final = re.compile(r"\d{4}-\d\d|\d{1,2}[:.]|[\d:.]{1,7}\Z|[A-Za-z]+:|[A-Z]+\Z|HTTP/")
_GIT_HASH: Final = re.compile(r"[0-9a-f]{40}")
_MOST_PIECES: Final = 64


def in_the_clear(text: str, clean: Cleaner) -> str:
    """``text`` with every percent-encoded run that holds a secret decoded and cleaned; all others stay as they are."""
    if "%" not in text:
        return text
    runs = [run for found in _ENCODED.finditer(text) if len(run := found.group() or "") >= _SHORTEST_ENCODED]
    decoded = [unquote(run) for run in runs]
    # All at once: most of what cleaning costs, it costs for every text, however short.
    cleaned = clean(_BETWEEN.join(decoded)).split(_BETWEEN) if runs else []
    if len(cleaned) != len(runs):
        cleaned = [clean(run) for run in decoded]
    changed = {
        run: quote(after, safe="".join({sign for sign in _SAFE if sign in run} | {*_MARKER_SIGNS}))
        for run, before, after in zip(runs, decoded, cleaned, strict=True)
        if before != after
    }
    if not changed:
        return text
    return _ENCODED.sub(lambda found: changed.get(found.group() or "", found.group() or ""), text)


def joined_up(text: str, clean: Cleaner) -> str:
    """``text`` with every secret replaced that a line break cuts in two; what is no part of one keeps its line."""
    if "\n" not in text and "\\n" not in text:
        return text

    def join(found: Match) -> str:
        whole = found.group() or ""
        pieces = _BREAKS.split(whole)[: 2 * _MOST_PIECES]
        # Before the first run may stand the break that it follows: written out, it would else be part of the run.
        done = 0 if pieces[0] else 2
        out = pieces[:done]
        while done < len(pieces):
            end = done + 1
            while end + 1 < len(pieces) and _goes_on(pieces[end + 1], pieces[end - 1]):
                end += 2
            out.append(_joined(pieces[done:end], clean))
            out += pieces[end : end + 1]
            done = end + 1
        return "".join(out) + whole[sum(map(len, pieces)) :]

    return _WRAPPED.sub(join, text)


def _goes_on(piece: str, before: str) -> bool:
    """Whether a line's first run may be the rest of a secret: no date, number, word or hash in a list."""
    if _NO_REST.match(piece) or (_GIT_HASH.fullmatch(piece) and _GIT_HASH.fullmatch(before)):
        return False
    return any(char.isdigit() for char in piece) or is_coded(piece) or any(char.isupper() for char in piece[1:])


def _joined(pieces: list[str], clean: Cleaner) -> str:
    apart = "".join(pieces)
    if len(pieces) == 1:
        return apart
    together = "".join(pieces[::2])
    cleaned = clean(together)
    return cleaned if cleaned != together and not any(piece in cleaned for piece in pieces[::2]) else apart

"""Long opaque strings: random-looking runs of letters and digits that no known shape explains (R-EVI-5)."""

from __future__ import annotations

import re
from typing import Final

from kandev_routing_sdk.evidence.linear import Match

__all__ = ["OPAQUE", "hide_opaque"]

OPAQUE: Final = r"(?i)((?:sha-?\d{1,3}|md5)[:=-])?[A-Za-z0-9+/_=.~-]{32,}"
"""RE2 source of a candidate; :func:`hide_opaque` decides."""

_HIDDEN: Final = "[redacted:opaque]"
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PARTS: Final = re.compile(r"([/.~]+)")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_HEX: Final = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)")
_SHORTEST: Final = 32
_SHORTEST_WHOLE: Final = 40
_GIT_HASH: Final = 40
_HEX_LETTERS: Final = 7
_LETTERS: Final = 12
_CHANGES: Final = 0.2
_PER_SLASH: Final = 12


def hide_opaque(found: Match) -> str:
    """A candidate with its random-looking parts replaced; hashes that say so, git hashes, UUIDs and paths stay."""
    text = found.group() or ""
    if found.group(1):
        return text
    parts = _PARTS.split(text)
    if any(_is_random(part, _CHANGES) for part in parts):
        return "".join(_HIDDEN if _is_random(part, _CHANGES) else part for part in parts)
    return _HIDDEN if _is_blob(text) else text


def _is_blob(text: str) -> bool:
    """Base64 with slashes in it, which is no path: hardly any slash, and no part that is a word."""
    slashes = text.count("/")
    return (
        0 < slashes <= len(text) // _PER_SLASH
        and len(text) >= _SHORTEST_WHOLE
        and _BASE64.fullmatch(text) is not None
        and not any(len(part) == _GIT_HASH and _HEX.fullmatch(part) for part in text.split("/"))
        and _changes(text) >= _CHANGES
        and any(char.isdigit() for char in text)
    )


def _is_random(part: str, least: float) -> bool:
    rest = _UUID.sub("", part)
    if len(rest) < _SHORTEST:
        return False
    if _HEX.fullmatch(rest):
        return len(rest) != _GIT_HASH and len(set(rest)) >= _HEX_LETTERS
    return len(set(rest)) >= _LETTERS and _changes(rest) >= least


def _changes(text: str) -> float:
    """How often the kind of character (lower, upper, digit) changes, per character.

    A capital that starts a word is no change, so identifiers and file names score low and random strings high.
    """
    count, before = 0, ""
    for char in text:
        kind = "d" if char.isdigit() else "u" if char.isupper() else "l" if char.islower() else ""
        if kind and before and kind != before and not (before == "u" and kind == "l"):
            count += 1
        before = kind
    return count / len(text)

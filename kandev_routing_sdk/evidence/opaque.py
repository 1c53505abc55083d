"""Long opaque strings: random-looking runs of letters and digits that no known shape explains (R-EVI-5)."""

from __future__ import annotations

import re
from typing import Final

from kandev_routing_sdk.evidence.linear import Match

__all__ = ["OPAQUE", "hide_opaque", "is_coded"]

OPAQUE: Final = r"(?i)(\\[nrtf])?((?:sha-?\d{1,3}|md5)[:=-])?[A-Za-z0-9+/_=.~-]{32,}"
"""RE2 source of a candidate; :func:`hide_opaque` decides."""

_HIDDEN: Final = "[redacted:opaque]"
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ASSIGNED: Final = re.compile(r"(?<==)(?=[^=])|(?<=[^=])(?==)")
_PARTS: Final = re.compile(r"([/.~]+)")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+")
_HEX: Final = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)")
_WORD: Final = re.compile(r"[A-Z]?[a-z]{3,}")
_PRONOUNCED: Final = re.compile(r"(?i)(?=.*[aeiouy])(?!.*[bcdfghjklmnpqrstvwxyz]{5})(?!.*[aeiou]{3})")
_NAME: Final = re.compile(r"[a-z]*[aeiouy][a-z]*|[A-Z]?[a-z]{3,}")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9]+")
_SHORTEST: Final = 32
_SHORTEST_WHOLE: Final = 40
_SHORTEST_NEIGHBOUR: Final = 4
_SHORTEST_SEGMENT: Final = 8
_SURE_SEGMENT: Final = 20
_GIT_HASH: Final = 40
_HEX_LETTERS: Final = 7
_LETTERS: Final = 12
_CHANGES: Final = 0.2
_FEW_CHANGES: Final = 0.12
_MANY_CHANGES: Final = 0.33
_WORDS: Final = 0.6
_PER_SLASH: Final = 12


def hide_opaque(found: Match) -> str:
    """A candidate with its random-looking parts replaced; hashes that say so, git hashes, UUIDs and paths stay."""
    text, lead = found.group() or "", found.group(1) or ""
    if found.group(2):
        return text
    pieces = _ASSIGNED.split(text[len(lead) :])
    return lead + "".join(
        _without_random(p, padded=after[:1] == "=") for p, after in zip(pieces, (*pieces[1:], ""), strict=True)
    )


def _without_random(text: str, *, padded: bool) -> str:
    parts = _PARTS.split(text)
    random = [_is_random(part) for part in parts]
    if not any(random):
        return _HIDDEN if _is_blob(text) else text
    if _BASE64.fullmatch(text) and (padded or not any(_NAME.fullmatch(part) for part in parts[::2] if len(part) > 2)):  # noqa: PLR2004
        return _HIDDEN
    # Base64 has slashes: what stands beside a random part is the rest of it, if it is too odd for a folder's name.
    return "".join(_HIDDEN if hide or _is_rest(part) else part for part, hide in zip(parts, random, strict=True))


def is_coded(text: str) -> bool:
    """Whether a run in ``text`` mixes letters with digits, or capitals with small ones, as no word does."""
    return any(_is_mixed(segment) for segment in _SEGMENT.findall(text) if len(segment) >= _SHORTEST_SEGMENT)


def _is_mixed(segment: str) -> bool:
    digits = sum(char.isdigit() for char in segment)
    if digits == len(segment):
        return False
    if (
        digits
        and len(segment) >= _SURE_SEGMENT
        and any(c.islower() for c in segment)
        and any(c.isupper() for c in segment)
    ):
        return True
    return _changes(segment) >= _FEW_CHANGES and not _is_worded(segment)


def _is_rest(part: str) -> bool:
    """Whether a part beside a random one is the rest of it: too odd to be a folder's name."""
    if _is_worded(part):
        return False
    if part.islower() or part.isupper():
        return len(part) >= _SHORTEST_SEGMENT and _changes(part) >= _CHANGES
    return len(part) >= _SHORTEST_NEIGHBOUR and any(char.isupper() or char.isdigit() for char in part[1:])


def _is_blob(text: str) -> bool:
    """Base64 with slashes in it, which is no path: hardly any slash, and no part that is a word."""
    slashes = text.count("/")
    return (
        0 < slashes <= len(text) // _PER_SLASH
        and len(text) >= _SHORTEST_WHOLE
        and _BASE64.fullmatch(text) is not None
        and not any(len(part) == _GIT_HASH and _HEX.fullmatch(part) for part in text.split("/"))
        and _changes(text) >= _CHANGES
        and not _is_worded(text)
        and any(char.isdigit() for char in text)
    )


def _is_random(part: str) -> bool:
    rest = _UUID.sub("", part)
    if len(rest) < _SHORTEST:
        return False
    if _HEX.fullmatch(rest):
        return len(rest) != _GIT_HASH and len(set(rest)) >= _HEX_LETTERS
    # Without a sign between, so many changes are no name's.
    least = _FEW_CHANGES if rest.isalnum() else _CHANGES
    return len(set(rest)) >= _LETTERS and _changes(rest) >= least and not _is_worded(rest)


def _is_worded(text: str) -> bool:
    """Whether ``text`` is mostly words: what people name things by is, random strings hardly ever."""
    if not any(char.isupper() for char in text) or _changes(text) >= _MANY_CHANGES:
        return False  # where all are small, every run of letters looks like a word
    words = [word for word in _WORD.findall(text) if _PRONOUNCED.match(word)]
    return sum(map(len, words)) >= _WORDS * len(text)


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

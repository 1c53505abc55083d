"""A span of time as people and programs write it: "6m0s", "1.2s", "3 days 4 hours", "half an hour" (R-CLS-5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from kandev_routing_sdk.evidence.linear import compile_linear

__all__ = ["COLONS", "DURATION", "colons", "duration", "numbered", "span"]


def numbered(pattern: str) -> Mapping[str, int]:
    """The numbers of the groups of ``pattern``, all of which have names: asking the engine by name is slow."""
    found = compile_linear(r"\(\?P<([a-z0-9]+)>").finditer(pattern)
    return {group.group(1) or "": number for number, group in enumerate(found, start=1)}


_UNITS: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_WORDS: Final[Mapping[str, int]] = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60,
}  # fmt: skip
# One line may break within a span, as a terminal wraps it: not more, or two statements become one.
_SPACE: Final = r"[ \t]*(?:\r?\n[ \t]*)?"
_LONG: Final = r"(?:milliseconds?|millis|msecs?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|wks?)"
# A capital M or D is a million or a dimension as easily as a minute or a day.
_SHORT: Final = r"(?:ns|us|µs|μs|ms|(?-i:[smhdwSH]))"
_DIGITS: Final = r"\d{1,3}(?:,\d{3})+(?:\.\d{1,9})?|\d{1,16}(?:\.\d{1,9})?"
_WORD: Final = rf"(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
_MORE: Final = r"(?:\(s\)|[ \t]+and a half\b)?"
_PIECE: Final = (
    rf"(?:(?:{_DIGITS}){_SPACE}-?(?:(?:secs?|mins?|hrs?)\.|{_LONG}{_MORE}|{_SHORT})|\b{_WORD}\b[ \t-]{_SPACE}{_LONG}{_MORE}"
    rf"|\bhalf an?{_SPACE}(?:minute|hour|day)\b)"
)
DURATION: Final = rf"{_PIECE}(?:,?{_SPACE}(?:(?:and\b|&){_SPACE})?{_PIECE})*\b"
"""RE2 source (without case) of a written duration with units."""
COLONS: Final = r"\d{1,3}:[0-5]\d:[0-5]\d\b"
"""RE2 source of a countdown with hours, minutes and seconds."""
_WHOLE: Final = compile_linear(rf"(?i)\s*{DURATION}(?:\(s\))?\s*")
_PART_SOURCE: Final = (
    rf"(?i)(?:(?P<digits>{_DIGITS}){_SPACE}-?(?P<unit>{_LONG}|{_SHORT})|\b(?P<word>{_WORD})\b[ \t-]{_SPACE}(?P<unit2>{_LONG})"
    rf"|\bhalf an?{_SPACE}(?P<half>minute|hour|day))(?:\(s\))?(?P<more>[ \t]+and a half\b)?"
)
_PART: Final = compile_linear(_PART_SOURCE)
_AT: Final = numbered(_PART_SOURCE)


def span(seconds: float) -> timedelta | None:
    """A wait of ``seconds``; ``None`` for NaN, infinite or unrepresentable numbers."""
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def duration(text: str) -> timedelta | None:
    """A written duration with units; a bare number has none and is not a duration.

    Its units get smaller from one to the next: "10s 5m" is two statements, and so is nothing.
    """
    if _WHOLE.fullmatch(text) is None:
        return None
    total, last = 0.0, float("inf")
    for part in _PART.finditer(text):
        half = part.group(_AT["half"])
        scale = _scale((half or part.group(_AT["unit"]) or part.group(_AT["unit2"]) or "").lower())
        if scale >= last:
            return None
        last = scale
        count = 0.5 if half else _count(part.group(_AT["digits"]), part.group(_AT["word"]))
        total += (count + (0.5 if part.group(_AT["more"]) else 0.0)) * scale
    return span(round(total, 6))


def colons(text: str) -> timedelta:
    """A countdown ``H:MM:SS``."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _count(digits: str | None, word: str | None) -> float:
    return float(digits.replace(",", "")) if digits else float(_WORDS[(word or "").lower()])


def _scale(unit: str) -> float:
    if unit in _UNITS:
        return _UNITS[unit]
    return _UNITS["ms"] if unit.startswith(("mil", "ms")) else _UNITS[unit[0]]

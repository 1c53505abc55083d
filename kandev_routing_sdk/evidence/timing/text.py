"""Timing in a text: its sentences, epoch suffixes, printed header lines and printed JSON (R-CLS-5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from kandev_routing_sdk.evidence.linear import compile_linear, well_formed
from kandev_routing_sdk.evidence.timing.clauses import hints_from_clauses
from kandev_routing_sdk.evidence.timing.data import hints_from_data, hints_from_field, is_timing_field
from kandev_routing_sdk.evidence.timing.headers import hints_from_headers, names_timing
from kandev_routing_sdk.evidence.timing.model import TimingHint, Trust, absolute, relative
from kandev_routing_sdk.evidence.timing.notation import epoch
from kandev_routing_sdk.evidence.timing.spans import span
from kandev_routing_sdk.types import JsonValue

__all__ = ["hints_from_text"]

_MAX_DOCUMENTS: Final = 64
_MAX_LINES: Final = 512
_MAX_INNER: Final = 16
_LINE_START: Final = 160

# The bar stands right behind the words: a number in the next cell of a table is something else.
_SUFFIX: Final = compile_linear(
    r"(?i)(?:limit|reached|exceeded|reset)[^|\r\n]{0,80}[^|\s]\|\s?([0-9]{10}(?:[0-9]{3})?)(?:[^0-9A-Za-z|_.:-]|[.]?(?:\s|$))"
)
_CELL: Final = compile_linear(r"^[ \t]*\|")
_LINE: Final = compile_linear(r"(?im)^[\s<>*|-]*([a-z][a-z0-9-]{2,60})[ \t]*:[ \t]*([^\r\n]{1,100})")
_RETRY_AFTER: Final = compile_linear(
    r"(?i)\bretry-after\\*[\"']?[ \t]*[:=][ \t]*\[?\\*[\"']?"
    r"((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[A-Za-z0-9,: -]{5,40} GMT|[^\s\"'\\,;)}\]]{1,40})"
)
_FIELD: Final = compile_linear(
    r"(?i)\b([a-z_-]{0,24}(?:reset|retry|wait)[a-z_-]{0,32})\\*[\"']?[ \t]*[:=][ \t]*"
    r"(?:\\*[\"']([^\"'\\\r\n]{1,60})|([0-9][0-9A-Za-z.:+-]{0,40}))"
)
_PROTOBUF: Final = compile_linear(
    r"\bretry_delay(?:\s|\\n)*:?(?:\s|\\n)*\{(?:\s|\\n)*(?:seconds\s*:\s*([0-9]{1,9}))?(?:\s|\\n)*"
    r"(?:nanos\s*:\s*([0-9]{1,9}))?(?:\s|\\n)*\}"
)
# Some window in the text is not exhausted: of fields without their object, nobody can tell whose reset is whose.
_WORKING: Final = compile_linear(
    r"(?i)(?:\bstatus\\*[\"']?\s*[:=]\s*\\*[\"']?allowed|remaining\\*[\"']?\s*[:=]\s*\\*[\"']?(?:0\.0*)?[1-9])"
)
_COLOUR: Final = compile_linear(r"\x1b\[[0-9;:]*m")
_PLAIN: Final = str.maketrans(
    dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " ") | dict.fromkeys("\u2010\u2011\u2212", "-")
)
"""Spaces and signs that number formatters print (some put U+202F before "PM"), as the ones that patterns know."""


def hints_from_text(text: str, *, observed_at: datetime | None, local_zone: str | None) -> list[TimingHint]:
    """Every hint in a text: sentences, epoch suffixes, header lines and JSON objects that are printed in it.

    Args:
        text: of a channel that the runtime itself speaks on.
        observed_at: when it was seen, UTC. Without it, only what names a full date is an instant.
        local_zone: IANA name of the zone in which the runtime prints local times; without it, and without a zone in
            the text, a wall time is no hint.
    """
    text = _plain(text)
    hints: list[TimingHint] = []
    for found in _SUFFIX.finditer(text):
        before = text[max(0, found.start() - _LINE_START) : found.start()]
        if _CELL.match(before[before.rfind("\n") + 1 :]):
            continue
        hints += absolute(
            epoch(found.group(1) or ""),
            source="text",
            written=found.group() or "",
            zone="utc",
            trust=Trust.LIMIT_TEXT,
            observed_at=observed_at,
        )
    hints += hints_from_clauses(text, observed_at=observed_at, local_zone=local_zone)
    return hints + _printed_headers(text, observed_at) + _printed_fields(text, observed_at)


def _plain(text: str) -> str:
    """``text`` without colours, with the spaces and signs that patterns know."""
    if "\x1b" in text:
        text = _COLOUR.sub("", well_formed(text))
    return text if text.isascii() else well_formed(text).translate(_PLAIN)


def _printed_headers(text: str, observed_at: datetime | None) -> list[TimingHint]:
    """Header lines in a printed response, and a ``retry-after: …`` anywhere."""
    headers: dict[str, str] = {}
    for count, found in enumerate(_LINE.finditer(text)):
        if count >= _MAX_LINES:
            break
        name = (found.group(1) or "").lower()
        if names_timing(name):
            headers.setdefault(name, (found.group(2) or "").strip())
    if "retry-after" not in headers and (found_one := _RETRY_AFTER.search(text)):
        headers["retry-after"] = found_one.group(1) or ""
    return hints_from_headers(headers, observed_at=observed_at, source="text") if headers else []


def _printed_fields(text: str, observed_at: datetime | None) -> list[TimingHint]:
    """Fields of printed JSON objects; of what does not parse (cut off, escaped), the fields that are whole."""
    hints: list[TimingHint] = []
    for found in _PROTOBUF.finditer(text) if "retry_delay" in text else ():
        hints += relative(
            span(int(found.group(1) or 0) + int(found.group(2) or 0) / 1e9),
            source="text",
            written=found.group() or "",
            trust=Trust.RETRY_AFTER - 1,
        )
    parsed = False
    for document in _documents(text):
        parsed = True
        hints += hints_from_data(document, observed_at=observed_at)
    loose = [] if parsed else _loose_fields(text, observed_at)
    return hints + loose if loose and not _WORKING.search(text) else hints


def _loose_fields(text: str, observed_at: datetime | None) -> list[TimingHint]:
    hints: list[TimingHint] = []
    for count, found in enumerate(_FIELD.finditer(text)):
        if count >= _MAX_LINES:
            break
        name = found.group(1) or ""
        if "retry-after" not in name.lower() and is_timing_field(name):
            value = found.group(2) or (found.group(3) or "").rstrip(".:-+")
            hints += hints_from_field(name, value, observed_at=observed_at)
    return hints


def _documents(text: str) -> Iterator[JsonValue]:
    """The JSON objects in a text: one from the first brace of the text, then one from that of each later line.

    Objects that are printed within a string of another follow it: a proxy quotes its upstream's answer like this.
    """
    decoder = json.JSONDecoder(strict=False)
    position, tries, inner = text.find("{"), 0, _MAX_INNER
    while position >= 0 and tries < _MAX_DOCUMENTS:
        tries += 1
        try:
            document, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = text.find("\n", position)
            if end < 0:
                return
        else:
            yield document
            for quoted in _quoted(document, inner):
                inner -= 1
                yield quoted
        position = text.find("{", end)


def _quoted(document: JsonValue, most: int) -> Iterator[JsonValue]:
    """The JSON objects in the strings of ``document``, and in theirs, at most ``most``."""
    level: list[JsonValue] = [document]
    while level and most > 0:
        node = level.pop()
        if isinstance(node, dict):
            level += node.values()
        elif isinstance(node, list):
            level += node
        elif isinstance(node, str) and "{" in node:
            most -= 1
            try:
                found, _ = json.JSONDecoder(strict=False).raw_decode(node, node.find("{"))
            except (ValueError, RecursionError):
                continue
            level.append(found)
            yield found

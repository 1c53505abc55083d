"""Timing in a runtime's sentences: "try again in 6m0s", "resets 3pm (Europe/London)" and their kin (R-CLS-5).

A sentence counts from a word about coming back ("resets", "try again", "retrying", "wait", …). The words after it are
read by anchored patterns over a bounded window, so a text of any size costs linear time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from kandev_routing_sdk.evidence.linear import compile_linear, well_formed
from kandev_routing_sdk.evidence.timing.data import hints_from_data, hints_from_field, is_timing_field
from kandev_routing_sdk.evidence.timing.headers import hints_from_headers, names_timing
from kandev_routing_sdk.evidence.timing.model import TimingHint, Trust, absolute, relative
from kandev_routing_sdk.evidence.timing.notation import DURATION, duration, epoch
from kandev_routing_sdk.evidence.timing.sentence import read_moment
from kandev_routing_sdk.types import JsonValue

__all__ = ["hints_from_text"]

_WINDOW: Final = 160
_MAX_TRIGGERS: Final = 1024
_MAX_DOCUMENTS: Final = 64
_MAX_LINES: Final = 512

_GAP: Final = r"[\s:,\x{2013}\x{2014}\x{b7}-]*"
_TRIGGER: Final = compile_linear(
    r"(?i)\b(?:"
    r"(?P<own>retrying|reconnecting|waiting|will retry|will reconnect|backing off|next (?:retry|attempt))"
    r"|(?P<said>(?:try|retry)(?: (?:again|your request|the request|this request|later))*|resets?(?:ting)?|renews?"
    r"|refresh(?:es)?|replenish(?:es|ed)?|restored|lifted|resumes?|unlocks?|regain(?: access)?|cool(?:s)?[ -]?down"
    r"|available|unavailable|back(?: online)?|come back|wait|paused|blocked|locked out|suspended|retry[ -]after"
    r"|cycle ends|window ends|period ends|limit ends|limited)"
    r")\b"
)
_RELATIVE: Final = compile_linear(
    rf"(?i)^(?P<link>{_GAP}(?:\(?attempt \d{{1,5}}(?:\s*(?:/|of)\s*\d{{1,5}})?\)?{_GAP})?(?:waiting\s+)?"
    rf"(?:(?:again|automatically|the|it|request|will be|is|be|you|your|limit)\s+)*(?:(?:in|after|for|within)\b[\s:]*)?"
    rf"(?:(?:about|around|approximately|approx\.?|roughly|at least|another|~)\s*)?)"
    rf"(?P<wait>{DURATION})(?P<ago>\s+ago\b)?"
)
_LINKED: Final = compile_linear(r"(?i)\b(?:in|after|for|within)\b|:\s*$")
_ABSOLUTE_LINK: Final = compile_linear(
    rf"(?i)^{_GAP}(?:(?:again|at|on|by|after|until|till|from|it|is|are|will be|be|next|back|available|reset|later"
    rf"|this|time|date|around|about)\b{_GAP})*"
)
_SUFFIX: Final = compile_linear(r"(?i)(?:limit|reached|exceeded|reset)[^|\r\n]{0,80}\|\s?([0-9]{10}(?:[0-9]{3})?)\b")
_LINE: Final = compile_linear(r"(?im)^[\s<>*|-]*([a-z][a-z0-9-]{2,60})[ \t]*:[ \t]*([^\r\n]{1,100})")
_RETRY_AFTER: Final = compile_linear(
    r"(?i)\bretry-after\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?"
    r"((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[A-Za-z0-9,: -]{5,40} GMT|[^\s\"'\\,;)}\]]{1,40})"
)
_FIELD: Final = compile_linear(
    r"(?i)\b([a-z_-]{0,24}(?:reset|retry|wait)[a-z_-]{0,32})\\*[\"']?[ \t]*[:=][ \t]*"
    r"(?:\\*[\"']([^\"'\\\r\n]{1,60})|([0-9][0-9.]{0,20}))"
)
_WAITS_WITHOUT_LINK: Final = frozenset({"wait", "waiting", "retrying"})


def hints_from_text(text: str, *, observed_at: datetime | None, local_zone: str | None) -> list[TimingHint]:
    """Every hint in a text: sentences, epoch suffixes, header lines and JSON objects that are printed in it.

    Args:
        text: of a channel that the runtime itself speaks on.
        observed_at: when it was seen, UTC. Without it, only what names a full date is an instant.
        local_zone: IANA name of the zone in which the runtime prints local times; without it, and without a zone in
            the text, a wall time is no hint.
    """
    text = well_formed(text)
    hints: list[TimingHint] = []
    for found in _SUFFIX.finditer(text):
        hints += absolute(
            epoch(found.group(1) or ""),
            source="text",
            written=found.group() or "",
            zone="utc",
            trust=Trust.LIMIT_TEXT,
            observed_at=observed_at,
        )
    hints += _sentences(text, observed_at, local_zone)
    return hints + _printed_headers(text, observed_at) + _printed_fields(text, observed_at)


def _sentences(text: str, observed_at: datetime | None, local_zone: str | None) -> list[TimingHint]:
    hints: list[TimingHint] = []
    for count, found in enumerate(_TRIGGER.finditer(text)):
        if count >= _MAX_TRIGGERS:
            break
        word = found.group() or ""
        window = text[found.end() : found.end() + _WINDOW]
        if text[found.start() - 1 : found.start()] in {"-", "_"} or window.startswith("-"):
            continue  # part of a header's or a field's name: read by its grammar, below
        hints += _wait(word, window, own=found.group("own") is not None) or _moment(
            word, window, observed_at, local_zone
        )
    return hints


def _wait(word: str, window: str, *, own: bool) -> list[TimingHint]:
    found = _RELATIVE.match(window)
    if found is None or found.group("ago"):
        return []
    link = found.group("link") or ""
    if not (own or word.lower() in _WAITS_WITHOUT_LINK or _LINKED.search(link)):
        return []
    return relative(
        duration(found.group("wait") or ""),
        source="text",
        written=word + window[: found.end()],
        trust=Trust.OWN_BACKOFF if own else Trust.RELATIVE_TEXT,
    )


def _moment(word: str, window: str, observed_at: datetime | None, local_zone: str | None) -> list[TimingHint]:
    link = _ABSOLUTE_LINK.match(window)
    start = link.end() if link is not None else 0
    moment = read_moment(window[start:], observed_at=observed_at, local_zone=local_zone)
    if moment is None:
        return []
    return absolute(
        moment.instant,
        source="text",
        written=word + window[: start + moment.length],
        zone=moment.zone,
        trust=moment.trust,
        observed_at=observed_at,
    )


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
    parsed = False
    for document in _documents(text):
        parsed = True
        hints += hints_from_data(document, observed_at=observed_at)
    if not parsed:
        for count, found in enumerate(_FIELD.finditer(text)):
            if count >= _MAX_LINES:
                break
            name = found.group(1) or ""
            if "retry-after" not in name.lower() and is_timing_field(name):
                value = found.group(2) or (found.group(3) or "").rstrip(".")
                hints += hints_from_field(name, value, observed_at=observed_at)
    return hints


def _documents(text: str) -> Iterator[JsonValue]:
    """The JSON objects in a text: one from the first brace of the text, then one from that of each later line."""
    decoder = json.JSONDecoder()
    position, tries = text.find("{"), 0
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
        position = text.find("{", end)

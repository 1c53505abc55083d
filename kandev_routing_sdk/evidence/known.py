"""The exact secrets of a launch's environment, found in every form in which text writes them (R-EVI-5)."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from kandev_routing_sdk.evidence.linear import well_formed

__all__ = ["KnownValues"]

_SHORTEST: Final = 6
_SHORTEST_FORM: Final = 8
_SHORTEST_LINE: Final = 24
_BREAK: Final = re.compile(r"(?:[ \t]|\\+[rt])*(?:\\+\r?\n|\r?\n|\\+n)(?:[ \t]|\\+t)*")
"""A line break with its indentation: also written out as JSON does, or behind a shell's backslash."""
_HALF_A_BREAK: Final = re.compile(r"(?:[ \t\r]|\\+[rt]?)+\Z")
"""What may become a line break with what comes next."""


class KnownValues:
    """Secret values, to be replaced wherever they stand: whole, overlapping, inside each other, or broken over lines."""

    __slots__ = ("_forms",)

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= _SHORTEST for form in _forms(well_formed(value))}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __len__(self) -> int:
        return len(self._forms)

    def replaced(self, text: str, replacement: str) -> str:
        """``text`` with every run of known values replaced, values that overlap by one replacement."""
        spans = self._spans(text)
        if "\n" in text or "\\n" in text:
            spans += self._broken_spans(text)
        return _replaced(text, spans, replacement)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = text.find(form, at + 1)
        return found

    def whole_until(self, text: str) -> int:
        """Up to where ``text`` may be handed out before more of it is there: no value lies across that place, or may come to."""
        end = self._may_begin(text)
        for cut in (text, _HALF_A_BREAK.sub("", text)):
            joined, original = _joined(cut)
            begins = self._may_begin(joined)
            end = min(end, original(begins)) if begins < len(joined) else end
        spans = self._spans(text) + self._broken_spans(text)
        while (across := [start for start, stop in spans if start < end < stop]) != []:
            end = min(across)
        return end

    def _may_begin(self, text: str) -> int:
        """Where the first value may begin of which ``text`` ends too early to know; its length: nowhere."""
        first = len(text)
        for form in self._forms:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while 0 <= at < first:
                if form.startswith(text[at:]):
                    first = at
                at = text.find(form[0], at + 1)
        return first

    def _broken_spans(self, text: str) -> list[tuple[int, int]]:
        """Where values stand that line breaks cut: they are found in the text without its breaks."""
        joined, original = _joined(text)
        return (
            [] if joined == text else [(original(start), original(end - 1) + 1) for start, end in self._spans(joined)]
        )


def _joined(text: str) -> tuple[str, Callable[[int], int]]:
    """``text`` without its line breaks, and what tells where something of it stands in ``text``."""
    starts, shifts, kept, removed = [0], [0], list[str](), 0
    done = 0
    for found in _BREAK.finditer(text):
        kept.append(text[done : found.start()])
        done = found.end()
        removed += done - found.start()
        starts.append(done - removed)
        shifts.append(removed)
    kept.append(text[done:])

    def original(position: int) -> int:
        return position + shifts[bisect_right(starts, position) - 1]

    return "".join(kept), original


def _replaced(text: str, spans: list[tuple[int, int]], replacement: str) -> str:
    if not spans:
        return text
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if end <= done:
            continue
        if start >= done:
            parts += (text[done:start], replacement)
        done = end
    return "".join([*parts, text[done:]])


def _forms(value: str) -> Iterator[str]:
    """The ways in which a value is written in text."""
    yield value
    raw = value.encode()
    written = json.dumps(value)[1:-1]
    plain = json.dumps(value, ensure_ascii=False)[1:-1]
    coded = [
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        quote(value, safe="!*'()"),
        quote(value, safe=";,/?:@&=+$-_.!~*'()#"),
    ]
    forms = [*coded, *(re.sub("%[0-9A-F]{2}", lambda code: code.group().lower(), form) for form in coded)]
    forms += [written, plain, json.dumps(written)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]]
    forms += [written.replace("/", "\\/"), re.sub("[<>&']", _unicode_escape, written), repr(value)[1:-1]]
    forms += [html.escape(value), html.escape(value, quote=False), shlex.quote(value).strip("'")]
    forms += [raw.hex(), raw.hex().upper(), raw.hex(" "), raw.hex(":")]
    if len(raw) >= _SHORTEST_FORM:
        forms += _base64_forms(raw)
    yield from (form for form in forms if len(form) >= _SHORTEST)
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE and " " not in line.strip())


def _unicode_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def _base64_forms(raw: bytes) -> Iterator[str]:
    """What any base64 text that contains ``raw`` contains, wherever ``raw`` starts within its three-byte groups."""
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + raw).decode()
        # Without the characters that also depend on the bytes before and after.
        first = -(-shift * 8 // 6)
        last = (shift + len(raw)) * 8 // 6
        form = coded[first:last]
        if len(form) >= _SHORTEST_FORM:
            yield form
            yield form.replace("+", "-").replace("/", "_")
            yield quote(form, safe="")

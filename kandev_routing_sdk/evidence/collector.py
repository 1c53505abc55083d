"""Keeps the envelope inside its bounds (R-EVI-2) without losing what decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol

from pydantic import JsonValue

from kandev_routing_sdk.evidence.model import Signal

MAX_SIGNALS: Final = 64
MAX_SIGNAL_BYTES: Final = 4096
MAX_ENVELOPE_BYTES: Final = 65536
_STRUCTURED_SHARE: Final = 48
"""Structured signals may use this many of the places, so that the newest plain lines always have some too."""
_DATA_SHARE: Final = 3072
"""Bytes of a signal that its structured data may use; less beside many headers."""
_HEADERS_SHARE: Final = 2048
_MOST_HEADERS: Final = 64
_LEAST_TEXT: Final = 256
"""Bytes that are left for the words beside all structure."""
_MAX_DEPTH: Final = 6
_EDGE: Final = 2048
"""Characters beside a cut that are read and not kept: longer than any secret."""
_MAX_CODE: Final = 256
"""Of an error code that is a word; the agent's own, so that it may be anything."""
_OVERLAP: Final = 160
"""Characters that two pieces of one line share, so that no sentence is cut in both."""


class TextCleaner(Protocol):
    """What the collector needs of a sanitiser."""

    def text(self, s: str) -> str:
        """Return ``s`` without secrets."""
        ...

    def value(self, v: JsonValue) -> JsonValue:
        """Return ``v`` without secrets."""
        ...

    def headers(self, h: dict[str, str]) -> dict[str, str]:
        """Return ``h`` without secrets."""
        ...


def cut_utf8(text: str, limit: int) -> str:
    """Return the longest prefix of ``text`` that is at most ``limit`` bytes of UTF-8, on a character boundary."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


class _Entry(NamedTuple):
    order: int
    signal: Signal
    size: int
    decisive: bool


class SignalCollector:
    """Collects sanitised signals of one attempt.

    Structured signals (data, headers, a code or a status) are kept from the first on; of the plain ones the newest stay. A decisive
    event counts wherever it stands in however much output: ``decides`` (the catalogue's) names what is dropped last, and a
    text that is too long for one signal becomes several.
    """

    def __init__(self, cleaner: TextCleaner, decides: Callable[[Signal], bool] | None = None) -> None:
        self._cleaner = cleaner
        self._decides = decides
        self._structured: list[_Entry] = []
        """What is kept from the first on: structured and decisive signals."""
        self._plain: list[_Entry] = []
        self._count = self._bytes = 0
        self.dropped = 0

    def add(self, signal: Signal) -> None:
        """Sanitise, fit into 4 KiB pieces and keep ``signal``."""
        for piece in _pieces(self._clean(signal)):
            decisive = piece.channel.is_runtime and self._decides is not None and self._decides(piece)
            size = len(piece.model_dump_json(exclude_none=True).encode())
            self._count += 1
            self._bytes += size
            kept = decisive or (piece.channel.is_runtime and _is_structured(piece))
            (self._structured if kept else self._plain).append(_Entry(self._count, piece, size, decisive))
            self._trim()

    def signals(self) -> tuple[Signal, ...]:
        """Return what was kept, in the order it came."""
        return tuple(e.signal for e in sorted([*self._structured, *self._plain]))

    def _clean(self, signal: Signal) -> Signal:
        text = None if signal.text is None else _cleaned(signal.text, self._cleaner.text)
        headers = None if signal.headers is None else _short_headers(self._cleaner.headers(_read(signal.headers)))
        code = (
            cut_utf8(self._cleaner.text(signal.code[:MAX_SIGNAL_BYTES]), _MAX_CODE)
            if isinstance(signal.code, str)
            else signal.code
        )
        room = MAX_SIGNAL_BYTES - _LEAST_TEXT - len(_json(headers)) - len(str(code or ""))
        data = _fit(self._cleaner.value(signal.data), min(room, _DATA_SHARE)) if signal.data is not None else None
        return signal.model_copy(update={"text": text, "data": data, "headers": headers, "code": code})

    def _trim(self) -> None:
        while len(self._structured) > _STRUCTURED_SHARE:
            self._drop(self._structured)
        while len(self._structured) + len(self._plain) > MAX_SIGNALS or self._bytes > MAX_ENVELOPE_BYTES:
            self._drop(self._plain or self._structured)

    def _drop(self, entries: list[_Entry]) -> None:
        """Drop the oldest plain entry, or a middle one of the others: a cause may come first, a verdict last."""
        at = 0
        if entries is self._structured:
            lesser = [i for i, e in enumerate(entries) if not e.decisive] or list(range(len(entries)))
            at = lesser[len(lesser) // 2]
        self._bytes -= entries.pop(at).size
        self.dropped += 1


def _pieces(signal: Signal) -> list[Signal]:
    """Cut an over-long text into pieces, at line ends where there are some; the structure stays with the first."""
    used = len(_json(signal.data)) + len(_json(signal.headers)) + len(str(signal.code or "").encode())
    texts = list(_cut(signal.text, MAX_SIGNAL_BYTES - used)) if signal.text else [signal.text]
    first = signal.model_copy(update={"text": texts[0]})
    plain = {"data": None, "headers": None, "code": None, "http_status": None}
    return [first, *(signal.model_copy(update={**plain, "text": text}) for text in texts[1:])]


def _cut(text: str, room: int) -> Iterator[str]:
    """Yield ``text`` in pieces, the first of at most ``room`` bytes, the others of at most 4 KiB."""
    limit = max(room, _LEAST_TEXT)
    while text:
        piece = cut_utf8(text, limit)
        step = len(piece)
        if step < len(text):
            end = piece.rfind("\n") + 1
            piece, step = (piece[:end], end) if end else (piece, max(step - _OVERLAP, 1))
        yield piece
        text = text[step:]
        limit = MAX_SIGNAL_BYTES


def _json(value: object) -> bytes:
    return b"" if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _read(headers: dict[str, str]) -> dict[str, str]:
    """Return what is read of headers: more than is kept, so that no secret in them is cut before it is seen."""
    return {name[:_EDGE]: value[:_EDGE] for name, value in islice(headers.items(), _MOST_HEADERS)}


def _short_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers that fit, the first of them, with their long values cut."""
    if len(_json(headers)) <= _HEADERS_SHARE:
        return headers
    kept: dict[str, str] = {}
    for name, value in headers.items():
        kept[cut_utf8(name, 64)] = cut_utf8(value, 256)
        if len(_json(kept)) > _HEADERS_SHARE:
            kept.popitem()
            break
    return kept


def _is_structured(signal: Signal) -> bool:
    return signal.data is not None or bool(signal.headers) or signal.code is not None or signal.http_status is not None


def _cleaned(text: str, clean: Callable[[str], str]) -> str:
    """Clean a text, of one that no envelope could hold only both ends, so that the sanitiser has a bound.

    A secret that is cut in two has lost its shape or its name: more is read than kept, and what stands beside a cut goes.
    """
    half = MAX_ENVELOPE_BYTES // 2
    if len(text) <= 2 * half:
        return clean(text)
    head, tail = clean(text[:half]), clean(text[-half:])
    return f"{head[:-_EDGE]}\n…\n{tail[_EDGE:]}"


def _fit(value: JsonValue, share: int) -> JsonValue:
    """Cut long strings, deep nesting and long lists so that structure stays readable inside its share of 4 KiB."""
    fitted: JsonValue = None
    for longest, items in ((1024, 32), (256, 16), (96, 8), (32, 4)):
        fitted = _shrink(value, longest, items, _MAX_DEPTH)
        if len(_json(fitted)) <= share:
            return fitted
    return cut_utf8(json.dumps(fitted, ensure_ascii=False), share // 2)


def _shrink(value: JsonValue, longest: int, items: int, depth: int) -> JsonValue:
    if isinstance(value, str):
        return cut_utf8(value, longest)
    if isinstance(value, dict):
        if not depth:
            return "…"
        return {cut_utf8(k, 128): _shrink(v, longest, items, depth - 1) for k, v in list(value.items())[:items]}
    if isinstance(value, list):
        return [_shrink(v, longest, items, depth - 1) for v in value[:items]] if depth else "…"
    return value

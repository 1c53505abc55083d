"""Keeps the envelope inside its bounds (R-EVI-2) without losing what decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from pydantic import JsonValue

from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.types import Channel

MAX_SIGNALS: Final = 64
MAX_SIGNAL_BYTES: Final = 4096
MAX_ENVELOPE_BYTES: Final = 65536
_STRUCTURED_SHARE: Final = 48
"""Structured signals may use this many of the places, so that the newest plain lines always have some too."""


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


class SignalCollector:
    """Collects sanitised signals of one attempt.

    Structured signals (data, headers, a code or a status) are kept from the first on; of the plain ones the newest stay. A decisive
    event therefore counts wherever it stands in however much output.
    """

    def __init__(self, cleaner: TextCleaner) -> None:
        self._cleaner = cleaner
        self._structured: list[tuple[int, Signal, int]] = []
        self._plain: list[tuple[int, Signal, int]] = []
        self._count = 0
        self.dropped = 0

    def add(self, signal: Signal) -> None:
        """Sanitise, cut to 4 KiB and keep ``signal``."""
        clean = self._clean(signal)
        size = len(clean.model_dump_json(exclude_none=True).encode())
        self._count += 1
        structured = clean.channel.is_runtime and _is_structured(clean)
        (self._structured if structured else self._plain).append((self._count, clean, size))
        self._trim()

    def signals(self) -> tuple[Signal, ...]:
        """Return what was kept, in the order it came."""
        return tuple(s for _, s, _ in sorted([*self._structured, *self._plain], key=lambda entry: entry[0]))

    def _clean(self, signal: Signal) -> Signal:
        text = None if signal.text is None else cut_utf8(self._cleaner.text(_windowed(signal.text)), MAX_SIGNAL_BYTES)
        data = _fit(self._cleaner.value(signal.data)) if signal.data is not None else None
        headers = None if signal.headers is None else self._cleaner.headers(dict(list(signal.headers.items())[:64]))
        return signal.model_copy(update={"text": text, "data": data, "headers": headers})

    def _trim(self) -> None:
        while len(self._structured) > _STRUCTURED_SHARE:
            # the newest and the first ones both matter: a cause may come first, a verdict last
            del self._structured[_STRUCTURED_SHARE // 2]
            self.dropped += 1
        while len(self._structured) + len(self._plain) > MAX_SIGNALS or self._size() > MAX_ENVELOPE_BYTES:
            del (self._plain or self._structured)[0]
            self.dropped += 1

    def _size(self) -> int:
        return sum(size for _, _, size in self._structured) + sum(size for _, _, size in self._plain)


def _is_structured(signal: Signal) -> bool:
    return signal.data is not None or bool(signal.headers) or signal.code is not None or signal.http_status is not None


def _windowed(text: str) -> str:
    """Bound what the sanitiser has to read: both ends of an over-long text."""
    limit = 4 * MAX_SIGNAL_BYTES
    return text if len(text) <= limit else f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"


def _fit(value: JsonValue, depth: int = 6) -> JsonValue:
    """Cut long strings, deep nesting and long lists so that structure stays readable inside 4 KiB."""
    if isinstance(value, str):
        return cut_utf8(value, 1024)
    if isinstance(value, dict):
        return {cut_utf8(k, 128): _fit(v, depth - 1) for k, v in list(value.items())[:32]} if depth else "…"
    if isinstance(value, list):
        return [_fit(v, depth - 1) for v in value[:16]] if depth else "…"
    return value


def runtime_only(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """Return the signals that may be failure evidence (R-EVI-6)."""
    return tuple(s for s in signals if Channel(s.channel).is_runtime)

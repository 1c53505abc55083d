"""Keeps the envelope inside its bounds (R-EVI-2) without losing what decides."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol

from pydantic import JsonValue

from kandev_routing_sdk.evidence.fitting import (
    EDGE,
    LEAST_TEXT,
    MAX_SIGNAL_BYTES,
    as_json,
    cut_utf8,
    first_headers,
    fit,
    short_headers,
    spans,
)
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.shapes import marker, without_colours
from kandev_routing_sdk.types import Channel

__all__ = [
    "WHOLE",
    "Torn",
    "MAX_ENVELOPE_BYTES",
    "MAX_SIGNALS",
    "MAX_SIGNAL_BYTES",
    "MAX_TEXT_CHARS",
    "Decides",
    "Decisive",
    "SignalCollector",
]

MAX_SIGNALS: Final = 64
MAX_ENVELOPE_BYTES: Final = 65536
MAX_TEXT_CHARS: Final = 4 * 1024 * 1024
"""Characters of one text that are looked at; of a longer one both ends count."""
_AT_ONCE: Final = MAX_ENVELOPE_BYTES
"""Characters of a text that are cleaned as a whole; of a longer one the ends are, and what decides between them."""
_STRUCTURED_SHARE: Final = 48
"""Structured signals may use this many of the places, so that the newest plain lines always have some too."""
_DATA_SHARE: Final = 3072
"""Bytes of a signal that its structured data may use; less beside many headers."""
_SHORT: Final = 1024
"""Characters of a plain text that is one signal, whatever cleaning makes of it."""
_ABOVE: Final = 10
"""Lines of standard error above one that may say whose it is …"""
_ABOVE_CHARS: Final = 2048
"""… and how long they may be together."""
_MAX_CODE: Final = 256
"""Of an error code that is a word; the agent's own, so that it may be anything."""
_FACTS: Final = 4096
"""Bytes that the envelope's own facts have in any case."""
_FEW: Final = 2
"""Signals that one cause keeps in however much output: its first and its last."""
_EVERY: Final = 4
"""Lines after which they are read together: often enough for a headline and what stands six lines below it."""
_COLOUR: Final = re.compile(r"\x1b\[[\d;:]*[A-Za-z]")
"""Of nearly all that is coloured; the engine that knows them all takes ten times as long."""
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+_=.~%-]{40,}")
"""Cleaning may replace it, and what stands around it comes closer together."""
_MARKER: Final = marker("key")
_TRIES: Final = re.compile(r"\W*(?:reconnecting|retrying)\b", re.IGNORECASE)
"""How a line begins that is about a try which the agent repeats by itself: it stands for itself."""


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


class Decisive(NamedTuple):
    """What decides in a signal. Signals of which it is the same say the same thing: a few of them are enough."""

    rule: str
    """The id of the catalogue's rule; of several that disagree all of them."""
    interim: bool = False
    """The agent was still trying."""
    timed: bool = False
    """Its words may tell until when."""


class Torn(NamedTuple):
    """At which of its ends a text is cut, so that a secret there may have lost its shape."""

    start: bool = False
    end: bool = False


WHOLE: Final = Torn()
Decides = Callable[[Signal], Decisive | None]
"""Tells what decides in a signal if nothing else was said; None: nothing."""


class _Entry(NamedTuple):
    order: int
    """When it came."""
    part: int
    """Which piece of a text it is."""
    signal: Signal
    size: int
    decisive: Decisive | None
    cause: int
    """The same for those that say the same; 0: nothing decisive."""
    clean: bool
    """Whether it is sanitised; a plain line is when it is given out, for most lines never are."""
    around: tuple[_Entry, ...] = ()
    """Lines of standard error around one that decides: they say whose it is, so that it is not given out without them."""


class SignalCollector:
    """Collects the signals of one attempt and gives them out sanitised.

    Structured signals (data, headers, a code or a status) are kept from the first on; of the plain ones the newest stay. A decisive
    event counts wherever it stands in however much output: ``decides`` (the catalogue's) is asked about all of it, and what it
    names is dropped last; of what was said often, the first and the last stay. A text that is too long for one signal becomes
    several. Linear in what is added: a plain line costs one question to ``decides``.
    """

    def __init__(self, cleaner: TextCleaner, decides: Decides | None = None) -> None:
        self._cleaner = cleaner
        self._decides = decides
        self._kept: list[_Entry] = []
        """Structured and decisive signals, in order."""
        self._kept_bytes = 0
        self._plain: deque[_Entry] = deque()
        """The newest of the others, in order."""
        self._causes: dict[object, int] = {}
        self._count = 0
        self.dropped: int = 0
        """Signals, or pieces of one, that did not fit."""

    def add(self, signal: Signal, torn: Torn = WHOLE) -> None:
        """Keep ``signal``, in pieces of at most 4 KiB; of a torn text what stands beside its cut goes."""
        self._count += 1
        if signal.text and len(signal.text) <= _AT_ONCE and not _is_structured(signal) and not any(torn):
            decisive, above = self._glance(signal, signal.text), self._above(signal)
            if decisive is None and above and not self._count % _EVERY:
                decisive = self._glance(signal, "\n".join([*(e.signal.text or "" for e in above), signal.text]))
            if decisive is None or len(signal.text) <= _SHORT:
                size = len(signal.text.encode("utf-8", "replace"))
                self._place(signal, decisive, part=0, size=size, clean=False, above=above)
                return
        for part, (piece, inner) in enumerate(self._pieces(signal, torn)):
            decisive = self._verdict(piece)
            if decisive is not None or not inner:
                self._place(piece, decisive, part=part, size=_size(piece), clean=True)

    def signals(self, facts: int = 0) -> tuple[Signal, ...]:
        """Return what was kept, sanitised, in the order it came; the envelope's JSON is then at most 64 KiB.

        Args:
            facts: bytes of JSON that the envelope has besides.
        """
        room = MAX_ENVELOPE_BYTES - max(facts, _FACTS)
        self._join_lines()
        self._kept = [e for entry in self._kept for e in self._cleaned(entry)]
        self._kept_bytes = sum(e.size for e in self._kept)
        self._trim(room)
        room -= self._kept_bytes
        newest: deque[_Entry] = deque()
        full = False
        while self._plain and not full:
            for entry in reversed(self._cleaned(self._plain.pop())):
                full = full or entry.size > room or len(self._kept) + len(newest) >= MAX_SIGNALS
                if full:
                    self.dropped += 1
                else:
                    newest.appendleft(entry)
                    room -= entry.size
        self.dropped += len(self._plain)
        self._plain = newest
        return tuple(e.signal for e in sorted([*self._kept, *newest], key=lambda e: (e.order, e.part)))

    # What is said ---------------------------------------------------------------------------------------------------------

    def _verdict(self, signal: Signal) -> Decisive | None:
        return self._decides(signal) if self._decides is not None and signal.channel.is_runtime else None

    def _glance(self, signal: Signal, text: str) -> Decisive | None:
        """Return what decides in ``text``, which is not sanitised: that takes several times as long, and most lines say nothing.

        What sanitising may bring out (words under colours, words around a long secret) is seen, too.
        """
        if self._decides is None or not signal.channel.is_runtime:
            return None
        text = without_colours(_COLOUR.sub("", text) if "\x1b" in text else text)
        cut = [(0, len(text))] if len(text) <= _SHORT else spans(text, MAX_SIGNAL_BYTES)
        for piece in (text[start:stop] for start, stop in cut):
            found = self._decides(_with_text(signal, piece))
            if found is None and _LONG_WORD.search(piece):
                found = self._decides(_with_text(signal, _LONG_WORD.sub(_MARKER, piece)))
            if found is not None:
                return found
        return None

    # What is kept ---------------------------------------------------------------------------------------------------------

    def _above(self, signal: Signal) -> tuple[_Entry, ...]:
        """Return the undecided lines of standard error that came before ``signal``, if it is one as well."""
        found: list[_Entry] = []
        if self._decides is None or not _is_line(signal):
            return ()
        room = _ABOVE_CHARS
        for entry in islice(reversed(self._plain), _ABOVE):
            room -= len(entry.signal.text or "")
            if room < 0 or entry.clean or entry.signal.phase != signal.phase or not _is_line(entry.signal):
                break
            found.append(entry)
        return tuple(reversed(found))

    def _place(
        self,
        signal: Signal,
        decisive: Decisive | None,
        *,
        part: int,
        size: int,
        clean: bool,
        above: tuple[_Entry, ...] = (),
    ) -> None:
        cause = 0
        if decisive is not None:
            cause = self._causes.setdefault((decisive, signal.channel, signal.phase), len(self._causes) + 1)
        entry = _Entry(self._count, part, signal, size, decisive, cause, clean, above if cause else ())
        if cause or (signal.channel.is_runtime and _is_structured(signal)):
            self._kept.append(entry)
            self._kept_bytes += size
            self._trim(MAX_ENVELOPE_BYTES - _FACTS)
        else:
            self._plain.append(entry)
            if (
                not clean
                and self._kept
                and (last := self._kept[-1]).order == entry.order - 1
                and _goes_with(last, entry)
            ):
                self._kept[-1] = last._replace(around=(*last.around, entry))
        while len(self._kept) + len(self._plain) > MAX_SIGNALS:
            self._plain.popleft()
            self.dropped += 1

    def _trim(self, room: int) -> None:
        while len(self._kept) > _STRUCTURED_SHARE or (self._kept_bytes > room and self._kept):
            self._kept_bytes -= self._kept.pop(self._least()).size
            self.dropped += 1

    def _least(self) -> int:
        """Return which of the kept is missed least: the middle one of what was said most often, for a cause may come first and
        a verdict last; else one that decides nothing, else one of a try that the agent repeats by itself.
        """
        said: dict[int, list[int]] = {}
        for at, entry in enumerate(self._kept):
            said.setdefault(entry.cause, []).append(at)
        most = max(said.values(), key=lambda ats: (len(ats), not self._kept[ats[0]].cause, self._is_interim(ats[0])))
        if len(most) <= _FEW:
            interim = [at for at in range(len(self._kept)) if self._is_interim(at)]
            most = said.get(0) or interim or list(range(len(self._kept)))
        return most[len(most) // 2]

    def _is_interim(self, at: int) -> bool:
        decisive = self._kept[at].decisive
        return decisive is not None and decisive.interim

    def _join_lines(self) -> None:
        """Give what decides the lines around it that were dropped since."""
        oldest = self._plain[0].order if self._plain else self._count + 1
        given = 0
        for at, entry in enumerate(self._kept):
            if not entry.around:
                continue
            lines = sorted([entry, *(e for e in entry.around if given < e.order < oldest)], key=lambda e: e.order)
            given = lines[-1].order
            self.dropped -= len(lines) - 1
            text = "\n".join(e.signal.text or "" for e in lines)
            self._kept[at] = entry._replace(signal=_with_text(entry.signal, text), around=())

    # Cleaning -------------------------------------------------------------------------------------------------------------

    def _cleaned(self, entry: _Entry) -> list[_Entry]:
        """Return ``entry`` sanitised, in several if it is longer than a signal."""
        if entry.clean:
            return [entry]
        return [
            entry._replace(part=part, signal=piece, size=_size(piece), clean=True)
            for part, (piece, _) in enumerate(self._pieces(entry.signal))
        ]

    def _pieces(self, signal: Signal, torn: Torn = WHOLE) -> Iterator[tuple[Signal, bool]]:
        """Yield ``signal`` sanitised, its text in pieces, the structure with the first; True: to be kept only if it decides."""
        clean = self._cleaner
        headers = None if signal.headers is None else short_headers(clean.headers(first_headers(signal.headers)))
        code = signal.code
        if isinstance(code, str):
            code = cut_utf8(clean.text(code[:MAX_SIGNAL_BYTES]), _MAX_CODE)
        room = MAX_SIGNAL_BYTES - LEAST_TEXT - len(as_json(headers)) - len(str(code or "").encode())
        data = None if signal.data is None else fit(clean.value(signal.data), min(room, _DATA_SHARE))
        left = MAX_SIGNAL_BYTES - len(as_json(data)) - len(as_json(headers)) - len(str(code or "").encode())
        piece = signal.model_copy(update={"data": data, "headers": headers, "code": code})
        if not signal.text:
            yield piece, False
            return
        rest = signal.model_copy(update={"data": None, "headers": None, "code": None, "http_status": None})
        for text, inner in self._texts(rest, signal.text, torn):
            for start, stop in spans(text, left):
                yield _with_text(piece, text[start:stop]), inner
                piece, left = rest, MAX_SIGNAL_BYTES

    def _texts(self, signal: Signal, text: str, torn: Torn) -> Iterator[tuple[str, bool]]:
        """Yield ``text`` clean, of a long one both ends, and between them only what decides (True).

        A secret that is cut in two has lost its shape or its name: more is read than kept, and what stands beside a cut goes.
        """
        clean = self._cleaner.text
        first, last = EDGE * torn.start, -EDGE if torn.end else None
        if len(text) <= _AT_ONCE:
            yield clean(text)[first:last], False
            return
        half = _AT_ONCE // 2
        yield clean(text[:half])[first:-EDGE], False
        for start, stop in self._deciding(signal, text, half - EDGE, len(text) - half + EDGE):
            yield clean(text[start - 2 * EDGE : stop + 2 * EDGE])[EDGE:-EDGE], True
        yield f"…\n{clean(text[-half:])[EDGE:last]}", False

    def _deciding(self, signal: Signal, text: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Return the pieces of ``text`` that decide, a few of each cause; all others are counted."""
        halves = [(start, end)]
        if (beyond := len(text) - MAX_TEXT_CHARS) > 0:
            halves = [(start, MAX_TEXT_CHARS // 2), (len(text) - MAX_TEXT_CHARS // 2, end)]
            self.dropped += -(-beyond // MAX_SIGNAL_BYTES)
        found: dict[Decisive, list[tuple[int, int]]] = {}
        pieces = [span for half in halves for span in spans(text, MAX_SIGNAL_BYTES, *half)]
        for span in pieces:
            if (decisive := self._glance(signal, text[slice(*span)])) is not None:
                found.setdefault(decisive, []).append(span)
        chosen = {span for said in found.values() for span in (*said[:_FEW], *said[-_FEW:])}
        self.dropped += len(pieces) - len(chosen)
        return sorted(chosen)


def _is_line(signal: Signal) -> bool:
    """Whether it is a line of standard error, to be read with those around it."""
    text = signal.text or ""
    return signal.channel is Channel.STDERR and len(text) <= _SHORT and _TRIES.match(text) is None


def _goes_with(line: _Entry, below: _Entry) -> bool:
    """Whether ``below`` belongs to ``line``, which decides and stands right above it."""
    one, other = line.signal, below.signal
    return not line.clean and one.phase == other.phase and _is_line(one) and _is_line(other)


def _with_text(signal: Signal, text: str) -> Signal:
    return signal if text == signal.text else signal.model_copy(update={"text": text})


def _size(signal: Signal) -> int:
    """Return the bytes of JSON that ``signal`` takes in an envelope, with the comma behind it."""
    return len(signal.model_dump_json().encode()) + 1


def _is_structured(signal: Signal) -> bool:
    return signal.data is not None or bool(signal.headers) or signal.code is not None or signal.http_status is not None

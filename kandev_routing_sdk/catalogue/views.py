"""A signal as rules read it: its words, the documents in it, its status and headers. Bounded and linear (R-CLS-7)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

import re2
from pydantic import JsonValue

from kandev_routing_sdk.catalogue.error_objects import error_objects
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.types import Channel, Phase

_SAID: Final = Channel.ASSISTANT_TEXT
_TOOLS: Final = Channel.TOOL_OUTPUT
_STDERR: Final = Channel.STDERR
_HTTP: Final = Channel.HTTP
_TOOL_RUNS: Final = Phase.TOOL_EXECUTION
_ENDS: Final = Phase.SHUTDOWN
_MAX_DOCUMENTS: Final = 16
_MAX_JOINED: Final = 64
"""Documents in the lines of standard error together."""
_MAX_ATTEMPTS: Final = 8
"""How many opening brackets of a text are tried as the start of a document."""
_MAX_LEAVES: Final = 32
_MAX_DEPTH: Final = 6
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_DOCUMENTS: Final[tuple[JsonValue, ...]] = ()
_LOWEST_STATUS, _HIGHEST_STATUS = 100, 599
_SPEAKING_KEYS: Final = frozenset(
    {
        "message",
        "error",
        "details",
        "detail",
        "title",
        "result",
        "responsebody",
        "reason",
        "description",
        "errormessage",
        "msg",
        "error_msg",
        "error_message",
        "errmsg",
        "status_msg",
        "error_description",
        "raw",
    }
)
"""Keys of structured data whose strings are words of the runtime, to be read like text."""
_DECODER: Final = json.JSONDecoder(strict=False)
_PROVIDER_STATUS: Final = re2.compile(
    r"(?i)(?:\bapi error:?|\bunexpected status(?: code)?:?|\blast status:?|\berror code:?|\bapi returned|\brequest rejected|"
    r"\brejected the request[^\n]{0,99}? status:|\bupstream|\bcapierror:?|\b\w*api\w*(?:error|exception)[^\n]{0,60}? status:?)"
    r"\s*[(\[]?([1-5]\d\d)\b"
)
"""An agent's words for its provider's answer."""
_ANY_STATUS: Final = re2.compile(
    r"(?i)(?:\bhttp(?:/\d(?:\.\d)?)?(?: status)?:?|\bstatus(?:[_ ]?code)?[\"']?\s*[=:]?|\berror: [45]\d\d(?: ))"
    r"\s*[(\[]?([1-5]\d\d)\b"
)
"""Words that anybody may use: not on stderr, where anybody may speak."""
_STATUS_PATHS: Final = (
    ("api_error_status",),
    ("error_status",),
    ("statusCode",),
    ("status",),
    ("error", "statusCode"),
    ("error", "data", "statusCode"),
    ("data", "statusCode"),
    ("error", "code"),
    ("error", "status"),
)
_INTERIM: Final = re2.compile(r"(?i)^\W*(?:reconnecting|retrying)\b")
_HEADER_LINE: Final = re2.compile(r"(?m)^([A-Za-z][A-Za-z0-9-]{1,63}):[ \t]*(\S.*?)[ \t\r]*$")
_BLOCK_START: Final = re2.compile(r"^HTTP/[\d.]+ \d{3}")


class View(NamedTuple):
    """What rules see of one signal. ``text`` holds its words and those of its data, one under the other."""

    signal: Signal
    family: str
    channel: Channel
    phase: Phase
    text: str
    documents: tuple[JsonValue, ...]
    status: int | None
    headers: Mapping[str, str]
    joined: bool = False
    """Several lines of standard error, each a signal of its own: what stands around a line says whose it is."""
    synthetic: bool = False
    """Made from the envelope's own status and exit, not a signal that somebody sent."""

    def with_status(self) -> View:
        """Return the view with the HTTP status that its words name as one, if nothing else names one."""
        return self if self.status is not None else self._replace(status=_status_in(self.channel, self.text))

    def well_formed(self) -> View:
        """Return the view with lone surrogates replaced in its words."""
        return self._replace(text=_utf8(self.text))

    def with_documents(self) -> View:
        """Return the view with the documents in its words, which :func:`views_of` may have left out."""
        if self.signal.data is not None or "{" not in self.text:
            return self
        documents = self._documents(self.text)
        return self._replace(documents=documents, status=_status(self.signal, documents)) if documents else self

    def with_words(self, text: str, *, documents: bool = True) -> View:
        """Return the view with fewer words: documents, status and headers that stood in the others are gone too."""
        left = self._documents(text if documents else "")
        return self._replace(text=text, documents=left, status=_status(self.signal, left))

    def _documents(self, text: str) -> tuple[JsonValue, ...]:
        if not self.joined:
            return _documents_of(self.signal, text)
        lines = (line for line in text.splitlines() if "{" in line)
        return tuple(islice((d for line in lines for d in _documents_of(self.signal, line)), _MAX_JOINED))

    @property
    def proves_nothing(self) -> bool:
        """Whether what is said here may be a tool's as well as the agent's, or is about the agent's own end (R-EVI-6).

        While a tool runs, standard error and the requests that are seen are shared with it; while the agent is being ended, what
        it prints is about that.
        """
        if self.phase is _TOOL_RUNS:
            return self.channel is _STDERR or self.channel is _HTTP
        return self.phase is _ENDS and self.channel is _STDERR

    @property
    def structured(self) -> bool:
        """Whether there is anything but words."""
        if self.documents or self.headers or self.status is not None:
            return True
        return self.signal.code is not None


def views_of(evidence: Evidence, *, documents: bool = True) -> list[View]:
    """Return a view of each signal that may be failure evidence (R-EVI-6), then those of the envelope's own facts.

    Args:
        evidence: the envelope.
        documents: False leaves out those that are printed in words, most are of no use, and parsing takes longest; nor
            are words made well-formed then, which the first pass over them finds out for nothing.
    """
    views = [view_of(s, evidence, documents=documents) for s in evidence.signals if not is_content(s)]
    if len(views) > 1:
        views = list(_with_lines_joined(views))
    if evidence.http_status is not None or evidence.exit_code is not None or evidence.exit_signal is not None:
        views += [view_of(s, evidence, synthetic=True) for s in _envelope(evidence)]
    return views


def _with_lines_joined(views: Sequence[View]) -> Iterator[View]:
    """Yield ``views`` with the plain lines of standard error of each phase in one, where the last of them stands.

    Agents' standard error comes line by line, and what stands around a line says whose it is.
    """
    lines: dict[Phase, list[View]] = {}
    for view in views:
        if _is_plain_line(view):
            lines.setdefault(view.phase, []).append(view)
    for view in views:
        if not _is_plain_line(view):
            yield view
        elif view is (of_phase := lines[view.phase])[-1]:
            text = "\n".join(v.text for v in of_phase)
            joined = view._replace(text=text, joined=True) if len(of_phase) > 1 else view
            yield joined.with_documents() if view.documents or any(v.documents for v in of_phase) else joined


def _is_plain_line(view: View) -> bool:
    """Whether it is a line of standard error with nothing but words, and not about a try that the agent repeats by itself."""
    signal = view.signal
    return (
        view.channel is _STDERR
        and signal.data is None
        and not signal.headers
        and signal.code is None
        and signal.http_status is None
        and _INTERIM.search(view.text) is None
    )


def is_content(signal: Signal) -> bool:
    """Whether ``signal`` is what a model or a tool says (R-EVI-6)."""
    # `is`, without naming and hashing members of an enum for each signal
    channel = signal.channel
    return channel is _SAID or channel is _TOOLS


def view_of(signal: Signal, evidence: Evidence, *, synthetic: bool = False, documents: bool = True) -> View:
    """Return what rules see of ``signal``; family and (for a signal without one) phase are the envelope's."""
    channel = signal.channel
    if channel is _HTTP and signal.http_status is None and evidence.http_status is not None:
        signal = signal.model_copy(update={"http_status": evidence.http_status})
    text, data, phase = signal.text or "", signal.data, signal.phase or evidence.phase
    if not documents and data is None and not signal.headers and not text.startswith("HTTP/"):
        # the way of nearly all signals: a named tuple without its own constructor takes half the time
        fields = (
            signal,
            evidence.family,
            channel,
            phase,
            text,
            _NO_DOCUMENTS,
            signal.http_status,
            _NO_HEADERS,
            False,
            synthetic,
        )
        return tuple.__new__(View, fields)
    if data is not None or documents:
        text = _utf8(text)
    words, found, headers = text, _NO_DOCUMENTS, _NO_HEADERS
    if data is not None or (documents and "{" in text):
        found = _documents_of(signal, text)
    if data is not None:
        more = [_utf8(leaf) for leaf in _leaves(data) if leaf not in text]
        words = "\n".join([text, *more] if text else more)
    if signal.headers:
        headers = {_utf8(k).lower(): _utf8(v) for k, v in signal.headers.items()}
    if text.startswith("HTTP/"):
        headers = {**headers, **_printed_headers(_utf8(text))}
    status = _status(signal, found) if found else signal.http_status
    return View(signal, evidence.family, channel, phase, words, found, status, headers, False, synthetic)


def _printed_headers(text: str) -> dict[str, str]:
    """Return the header lines of a response that is printed as a whole."""
    if _BLOCK_START.search(text) is None:
        return {}
    return {m.group(1).lower(): m.group(2) for m in _HEADER_LINE.finditer(text)}


def _status(signal: Signal, documents: Sequence[JsonValue]) -> int | None:
    """Return the HTTP status: the signal's own, or a document's."""
    if signal.http_status is not None:
        return signal.http_status
    for document in documents:
        for path in _STATUS_PATHS:
            for value in find(document, path):
                if isinstance(value, str) and len(value) == len("429") and value.isascii() and value.isdecimal():
                    value = int(value)  # noqa: PLW2901  (gateways give it as a string)
                if isinstance(value, int) and _LOWEST_STATUS <= value <= _HIGHEST_STATUS:
                    return int(value)
    return None


def names_a_status(text: str) -> bool:
    """Whether ``text`` holds an agent's words for its provider's answer."""
    return _PROVIDER_STATUS.search(text) is not None


def _status_in(channel: Channel, text: str) -> int | None:
    found = _PROVIDER_STATUS.search(text)
    if found is None and channel is not Channel.STDERR:
        found = _ANY_STATUS.search(text)
    return int(found.group(1)) if found else None


def find(document: JsonValue, path: tuple[str, ...]) -> Iterator[JsonValue]:
    """Yield the values at ``path`` (keys, list indexes, ``*``)."""
    if not path:
        yield document
        return
    key, rest = path[0], path[1:]
    if isinstance(document, dict):
        chosen = list(document.values())[:_MAX_LEAVES] if key == "*" else [document[key]] if key in document else []
    elif isinstance(document, list):
        chosen = document[:_MAX_LEAVES] if key == "*" else document[int(key) : int(key) + 1] if key.isdecimal() else []
    else:
        return
    for value in chosen:
        yield from find(value, rest)


def _envelope(evidence: Evidence) -> Iterator[Signal]:
    # a status is that of the request that was seen, if one was
    if evidence.http_status is not None and not any(s.channel is _HTTP for s in evidence.signals):
        yield Signal(channel=Channel.HTTP, http_status=evidence.http_status)
    if evidence.exit_code is not None or evidence.exit_signal is not None:
        yield Signal(channel=Channel.EXIT, data={"exit_code": evidence.exit_code, "signal": evidence.exit_signal})


def _utf8(text: str) -> str:
    """Replace lone surrogates, which no matcher takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _documents_of(signal: Signal, text: str) -> tuple[JsonValue, ...]:
    """Return the documents of a signal, and behind them their error objects in the one shape that rules name."""
    documents = tuple(islice(_documents(signal.data, text), _MAX_DOCUMENTS))
    errors = (error for document in documents for error in error_objects(document))
    return (*documents, *islice(errors, _MAX_DOCUMENTS))


def _documents(data: JsonValue, text: str) -> Iterator[JsonValue]:
    if data is not None:
        yield from _flat(data)
        for leaf in _leaves(data):
            yield from _embedded(leaf)
    if "{" in text:
        yield from _embedded(text)


def _flat(document: JsonValue) -> Iterator[JsonValue]:
    """A list of errors is its items."""
    if isinstance(document, list):
        yield from document[:_MAX_ATTEMPTS]
    else:
        yield document


def _embedded(text: str) -> Iterator[JsonValue]:
    """Yield the JSON objects in ``text``."""
    at = text.find("{")
    for _ in range(_MAX_ATTEMPTS):
        if at < 0:
            return
        try:
            document, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield document
            for leaf in _leaves(document):
                if leaf.lstrip().startswith("{"):
                    yield from _inner(leaf)
        at = text.find("{", end)


def _inner(leaf: str) -> Iterator[JsonValue]:
    try:
        document, _ = _DECODER.raw_decode(leaf.lstrip())
    except (ValueError, RecursionError):
        return
    yield document


def _leaves(value: JsonValue) -> list[str]:
    """Return the strings under speaking keys."""
    found: list[str] = []
    pending: list[tuple[JsonValue, int]] = [(value, _MAX_DEPTH)]
    budget = 256
    while pending and budget and len(found) < _MAX_LEAVES:
        current, depth = pending.pop()
        budget -= 1
        if isinstance(current, dict):
            for key, item in current.items():
                if isinstance(item, str):
                    if key.lower() in _SPEAKING_KEYS:
                        found.append(item)
                elif depth and isinstance(item, (dict, list)):
                    pending.append((item, depth - 1))
        elif isinstance(current, list) and depth:
            pending.extend((item, depth - 1) for item in current[:_MAX_LEAVES])
    return found[:_MAX_LEAVES]

"""Codex's own vocabulary of failures, ``codexErrorInfo``: its ACP agents and its app server share it (R-CLS-3).

Two spellings are about: ``usageLimitExceeded`` and, from older agents, ``usage_limit_exceeded``. Rules see the first one only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kandev_routing_codex.wording import broken_off, known_whole, retry_of, status_of
from kandev_routing_sdk.spec import Channel, Frame, JsonValue, Signal, TurnRecord, as_text

PATIENCE: Final = 5
"""How often Codex may say that it waits for the network before its turn is given up: it doubles the gaps (5, 10, 20, 40 s) and
never ends by itself."""

_NAMES: Final = ("codexErrorInfo", "codex_error_info")
_SNAKE: Final = re.compile(r"_([a-z0-9])")
_IN_STREAM: Final = "responseStreamDisconnected"
_STATUSES: Final = range(100, 600)


def error_info(holder: Frame) -> JsonValue:
    """Return the kind of a failure (text, or an object of one key) in one spelling; None when there is none."""
    for name in _NAMES:
        info = holder.get(name)
        if isinstance(info, str):
            return _camel(info)
        if isinstance(info, Mapping):
            return {_camel(kind): _fields(facts) for kind, facts in info.items()}
    return None


def info_status(info: JsonValue) -> int | None:
    """Return the HTTP status that a kind carries."""
    for facts in info.values() if isinstance(info, Mapping) else ():
        status = facts.get("httpStatusCode") if isinstance(facts, Mapping) else None
        if isinstance(status, int) and not isinstance(status, bool) and status in _STATUSES:
            return status
    return None


def failure_signal(
    channel: Channel, message: str, info: JsonValue, *, code: int | None = None, facts: Frame | None = None
) -> Signal:
    """Return a failure as evidence: its words, its kind, what else is known, and the HTTP status that words or kind name."""
    data: dict[str, JsonValue] = {**(facts or {}), "message": message}
    if info is not None:
        data["codexErrorInfo"] = info
    status = info_status(info) or status_of(message)
    return Signal(channel=channel, text=message or None, code=code, data=data, http_status=status)


def keep(signal: Signal, turn: TurnRecord) -> None:
    """Add a failure to the evidence, with its HTTP status."""
    if signal.http_status is not None:
        turn.http_status(signal.http_status)
    turn.signal(signal)


def doubtful(signal: Signal) -> bool:
    """Whether a response may have begun before this failure (R-SAFE-7): its words or its kind say that a stream broke off."""
    words = signal.text or ""
    info = signal.data.get("codexErrorInfo") if isinstance(signal.data, Mapping) else None
    in_stream = info == _IN_STREAM or (isinstance(info, Mapping) and _IN_STREAM in info)
    return broken_off(words) or (in_stream and not known_whole(words))


def unproven(signal: Signal) -> bool:
    """Whether nothing proves that a try ended before a response began, or as a whole: its words are none that are known."""
    words = signal.text or ""
    if not words:
        return not isinstance(signal.data, Mapping) or signal.data.get("codexErrorInfo") is None
    return (retry_of(words) is None and not known_whole(words)) or doubtful(signal)


class Reconnects:
    """Codex's own tries: counted, shown, and given up when it would wait for the network for ever (R-CON-9)."""

    def __init__(self) -> None:
        self._waits = 0

    def receive(self, message: str, cause: Signal, turn: TurnRecord) -> None:
        """Codex tries again. That nobody could be reached acknowledges no prompt."""
        retry = retry_of(message)
        if retry is None or retry.maximum is not None:
            turn.inner_retry(maximum=retry.maximum if retry else None, status=cause.http_status)
            return
        self._waits += 1
        if self._waits == PATIENCE:
            keep(cause, turn)
            turn.abandoned("reconnecting")


def _camel(name: str) -> str:
    return _SNAKE.sub(lambda found: found[1].upper(), name)


def _fields(facts: JsonValue) -> JsonValue:
    return {_camel(name): value for name, value in facts.items()} if isinstance(facts, Mapping) else facts


def text_of(holder: Frame, *names: str) -> str:
    """Return the first of these fields that is text."""
    return next((found for name in names if (found := as_text(holder.get(name)))), "")

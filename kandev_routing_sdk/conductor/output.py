"""What an agent says in a turn, made durable while it says it (R-CON-5, R-CON-6).

Neighbouring pieces of text become one event, written at most a tenth of a second later, under the owner's fence. Output that cannot
be written never decides how a turn ends: it is tried again until the turn is settled, and then marked as cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import anyio
from pydantic import JsonValue

from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.conductor.masking import masked
from kandev_routing_sdk.errors import StoreError
from kandev_routing_sdk.events import EventDraft, EventKind
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.updates import (
    AgentUpdate,
    CapabilitiesUpdate,
    InnerRetry,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)
from kandev_routing_sdk.ports import AttemptRecord
from kandev_routing_sdk.telemetry import fields, get_logger, problem_fields

_log = get_logger(__name__)

MAX_PIECE: Final = 4096
"""Characters of text in one event."""
MAX_TURN_CHARS: Final = 4 * 1024 * 1024
"""Characters of one turn's output that are kept; the same as of its answer."""
MAX_TURN_EVENTS: Final = 20_000
FLUSH_S: Final = 0.1
"""For how long text may wait for more of it."""
AGAIN_S: Final = 1.0
"""Seconds between two tries while the store takes nothing."""
_BATCH: Final = 64
"""Events in one transaction."""
_MAX_ID: Final = 200

_Params = dict[str, JsonValue]


class TurnOutput:
    """One turn's output on its way to the store. One task says, one writes."""

    def __init__(self, record: AttemptRecord, cleaner: Sanitiser) -> None:
        self.attribution: Mapping[str, JsonValue] = {
            "profile_id": record.execution_profile_id,
            "attempt_id": record.attempt_id,
            "prompt_number": record.prompt_number,
            "ordinal": record.ordinal,
        }
        self._cleaner = cleaner
        self._pieces: list[_Params] = []
        self._kind = ""
        self._text: list[str] = []
        self._held: dict[str, str] = {}
        """By kind: where its text stopped for something else, in what may be the beginning of a secret."""
        self._waiting = 0
        """Characters of the text that goes on."""
        self._chars = self._events = 0
        self._offers: dict[str, JsonValue] | None = None
        """What the agent came to offer, and is not written yet: its newest word, as a whole (R-CON-7)."""
        self._closed = False
        self.changed: anyio.Event = anyio.Event()
        self.urgent: anyio.Event = anyio.Event()

    def say(self, update: AgentUpdate) -> None:
        """Take what the agent said, and mask it; once closed or cut, nothing."""
        if self._closed:
            return
        match update:
            case TextDelta(text):
                self._say_text("text", text)
            case ThinkingDelta(text):
                self._say_text("thinking", text)
            case ToolCall() | ToolResult() | Notice() | InnerRetry():
                self._end_text()
                self._add(_whole(masked(update, self._cleaner)))
                self.urgent.set()
            case CapabilitiesUpdate():
                clean = masked(update, self._cleaner)
                self._offers = clean.capabilities if isinstance(clean, CapabilitiesUpdate) else None
            case _:  # its session has an event of its own
                return
        self.changed.set()

    def _say_text(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self._end_text()
            self._kind, held = kind, self._held.pop(kind, "")
            self._text, self._waiting = [held], len(held)
        kept = text[: MAX_TURN_CHARS - self._chars]
        self._chars += len(kept)
        self._text.append(kept)
        self._waiting += len(kept)
        if self._waiting >= MAX_PIECE:
            self._pour(least=MAX_PIECE)
            self.urgent.set()
        if len(kept) < len(text):
            self._end_text()
            self._let_go()
            self._cut("turn_limit")

    def _end_text(self) -> None:
        """What comes is something else. What may be the beginning of a secret waits until its kind goes on, behind that."""
        if self._text:
            self._pour(least=1)
            if rest := "".join(self._text):
                self._held[self._kind] = rest
            self._text, self._waiting = [], 0
            self.urgent.set()
        self._kind = ""

    def _let_go(self) -> None:
        """Nothing goes on: what waited was the beginning of nothing."""
        for kind, text in self._held.items():
            self._kind = kind
            self._add_text(text)
        self._held, self._kind = {}, ""

    def _pour(self, *, least: int) -> None:
        """Make pieces of the text so far, while there are ``least`` characters of it.

        A secret is never cut in two, for its halves would be known to nobody: what may be the beginning of one waits.
        """
        text, at = "".join(self._text), 0
        while len(text) - at >= least:
            piece = text[at : at + MAX_PIECE]
            end = self._cleaner.known_until(piece) or self._cleaner.known_until(text[at:])
            if end == 0:
                break
            self._add_text(text[at : at + end])
            at += end
        self._text, self._waiting = [text[at:]], len(text) - at

    def _add_text(self, text: str) -> None:
        clean = self._cleaner.known_only(text)
        for first in range(0, len(clean), MAX_PIECE):
            self._add({"type": self._kind, "text": clean[first : first + MAX_PIECE]})

    def _add(self, piece: _Params) -> None:
        if self._closed:
            return
        if self._events >= MAX_TURN_EVENTS:
            self._cut("turn_limit")
            return
        self._events += 1
        self._pieces.append(piece)

    def _cut(self, because: str) -> None:
        if not self._closed:
            self._pieces.append({"type": "cut", "because": because})
        self.close()

    def close(self) -> None:
        """Take nothing any more: what comes late is of no turn that runs."""
        self._closed = True
        self._text, self._held, self._kind, self._waiting = [], {}, "", 0

    def take(self) -> list[_Params]:
        """Return the next pieces to be written."""
        if self._text and len(self._pieces) < _BATCH:
            self._pour(least=1)
        taken, self._pieces = self._pieces[:_BATCH], self._pieces[_BATCH:]
        if not self._pieces:
            taken += self.offers()
        return taken

    def offers(self) -> list[_Params]:
        """Return what it came to offer, once."""
        offers, self._offers = self._offers, None
        return [] if offers is None else [{"capabilities": offers}]

    def take_back(self, taken: list[_Params]) -> None:
        """These could not be written."""
        self._pieces[:0] = taken

    def end(self) -> None:
        """The turn is quiet: nothing goes on."""
        self._end_text()
        self._let_go()
        self.close()

    def drop(self) -> list[_Params]:
        """Nothing of it is to be written any more; return what the agent came to offer, which is no output."""
        self.close()
        left = [piece for piece in self._pieces if "capabilities" in piece] + self.offers()
        self._pieces = []
        return left[-1:]


class OutputWriter:
    """Writes the output of a route's turns, one after the other; :meth:`run` beside everything."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._launched: TurnOutput | None = None
        self._turn: TurnOutput | None = None
        self._begun = anyio.Event()
        self._writing = anyio.Lock()

    def turn(self, record: AttemptRecord, cleaner: Sanitiser) -> TurnOutput:
        """Return what takes the output of an attempt; of a call's, nothing: what it says is kept nowhere (R-UTL-4)."""
        turn = TurnOutput(record, cleaner)
        if self._ledger.route.kind != "session":
            turn.close()
        self._launched = turn
        return turn

    def begin(self) -> None:
        """Write the output of the agent that was launched last, from now on: its turn has started, durably."""
        self._turn = self._launched
        self._begun.set()

    async def run(self) -> None:
        """Write what is said, until cancelled."""
        while True:
            turn = self._turn
            if turn is None:
                await self._begun.wait()
                self._begun = anyio.Event()
                continue
            await turn.changed.wait()
            with anyio.move_on_after(FLUSH_S):  # real time, whatever the clock: somebody watches
                await turn.urgent.wait()
            turn.changed, turn.urgent = anyio.Event(), anyio.Event()
            try:
                await self._write(turn)
            except StoreError as problem:
                _log.warning(
                    "output waits for its store",
                    extra=problem_fields(problem, session_id=self._ledger.route.session_id),
                )
                turn.changed.set()
                await anyio.sleep(AGAIN_S)

    async def finish(self) -> tuple[EventDraft, ...]:
        """Write what is left of the turn that ends; return what is to be told of it with its end: that something is missing."""
        turn, self._turn, self._launched = self._turn, None, None
        if turn is None:
            return ()
        turn.end()
        turn.changed.set()  # whoever waits for more of it looks for the next one
        turn.urgent.set()
        try:
            await self._write(turn)
        except StoreError as problem:  # whether the turn ended well is not up to its output
            _log.warning("output is lost", extra=problem_fields(problem, session_id=self._ledger.route.session_id))
            lost: list[_Params] = [{"type": "cut", "because": "store"}]
            known = turn.drop()
            return tuple(self._drafts(turn, [*lost, *known]))
        return ()

    async def _write(self, turn: TurnOutput) -> None:
        async with self._writing:
            while taken := turn.take():
                try:
                    ours = await self._ledger.append(list(self._drafts(turn, taken)))
                except StoreError:
                    turn.take_back(taken)
                    raise
                if not ours:
                    _log.info(
                        "output is not written: the session is somebody else's",
                        extra=fields(session_id=self._ledger.route.session_id),
                    )
                    turn.drop()

    def _drafts(self, turn: TurnOutput, pieces: list[_Params]) -> Iterator[EventDraft]:
        reason, profile_id = self._ledger.route.reason, turn.attribution["profile_id"]
        for piece in pieces:
            if "capabilities" in piece:
                yield EventDraft(EventKind.CAPABILITIES_REPLACED, reason, {"profile_id": profile_id, **piece})
            else:
                yield EventDraft(EventKind.TURN_OUTPUT, reason, {**piece, **turn.attribution})


def _whole(update: AgentUpdate) -> _Params:
    """What is an event of its own."""
    match update:
        case ToolCall(tool_id, title):
            return {"type": "tool_call", "tool_id": tool_id[:_MAX_ID], **_bounded("title", title)}
        case ToolResult(tool_id, ok):
            return {"type": "tool_result", "tool_id": tool_id[:_MAX_ID], "ok": ok}
        case InnerRetry(ordinal, maximum, delay_s, status):
            told: _Params = {"retry": ordinal, "maximum": maximum, "delay_s": delay_s, "status": status}
            return {"type": "inner_retry", **told}
        case Notice(text):
            return {"type": "notice", **_bounded("text", text)}
        case _:
            raise ValueError(type(update).__name__)


def _bounded(name: str, text: str) -> _Params:
    return {name: text[:MAX_PIECE], **({"cut": True} if len(text) > MAX_PIECE else {})}

"""Reads the event stream of ``opencode serve``: the only place where OpenCode's own retries show.

The SDK does not drive it: it would need a server, its port and its password for each turn, where the other two ways are one
process that is gone with its turn. A host that runs a server of its own can feed its events in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kandev_routing_opencode.failure import Failure, failure_of
from kandev_routing_opencode.steps import StepCounter
from kandev_routing_sdk.spec import Channel, JsonValue, Signal, StreamedAnswer, TurnRecord, as_object, as_text

Event = Mapping[str, JsonValue]

MAX_RETRIES: Final = 5
"""What OpenCode tries again by itself, before it gives up."""
_QUIET: Final = (
    "server.",
    "plugin.",
    "catalog.",
    "integration.",
    "reference.",
    "file.",
    "lsp.",
    "installation.",
    "mcp.",
)
"""Beginnings of events that are about no turn."""
_ABOUT_SESSION: Final = frozenset(
    {"session.created", "session.updated", "session.diff", "session.deleted", "todo.updated", "vcs.branch.updated"}
)
_HARMLESS_PARTS: Final = frozenset(
    {"snapshot", "patch", "file", "agent", "retry", "compaction", "step-finish", "step-start"}
)
_DONE: Final[Mapping[str, bool]] = {"completed": True, "error": False}


class OpenCodeEventReader:
    """One turn of one session of a server. No I/O, no clock. Here text shows while it streams, so observation is complete."""

    def __init__(self, session_id: str) -> None:
        self._session = session_id
        self._mine: set[str] = set()
        """Messages of the user: no output."""
        self._tools: dict[str, str] = {}
        self._text = StreamedAnswer()
        self._steps = StepCounter()
        self._failures: list[Failure] = []
        self._busy = False
        self._handlers: Final[Mapping[str, Callable[[Event, TurnRecord], None]]] = {
            "session.status": self._status,
            "session.error": self._error,
            "session.idle": self._idle,
            "message.updated": self._message,
            "message.part.updated": self._part,
            "message.part.delta": self._delta,
        }

    def receive(self, event: Event, turn: TurnRecord) -> None:
        """Interpret one event; those of other sessions are ignored (R-EVI-4)."""
        kind, properties = as_text(event.get("type")), as_object(event.get("properties"))
        if kind.startswith(_QUIET) or self._of(properties) != self._session:
            return
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(properties, turn)
        elif kind not in _ABOUT_SESSION:
            turn.acknowledged()
            turn.incomplete()

    @staticmethod
    def _of(properties: Event) -> str:
        part, info = as_object(properties.get("part")), as_object(properties.get("info"))
        return as_text(properties.get("sessionID") or part.get("sessionID") or info.get("sessionID") or info.get("id"))

    def _status(self, properties: Event, turn: TurnRecord) -> None:
        status = as_object(properties.get("status"))
        kind = as_text(status.get("type"))
        if kind == "busy" and not self._busy:
            self._busy = True
            turn.session(self._session)
            turn.acknowledged()
        elif kind == "retry":
            turn.inner_retry(maximum=MAX_RETRIES)
            data: dict[str, JsonValue] = {"type": "retry", "attempt": status.get("attempt"), "next": status.get("next")}
            turn.signal(Signal(channel=Channel.ACP_UPDATE, text=as_text(status.get("message")) or None, data=data))

    def _error(self, properties: Event, turn: TurnRecord) -> None:
        turn.acknowledged()
        self._failures.append(failure_of(properties.get("error")))

    def _idle(self, properties: Event, turn: TurnRecord) -> None:
        """The turn is over; it is said twice."""
        del properties
        if turn.ended or not self._busy:
            return
        turn.text(self._text.rest())
        if not self._failures:
            turn.succeeded(self._steps.reason or "idle")
            return
        for failure in self._failures:
            for signal in failure.signals(Channel.STDOUT_EVENT):
                turn.signal(signal)
        if self._failures[-1].status is not None:
            turn.http_status(self._failures[-1].status)
        if not all(failure.before_response for failure in self._failures):
            turn.incomplete()
        turn.failed("error")

    def _message(self, properties: Event, turn: TurnRecord) -> None:
        info = as_object(properties.get("info"))
        if info.get("role") == "user":
            self._mine.add(as_text(info.get("id")))
        elif model := as_text(info.get("modelID")):
            turn.served_model(model)

    def _part(self, properties: Event, turn: TurnRecord) -> None:
        part = as_object(properties.get("part"))
        kind = as_text(part.get("type"))
        if as_text(part.get("messageID")) in self._mine:
            return
        turn.acknowledged()
        if kind == "tool":
            self._tool(part, turn)
        elif kind == "reasoning":
            turn.thinking("")
        elif kind == "step-finish":
            self._steps.finished(part, turn)
            if self._steps.answered:
                self._failures.clear()
        elif kind not in _HARMLESS_PARTS and kind != "text":
            turn.incomplete()

    def _delta(self, properties: Event, turn: TurnRecord) -> None:
        if as_text(properties.get("messageID")) not in self._mine and properties.get("field", "text") == "text":
            turn.text(self._text.piece(as_text(properties.get("messageID")), as_text(properties.get("delta"))))

    def _tool(self, part: Event, turn: TurnRecord) -> None:
        self._steps.used_tool()
        tool_id, status = as_text(part.get("callID")), as_text(as_object(part.get("state")).get("status"))
        before = self._tools.get(tool_id)
        if before is None:
            turn.tool_call(tool_id, as_text(part.get("tool")) or "tool")
        if status not in {before, "pending"}:
            turn.tool_result(tool_id, ok=_DONE.get(status))
        self._tools[tool_id] = status

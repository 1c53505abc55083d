"""Reads the events of ``codex exec --json`` (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kandev_routing_codex.failures import PATIENCE
from kandev_routing_codex.tools import FAILED_TOOL, TOOLS
from kandev_routing_codex.wording import before_response, retry_of, status_of, warns_of_break
from kandev_routing_sdk.spec import (
    AgentEvent,
    Channel,
    Exited,
    JsonValue,
    Signal,
    StderrLine,
    StdoutLine,
    TurnRecord,
    json_event,
)

Event = Mapping[str, JsonValue]

_GAP: Final = "\n\n"
_TOOL_LOG: Final = re.compile(r"(?:\bstream_events_utils|\bcodex_\w{1,40}(?:::\w{1,40}){0,8}): ToolCall: (\w{1,64})")
"""A line of Codex's log: it tells of every tool, also of those that its events keep quiet about (a command that its sandbox refused
something is one)."""
_RAN: Final = re.compile(
    r"(?:exec\b.{0,4096}\s|\s*)(?:succeeded|exited -?\d{1,10}) in \d{1,12}(?:\.\d{1,9})?m?s:?\s*\Z"
)
"""A command that ended, as Codex tells it where nobody asked for JSON."""
_NOISE: Final = ("Reading additional input from stdin",)
_OWN_ERROR: Final = "ERROR: "
_MAX_REMARKS: Final = 100
"""More warnings than that, said ahead of a turn, are not shown."""


class CodexExtractor:
    """One turn of one headless Codex. No I/O, no clock."""

    def __init__(self) -> None:
        self._tools: set[str] = set()
        self._logged: list[str] = []
        """The tools of which the log tells."""
        self._unfinished: dict[str, str] = {}
        """Text of messages that were begun, by item."""
        self._shown = False
        self._answered = False
        """Whether the provider is known to have answered something in this turn."""
        self._unsure = False
        """Whether a try may have ended inside a response that was not shown."""
        self._pending: Signal | None = None
        """The last error that is no verdict yet."""
        self._remarks: list[str] = []
        """Warnings that are not shown yet: nothing has proved that the prompt arrived."""
        self._started = self._ended = self._failed = False
        self._waits = 0
        self._handlers: Final[Mapping[str, Callable[[Event, TurnRecord], None]]] = {
            "thread.started": self._thread,
            "turn.started": self._turn_started,
            "turn.completed": self._completed,
            "turn.failed": self._turn_failed,
            "item.started": self._item,
            "item.updated": self._item,
            "item.completed": self._item,
            "error": self._error,
        }

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        match event:
            case StdoutLine(text=line, truncated=False):
                self._stdout(line, turn)
            case StderrLine(text=line) if called := _TOOL_LOG.search(line):
                self._logged.append(called[1])
            case StderrLine(text=line) if _RAN.match(line):
                self._logged.append("shell")
            case StderrLine(text=line) if line.strip() and not line.startswith(_NOISE):
                turn.signal(Signal(channel=Channel.STDERR, text=line))
            case Exited():
                self._exited(turn)

    def _stdout(self, line: str, turn: TurnRecord) -> None:
        event = json_event(line)
        if event is None:
            self._foreign_line(line, turn)
            return
        handler = self._handlers.get(_str(event.get("type")))
        if handler is not None:
            handler(event, turn)
        else:
            # a newer Codex's event: something of this turn, and nobody knows what
            turn.acknowledged()
            turn.incomplete()

    def _foreign_line(self, line: str, turn: TurnRecord) -> None:
        """A line that is no event: the command does not speak JSON, so what it did is not known."""
        if not line.strip():
            return
        turn.incomplete()
        own = not self._started and line.startswith(_OWN_ERROR)
        turn.signal(Signal(channel=Channel.STDOUT_EVENT if own else Channel.ASSISTANT_TEXT, text=line))

    # Events ---------------------------------------------------------------------------------------------------------------

    def _thread(self, event: Event, turn: TurnRecord) -> None:
        # said before anything was sent: no answer, no acknowledgement
        if thread := _str(event.get("thread_id")):
            turn.session(thread)

    def _turn_started(self, event: Event, turn: TurnRecord) -> None:
        del event, turn  # local as well
        self._started = True

    def _completed(self, event: Event, turn: TurnRecord) -> None:
        self._ended = self._answered = True
        self._flush(turn)
        usage = event.get("usage")
        if isinstance(usage, dict):
            turn.usage(_int(usage.get("input_tokens")), _int(usage.get("output_tokens")))
        turn.acknowledged()
        self._show_remarks(turn)
        if self._failed:
            turn.incomplete()  # something had begun after all (R-SAFE-6)
        else:
            turn.succeeded("end_turn")

    def _turn_failed(self, event: Event, turn: TurnRecord) -> None:
        error = event.get("error")
        message = _str(error.get("message")) if isinstance(error, dict) else _str(error)
        self._ended = self._failed = True
        self._flush(turn)
        self._own_up(turn)
        turn.acknowledged()
        self._show_remarks(turn)
        pending, self._pending = self._pending, None
        if pending is not None and not message:
            turn.signal(pending)
            message = pending.text or ""
        else:
            data: dict[str, JsonValue] = {"type": "turn.failed", "message": message}
            self._say_failure(Signal(channel=Channel.STDOUT_EVENT, text=message, data=data), turn)
        if self._unsure or self._answered or not before_response(message):
            turn.incomplete()  # whatever was answered, and however little of it was shown, it was not nothing
        turn.failed("error")

    def _error(self, event: Event, turn: TurnRecord) -> None:
        """A retry, or the cause that ``turn.failed`` repeats. Never the end, but it may be the last that is heard."""
        message = _str(event.get("message"))
        retry = retry_of(message)
        status = status_of(retry.cause if retry else message)
        data: dict[str, JsonValue] = {"type": "error", "message": message}
        self._pending = Signal(channel=Channel.STDOUT_EVENT, text=message, data=data, http_status=status)
        # each try counts, in whatever words it is told: the next one's clean end proves nothing of the one before (R-SAFE-7)
        self._unsure = self._unsure or not before_response(retry.cause if retry else message)
        if retry is None:
            turn.acknowledged()
            return
        if retry.maximum is not None:
            turn.inner_retry(maximum=retry.maximum, status=status)
        else:
            self._wait(turn)

    def _wait(self, turn: TurnRecord) -> None:
        """It waits for the network, for ever (R-CON-9). Nobody has answered, so nothing is acknowledged."""
        self._waits += 1
        if self._waits == PATIENCE and self._pending is not None:
            self._say_failure(self._pending, turn)
            self._ended = self._failed = True
            turn.abandoned("reconnecting")

    def _item(self, event: Event, turn: TurnRecord) -> None:
        item = event.get("item")
        if not isinstance(item, dict):
            turn.acknowledged()
            turn.incomplete()
            return
        kind, item_id = _str(item.get("type")), _str(item.get("id"))
        done = event.get("type") == "item.completed"
        if kind == "error":
            self._warning(_str(item.get("message")), turn)
            return
        self._answered, self._pending = True, None
        self._show_remarks(turn)
        if kind == "agent_message":
            self._message(item_id, _str(item.get("text")), turn, done=done)
        elif kind in {"reasoning", "todo_list"}:
            if done or kind == "reasoning":
                turn.thinking(_str(item.get("text")) if done else "")
        else:
            self._tool(kind, item_id, item, turn, done=done)

    def _warning(self, message: str, turn: TurnRecord) -> None:
        """An ``error`` item is a mere warning: of a server of tools, a skill, the configuration. Codex goes on, so it explains no
        failure, in whatever words (R-EVI-4, R-EVI-6); and it may be said before anything was sent.
        """
        self._unsure = self._unsure or warns_of_break(message)
        if len(self._remarks) < _MAX_REMARKS:
            self._remarks.append(message)
        if self._answered or self._ended:
            self._show_remarks(turn)

    def _show_remarks(self, turn: TurnRecord) -> None:
        remarks, self._remarks = self._remarks, []
        for remark in remarks:
            turn.notice(remark)

    def _message(self, item_id: str, text: str, turn: TurnRecord, *, done: bool) -> None:
        turn.acknowledged()
        if done:
            self._unfinished.pop(item_id, None)
            self._say(text, turn)
        elif text:
            self._unfinished[item_id] = text

    def _tool(self, kind: str, item_id: str, item: Event, turn: TurnRecord, *, done: bool) -> None:
        if kind not in TOOLS:
            turn.incomplete()  # a newer Codex's item: what it does is not known
        if item_id not in self._tools:
            self._tools.add(item_id)
            name = _str(item.get("tool"))
            turn.tool_call(item_id, f"{TOOLS.get(kind, kind)} {name}".strip())
        if done:
            turn.tool_result(item_id, ok=_str(item.get("status")) not in FAILED_TOOL)

    def _exited(self, turn: TurnRecord) -> None:
        self._flush(turn)
        self._own_up(turn)  # the log may be read after the event that ended the turn
        if self._ended:
            return
        pending, self._pending = self._pending, None
        if pending is not None:
            self._say_failure(pending, turn)
        if self._started:
            turn.incomplete()  # it went without saying what it had done
        turn.failed("no_result")

    # What they mean -------------------------------------------------------------------------------------------------------

    def _own_up(self, turn: TurnRecord) -> None:
        """Mark the tools that no event told of (R-SAFE-1)."""
        hidden = self._logged[len(self._tools) :]
        for number, name in enumerate(hidden):
            self._tools.add(f"log-{number}")
            turn.tool_call("", name)
            turn.tool_result("", ok=None)

    def _say(self, text: str, turn: TurnRecord) -> None:
        if text:
            turn.text(_GAP + text if self._shown else text)
            self._shown = True

    def _flush(self, turn: TurnRecord) -> None:
        """Messages that were begun and never finished are output too."""
        unfinished, self._unfinished = self._unfinished, {}
        for text in unfinished.values():
            self._say(text, turn)

    @staticmethod
    def _say_failure(signal: Signal, turn: TurnRecord) -> None:
        status = status_of(signal.text or "")
        if status is not None:
            turn.http_status(status)
            signal = signal.model_copy(update={"http_status": status})
        turn.signal(signal)


def _str(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _int(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

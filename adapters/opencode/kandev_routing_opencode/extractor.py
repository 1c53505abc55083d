"""Reads the events of ``opencode run --format json`` (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kandev_routing_opencode.failure import DUMP, Failure, failure_of
from kandev_routing_opencode.steps import CUT_OFF, REFUSALS, StepCounter
from kandev_routing_sdk.spec import (
    AgentEvent,
    Channel,
    Exited,
    JsonValue,
    Signal,
    StderrLine,
    StdoutLine,
    TurnRecord,
    as_object,
    as_text,
    json_event,
)

Event = Mapping[str, JsonValue]

_GAP: Final = "\n\n"
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,16}m")
_NO_AGENT: Final = re.compile(r'^\W*agent ".{1,200}" (?:not found|is a subagent)\b.*\bfalling back\b', re.IGNORECASE)
_ASKED: Final = re.compile(r"^\W*permission requested\b\W*(\w{0,40})", re.IGNORECASE)


class OpenCodeExtractor:
    """One turn of one headless OpenCode. No I/O, no clock.

    This mode shows a text, a thought or a tool only when it is finished. What a broken response had begun is never shown, so
    once a response has begun a failure leaves the observation incomplete.
    """

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        """Text that was shown, by its part."""
        self._steps = StepCounter()
        self._spoke = self._began = False
        """Whether any event came, and whether one of them was part of a response."""
        self._recovered = False
        """Whether a finished answer followed an error; the exit code tells of the error all the same."""
        self._denied: set[str] = set()
        """What OpenCode asked leave for, with nobody there to give it."""
        self._dumped = False
        self._failures: list[Failure] = []
        """Errors that no finished answer has followed yet."""
        self._handlers: Final[Mapping[str, Callable[[Event, TurnRecord], None]]] = {
            "step_start": self._step_start,
            "step_finish": self._step_finish,
            "text": self._text,
            "reasoning": self._reasoning,
            "tool_use": self._tool,
            "error": self._error,
        }

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        match event:
            case StdoutLine(text=line, truncated=False):
                self._stdout(line, turn)
            case StderrLine(text=line):
                self._stderr(_COLOUR.sub("", line), turn)
            case Exited():
                self._exited(event, turn)

    def _stdout(self, line: str, turn: TurnRecord) -> None:
        event = json_event(line)
        if event is None:
            self._foreign_line(line, turn)
            return
        self._spoke = True
        turn.acknowledged()
        if session := as_text(event.get("sessionID")):
            turn.session(session)
        handler = self._handlers.get(as_text(event.get("type")))
        if handler is not None:
            handler(as_object(event.get("part")) if "part" in event else event, turn)
        else:
            turn.incomplete()  # a newer OpenCode's event: something of this turn, and nobody knows what

    @staticmethod
    def _foreign_line(line: str, turn: TurnRecord) -> None:
        """A line that is no event: the command does not speak JSON, so what it did is not known."""
        if line.strip():
            turn.incomplete()
            turn.signal(Signal(channel=Channel.ASSISTANT_TEXT, text=line))

    def _stderr(self, line: str, turn: TurnRecord) -> None:
        self._dumped = self._dumped or line.lstrip().startswith(DUMP)
        if not line.strip() or self._dumped:
            return
        if asked := _ASKED.match(line):
            name = asked[1] or "a tool"
            self._began = True
            if name not in self._denied:
                turn.tool_call("", name)  # only the model asks for tools (R-SAFE-1)
            self._denied.add(name)
            turn.notice(f"permission denied: {name}")
            return
        turn.signal(Signal(channel=Channel.STDERR, text=line))
        if _NO_AGENT.match(line):
            # it would go on as another agent, with other permissions than the profile's
            turn.abandoned("agent_not_found")

    # Events ---------------------------------------------------------------------------------------------------------------

    def _step_start(self, part: Event, turn: TurnRecord) -> None:
        del part, turn
        self._began = True

    def _step_finish(self, part: Event, turn: TurnRecord) -> None:
        self._began = True
        self._steps.finished(part, turn)
        if self._steps.answered:
            failures, self._failures = self._failures, []
            self._recovered = self._recovered or bool(failures)
            for failure in failures:
                turn.notice(failure.message)  # it got over them by itself, such as by compacting the session
        elif self._steps.endless:
            turn.abandoned("endless_steps")

    def _text(self, part: Event, turn: TurnRecord) -> None:
        self._began = True
        part_id, text = as_text(part.get("id")), as_text(part.get("text"))
        before = self._shown.get(part_id, "") if part_id else ""
        if text.startswith(before):
            new = text[len(before) :]
            turn.text(_GAP + new if new and self._shown and not before else new)
        else:
            turn.text(_GAP + text)
        self._shown[part_id] = text

    def _reasoning(self, part: Event, turn: TurnRecord) -> None:
        self._began = True
        turn.thinking(as_text(part.get("text")))

    def _tool(self, part: Event, turn: TurnRecord) -> None:
        self._began = True
        self._steps.used_tool()
        tool_id, state = as_text(part.get("callID")), as_object(part.get("state"))
        turn.tool_call(tool_id, as_text(part.get("tool")) or "tool")
        turn.tool_result(tool_id, ok=state.get("status") == "completed")

    def _error(self, event: Event, turn: TurnRecord) -> None:
        del turn
        self._failures.append(failure_of(event.get("error")))

    # The end --------------------------------------------------------------------------------------------------------------

    def _exited(self, event: Exited, turn: TurnRecord) -> None:
        if self._failures:
            self._failed(turn)
        elif turn.ended:
            return
        elif (event.exit_code == 0 or (self._recovered and event.exit_code == 1)) and self._steps.settled:
            self._settled(turn)
        else:
            if self._spoke:
                turn.incomplete()  # it went without saying what it had done
            turn.failed("no_result")

    def _settled(self, turn: TurnRecord) -> None:
        """It went as it should, which is no success when it was refused what it needed, or refused to answer."""
        if self._steps.reason in REFUSALS:
            turn.signal(Signal(channel=Channel.STDOUT_EVENT, data={"stop_reason": "refusal"}))
            turn.failed("refusal")
        elif self._steps.reason == CUT_OFF:
            cut = "the answer was cut off at the model's limit of output"
            turn.signal(Signal(channel=Channel.STDOUT_EVENT, text=cut, data={"stop_reason": CUT_OFF}))
            turn.failed("max_tokens")
        elif self._denied and not self._steps.answered:
            asked = ", ".join(sorted(self._denied))
            turn.signal(Signal(channel=Channel.STDOUT_EVENT, text=f"permission denied by the user: {asked}"))
            turn.failed("permission_denied")
        else:
            turn.succeeded(self._steps.reason)

    def _failed(self, turn: TurnRecord) -> None:
        last = self._failures[-1]
        for failure in self._failures:
            for signal in failure.signals(Channel.STDOUT_EVENT):
                turn.signal(signal)
        if last.status is not None:
            turn.http_status(last.status)
        if self._began or not all(failure.before_response for failure in self._failures):
            turn.incomplete()
        turn.failed("error")

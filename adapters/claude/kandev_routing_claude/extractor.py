"""Reads the events of ``claude -p --output-format=stream-json`` (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kandev_routing_claude.failure import Event, Verdict, as_dict, as_dicts, as_str, spoken_by_runtime
from kandev_routing_claude.signs import TOOL_USES, is_quiet, note_denials, note_user, result_tells_of_work
from kandev_routing_claude.text import AnswerText
from kandev_routing_claude.watch import (
    FailureWatch,
    is_notice,
    result_failed,
    result_text,
    tokens,
)
from kandev_routing_sdk.spec import (
    AgentEvent,
    Channel,
    Exited,
    Signal,
    StderrLine,
    StdoutLine,
    TurnRecord,
    json_event,
)

_QUIET_DELTAS: Final = frozenset({"input_json_delta", "signature_delta", "citations_delta", "compaction_delta"})
_HARMLESS: Final = frozenset({"auth_status", "control_response", "keep_alive"})


class ClaudeExtractor:
    """One turn of one headless Claude. No I/O, no clock.

    Args:
        resumed: whether its session is an earlier turn's.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._text = AnswerText()
        self._tools: set[str] = set()
        self._visible = False
        """Whether anything of the model came out: text, thinking, a tool."""
        self._thinking = False
        """Whether the current block of thinking came in pieces."""
        self._opened = False
        """Whether a response is known to have begun."""
        self._watch = FailureWatch()
        self._spoke = self._ended = self._failed = False
        self._handlers: Final[Mapping[str, Callable[[Event, TurnRecord], None]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "stream_event": self._stream_event,
            "rate_limit_event": self._rate_limit,
            "result": self._result,
            "prompt_suggestion": self._suggestion,
        }

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        match event:
            case StdoutLine(text=line, truncated=False):
                self._stdout(line, turn)
            case StderrLine(text=line) if line.strip():
                turn.signal(Signal(channel=Channel.STDERR, text=line))
            case Exited():
                self._exited(turn)

    def _stdout(self, line: str, turn: TurnRecord) -> None:
        event = json_event(line)
        if event is None:
            self._foreign_line(line, turn)
            return
        self._spoke = True
        kind = as_str(event.get("type")) or ""
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event, turn)
        elif kind not in _HARMLESS:
            # a newer Claude's event: something of this turn, and nobody knows what
            turn.acknowledged()
            turn.incomplete()

    def _foreign_line(self, line: str, turn: TurnRecord) -> None:
        """A line that is no event: the command does not speak stream-json, so what it did is not known."""
        if not line.strip():
            return
        turn.incomplete()
        own = not self._spoke and spoken_by_runtime(line)
        turn.signal(Signal(channel=Channel.STDOUT_EVENT if own else Channel.ASSISTANT_TEXT, text=line))

    # Events ---------------------------------------------------------------------------------------------------------------

    def _system(self, event: Event, turn: TurnRecord) -> None:
        # ``init`` and ``status`` are said before anything was sent: no answer, no acknowledgement.
        match event.get("subtype"):
            case "init":
                if session := as_str(event.get("session_id")):
                    turn.session(session, as_str(event.get("model")))
            case "api_retry":
                self._watch.api_retry(event, turn)
            case _ if not is_quiet(event):
                turn.incomplete()  # a task of its own, a hook of a tool, or an event of a newer Claude

    def _assistant(self, event: Event, turn: TurnRecord) -> None:
        parent = as_str(event.get("parent_tool_use_id"))
        if is_notice(event):
            if parent is not None:
                self._tool(turn, parent, "subagent")  # it is a subagent's request that failed
            self._watch.notice(event, turn)
            return
        message = as_dict(event.get("message"))
        self._answered(turn)
        if parent is not None:
            self._tool(turn, parent, "subagent")
        elif model := as_str(message.get("model")):
            turn.served_model(model)
        for block in as_dicts(message.get("content")):
            self._block(block, turn, whole=True, subagent=parent is not None)

    def _user(self, event: Event, turn: TurnRecord) -> None:
        worked = note_user(event, turn)
        self._visible = self._visible or worked

    def _stream_event(self, event: Event, turn: TurnRecord) -> None:
        self._opened = True  # there is a stream, so a response had begun, whatever this is
        inner = as_dict(event.get("event"))
        parent = as_str(event.get("parent_tool_use_id"))
        if parent is not None:
            self._tool(turn, parent, "subagent")
        match inner.get("type"):
            case "message_start":
                self._answered(turn)
                if parent is None:
                    self._text.begin_message()
                    if model := as_str(as_dict(inner.get("message")).get("model")):
                        turn.served_model(model)
            case "content_block_start":
                self._block(as_dict(inner.get("content_block")), turn, whole=False, subagent=parent is not None)
            case "content_block_delta":
                self._delta(as_dict(inner.get("delta")), turn, subagent=parent is not None)

    def _block(self, block: Event, turn: TurnRecord, *, whole: bool, subagent: bool) -> None:
        kind = as_str(block.get("type")) or ""
        if kind in TOOL_USES:
            self._tool(turn, as_str(block.get("id")) or "", as_str(block.get("name")) or kind)
        elif kind.endswith("_tool_result"):
            self._visible = True
            turn.tool_result(as_str(block.get("tool_use_id")) or "")
        elif kind in {"thinking", "redacted_thinking"}:
            self._thought(turn, as_str(block.get("thinking")) or "", whole=whole)
        elif kind == "text":
            text = as_str(block.get("text")) or ""
            if subagent:
                turn.acknowledged()
            elif whole:
                self._say(turn, self._text.whole(text))
            else:
                self._text.begin_block()
                self._say(turn, self._text.piece(text))
        else:
            turn.acknowledged()
            turn.incomplete()

    def _delta(self, delta: Event, turn: TurnRecord, *, subagent: bool) -> None:
        kind = as_str(delta.get("type"))
        if kind == "text_delta":
            text = as_str(delta.get("text")) or ""
            if text and not subagent:
                # said again after a broken stream it is not shown again, yet it is output
                self._visible = True
                self._say(turn, self._text.piece(text))
        elif kind == "thinking_delta":
            self._visible = self._thinking = True
            turn.thinking(as_str(delta.get("thinking")) or "")
        elif kind not in _QUIET_DELTAS:
            turn.incomplete()

    def _rate_limit(self, event: Event, turn: TurnRecord) -> None:
        self._watch.rate_limit(as_dict(event.get("rate_limit_info")), turn)

    def _suggestion(self, event: Event, turn: TurnRecord) -> None:
        del event
        self._answered(turn)  # what the user may say next is thought up after an answer

    def _result(self, event: Event, turn: TurnRecord) -> None:
        if session := as_str(event.get("session_id")):
            turn.session(session)
        used = tokens(as_dict(event.get("usage")))
        if sum(used):
            turn.usage(*used)
        if "usage" not in event:
            turn.incomplete()  # tokens are what tells that a response had begun unseen
        note_denials(event, turn)
        self._ended = True
        stop = as_str(event.get("stop_reason"))
        if not result_failed(event):
            if not self._text.shown:
                self._say(turn, self._text.whole(result_text(event)))
            if not self._failed:
                turn.succeeded(stop or "end_turn")
            return
        self._failed = True
        verdict = self._watch.result(event, turn)
        told = result_tells_of_work(event, alone=True, resumed=self._resumed)
        self._judge_observation(turn, verdict, used=sum(used) > 0 or told)
        turn.failed(as_str(event.get("terminal_reason")) or stop or as_str(event.get("subtype")))

    def _exited(self, turn: TurnRecord) -> None:
        if self._ended:
            return
        self._watch.failed_with(None, turn, limited=False)
        if self._spoke:
            turn.incomplete()  # it went without saying what it had done
        turn.failed("no_result")

    # What they mean -------------------------------------------------------------------------------------------------------

    def _answered(self, turn: TurnRecord) -> None:
        self._watch.answered()
        self._opened = True
        turn.acknowledged()
        if self._failed:
            turn.incomplete()  # something had begun after all (R-SAFE-6)

    def _say(self, turn: TurnRecord, text: str) -> None:
        if text:
            self._visible = True
            turn.text(text)

    def _thought(self, turn: TurnRecord, text: str, *, whole: bool) -> None:
        """A whole block of thinking repeats its pieces; its beginning is empty."""
        self._visible = True
        if not whole or not self._thinking:
            turn.thinking(text)
        self._thinking = not whole

    def _tool(self, turn: TurnRecord, tool_id: str, name: str) -> None:
        self._visible = True
        if tool_id not in self._tools:
            self._tools.add(tool_id)
            turn.tool_call(tool_id, name)

    def _judge_observation(self, turn: TurnRecord, verdict: Verdict, *, used: bool) -> None:
        hidden = (used or self._opened) and not self._visible
        if hidden or self._watch.unsure or not verdict.before_response:
            turn.incomplete()

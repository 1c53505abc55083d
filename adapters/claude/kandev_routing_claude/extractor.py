"""Reads the events of ``claude -p --output-format=stream-json`` (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kandev_routing_claude.failure import (
    NOTICE_FIELDS,
    RESULT_FIELDS,
    Verdict,
    as_dict,
    as_dicts,
    as_int,
    as_str,
    picked,
    spoken_by_runtime,
    verdict_of,
)
from kandev_routing_claude.text import AnswerText
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

SYNTHETIC: Final = "<synthetic>"
_TOOL_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_QUIET_DELTAS: Final = frozenset({"input_json_delta", "signature_delta", "citations_delta", "compaction_delta"})
_HARMLESS: Final = frozenset({"auth_status", "control_response", "keep_alive", "prompt_suggestion"})


class ClaudeExtractor:
    """One turn of one headless Claude. No I/O, no clock."""

    def __init__(self) -> None:
        self._text = AnswerText()
        self._tools: set[str] = set()
        self._visible = False
        """Whether anything of the model came out: text, thinking, a tool."""
        self._thinking = False
        """Whether the current block of thinking came in pieces."""
        self._opened = False
        """Whether a response is known to have begun."""
        self._unsure = False
        """Whether a try of a request may have ended inside a response."""
        self._verdict: Verdict | None = None
        self._retry: Signal | None = None
        """The last retry that nothing has answered yet: evidence, unless the turn recovers."""
        self._spoke = self._ended = self._failed = False
        self._handlers: Final[Mapping[str, Callable[[Event, TurnRecord], None]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "stream_event": self._stream_event,
            "rate_limit_event": self._rate_limit,
            "result": self._result,
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
                self._api_retry(event, turn)

    def _api_retry(self, event: Event, turn: TurnRecord) -> None:
        status = as_int(event.get("error_status"))
        self._unsure = self._unsure or status is None
        if as_int(event.get("attempt")) == 0:
            turn.acknowledged()  # a token is refreshed; no retry
            return
        delay = as_int(event.get("retry_delay_ms"))
        turn.inner_retry(
            maximum=as_int(event.get("max_retries")), delay_s=None if delay is None else delay / 1000, status=status
        )
        data = {"type": "api_retry", **picked(event, ("attempt", "max_retries", "error_status", "error"))}
        self._retry = Signal(channel=Channel.STDOUT_EVENT, data=data, http_status=status)

    def _assistant(self, event: Event, turn: TurnRecord) -> None:
        message = as_dict(event.get("message"))
        model = as_str(message.get("model"))
        if model == SYNTHETIC or event.get("is_api_error_message") is True:
            self._notice(event, message, turn)
            return
        parent = as_str(event.get("parent_tool_use_id"))
        self._answered(turn)
        if parent is not None:
            self._tool(turn, parent, "subagent")
        elif model:
            turn.served_model(model)
        for block in as_dicts(message.get("content")):
            self._block(block, turn, whole=True, subagent=parent is not None)

    def _notice(self, event: Event, message: Event, turn: TurnRecord) -> None:
        """The runtime's error text in place of an answer (R-EVI-6): never output."""
        text = "\n".join(as_str(b.get("text")) or "" for b in as_dicts(message.get("content"))).strip()
        turn.notice(text)
        data = picked(event, NOTICE_FIELDS)
        if not data and event.get("is_api_error_message") is not True:
            return
        self._verdict = verdict_of(event, text)
        self._failed_with(self._verdict.status, turn)
        turn.signal(
            Signal(channel=Channel.AGENT_NOTICE, text=text, data=data or None, http_status=self._verdict.status)
        )

    def _user(self, event: Event, turn: TurnRecord) -> None:
        for block in as_dicts(as_dict(event.get("message")).get("content")):
            if block.get("type") == "tool_result":
                self._visible = True
                turn.tool_result(as_str(block.get("tool_use_id")) or "", ok=block.get("is_error") is not True)

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
        if kind in _TOOL_USES:
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
        """Healthy turns carry this event too: only a rejection is evidence."""
        info = as_dict(event.get("rate_limit_info"))
        if info.get("status") != "rejected":
            return
        turn.acknowledged()
        data: dict[str, JsonValue] = {"type": "rate_limit_event", "rate_limit_info": dict(info)}
        turn.signal(Signal(channel=Channel.STDOUT_EVENT, data=data))

    def _result(self, event: Event, turn: TurnRecord) -> None:
        if session := as_str(event.get("session_id")):
            turn.session(session)
        used = self._usage(as_dict(event.get("usage")), turn)
        if "usage" not in event:
            turn.incomplete()  # tokens are what tells that a response had begun unseen
        self._denials(event, turn)
        text = as_str(event.get("result")) or "; ".join(
            error for error in _list(event.get("errors")) if isinstance(error, str)
        )
        self._ended = True
        stop = as_str(event.get("stop_reason"))
        if event.get("is_error") is not True and event.get("subtype") == "success" and stop != "refusal":
            if not self._text.shown:
                self._say(turn, self._text.whole(text))
            if not self._failed:
                turn.succeeded(stop or "end_turn")
            return
        self._failed = True
        verdict = verdict_of(event, text)
        self._failed_with(verdict.status, turn)
        turn.acknowledged()
        data = picked(event, RESULT_FIELDS) | ({"stop_reason": stop} if stop == "refusal" else {})
        turn.signal(Signal(channel=Channel.STDOUT_EVENT, text=text, data=data, http_status=verdict.status))
        self._judge_observation(turn, self._verdict or verdict, used=used)
        turn.failed(as_str(event.get("terminal_reason")) or stop or as_str(event.get("subtype")))

    def _exited(self, turn: TurnRecord) -> None:
        if self._ended:
            return
        self._failed_with(None, turn)
        if self._spoke:
            turn.incomplete()  # it went without saying what it had done
        turn.failed("no_result")

    # What they mean -------------------------------------------------------------------------------------------------------

    def _answered(self, turn: TurnRecord) -> None:
        self._retry = None
        self._opened = True
        turn.acknowledged()

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

    def _failed_with(self, status: int | None, turn: TurnRecord) -> None:
        """The pending retry belongs to the failure only if it tells of the same one."""
        retry, self._retry = self._retry, None
        if retry is not None and status in {None, retry.http_status}:
            turn.signal(retry)
        if status is not None:
            turn.http_status(status)

    def _judge_observation(self, turn: TurnRecord, verdict: Verdict, *, used: bool) -> None:
        hidden = (used or self._opened) and not self._visible
        if hidden or self._unsure or not verdict.before_response:
            turn.incomplete()

    @staticmethod
    def _usage(usage: Event, turn: TurnRecord) -> bool:
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        tokens_in = sum(as_int(usage.get(name)) or 0 for name in names)
        tokens_out = as_int(usage.get("output_tokens")) or 0
        if tokens_in + tokens_out == 0:
            return False
        turn.usage(tokens_in, tokens_out)
        return True

    @staticmethod
    def _denials(event: Event, turn: TurnRecord) -> None:
        denied = {as_str(d.get("tool_name")) or "a tool" for d in as_dicts(event.get("permission_denials"))}
        if denied:
            turn.notice(f"permission denied: {', '.join(sorted(denied))}")


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []

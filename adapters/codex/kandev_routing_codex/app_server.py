"""Reads the notifications of ``codex app-server``, for hosts that drive it themselves (R-EVI-1).

The adapter does not: the table in the decision record "No app-server transport" says why. Give the messages as
:class:`~kandev_routing_sdk.spec.AcpFrame`, responses with the method they answer as ``request``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kandev_routing_codex.failures import Reconnects, doubtful, error_info, failure_signal, keep, text_of, unproven
from kandev_routing_codex.tools import FAILED_TOOL, TOOLS
from kandev_routing_sdk.spec import (
    AcpFrame,
    AgentEvent,
    Channel,
    Exited,
    Frame,
    Signal,
    StderrLine,
    StreamedAnswer,
    TurnRecord,
    as_object,
    as_text,
)

_HANDSHAKE: Final = frozenset({"initialize", "thread/start", "thread/resume"})
_LOCAL_ITEMS: Final = frozenset({"userMessage", "hookPrompt"})
_THOUGHTS: Final = frozenset({"reasoning", "plan"})
_FULL: Final = 100


class CodexAppServerExtractor:
    """One turn of a thread of ``codex app-server``. No I/O, no clock."""

    def __init__(self) -> None:
        self._answer = StreamedAnswer()
        self._streamed: set[str] = set()
        self._tools: set[str] = set()
        self._reconnects = Reconnects()
        self._resets_at: int | None = None
        self._cause: Signal | None = None
        self._doubtful = False
        self._handlers: Final[Mapping[str, Callable[[Frame, TurnRecord], None]]] = {
            "item/started": self._item,
            "item/completed": self._item_done,
            "item/agentMessage/delta": self._delta,
            "error": self._error,
            "turn/completed": self._turn_completed,
            "thread/tokenUsage/updated": self._usage,
            "account/rateLimits/updated": self._limits,
        }

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event (:class:`~kandev_routing_sdk.spec.Extractor`)."""
        match event:
            case AcpFrame(message=message, request=None):
                self._notification(as_text(message.get("method")), as_object(message.get("params")), turn)
            case AcpFrame(message=message, request=str(request)):
                self._response(request, message, turn)
            case StderrLine(text=text) if text.strip():
                turn.signal(Signal(channel=Channel.STDERR, text=text))
            case Exited(stopped=False) if not turn.ended:
                turn.incomplete()
                turn.failed("agent_exited")

    def _response(self, request: str, message: Frame, turn: TurnRecord) -> None:
        error = as_object(message.get("error"))
        if error or "result" not in message:
            code, data = error.get("code"), as_object(error.get("data"))
            number = code if isinstance(code, int) and not isinstance(code, bool) else None
            said = as_text(error.get("message"))
            keep(failure_signal(Channel.ACP_ERROR, said, error_info(data), code=number), turn)
            turn.failed(request.replace("/", "_") + "_error")
        elif request in _HANDSHAKE:
            thread = as_object(as_object(message.get("result")).get("thread"))
            if thread_id := as_text(thread.get("id")):
                turn.session(thread_id, as_text(thread.get("model")) or None)

    def _notification(self, method: str, params: Frame, turn: TurnRecord) -> None:
        handler = self._handlers.get(method)
        if handler is not None:
            handler(params, turn)
        elif method.endswith(("/requestApproval", "/requestUserInput")):
            turn.tool_call(as_text(params.get("itemId")), method.split("/")[1] if "/" in method else method)
        elif method.startswith("item/reasoning/"):
            turn.thinking("")
        elif method.startswith("item/") and not method.endswith(("/outputDelta", "/progress", "/patchUpdated")):
            turn.acknowledged()
            turn.incomplete()  # a newer Codex's: something of this turn, and nobody knows what

    # Items ----------------------------------------------------------------------------------------------------------------

    def _item(self, params: Frame, turn: TurnRecord, *, done: bool = False) -> None:
        item = as_object(params.get("item"))
        kind, item_id = as_text(item.get("type")), as_text(item.get("id"))
        if kind in _LOCAL_ITEMS:
            return  # the prompt, as it was given
        turn.acknowledged()
        if kind == "agentMessage":
            if done and item_id not in self._streamed:
                self._say(item_id, as_text(item.get("text")), turn)
        elif kind in _THOUGHTS:
            turn.thinking("")
        else:
            self._tool(kind, item_id, item, turn, done=done)

    def _item_done(self, params: Frame, turn: TurnRecord) -> None:
        self._item(params, turn, done=True)

    def _tool(self, kind: str, item_id: str, item: Frame, turn: TurnRecord, *, done: bool) -> None:
        if kind not in TOOLS:
            turn.incomplete()
        turn.text(self._answer.cut())
        if item_id not in self._tools:
            self._tools.add(item_id)
            turn.tool_call(item_id, TOOLS.get(kind, kind))
        if done:
            turn.tool_result(item_id, ok=as_text(item.get("status")) not in FAILED_TOOL)

    def _delta(self, params: Frame, turn: TurnRecord) -> None:
        item_id = as_text(params.get("itemId"))
        self._streamed.add(item_id)
        self._say(item_id, as_text(params.get("delta")), turn)

    def _say(self, item_id: str, text: str, turn: TurnRecord) -> None:
        turn.text(self._answer.piece(item_id, text))

    # The end --------------------------------------------------------------------------------------------------------------

    def _error(self, params: Frame, turn: TurnRecord) -> None:
        cause = self._failure(as_object(params.get("error")), prefer="additionalDetails")
        retried = params.get("willRetry") is True
        self._doubtful = self._doubtful or (unproven(cause) if retried else doubtful(cause))
        if retried:
            self._answer.retry()
            self._reconnects.receive(as_text(as_object(params.get("error")).get("message")), cause, turn)
        else:
            turn.acknowledged()
            self._cause = cause

    def _turn_completed(self, params: Frame, turn: TurnRecord) -> None:
        turn.acknowledged()
        said = as_object(params.get("turn"))
        status, error = as_text(said.get("status")), as_object(said.get("error"))
        if status == "completed":
            turn.succeeded("end_turn")
        elif status == "interrupted":
            turn.cancelled()
        else:
            cause = self._failure(error) if error else self._cause
            if cause is not None:
                self._doubtful = self._doubtful or doubtful(cause)
                keep(cause, turn)
            turn.failed("error" if status == "failed" else "unknown_status")
            if self._doubtful or turn.has_usage or status != "failed":
                turn.incomplete()

    def _failure(self, error: Frame, prefer: str = "message") -> Signal:
        info = error_info(error)
        limited = info == "usageLimitExceeded" and self._resets_at is not None
        facts: Frame = {"resets_at": self._resets_at} if limited else {}
        return failure_signal(Channel.ACP_ERROR, text_of(error, prefer, "message"), info, facts=facts)

    def _usage(self, params: Frame, turn: TurnRecord) -> None:
        turn.acknowledged()
        used = as_object(as_object(params.get("tokenUsage")).get("last"))
        given, made = used.get("inputTokens"), used.get("outputTokens")
        if isinstance(given, int) and isinstance(made, int):
            turn.usage(given, made)

    def _limits(self, params: Frame, turn: TurnRecord) -> None:
        """When the windows that are used up will be free again: the last of them counts. Said of healthy turns as well."""
        del turn
        limits = as_object(params.get("rateLimits"))
        for name in ("primary", "secondary"):
            window = as_object(limits.get(name))
            used, resets = window.get("usedPercent"), window.get("resetsAt")
            if isinstance(used, (int, float)) and used >= _FULL and isinstance(resets, int):
                self._resets_at = max(self._resets_at or 0, resets)

"""What the standard Agent Client Protocol says, read from raw frames before any schema can drop them (R-EVI-3, R-EVI-6)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.spec.adapter import AcpFrame, AgentEvent, Exited, StderrLine
from kandev_routing_sdk.spec.answer import StreamedAnswer
from kandev_routing_sdk.spec.client import CLIENT_EFFECTS, CLIENT_REQUESTS
from kandev_routing_sdk.types import AttemptOutcome, Channel

Frame = Mapping[str, JsonValue]

SESSION_UPDATES: Final = frozenset({"available_commands_update", "config_option_update", "current_mode_update"})
"""Kinds of ``session/update`` that are about the session. Agents send them whenever they have started up, also shortly after a
prompt that they have not read: they are no sign that it arrived (R-EVI-3)."""
PLAN_UPDATES: Final = frozenset({"plan", "plan_update", "plan_removed"})
"""The model wrote or changed a plan: something it thought, so it is marked as thinking."""
GOOD_STOPS: Final = frozenset({"end_turn", "max_tokens", "max_turn_requests"})
"""The agent did what it could and says so. A refusal is no success, and so is every reason that is not known."""

_RAN: Final[Mapping[str, bool | None]] = MappingProxyType({"completed": True, "failed": False, "in_progress": None})
"""Statuses of a tool that did something; one that failed may have done half of its work."""
_MAX_TOOLS: Final = 1000
"""How many tools are remembered: one that is mentioned again later than that is shown again."""
_MAX_ID: Final = 200
_NO_KIND: Final = frozenset({"", "none", "unknown"})


def as_object(value: JsonValue | None) -> Frame:
    """Return ``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_text(value: JsonValue | None) -> str:
    """Return ``value`` if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class _Tool:
    """What was shown of a tool."""

    titled: bool = False
    stands: str = ""


class StandardAcpExtractor:
    """Reads standard frames; adapters override the ``on_…`` methods for what their agent adds.

    Everything that a frame may mean is taken for granted to be hostile: any field may be missing or of another type.

    ``credential_kinds``: what ``_auth/status_update`` may say without contradicting the launch's descriptor; None: anything.
    ``silent_retries``: the agent tries again in mid-answer without saying so.
    """

    def __init__(self, *, credential_kinds: Collection[str] | None = None, silent_retries: bool = False) -> None:
        self.answer: Final = StreamedAnswer(silent_retries=silent_retries)
        """The text of the answer; adapters call its ``retry`` where their agent says that it tries again."""
        self._tools: OrderedDict[str, _Tool] = OrderedDict()
        """The tools that were shown, by id: those that were mentioned last."""
        self._credential_kinds = None if credential_kinds is None else frozenset(credential_kinds)

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event (:class:`~kandev_routing_sdk.spec.Extractor`)."""
        if isinstance(event, AcpFrame):
            self._frame(event, turn)
        elif isinstance(event, StderrLine):
            self.on_stderr(event.text, turn)
        elif isinstance(event, Exited):
            self.on_exit(event, turn)

    # What adapters override ---------------------------------------------------------------------------------------------

    def on_message_chunk(self, update: Frame, text: str, turn: TurnRecord) -> None:
        """A piece of the answer; override it where the runtime places errors among the messages."""
        turn.text(self.answer.piece(as_text(update.get("messageId")), text))

    def on_session_info(self, update: Frame, turn: TurnRecord) -> None:
        """A ``session_info_update``."""
        del update
        turn.acknowledged()

    def on_usage(self, update: Frame, turn: TurnRecord) -> None:
        """A ``usage_update``: how full the context is, not what the turn used; it comes when a try is over."""
        used = update.get("used")
        turn.acknowledged()
        if turn.outcome is AttemptOutcome.FAILED and isinstance(used, (int, float)) and used > 0:
            turn.incomplete()  # something had begun after all (R-SAFE-6)

    def on_unknown_update(self, kind: str, update: Frame, turn: TurnRecord) -> None:
        """A kind that nobody told us of: it may be an effect (R-SAFE-1)."""
        del kind, update
        turn.acknowledged()
        turn.incomplete()

    def on_notification(self, method: str, params: Frame, turn: TurnRecord) -> None:
        """A notification other than ``session/update``.

        Extensions (an underscore, ``$/``) say nothing of the turn; a standard-looking one that nobody knows may be an effect.
        """
        if method == "_auth/status_update":
            self.on_auth_status(as_text(as_object(params.get("authStatus")).get("kind")), turn)
        elif not method.startswith(("_", "$/")):
            turn.incomplete()

    def on_auth_status(self, kind: str, turn: TurnRecord) -> None:
        """How the agent signs in, as it says. "Not logged in" proves nothing: some say it of a token in their environment."""
        if self._credential_kinds is not None and kind not in self._credential_kinds | _NO_KIND:
            turn.credential_doubted()

    def on_error(self, request: str, error: Frame, turn: TurnRecord) -> None:
        """The agent answered a request with an error."""
        self.note_error(error, turn)
        turn.failed(request.replace("/", "_") + "_error")

    def on_stop(self, reason: str, result: Frame, turn: TurnRecord) -> None:
        """The prompt's response."""
        del result
        if reason in GOOD_STOPS:
            turn.succeeded(reason)
        elif reason == "cancelled":
            self._note_stop(reason, turn)
            turn.cancelled()
        elif reason == "refusal":
            self._note_stop(reason, turn)
            turn.failed(reason)
        else:
            turn.incomplete()
            turn.failed("unknown_stop_reason")

    def on_stderr(self, text: str, turn: TurnRecord) -> None:
        """A line of managed standard error."""
        if text.strip():
            turn.signal(Signal(channel=Channel.STDERR, text=text))

    def on_exit(self, event: Exited, turn: TurnRecord) -> None:
        """The process is gone. One that goes in mid-turn fails it."""
        self.finish(turn)
        if not turn.ended and not event.stopped:
            turn.failed("agent_exited")

    # For overriding methods ---------------------------------------------------------------------------------------------

    def note_error(self, error: Frame, turn: TurnRecord) -> None:
        """Keep a JSON-RPC error as evidence, with its structure."""
        code = error.get("code")
        turn.signal(
            Signal(
                channel=Channel.ACP_ERROR,
                text=as_text(error.get("message")) or None,
                code=code if isinstance(code, (int, str)) and not isinstance(code, bool) else None,
                data=error.get("data"),
            )
        )

    @staticmethod
    def _note_stop(reason: str, turn: TurnRecord) -> None:
        turn.signal(Signal(channel=Channel.ACP_UPDATE, text=f"stop reason: {reason}", data={"stopReason": reason}))

    def finish(self, turn: TurnRecord) -> None:
        """Show what was held back as a possible replay."""
        turn.text(self.answer.rest())

    # Frames -------------------------------------------------------------------------------------------------------------

    def _frame(self, frame: AcpFrame, turn: TurnRecord) -> None:
        message = frame.message
        if frame.request is not None:
            self._response(frame.request, message, turn)
            return
        method, params = as_text(message.get("method")), as_object(message.get("params"))
        if method == "session/update":
            self._update(as_object(params.get("update")), turn)
        elif method == "session/request_permission":
            self._announce(as_object(params.get("toolCall")), turn)
        elif "id" in message and method in CLIENT_REQUESTS:
            turn.client_asked(effect=method in CLIENT_EFFECTS)  # as the transport does, which no extractor can forget
        elif method:
            if "id" in message:
                turn.incomplete()  # a request: the agent is at work on something, also where it is an extension's
            self.on_notification(method, params, turn)

    def _response(self, request: str, message: Frame, turn: TurnRecord) -> None:
        if request == "session/prompt":
            turn.acknowledged()
            self.finish(turn)
        if message.get("error") is not None or "result" not in message:
            self.on_error(request, as_object(message.get("error")), turn)
        elif request == "session/prompt":
            result = as_object(message.get("result"))
            self._usage(as_object(result.get("usage")), turn)
            self.on_stop(as_text(result.get("stopReason")), result, turn)

    def _usage(self, usage: Frame, turn: TurnRecord) -> None:
        given, made = usage.get("inputTokens"), usage.get("outputTokens")
        if isinstance(given, int) and isinstance(made, int) and given >= 0 and made >= 0:
            turn.usage(given, made)

    def _update(self, update: Frame, turn: TurnRecord) -> None:
        kind = as_text(update.get("sessionUpdate"))
        if kind == "agent_message_chunk":
            self._message(update, turn)
        elif kind == "agent_thought_chunk":
            self._thought(as_text(as_object(update.get("content")).get("text")), turn)
        elif kind in {"tool_call", "tool_call_update"}:
            self._tool(update, turn)
        elif kind in PLAN_UPDATES:
            self._thought("", turn)
        elif kind == "session_info_update":
            self.on_session_info(update, turn)
        elif kind == "usage_update":
            self.on_usage(update, turn)
        elif kind == "user_message_chunk":
            turn.acknowledged()
        elif kind not in SESSION_UPDATES:
            self.on_unknown_update(kind, update, turn)

    def _message(self, update: Frame, turn: TurnRecord) -> None:
        content = as_object(update.get("content"))
        text = as_text(content.get("text"))
        if text:
            self.on_message_chunk(update, text, turn)
        elif content.get("type") == "text" and content.get("text") == "":
            turn.acknowledged()
        else:
            # an image, a resource, text of a wrong shape: output that is shown as nothing, but seen
            turn.incomplete()
            turn.acknowledged()

    def _thought(self, text: str, turn: TurnRecord) -> None:
        turn.text(self.answer.cut())
        turn.thinking(text)

    def _announce(self, call: Frame, turn: TurnRecord) -> None:
        """Show a tool once, or once more when its title is known at last."""
        turn.text(self.answer.cut())
        tool_id, title = as_text(call.get("toolCallId")), as_text(call.get("title"))
        known = self._tools.get(tool_id[:_MAX_ID]) if tool_id else None
        if known is None or (title and not known.titled):
            self._known(tool_id).titled = bool(title)
            turn.tool_call(tool_id, title)

    def _tool(self, update: Frame, turn: TurnRecord) -> None:
        self._announce(update, turn)
        tool_id, status = as_text(update.get("toolCallId")), as_text(update.get("status"))
        if status in _RAN and (not tool_id or self._known(tool_id).stands != status):
            self._known(tool_id).stands = status
            turn.tool_result(tool_id, ok=_RAN[status])

    def _known(self, tool_id: str) -> _Tool:
        """Return what is known of a tool, and remember it; of a great many, the one that was mentioned first is forgotten."""
        key = tool_id[:_MAX_ID]
        tool = self._tools.setdefault(key, _Tool())
        self._tools.move_to_end(key)
        if len(self._tools) > _MAX_TOOLS:
            self._tools.popitem(last=False)
        return tool

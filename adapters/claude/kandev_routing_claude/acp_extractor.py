"""Reads what ``claude-agent-acp`` says, and the events of its inner Claude, which it passes on when asked (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from kandev_routing_claude.failure import (
    TOO_MANY,
    Event,
    Verdict,
    as_dict,
    as_dicts,
    as_int,
    as_str,
    never_connected,
    says_limited,
    says_signed_out,
    spoken_by_runtime,
)
from kandev_routing_claude.held import Held, HeldMessage
from kandev_routing_claude.signs import is_quiet, never_answered, note_denials, note_user, result_tells_of_work
from kandev_routing_claude.stderr import worth_keeping
from kandev_routing_claude.watch import (
    FailureWatch,
    is_notice,
    notice_text,
    result_failed,
    result_text,
    tokens,
)
from kandev_routing_sdk.spec import (
    AcpFrame,
    AgentEvent,
    Channel,
    Exited,
    Frame,
    JsonValue,
    Phase,
    Signal,
    TurnRecord,
    TypedFailure,
    TypedFailureExtractor,
    as_object,
    as_text,
)

EVENTS: Final[tuple[JsonValue, ...]] = (
    {"type": "system", "subtype": "api_retry"},
    {"type": "assistant"},
    {"type": "rate_limit_event"},
    {"type": "result"},
)
"""Which events of the inner Claude are asked for (``_meta.claudeCode.emitRawSDKMessages``): what says more than ACP does."""

_AUTH_REQUIRED: Final = -32000
_PREFIX: Final = "Internal error: "
_SPEAKS: Final = frozenset({"tool_call", "tool_call_update", "agent_thought_chunk", "plan", "plan_update"})
"""Updates after which a message that was held is known to be the model's: it went on."""
_FALLBACK: Final = "**Model fallback"
_REMARK: Final = re.compile(r"\*\*(?:Model fallback|Fast mode turned off|Auto mode unavailable)\b")
"""What claude-agent-acp says itself, as a message without an id."""
_NOTICES: Final = frozenset({"informational", "mcpServerStatus"})
"""Kinds of messages that claude-agent-acp marks as its own."""
_SAID_STATUS: Final = re.compile(r"\bAPI Error: (\d{3})\b|\brejected \((\d{3})\)")
_LIMIT: Final = re.compile(
    r"(?i)\byou(?:['’]ve| have) (?:hit|reached) your\b|\bout of (?:extra )?usage\b|\(not your usage limit\)"
)
_REFUSALS: Final = frozenset(
    {
        "account_on_hold",
        "authentication_failed",
        "billing_error",
        "invalid_request",
        "model_not_found",
        "oauth_org_not_allowed",
        "verification_required",
    }
)
"""``errorKind``s of a request that was refused as a whole."""
_NO_LABEL: Final = frozenset({"", "unknown"})
_REFUSED: Final = frozenset({"access", "limit", "request"})
"""Categories of a typed failure that mean the same, if no token was used."""
_TYPED_LIMIT: Final = re.compile(r"(?i)\brate.limited\b|\bquota\b")
"""The account's limits; the session has some of its own."""


class ClaudeAcpExtractor(TypedFailureExtractor):
    """One turn of one claude-agent-acp. No I/O, no clock.

    It works without the inner Claude's events too (an older agent passes none on), from the error's ``errorKind`` and words; they
    are just more: the status, the label and the tokens of the failed request, every retry, the exact reset of a limit.
    """

    def __init__(self, *, credential_kinds: Collection[str] | None = None) -> None:
        super().__init__(credential_kinds=credential_kinds)
        self._watch = FailureWatch()
        self._held = HeldMessage()
        self._notices: dict[str, str] = {}
        """Messages that the inner Claude named as its own, by their ids."""
        self._begun = False
        """Whether a response is known to have begun: then what was seen may not be all (R-SAFE-7)."""
        self._shown = False
        self._subagents: set[str] = set()
        self._last_words = ""
        """The answer as the inner Claude's ``result`` repeats it."""

    # Events -------------------------------------------------------------------------------------------------------------

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        if isinstance(event, AcpFrame):
            if _goes_on(event.message):
                self._say(self._held.take(), turn)
            if _is_empty_piece(event.message):
                self._begin()
        super().receive(event, turn)

    def on_message_chunk(self, update: Frame, text: str, turn: TurnRecord) -> None:
        """A piece of the answer, or the runtime's words in its place."""
        message_id = as_text(update.get("messageId"))
        meta = as_object(as_object(update.get("_meta")).get("claudeCode"))
        if message_id in self._notices and text.strip() in self._notices[message_id]:
            return  # said already, with its labels
        if parent := as_text(meta.get("parentToolUseId")):
            self._subagent(parent, turn)  # its words are no answer to the user
        elif meta.get("kind") in _NOTICES or (not message_id and _REMARK.match(text)):
            turn.notice(text)
            if text.startswith(_FALLBACK) and not never_answered(text):
                turn.incomplete()
        else:
            for piece in self._held.receive(message_id, text):
                self._say(piece, turn)
            turn.acknowledged()

    def on_usage(self, update: Frame, turn: TurnRecord) -> None:
        """How full the context is: from the first event of a response on."""
        super().on_usage(update, turn)
        meta = as_object(update.get("_meta"))
        if model := as_text(meta.get("_claude/model")):
            turn.served_model(model)
        if update.get("used") not in (None, 0):
            self._begin()
        self._watch.rate_limit(as_object(meta.get("_claude/rateLimit")), turn)

    def on_notification(self, method: str, params: Frame, turn: TurnRecord) -> None:
        """The inner Claude's events, among others."""
        if method == "_claude/sdkMessage":
            self._inner(as_dict(params.get("message")), turn)
        else:
            super().on_notification(method, params, turn)

    def on_stderr(self, text: str, turn: TurnRecord) -> None:
        """A line of the log that claude-agent-acp writes; it may quote the conversation, so little of it is kept."""
        before_prompt = turn.phase in {Phase.PROCESS_START, Phase.AUTH_CHECK, Phase.SESSION_INIT}
        if worth_keeping(text, before_prompt=before_prompt):
            super().on_stderr(text, turn)

    # The inner Claude ---------------------------------------------------------------------------------------------------

    def _inner(self, event: Event, turn: TurnRecord) -> None:
        match event.get("type"):
            case "system" if event.get("subtype") == "api_retry":
                self.answer.retry()
                self._watch.api_retry(event, turn)
            case "system" if event.get("subtype") != "init" and not is_quiet(event):
                turn.incomplete()
            case "user":
                note_user(event, turn)
            case "stream_event":
                self._begin()
            case "assistant":
                self._assistant(event, turn)
            case "rate_limit_event":
                self._watch.rate_limit(as_dict(event.get("rate_limit_info")), turn)
            case "result":
                self._result(event, turn)

    def _assistant(self, event: Event, turn: TurnRecord) -> None:
        message = as_dict(event.get("message"))
        message_id = as_str(message.get("id")) or as_str(event.get("uuid")) or ""
        turn.acknowledged()
        if (parent := as_str(event.get("parent_tool_use_id"))) is not None:
            self._subagent(parent, turn)
            return
        if is_notice(event):
            self._own(message_id, event, turn)
            return
        if self._held.holds(message_id):
            self._say(self._held.take(), turn)
        self._watch.recovered()
        self._begin()
        if model := as_str(message.get("model")):
            turn.served_model(model)
        hidden = any(
            as_str(b.get("type")) in {"thinking", "redacted_thinking"} for b in as_dicts(message.get("content"))
        )
        if hidden and not turn.effects.thinking:
            turn.thinking("")

    def _own(self, message_id: str, event: Event, turn: TurnRecord) -> None:
        words = self._notices[message_id] = notice_text(event)
        held = self._held.take()
        if held is not None and not (held.message_id == message_id and held.text.strip() in words):
            self._say(held, turn)
        self._watch.notice(event, turn)

    def _result(self, event: Event, turn: TurnRecord) -> None:
        used = tokens(as_dict(event.get("usage")))
        if sum(used):
            turn.usage(*used)
        if result_tells_of_work(event, alone=False):
            self._begin()
        note_denials(event, turn)
        if not result_failed(event):
            self._watch.recovered()
            self._last_words = result_text(event)
            return
        verdict = self._watch.result(event, turn)
        self._watch.verdict = verdict
        if turn.ended:
            self._judge_observation(turn, complete=verdict.before_response)  # it came after the agent's own word

    # How it ends --------------------------------------------------------------------------------------------------------

    def on_error(self, request: str, error: Frame, turn: TurnRecord) -> None:
        """The agent answered with an error. A message right before it that says the same is the runtime's, not output."""
        held = self._held.take()
        code, said = as_int(error.get("code")), as_text(error.get("message"))
        kind = as_text(as_object(error.get("data")).get("errorKind"))
        notice = held is not None and _in_place_of_answer(held, code, said, kind)
        if held is not None and notice:
            turn.notice(held.text)
            if held.text not in said:
                turn.signal(Signal(channel=Channel.AGENT_NOTICE, text=held.text, data={"code": code}))
        else:
            self._say(held, turn)
        words = f"{said}\n{held.text}" if held is not None and notice else said
        if _refused_by_limit(kind, said):
            self._watch.limited(turn)
        super().on_error(request, error, turn)
        if request == "session/prompt":
            self._judge_observation(turn, complete=_refused_before_response(code, kind, words))

    def on_typed_warning(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """A retry; one of a lost connection may have lost part of a response."""
        super().on_typed_warning(failure, turn)
        self._watch.unsure = self._watch.unsure or failure.category == "connection"

    def on_typed_failure(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """The turn failed, and its failure is typed."""
        self._say(self._held.take(), turn)
        if failure.category == "limit" and _TYPED_LIMIT.search(failure.title):
            self._watch.limited(turn)
        super().on_typed_failure(failure, turn)
        refused = failure.category in _REFUSED or _refused_before_response(None, "", failure.title)
        self._judge_observation(turn, complete=refused and not turn.has_usage)

    def on_stop(self, reason: str, result: Frame, turn: TurnRecord) -> None:
        """The prompt's response."""
        usage = as_object(result.get("usage"))
        _count_tokens(usage, turn)
        held = self._held.take()
        if held is not None and self._is_named(held):
            turn.notice(held.text)
        else:
            costless = held is not None and self._is_costless(held, usage, turn)
            self._say(held, turn)
            if held is not None and costless:
                # no answer, most likely, but no proof of a failure either: a person has to look at it
                turn.signal(Signal(channel=Channel.ASSISTANT_TEXT, text=held.text))
                turn.incomplete()
                turn.failed("error_in_place_of_answer")
        if self._watch.verdict is not None and reason != "cancelled" and not turn.ended:
            self._judge_observation(turn, complete=False)  # the inner Claude failed, whatever is said of the turn
            turn.failed("error")
        if reason == "end_turn" and not self._shown and not turn.ended:
            self._say(Held("", self._last_words), turn)  # an answer that was not streamed
        super().on_stop(reason, result, turn)

    def on_exit(self, event: Exited, turn: TurnRecord) -> None:
        """The process is gone: what was held can no longer be told from an answer."""
        self._say(self._held.take(), turn)
        super().on_exit(event, turn)

    # Parts --------------------------------------------------------------------------------------------------------------

    def _say(self, piece: Held | None, turn: TurnRecord) -> None:
        if piece is not None and piece.text:
            self._shown = self._begun = True
            self._watch.recovered()
            super().on_message_chunk({"messageId": piece.message_id}, piece.text, turn)

    def _subagent(self, parent: str, turn: TurnRecord) -> None:
        """A subagent is at work, which is a tool's work, whoever announced that tool."""
        if parent not in self._subagents:
            self._subagents.add(parent)
            turn.tool_call(parent, "subagent")

    def _begin(self) -> None:
        self._begun = True
        self._watch.answered()

    def _is_named(self, held: Held) -> bool:
        """Whether the inner Claude's ``result`` failed with just these words: then they are no answer."""
        verdict = self._watch.verdict
        return verdict is not None and held.text.strip() == verdict.text.strip()

    def _is_costless(self, held: Held, usage: Frame, turn: TurnRecord) -> bool:
        """Whether a turn that "ended well" has nothing but an error sentence, and says that no token was used for it."""
        nothing = not (self._begun or self._shown or turn.has_usage or turn.effects.any_activity)
        counted = as_int(usage.get("outputTokens")) is not None
        return nothing and counted and spoken_by_runtime(held.text)

    def _judge_observation(self, turn: TurnRecord, *, complete: bool) -> None:
        verdict: Verdict | None = self._watch.verdict
        if verdict is not None:
            complete = verdict.before_response
        # after a tool it was another request that failed; else the one that had begun, whose last words may be lost
        hidden = (self._begun or turn.has_usage) and not (turn.effects.tool_call or turn.effects.tool_effect)
        if hidden or self._watch.unsure or not complete:
            turn.incomplete()


def _goes_on(message: Frame) -> bool:
    """Whether a frame shows the model at work after what it said before."""
    if message.get("method") == "session/request_permission":
        return True
    update = as_object(as_object(message.get("params")).get("update"))
    return message.get("method") == "session/update" and as_text(update.get("sessionUpdate")) in _SPEAKS


def _is_empty_piece(message: Frame) -> bool:
    """Whether a frame is a piece of an answer without any text: a response had begun all the same (R-SAFE-7)."""
    update = as_object(as_object(message.get("params")).get("update"))
    return update.get("sessionUpdate") == "agent_message_chunk" and not as_text(
        as_object(update.get("content")).get("text")
    )


def _in_place_of_answer(held: Held, code: int | None, said: str, kind: str) -> bool:
    """Whether a held message is the error in other words.

    The error that repeats it must be labelled, or the runtime's sentence: that words are repeated does not tell who said them
    first. A sign-in's are not repeated by their error, so they must be the very ones that the runtime has for it.
    """
    text = held.text.strip()
    if said.removeprefix(_PREFIX).strip() == text:
        return kind not in _NO_LABEL or spoken_by_runtime(text)
    return code == _AUTH_REQUIRED and bool(held.message_id) and says_signed_out(text)


def _refused_by_limit(kind: str, said: str) -> bool:
    """Whether an error says that a limit refused the request: with its status, or without any in its label or its words."""
    status = _SAID_STATUS.search(said)
    if status is not None:
        return str(TOO_MANY) in status.groups()
    return kind == "rate_limit" or says_limited(said)


def _refused_before_response(code: int | None, kind: str, words: str) -> bool:
    """Whether a request surely ended before a response began: refused with an HTTP status, or never connected.

    The status of an error inside an open stream is not among the words.
    """
    if code == _AUTH_REQUIRED or kind in _REFUSALS:
        return True
    if kind == "rate_limit" and _LIMIT.search(words):
        return True  # inside an open stream, `usage_update` would have told that a response had begun
    return _SAID_STATUS.search(words) is not None or never_connected(words)


def _count_tokens(usage: Frame, turn: TurnRecord) -> None:
    names = ("inputTokens", "cachedReadTokens", "cachedWriteTokens")
    given, made = sum(as_int(usage.get(name)) or 0 for name in names), as_int(usage.get("outputTokens")) or 0
    if given + made > 0:
        turn.usage(given, made)

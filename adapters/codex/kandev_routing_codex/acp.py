"""Reads the frames of Codex's ACP agents: ``codex-acp``, and the older one of the same name (R-EVI-1, R-EVI-6).

``codex-acp`` names every message of the model with a ``messageId``; what comes without one is its runtime speaking. Most failures
end there in a successful ``end_turn``: the thread's status ``systemError``, and the runtime's next words, are the proof. The older
agent names nothing and answers failures with errors; of its unnamed chunks, only what Codex says before it asks anybody is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from kandev_routing_codex.failures import Reconnects, doubtful, error_info, failure_signal, keep, text_of, unproven
from kandev_routing_codex.wording import retry_of, warns_of_break
from kandev_routing_sdk.spec import (
    AcpFrame,
    AgentEvent,
    Channel,
    Exited,
    Frame,
    JsonValue,
    Signal,
    TurnRecord,
    TypedFailure,
    TypedFailureExtractor,
    as_object,
    as_text,
    typed_failure,
)

NAMING_AGENT: Final = "@agentclientprotocol/codex-acp"
_LOST: Final = 1001
_MAX_STDERR: Final = 40
_OTHER_WORK: Final = frozenset({"tool_call", "tool_call_update", "agent_thought_chunk", "plan"})
_RENAMED: Final = frozenset({"message", "codexErrorInfo", "codex_error_info"})
_AHEAD: Final = re.compile(
    r"(?:warning: )?(?:"
    r"model metadata for [`'\"][^`'\"\n]*[`'\"] not found\. defaulting to fallback metadata\b[^\n]*"
    r"|under-development features enabled: [^\n]*"
    r"|heads up: long threads [^\n]*"
    r"|falling back from websockets to https transport\b[^\n]*"
    r")\s*\Z",
    re.IGNORECASE,
)
"""Whole messages that Codex itself says at the head of a turn, before its model has answered."""
_NOTICE: Final = re.compile(r"(?:config )?warning: |\*context compacted\b", re.IGNORECASE)
"""How ``codex-acp`` begins what is a mere remark."""
_OWN_LOG: Final = re.compile(
    r"\[SYSTEM_ERROR\] (?!\[APP-SERVER EXIT\])"  # what it answers with as well
    r"|\s+at "  # a stack trace
    r"|\w*Error: "
    r"|\d{4}-\d\d-\d\dT\S+\s+(?:ERROR|WARN|INFO|DEBUG|TRACE)\b"
)


class CodexAcpExtractor(TypedFailureExtractor):
    """One turn of a Codex ACP agent. No I/O, no clock."""

    def __init__(self, *, credential_kinds: Collection[str] | None = None) -> None:
        super().__init__(credential_kinds=credential_kinds)
        self._names_messages = False
        self._answered = False
        """Whether the model is known to have answered something in this turn."""
        self._doubtful = False
        """Whether a response may have begun something that was not shown."""
        self._system_error = False
        self._cause: Signal | None = None
        """The runtime's words for the failure."""
        self._last_try: Signal | None = None
        """Why its last own try failed."""
        self._reconnects = Reconnects()
        self._stderr: list[str] = []

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        if isinstance(event, AcpFrame):
            if event.request == "initialize":
                agent = as_object(as_object(event.message.get("result")).get("agentInfo"))
                self._names_messages = agent.get("name") == NAMING_AGENT
            update = as_object(as_object(event.message.get("params")).get("update"))
            kind = as_text(update.get("sessionUpdate"))
            if kind in _OTHER_WORK:
                self._answered = True
            elif kind == "agent_message_chunk" and not as_text(as_object(update.get("content")).get("text")):
                self._doubtful = True  # an empty piece is one of a response all the same
        super().receive(event, turn)

    # Messages -------------------------------------------------------------------------------------------------------------

    def on_message_chunk(self, update: Frame, text: str, turn: TurnRecord) -> None:
        """A piece of the answer, or the runtime's own words in its place."""
        name = as_text(update.get("messageId"))
        if name:
            self._names_messages = True
        elif self._names_messages:
            self._runtime_words(text.strip(), turn)
            return
        elif not self._answered and _AHEAD.match(text):
            self._doubtful = self._doubtful or warns_of_break(text.strip())
            return  # said before anything was asked: no sign of the turn
        self._answered = True
        turn.text(self.answer.piece(name, text))

    def _runtime_words(self, text: str, turn: TurnRecord) -> None:
        if self._system_error and self._cause is None and not _NOTICE.match(text):
            self._cause = failure_signal(Channel.AGENT_NOTICE, text, None)
        elif not _NOTICE.match(text):
            turn.notice(text)  # the answer to a command of its own, or a newer one's: it may stand for something done
            turn.incomplete()
        elif self._answered:
            turn.notice(text)
        self._doubtful = self._doubtful or warns_of_break(text)
        # else a warning, said before anybody was asked: no sign of the turn, and no failure

    # What happened --------------------------------------------------------------------------------------------------------

    def on_session_info(self, update: Frame, turn: TurnRecord) -> None:
        """The thread's status, a retry, a typed warning or a title. None of them is a sign that the prompt arrived."""
        codex = as_object(as_object(update.get("_meta")).get("codex"))
        self._names_messages = self._names_messages or bool(codex)
        status = as_text(as_object(codex.get("threadStatus")).get("type"))
        if status == "systemError":
            self._system_error, self._cause = True, None
        elif status == "active":
            self._system_error = False
        error = as_object(codex.get("error"))
        if error.get("willRetry") is True:
            why = text_of(error, "additionalDetails", "message")
            self._try(text_of(error, "message"), failure_signal(Channel.ACP_UPDATE, why, error_info(error)), turn)
        elif typed_failure(update) is not None:
            super().on_session_info(update, turn)

    def _try(self, message: str, cause: Signal, turn: TurnRecord) -> None:
        self.answer.retry()
        self._last_try = cause
        self._doubtful = self._doubtful or unproven(cause)
        self._reconnects.receive(message, cause, turn)

    def on_typed_warning(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """Another try of its own, or a remark."""
        if retry_of(failure.title) is not None:
            self._try(failure.title, failure_signal(Channel.ACP_UPDATE, failure.title, None), turn)
        elif self._answered:
            turn.notice(failure.title)

    def on_usage(self, update: Frame, turn: TurnRecord) -> None:
        """A response is complete: the provider answered, also when nothing of it was shown."""
        if update.get("used") not in (None, 0) and turn.effects.delivery != "not_sent":
            self._doubtful = True
        super().on_usage(update, turn)

    # The end --------------------------------------------------------------------------------------------------------------

    def note_typed(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """Keep a typed failure, with the HTTP status that its title names."""
        turn.acknowledged()
        facts: dict[str, JsonValue] = {"category": failure.category, "actions": list(failure.actions)}
        self._keep(failure_signal(Channel.ACP_ERROR, failure.title, None, facts=facts), turn)

    def on_stop(self, reason: str, result: Frame, turn: TurnRecord) -> None:
        """The prompt's response: a success only if the thread is not in error."""
        self._served(result, turn)
        quota = as_object(as_object(result.get("_meta")).get("quota"))
        spent = (as_object(result.get("usage")), as_object(quota.get("token_count")))
        self._doubtful = self._doubtful or any(_is_positive(n) for counts in spent for n in counts.values())
        super().on_stop(reason, result, turn)
        if self._system_error and turn.outcome == "success":
            cause = self._cause or self._last_try
            if cause is not None:
                self._keep(cause, turn)
            turn.failed("system_error")
        self._doubt(turn)

    def on_error(self, request: str, error: Frame, turn: TurnRecord) -> None:
        """A request failed."""
        super().on_error(request, error, turn)
        if request == "session/prompt":
            self._doubt(turn)

    def note_error(self, error: Frame, turn: TurnRecord) -> None:
        """Keep an error in Codex's vocabulary: what it knows of a failure is in the error's data."""
        code, message, data = error.get("code"), as_text(error.get("message")), as_object(error.get("data"))
        if code == _LOST or "restartable" in data:
            turn.incomplete()  # its app server went in mid-turn
            super().note_error({**error, "message": message.partition("\n")[0]}, turn)  # the rest is its log
            return
        info, said = error_info(data), text_of(data, "message", "additionalDetails", "details")
        if info is None and not said:
            super().note_error(error, turn)
            return
        more = {name: value for name, value in data.items() if name not in _RENAMED}
        number = code if isinstance(code, int) and not isinstance(code, bool) else None
        self._keep(failure_signal(Channel.ACP_ERROR, said or message, info, code=number, facts=more), turn)

    def on_stderr(self, text: str, turn: TurnRecord) -> None:
        """Its log repeats what it answers, with stack traces: it explains only an agent that never answers."""
        del turn
        if text.strip() and not _OWN_LOG.match(text) and len(self._stderr) < _MAX_STDERR:
            self._stderr.append(text)

    def on_exit(self, event: Exited, turn: TurnRecord) -> None:
        """The process is gone."""
        if not turn.ended and turn.effects.delivery == "not_sent":
            for line in self._stderr:
                super().on_stderr(line, turn)
        super().on_exit(event, turn)

    # Parts ----------------------------------------------------------------------------------------------------------------

    def _keep(self, signal: Signal, turn: TurnRecord) -> None:
        self._doubtful = self._doubtful or doubtful(signal)
        keep(signal, turn)

    def _doubt(self, turn: TurnRecord) -> None:
        """R-SAFE-7: a response that broke off or used tokens may have begun something that was not shown."""
        if turn.outcome == "failed" and (self._doubtful or turn.has_usage):
            turn.incomplete()

    @staticmethod
    def _served(result: Frame, turn: TurnRecord) -> None:
        used = as_object(as_object(result.get("_meta")).get("quota")).get("model_usage")
        for entry in used if isinstance(used, list) else []:
            if model := as_text(as_object(entry).get("model")):
                turn.served_model(model)


def _is_positive(number: JsonValue) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and number > 0

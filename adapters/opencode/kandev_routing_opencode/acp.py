"""Reads OpenCode's side of the Agent Client Protocol (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kandev_routing_opencode.failure import DUMP, structured
from kandev_routing_sdk.spec import (
    AcpFrame,
    AgentEvent,
    Channel,
    Frame,
    JsonValue,
    Signal,
    StandardAcpExtractor,
    TurnRecord,
    as_object,
    as_text,
)

_NO_LOGIN: Final = -32000
"""There is no key or login to ask the provider with."""
_PREFIX: Final = "Internal error: "
_TOOL_UPDATES: Final = frozenset({"tool_call", "tool_call_update"})
_SAYS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk"})
_MAX_MESSAGES: Final = 4
"""An answer is one message, two more when the session is compacted before it; only tools make more."""
_RESUMES: Final = frozenset({"session/load", "session/resume"})
_TOLD: Final = frozenset({"APIError", "ContextOverflowError", "ProviderAuthError", "ProviderModelNotFoundError"})
"""Errors that end a request before its response, or that this transport shows the response of."""
_BROKEN: Final = (
    "our servers are currently overloaded",
    "connection reset",
    "socket connection was closed",
    "decompression failed",
    "timed out",
    "timeout",
)
"""Words of a connection or a stream that broke off; the first ones a vendor says inside an open stream."""


class OpenCodeAcpExtractor(StandardAcpExtractor):
    """One turn of ``opencode acp``. No I/O, no clock.

    Status, headers and body of the provider's answer do not come through: the error's name and its words are all there is.
    """

    def __init__(self) -> None:
        super().__init__(silent_retries=True)
        self._messages: set[str] = set()
        """Messages since a tool was last used."""
        self._tries = 0
        """Requests that came to an end since then."""
        self._begun = self._dumped = False

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        if isinstance(event, AcpFrame):
            update = as_object(as_object(event.message.get("params")).get("update"))
            kind = as_text(update.get("sessionUpdate"))
            if kind in _TOOL_UPDATES:
                self._messages.clear()
                self._tries = 0
            elif kind in _SAYS:
                self._begun = True  # an empty piece is one of a response all the same
                self._messages.add(as_text(update.get("messageId")))
            elif kind == "usage_update":
                self._tries += 1
        super().receive(event, turn)
        if max(len(self._messages), self._tries) > _MAX_MESSAGES and not turn.ended:
            # a response without an end is asked for again and again (R-CON-9)
            turn.abandoned("endless_steps")

    def on_message_chunk(self, update: Frame, text: str, turn: TurnRecord) -> None:
        """A piece of the answer; what a retry says again is not shown again, yet it is output."""
        turn.acknowledged()
        super().on_message_chunk(update, text, turn)

    def on_usage(self, update: Frame, turn: TurnRecord) -> None:
        """What the last message used: nothing, after a request that failed; yet one before it may have begun an answer."""
        super().on_usage(update, turn)
        self._begun = self._begun or update.get("used") not in (None, 0)

    def on_error(self, request: str, error: Frame, turn: TurnRecord) -> None:
        """The error of a request; only that of the prompt may hide what was done for it."""
        if request in _RESUMES:
            error = {**error, "data": {**as_object(error.get("data")), "request": request}}
        super().on_error(request, error, turn)
        if request == "session/prompt" and (self._begun or not _complete(error)):
            turn.incomplete()

    def note_error(self, error: Frame, turn: TurnRecord) -> None:
        """Keep an error with its structure; the provider's own error object is sometimes the message itself."""
        message, code = as_text(error.get("message")).removeprefix(_PREFIX), error.get("code")
        data: Mapping[str, JsonValue] = as_object(error.get("data"))
        inner = as_object(structured(message))
        said = as_text(as_object(inner.get("error")).get("message")) or message
        turn.signal(
            Signal(
                channel=Channel.ACP_ERROR,
                text=said or None,
                code=code if isinstance(code, (int, str)) and not isinstance(code, bool) else None,
                data={**data, **inner} or None,
            )
        )

    def on_stderr(self, text: str, turn: TurnRecord) -> None:
        """A line of standard error; nothing of a dumped request, nor of what follows it, is evidence."""
        self._dumped = self._dumped or text.lstrip().startswith(DUMP)
        if not self._dumped:
            super().on_stderr(text, turn)


def _complete(error: Frame) -> bool:
    """Whether nothing of the failed request's response can have been missed."""
    if error.get("code") == _NO_LOGIN:
        return True
    name, message = as_text(as_object(error.get("data")).get("errorName")), as_text(error.get("message")).lower()
    return name in _TOLD and not any(words in message for words in _BROKEN)

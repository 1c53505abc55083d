"""Reads OpenCode's side of the Agent Client Protocol (R-EVI-1, R-EVI-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kandev_routing_opencode.failure import structured
from kandev_routing_sdk.spec import (
    Channel,
    Frame,
    JsonValue,
    Signal,
    StandardAcpExtractor,
    TurnRecord,
    as_object,
    as_text,
)

_PREFIX: Final = "Internal error: "
_DUMP: Final = "Error handling "
"""What a dump of the failed request begins with on standard error: with the user's prompt in it."""
_TOLD: Final = frozenset({"APIError", "ContextOverflowError", "ProviderAuthError", "ProviderModelNotFoundError"})
"""Errors that end a request before its response, or that this transport shows the response of."""
_BROKEN: Final = ("connection reset", "socket connection was closed", "decompression failed", "timed out", "timeout")


class OpenCodeAcpExtractor(StandardAcpExtractor):
    """One turn of ``opencode acp``. No I/O, no clock.

    Status, headers and body of the provider's answer do not come through: the error's name and its words are all there is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._used = self._dumped = False

    def on_usage(self, update: Frame, turn: TurnRecord) -> None:
        """What the last message used: nothing, after a request that failed."""
        super().on_usage(update, turn)
        used = update.get("used")
        self._used = isinstance(used, (int, float)) and used > 0

    def on_error(self, request: str, error: Frame, turn: TurnRecord) -> None:
        """The error of a request; only that of the prompt may hide what was done for it."""
        super().on_error(request, error, turn)
        if request == "session/prompt" and (self._used or not _complete(error)):
            turn.incomplete()

    def note_error(self, error: Frame, turn: TurnRecord) -> None:
        """Keep an error with its structure; the provider's own error object is sometimes the message itself."""
        message, code = as_text(error.get("message")), error.get("code")
        data: Mapping[str, JsonValue] = as_object(error.get("data"))
        inner = as_object(structured(message.removeprefix(_PREFIX)))
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
        self._dumped = self._dumped or text.lstrip().startswith(_DUMP)
        if not self._dumped:
            super().on_stderr(text, turn)


def _complete(error: Frame) -> bool:
    """Whether nothing of the failed request's response can have been missed."""
    name, message = as_text(as_object(error.get("data")).get("errorName")), as_text(error.get("message")).lower()
    return name in _TOLD and not any(words in message for words in _BROKEN)

"""OpenCode's own form of an error, as its headless mode and its server say it, and what the error proves (R-SAFE-7)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kandev_routing_sdk.spec import Channel, JsonValue, Signal, as_object, as_text, json_event

DUMP: Final = "Error handling "
"""What a dump of the failed request begins with on standard error: with the user's prompt in it."""
_ERROR_STATUS: Final = 400
_MAX_BODY: Final = 64 * 1024
_KEPT_HEADERS: Final = (
    "retry-after",
    "x-ratelimit-",
    "ratelimit",
    "anthropic-ratelimit-",
    "x-codex-",
    "x-should-retry",
)
"""Beginnings of the response headers that say when to come back, or why not now; the others say nothing of a failure."""
_BEFORE_REQUEST: Final = frozenset({"ProviderAuthError", "ProviderModelNotFoundError", "ProviderInitError"})
"""Errors that OpenCode raises before it asks the provider anything."""
_NEVER_CONNECTED: Final = re.compile(
    r"(?i)^cannot connect to api: .{0,200}?(?:unable to connect|ConnectionRefused|FailedToOpenSocket|ECONNREFUSED|ENOTFOUND"
    r"|EAI_AGAIN|getaddrinfo)"
)
_STREAM: Final = "text/event-stream"
_FAILED_WHOLE: Final = "response.failed"
_FIRST_EVENTS: Final = 3
"""A response is created and in progress, then the third event fails it; a later one comes after a part of the answer."""
_OWN_NAMES: Final = frozenset({"name", "data"})


@dataclass(frozen=True, slots=True)
class Failure:
    """One ``error`` of OpenCode. Every part of it may be missing or of another type in what came in."""

    name: str
    message: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: JsonValue = None
    """What the provider answered: an object, or its text."""
    code: str = ""
    """The operating system's, or OpenCode's own name of a broken connection."""
    in_stream: bool = False
    """Whether it is an event that broke an open stream off; a response that failed as a whole is none."""

    @property
    def before_response(self) -> bool:
        """Whether the request that failed surely ended before a response began: an HTTP error status, or no connection at all.

        An error inside an open stream is given a status too; that nothing of the stream had arrived only its silence tells,
        so callers ask this only while nothing of a response was seen.
        """
        if self.in_stream:
            return False
        if self.status is not None:
            return self.status >= _ERROR_STATUS
        if self.name in _BEFORE_REQUEST:
            return True
        return not self.code and self.body is None and _NEVER_CONNECTED.search(self.message) is not None

    def signals(self, channel: Channel) -> Iterator[Signal]:
        """The evidence: what OpenCode says, then what the provider said to it, each with its structure."""
        inner = as_object(as_object(structured(self.message)).get("error"))
        error: dict[str, JsonValue] = {key: value for key, value in inner.items() if key not in _OWN_NAMES}
        error |= {key: value for key, value in (("name", self.name), ("code", self.code)) if value}
        words = as_text(inner.get("message")) or self.message
        yield Signal(channel=channel, text=words or None, data={"error": error}, http_status=self.status)
        if self.status is None and self.body is None and not self.headers:
            return
        data, text = (self.body, None) if isinstance(self.body, dict) else (None, as_text(self.body) or None)
        yield Signal(
            channel=Channel.HTTP, text=text, data=data, headers=dict(self.headers) or None, http_status=self.status
        )


def failure_of(error: JsonValue) -> Failure:
    """Read an error object: ``{"name": …, "data": {"message", "statusCode", "responseHeaders", "responseBody", …}}``."""
    if isinstance(error, str):
        return Failure("", error)
    holder = as_object(error)
    data = as_object(holder.get("data"))
    status, headers = data.get("statusCode"), as_object(data.get("responseHeaders"))
    body = as_text(data.get("responseBody"))
    return Failure(
        name=as_text(holder.get("name")),
        message=as_text(data.get("message")) or as_text(holder.get("message")),
        status=status if isinstance(status, int) and not isinstance(status, bool) else None,
        headers=_headers(headers),
        body=_body(body),
        code=as_text(as_object(data.get("metadata")).get("code")),
        in_stream=_STREAM in _content_type(headers) and not _failed_whole(as_object(_parsed(body))),
    )


def _failed_whole(event: Mapping[str, JsonValue]) -> bool:
    """Whether an event of a stream fails a response of which nothing had come."""
    number, response = event.get("sequence_number"), as_object(event.get("response"))
    made = as_object(response.get("usage")).get("output_tokens")
    begun = bool(response.get("output")) or (isinstance(made, int) and made > 0)
    late = isinstance(number, int) and number > _FIRST_EVENTS
    return event.get("type") == _FAILED_WHOLE and not begun and not late


def structured(message: str) -> JsonValue:
    """Return the provider's own error object where a message is nothing but one; else None."""
    found = _parsed(message)
    if not isinstance(found, dict):
        return None
    return _error_holder(found)


def _headers(headers: Mapping[str, JsonValue]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in headers.items() if isinstance(value, str)}
    return {name: value for name, value in lowered.items() if name.startswith(_KEPT_HEADERS)}


def _content_type(headers: Mapping[str, JsonValue]) -> str:
    return next((as_text(value).lower() for name, value in headers.items() if name.lower() == "content-type"), "")


def _body(text: str) -> JsonValue:
    if not text:
        return None
    found = _parsed(text)
    return _error_holder(found) if isinstance(found, dict) else text[:_MAX_BODY]


def _error_holder(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the object whose ``error`` is the provider's error, as HTTP bodies have it.

    A failed response of a stream has it one level deeper, a bare error of a stream has it not at all.
    """
    inner = as_object(body.get("response")).get("error")
    if isinstance(inner, dict):
        return {"error": inner}
    if "error" not in body and any(isinstance(body.get(key), str) for key in ("type", "code")):
        return {"error": body}
    return body


def _parsed(text: str) -> JsonValue:
    stripped = text.strip()
    if not stripped.startswith(("{", "[")) or len(stripped) > _MAX_BODY:
        return None
    found: JsonValue = json_event(stripped)
    if found is None:
        try:
            listed = json.loads(stripped)
        except (ValueError, RecursionError):
            return None
        found = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else None
    return found

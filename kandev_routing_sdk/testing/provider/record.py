"""What a client sent: the log's record, and what can be read out of a request's body."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kandev_routing_sdk.testing.provider.messages import Wire

if TYPE_CHECKING:
    from datetime import datetime

_REMINDER = "<system-reminder>"
_ENVIRONMENT = "<environment_context>"
_TITLES = (
    "You are a title generator",  # OpenCode
    "Write the title in ",  # Claude Code
    "Your task is to generate a very short title",  # Codex over ACP
)
"""How the CLIs ask for a conversation's title, in their instructions or in place of the prompt."""
_SUGGESTION = "[SUGGESTION MODE: "
"""How Claude Code asks, after a turn and with the same tools on offer, for what its user might say next."""


class AuthKind(StrEnum):
    """How a request said who it is; the secret itself is only in the record's headers."""

    API_KEY = "api_key"
    BEARER = "bearer"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, in the order of arrival.

    ``headers`` (names in lower case), ``body`` and ``raw`` hold what was sent, secrets too, and are therefore kept out
    of the ``repr``. ``body`` is ``None`` where there is none or it is no JSON object.
    """

    sequence: int
    at: datetime
    """When the request had arrived (aware, UTC)."""
    monotonic: float
    """The same on the clock that never jumps, in seconds."""
    method: str
    path: str
    """The path without the scenario's prefix, with the query."""
    scenario: str
    wire: Wire | None
    """The protocol; ``None`` for anything but a model request."""
    auth: AuthKind
    status: int | None
    """The status answered; ``None`` where nothing is answered at all."""
    prompt: str | None = field(repr=False)
    """What the user said last, without what the CLI adds of its own."""
    after_tool: bool
    side: bool
    """Whether the client asked for something of its own: a title for the conversation, or what to say next."""
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] | None = field(repr=False)
    raw: bytes = field(repr=False)

    def mentions(self, text: str) -> bool:
        """Tell whether ``text`` is anywhere in the path, the headers or the body."""
        haystack = "\n".join([self.path, *(f"{name}: {value}" for name, value in self.headers.items())])
        if text in haystack:
            return True
        if self.body is None:
            return text.encode() in self.raw
        # Both in the same escaped form, so that quotes and line ends in a text do not hide it.
        return json.dumps(text, ensure_ascii=False)[1:-1] in json.dumps(dict(self.body), ensure_ascii=False)


def wire_of(path: str) -> Wire | None:
    """Return the protocol whose model request ``path`` names, going by its end."""
    route = path.partition("?")[0].rstrip("/")
    if route.endswith("/messages"):
        return Wire.ANTHROPIC
    if route.endswith("/chat/completions"):
        return Wire.CHAT
    return Wire.RESPONSES if route.endswith("/responses") else None


def auth_of(headers: Mapping[str, str]) -> AuthKind:
    """Return how the request authenticates."""
    if "x-api-key" in headers:
        return AuthKind.API_KEY
    value = headers.get("authorization", "")
    if not value:
        return AuthKind.NONE
    return AuthKind.BEARER if value.lower().startswith("bearer ") else AuthKind.OTHER


def parse_body(raw: bytes, encoding: str) -> Mapping[str, Any] | None:
    """Return the JSON object in ``raw``; ``None`` when it is empty, encoded in an unknown way or something else."""
    try:
        if encoding == "gzip":
            raw = gzip.decompress(raw)
        elif encoding == "deflate":
            raw = zlib.decompress(raw)
        parsed = json.loads(raw) if raw else None
    except (ValueError, OSError, EOFError, zlib.error):
        return None
    return parsed if isinstance(parsed, dict) else None


def tool_names(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the tools on offer; a built-in tool without a name goes by its type."""
    found = _objects(body.get("tools"))
    # Chat Completions wraps each in an object of its own.
    tools = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in found]
    return tuple(str(tool.get("name") or tool.get("type")) for tool in tools)


def _objects(value: object) -> list[dict[str, Any]]:
    """Return the JSON objects in a list; nothing for anything else a client may have sent."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _turns(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conversation's items, whichever protocol they come in."""
    items = body.get("messages") if "messages" in body else body.get("input")
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return _objects(items)


def _blocks(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = item.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    else:
        yield from _objects(content)


def has_tool_result(body: Mapping[str, Any]) -> bool:
    """Tell whether a tool's result came after the user's last words (so, in the turn under way)."""
    for item in reversed(_turns(body)):
        if item.get("type") in {"function_call_output", "custom_tool_call_output"} or item.get("role") == "tool":
            return True
        if item.get("role") == "user":
            return any(block.get("type") == "tool_result" for block in _blocks(item))
    return False


def is_side_request(body: Mapping[str, Any]) -> bool:
    """Tell whether the client wants something of its own.

    That is a title for the conversation (no tools on offer, and words that say so), or what its user might say next.
    """
    if (prompt_of(body) or "").startswith(_SUGGESTION):
        return True
    if body.get("tools"):
        return False
    told = [{"content": body.get("system")}, {"content": body.get("instructions")}, *_turns(body)]
    texts = (str(block.get("text", "")) for item in told for block in _blocks(item))
    return any(words in text for text in texts for words in _TITLES)


def prompt_of(body: Mapping[str, Any]) -> str | None:
    """Return the last text of the user that the CLI did not add itself; ``None`` when there is none."""
    for item in reversed(_turns(body)):
        if item.get("role") != "user":
            continue
        texts = [str(block.get("text", "")) for block in _blocks(item) if block.get("type") in {"text", "input_text"}]
        said = [text for text in texts if not text.lstrip().startswith((_REMINDER, _ENVIRONMENT))]
        if said:
            return said[-1]
    return None

"""What an agent tells its caller while a turn runs. Values, in order; each one is also an effect mark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The agent asked for a tool; it may have run from here on."""

    tool_id: str
    title: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool ran (or is reported to have)."""

    tool_id: str
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The agent's runtime said something that is not output: a warning, a status."""

    text: str


@dataclass(frozen=True, slots=True)
class InnerRetry:
    """The agent tries again by itself (R-CON-9)."""

    ordinal: int
    maximum: int | None = None
    delay_s: float | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The agent's own session id, and the model it says it will use."""

    native_session_id: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class CapabilitiesUpdate:
    """Models, modes, options and commands, replacing what was known (R-CON-7)."""

    capabilities: dict[str, JsonValue] = field(default_factory=dict)


AgentUpdate: TypeAlias = (
    TextDelta | ThinkingDelta | ToolCall | ToolResult | Notice | InnerRetry | SessionStarted | CapabilitiesUpdate
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a turn, as the agent reports them."""

    input_tokens: int = 0
    output_tokens: int = 0

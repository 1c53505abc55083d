"""What goes over the wire, as plain values: a request that was understood, and the answer it gets.

Nothing here reads a socket or a clock; ``server`` does. Times in an ``Ask`` are aware and in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol, TypedDict

JsonObject = Mapping[str, Any]

DEFAULT_TEXT = "Hello from the loopback provider."
DEFAULT_TOOL_COMMAND = "echo tool-ran >> effect.txt"


class Wire(StrEnum):
    """The protocols that are spoken."""

    ANTHROPIC = "anthropic"
    """Anthropic Messages."""
    RESPONSES = "responses"
    """OpenAI Responses."""
    CHAT = "chat"
    """OpenAI Chat Completions."""


class Ending(StrEnum):
    """What happens to the connection after the part of the answer that is sent."""

    END = "end"
    """The answer is finished properly."""
    CUT = "cut"
    """The connection is closed without finishing the answer."""
    RESET = "reset"
    """The connection is reset (RST)."""
    HANG = "hang"
    """Nothing more is sent until the client goes away or the provider is closed."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One server-sent event; without a name only its data is sent. ``data`` that is a text is sent as it is."""

    name: str | None
    data: JsonObject | str


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    ``events`` (a stream) goes before ``body`` (JSON, or raw text). With ``silent`` not one byte is written before
    ``ending`` happens. ``failing`` marks what counts against ``Settings.fail_times``.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: JsonObject | str | None = None
    events: tuple[SseEvent, ...] | None = None
    ending: Ending = Ending.END
    silent: bool = False
    failing: bool = False

    def with_headers(self, headers: Mapping[str, str]) -> Reply:
        """Return this answer with more headers."""
        return replace(self, headers={**self.headers, **headers})


@dataclass(frozen=True, slots=True)
class Settings:
    """What a test may turn on one scenario (``LoopbackProvider.set``)."""

    fail_times: int | None = None
    """Give only this many failing answers, then succeed; ``None`` fails for ever."""
    resets_at: datetime | None = None
    """The moment a limit says it ends at (aware); goes before ``resets_in``."""
    resets_in: timedelta | None = None
    """How long after the request a limit says it ends; ``None`` takes the scenario's own."""
    text: str = DEFAULT_TEXT
    """The text of a good answer."""
    tool_command: str = DEFAULT_TOOL_COMMAND
    """What the CLI's shell tool is asked to run."""

    def __post_init__(self) -> None:
        """Refuse what no provider could mean."""
        if self.fail_times is not None and self.fail_times < 0:
            raise ValueError(f"fail_times is {self.fail_times}; give 0 or more, or None to fail for ever")
        if self.resets_at is not None and self.resets_at.tzinfo is None:
            raise ValueError("resets_at has no time zone; give an aware datetime")


class SettingsChange(TypedDict, total=False):
    """The keyword arguments of ``LoopbackProvider.set``: any of the fields of ``Settings``."""

    fail_times: int | None
    resets_at: datetime | None
    resets_in: timedelta | None
    text: str
    tool_command: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A model request that was understood, as a scenario's step sees it."""

    dialect: Dialect
    model: str
    stream: bool
    tools: tuple[str, ...]
    """The names of the tools on offer."""
    after_tool: bool
    """Whether the request brings a tool's result for the turn under way."""
    side: bool
    """Whether the client asks for something of its own, a title or a suggestion, and not what the user wants."""
    sequence: int
    """The request's number at this provider, for ids that never repeat."""
    now: datetime
    settings: Settings

    def reset_after(self, default: timedelta) -> timedelta:
        """Return how long from now the limit lasts: as set, else ``default``; never negative."""
        if self.settings.resets_at is not None:
            wait = self.settings.resets_at - self.now
        elif self.settings.resets_in is not None:
            wait = self.settings.resets_in
        else:
            wait = default
        return max(wait, timedelta(0))

    def reset_epoch(self, default: timedelta) -> int:
        """Return the limit's end in whole epoch seconds."""
        if self.settings.resets_at is not None:
            return int(self.settings.resets_at.timestamp())
        return int((self.now + self.reset_after(default)).timestamp())


Step = Callable[[Ask], Reply]
"""Answers one request; must not block."""

HeaderRule = Callable[[Ask], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One provider error in both vendors' own words.

    ``hint`` adds timing headers; ``extra`` adds fields to the OpenAI error object.
    """

    status: int
    anthropic: tuple[str, str]
    """``(error.type, error.message)``."""
    openai: JsonObject
    """The whole ``error`` object."""
    hint: HeaderRule | None = None
    extra: Callable[[Ask], JsonObject] | None = None


class Dialect(Protocol):
    """One protocol's way of saying the same few things."""

    @property
    def wire(self) -> Wire:
        """The protocol."""
        ...

    def answer(self, ask: Ask, text: str, *, truncated: bool = False) -> Reply:
        """Return a good answer; ``truncated`` says that the output limit ended it."""
        ...

    def tool_call(self, ask: Ask, command: str) -> Reply | None:
        """Return a call of the client's shell tool, ``None`` when it offers none."""
        ...

    def begun(self, ask: Ask, chunks: tuple[str, ...]) -> tuple[SseEvent, ...]:
        """Return the head of a stream which has said ``chunks`` and is not over."""
        ...

    def fault(self, ask: Ask, fault: Fault) -> Reply:
        """Return an HTTP error."""
        ...

    def fault_event(self, ask: Ask, fault: Fault) -> SseEvent:
        """Return the event that reports an error inside an open stream."""
        ...

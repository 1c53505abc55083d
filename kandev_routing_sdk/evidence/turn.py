"""The record of one turn: what an adapter's extractor tells the core.

The extractor only interprets; the bookkeeping that safety rests on (effect marks, bounds, sanitising) happens here, so that no
adapter can forget it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from kandev_routing_sdk.evidence.collector import WHOLE, Decides, SignalCollector, TextCleaner, Torn
from kandev_routing_sdk.evidence.effects import EffectLedger
from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
from kandev_routing_sdk.evidence.updates import (
    AgentUpdate,
    InnerRetry,
    Notice,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from kandev_routing_sdk.types import AttemptOutcome, Phase

MAX_TEXT_CHARS: Final = 4 * 1024 * 1024
"""How much of an answer is kept; more is cut, and observation is then incomplete."""
_MAX_COUNT: Final = 20
"""Digits of what was dropped."""
_MAX_NAME: Final = 200
_MAX_READ: Final = 4096
"""How much of a name is read, so that no secret is cut before it is known for one."""
_MAX_TOKENS: Final = 2**53 - 1
"""What every JSON reader and every database can hold; no turn uses more."""


@dataclass(frozen=True, slots=True)
class TurnReport:
    """How a turn ended, and everything that was seen of it."""

    outcome: AttemptOutcome
    stop_reason: str | None
    text: str
    effects: Effects
    evidence: Evidence
    usage: Usage | None
    model: str | None
    native_session_id: str | None
    inner_retries: int
    credential_doubted: bool = False
    """The agent signed in otherwise than its launch was said to: nothing is booked to that credential (R-CIR-3)."""


@dataclass(slots=True)
class TurnContext:
    """Who a turn belongs to; copied into its evidence (R-EVI-4)."""

    family: str
    session_id: str | None = None
    generation: int | None = None
    prompt: int | None = None
    attempt_id: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    local_zone: str | None = None


@dataclass(slots=True)
class _Told:
    """What the extractor has said of the end."""

    outcome: AttemptOutcome | None = None
    stop_reason: str | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    http_status: int | None = None
    usage: Usage | None = None
    model: str | None = None
    native_session_id: str | None = None
    inner_retries: int = 0
    credential_doubted: bool = False
    text: io.StringIO = field(default_factory=io.StringIO)
    text_chars: int = 0


class TurnRecord:
    """Accumulates one turn. Not thread-safe: one task feeds it.

    ``decides`` tells the envelope which signals decide (the catalogue's), so that it drops those last.
    """

    def __init__(
        self,
        context: TurnContext,
        cleaner: TextCleaner,
        emit: Callable[[AgentUpdate], None],
        decides: Decides | None = None,
    ) -> None:
        self._context = context
        self._cleaner = cleaner
        self._emit = emit
        self._ledger = EffectLedger()
        self._collector = SignalCollector(cleaner, decides)
        self._told = _Told()
        self.phase: Phase = Phase.PROCESS_START
        self.torn: Torn = WHOLE
        """Of which line what is read now is a part; the feed says so."""
        self.over: bool = False
        """Whether the agent has to be ended, for it will not end the turn by itself."""

    # What came back -----------------------------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """A piece of the answer."""
        if not text:
            return
        self._ledger.output()
        self.phase = Phase.STREAMING
        room = MAX_TEXT_CHARS - self._told.text_chars
        if len(text) > room:
            self._ledger.incomplete()
        if room > 0:
            self._told.text.write(text[:room])
            self._told.text_chars += min(len(text), room)
        self._emit(TextDelta(text))

    def thinking(self, text: str) -> None:
        """A piece of thinking."""
        self._ledger.thinking()
        self.phase = Phase.STREAMING
        self._emit(ThinkingDelta(text))

    def tool_call(self, tool_id: str, title: str) -> None:
        """The agent asked for a tool."""
        self._ledger.tool_call()
        self.phase = Phase.TOOL_EXECUTION
        self._emit(ToolCall(tool_id, title))

    def tool_result(self, tool_id: str, *, ok: bool | None = None) -> None:
        """A tool ran, or may have."""
        self._ledger.tool_effect()
        self.phase = Phase.STREAMING
        self._emit(ToolResult(tool_id, ok))

    def client_asked(self, *, effect: bool) -> None:
        """The agent had its client do something for it; ``effect``: that changes something (R-SAFE-1)."""
        if effect:
            self._ledger.tool_effect()
        else:
            self._ledger.tool_call()
        self.phase = Phase.TOOL_EXECUTION

    def notice(self, text: str) -> None:
        """The runtime said something that is not output."""
        self._ledger.acknowledged()
        self._emit(Notice(self._cleaner.text(text)))

    def inner_retry(
        self, *, maximum: int | None = None, delay_s: float | None = None, status: int | None = None
    ) -> None:
        """The agent tries again by itself; counted (R-CON-9)."""
        self._ledger.acknowledged()
        self._told.inner_retries += 1
        self._emit(InnerRetry(self._told.inner_retries, maximum, delay_s, status))

    def update(self, update: AgentUpdate) -> None:
        """Pass on an update that carries no effect (capabilities)."""
        self._emit(update)

    # What it means ------------------------------------------------------------------------------------------------------

    def sent(self) -> None:
        """The prompt may have left (the transport says so)."""
        self._ledger.sent()
        if self.phase in {Phase.PROCESS_START, Phase.SESSION_INIT, Phase.AUTH_CHECK}:
            self.phase = Phase.PROMPT_SEND

    def acknowledged(self) -> None:
        """Something of this turn came back that is neither output nor an effect."""
        self._ledger.acknowledged()

    def incomplete(self) -> None:
        """Something may have happened unseen (R-SAFE-7)."""
        self._ledger.incomplete()

    def also(self, effects: Effects) -> None:
        """What its agent did when it was asked to hand over counts as this turn's: tools, and what was not seen (R-CON-3)."""
        self._ledger.add(effects)

    def signal(self, signal: Signal) -> None:
        """Add a piece of evidence; sanitised and bounded here."""
        self._collector.add(signal if signal.phase else signal.model_copy(update={"phase": self.phase}), self.torn)

    def session(self, native_session_id: str, model: str | None = None) -> None:
        """The agent's own session id; one that is longer than any id is none."""
        if len(native_session_id) > _MAX_NAME:
            return
        if native_session_id != self._told.native_session_id:
            self._told.native_session_id = native_session_id
            self._emit(SessionStarted(native_session_id, model))

    def served_model(self, model: str) -> None:
        """The model that really answered (R-CON-9)."""
        self._told.model = self._name(model)

    def usage(self, input_tokens: int, output_tokens: int) -> None:
        """Tokens used so far in this turn; a number that cannot be one is brought into bounds."""
        self._told.usage = Usage(_tokens(input_tokens), _tokens(output_tokens))

    def credential_doubted(self) -> None:
        """The agent says that it signs in otherwise than the launch's descriptor: health stays with the profile (R-CIR-3)."""
        self._told.credential_doubted = True

    def http_status(self, status: int) -> None:
        """The HTTP status that the provider answered with."""
        self._told.http_status = status

    def exited(self, code: int | None, signal: str | None) -> None:
        """The agent's process ended."""
        self._told.exit_code, self._told.exit_signal = code, signal

    def succeeded(self, stop_reason: str) -> None:
        """The agent says that the turn is done. Not believed after a failure."""
        if self._told.outcome is AttemptOutcome.FAILED:
            return
        self._told.outcome, self._told.stop_reason = AttemptOutcome.SUCCESS, self._name(stop_reason)

    def failed(self, stop_reason: str | None = None) -> None:
        """The turn failed. A failure is never turned back into a success; why a turn was given up stays."""
        if self.over:
            return
        self._told.outcome = AttemptOutcome.FAILED
        self._told.stop_reason = None if stop_reason is None else self._name(stop_reason)

    def abandoned(self, stop_reason: str) -> None:
        """The agent will never end this turn by itself: it failed, and its process is ended now (R-CON-9).

        What it might have done next is not seen, and what it says while it is ended is no evidence of the provider's.
        """
        self.failed(stop_reason)
        self.incomplete()
        self.over = True

    def cancelled(self) -> None:
        """The turn ended because it was asked to."""
        self._told.outcome, self._told.stop_reason = AttemptOutcome.CANCELLED, "cancelled"

    # What is known ------------------------------------------------------------------------------------------------------

    def _name(self, text: str) -> str:
        """Return a word of the agent's as it may be kept: clean and short (R-EVI-2, R-EVI-5)."""
        return self._cleaner.text(text[:_MAX_READ])[:_MAX_NAME]

    @property
    def effects(self) -> Effects:
        """The effect marks so far."""
        return self._ledger.effects

    @property
    def outcome(self) -> AttemptOutcome | None:
        """How the extractor has said that the turn ended, or None."""
        return self._told.outcome

    @property
    def stop_reason(self) -> str | None:
        """Why, in the agent's words."""
        return self._told.stop_reason

    @property
    def ended(self) -> bool:
        """Whether the extractor has said how the turn ended."""
        return self._told.outcome is not None

    @property
    def credential_is_doubted(self) -> bool:
        """Whether the agent contradicted its launch's descriptor."""
        return self._told.credential_doubted

    @property
    def has_usage(self) -> bool:
        """Whether the agent reported tokens: the provider answered something."""
        return self._told.usage is not None and (self._told.usage.input_tokens + self._told.usage.output_tokens) > 0

    def report(self, observed_at: datetime) -> TurnReport:
        """Return the turn as it stands. Nothing said of the end means that it failed."""
        told, effects = self._told, self._ledger.effects
        context = self._context
        evidence = Evidence(
            family=context.family,
            phase=self.phase,
            signals=(),
            observed_at=observed_at,
            local_zone=context.local_zone,
            http_status=told.http_status,
            exit_code=told.exit_code,
            exit_signal=told.exit_signal,
            effects=effects,
            provider_id=context.provider_id,
            model_id=told.model or context.model_id,
            session_id=context.session_id,
            generation=context.generation,
            prompt=context.prompt,
            attempt_id=context.attempt_id,
        )
        signals = self._collector.signals(facts=len(evidence.model_dump_json().encode()) + _MAX_COUNT)
        evidence = evidence.model_copy(update={"signals": signals, "dropped": self._collector.dropped})
        return TurnReport(
            outcome=told.outcome or AttemptOutcome.FAILED,
            stop_reason=told.stop_reason,
            text=told.text.getvalue(),
            effects=effects,
            evidence=evidence,
            usage=told.usage,
            model=told.model,
            native_session_id=told.native_session_id,
            inner_retries=told.inner_retries,
            credential_doubted=told.credential_doubted,
        )


def _tokens(count: int) -> int:
    return min(max(count, 0), _MAX_TOKENS)

"""Hands events to an adapter's extractor without trusting it, and tells when the first sign of the turn came back."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from kandev_routing_sdk.evidence.collector import WHOLE, Torn
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.process.limits import ProcessLimits
from kandev_routing_sdk.process.lines import Line
from kandev_routing_sdk.spec.adapter import AgentEvent, Extractor, StderrLine
from kandev_routing_sdk.types import Channel, Delivery

OnFirstSign = Callable[[], Awaitable[None] | None]


async def call_host(result: Awaitable[None] | None) -> None:
    """Finish a host callback that may or may not be a coroutine function."""
    if inspect.isawaitable(result):
        await result


def violation(turn: TurnRecord, what: str, reason: str) -> None:
    """Note that the agent broke its protocol or its bounds; ``what`` is a sentence of ours and quotes nothing of it."""
    turn.signal(
        Signal(channel=Channel.AGENT_NOTICE, text=what, code="protocol_violation", data={"violation": reason}),
    )


class TurnFeed:
    """One extractor, one turn."""

    def __init__(
        self, extractor: Extractor, turn: TurnRecord, on_first_sign: OnFirstSign | None, limits: ProcessLimits
    ) -> None:
        self._extractor = extractor
        self.turn: Final = turn
        self._on_first_sign = on_first_sign
        self._limits = limits
        self.broken: Final = asyncio.Event()
        """The adapter raised; nothing more is given to it."""
        self.ended: Final = asyncio.Event()
        """The extractor said how the turn ended."""
        self.over: Final = asyncio.Event()
        """The agent is to be ended at once: it would never end the turn itself, or its adapter is broken."""
        self.signed: Final = asyncio.Event()
        """The first sign of the turn came back."""

    async def receive(self, event: AgentEvent) -> None:
        """Give one event to the extractor. Raises only what the host's own callback raises."""
        if not self.broken.is_set():
            try:
                self._extractor.receive(event, self.turn)
            except Exception as exc:  # noqa: BLE001  # R-PLG-2: an adapter's fault is the turn's, not the router's
                self._adapter_failed(exc)
        if self.turn.ended:
            self.ended.set()
        if self.turn.over:
            self.over.set()
        if not self.signed.is_set() and self.turn.effects.delivery is Delivery.ACKNOWLEDGED:
            self.signed.set()
            if self._on_first_sign is not None:
                await call_host(self._on_first_sign())

    async def stderr(self, line: Line) -> None:
        """Pass on standard error, all of it: what decides may stand anywhere (R-EVI-2), and the turn's record has the bounds."""
        self.turn.torn = Torn(start=line.rest, end=line.truncated)
        try:
            await self.receive(StderrLine(line.text, truncated=line.truncated))
        finally:
            self.turn.torn = WHOLE

    def _adapter_failed(self, exc: Exception) -> None:
        self.turn.incomplete()
        self.turn.signal(
            Signal(
                channel=Channel.AGENT_NOTICE,
                text="the adapter could not interpret what its agent said",
                code="adapter",
                data={"adapter_error": type(exc).__name__},
            )
        )
        self.turn.failed("adapter_error")
        self.broken.set()
        self.over.set()

    async def hopeless(self, first_sign_s: float | None) -> None:
        """Return when the agent is to be ended: it, its adapter or the prompt's silence is beyond hope (R-CON-9)."""
        with anyio.move_on_after(first_sign_s) as scope:
            await _first_of(self.signed, self.over)
        if scope.cancelled_caught:
            violation(self.turn, f"nothing of the turn came back within {first_sign_s:g} s", "silence")
            self.turn.abandoned("silence")
            self.over.set()
        await self.over.wait()


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()

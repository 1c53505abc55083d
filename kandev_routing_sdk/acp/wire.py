"""Between the process's lines and the extractor: parses, matches, answers, and keeps out what is not of this turn."""

from __future__ import annotations

import asyncio
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.acp import messages
from kandev_routing_sdk.acp.asked import Asked
from kandev_routing_sdk.acp.capabilities import Capabilities
from kandev_routing_sdk.acp.peer import Message, Peer, parse_message
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.updates import CapabilitiesUpdate
from kandev_routing_sdk.process.child import Child
from kandev_routing_sdk.process.feed import TurnFeed, violation
from kandev_routing_sdk.process.limits import ProcessLimits
from kandev_routing_sdk.process.lines import Line
from kandev_routing_sdk.spec.acp import SESSION_UPDATES, Frame, as_object, as_text
from kandev_routing_sdk.spec.adapter import AcpFrame, LaunchPlan
from kandev_routing_sdk.spec.client import CLIENT_EFFECTS, CLIENT_REQUESTS, NOBODY, HostSide
from kandev_routing_sdk.types import Channel

_QUOTED: Final = 3
"""Garbage lines that are kept as (harmless) evidence; the others are counted."""
_HEAD: Final = 4096
_EXCERPT: Final = 500


class Wire:
    """The conversation with one agent process.

    Every message goes to the extractor as it is, before any schema (an unknown or malformed one may be an effect), except those of
    another session and those that a ``session/load`` replays.
    """

    def __init__(self, plan: LaunchPlan, feed: TurnFeed, limits: ProcessLimits, host: HostSide = NOBODY) -> None:
        self._limits: Final = limits
        self._child: Child | None = None
        self.peer: Final = Peer(self._send)
        self.asked: Final = Asked(plan, host, self._reply)
        self.feed: TurnFeed = feed
        self.session_id: str | None = None
        self.capabilities: Final = Capabilities()
        self.settled: Final = asyncio.Event()
        """The prompt is answered, or will not be."""
        self.lines: int = 0
        self.stale: int = 0
        self.replays: bool = False
        """A load was asked for: until the prompt is sent, what its agent tells is the past (R-CON-2)."""
        self._known: dict[str, JsonValue] = {}
        self._garbage = 0
        self._prompted = False

    def attach(self, child: Child) -> None:
        """Write to this process."""
        self._child = child

    def turn_to(self, feed: TurnFeed) -> TurnFeed:
        """From now on what comes belongs to the prompt's turn."""
        self.feed, self._prompted = feed, True
        self.asked.begin()
        if self.capabilities.value != self._known:
            feed.turn.update(CapabilitiesUpdate(self.capabilities.value))
        if not self.peer.closed:
            self.settled.clear()
        return feed

    def opened(self) -> dict[str, JsonValue]:
        """Return what the session can do; what changes from here on is told with the turn."""
        self._known = self.capabilities.value
        return self._known

    async def call(self, call: messages.Call) -> Message | None:
        """Send a request and wait for its response; None when there will be none."""
        return await self.peer.request(call)

    def close(self) -> None:
        """Nothing more will come."""
        self.asked.end()
        self.peer.close()
        self.settled.set()

    # Lines --------------------------------------------------------------------------------------------------------------

    async def on_stderr(self, line: Line) -> None:
        """Pass a line of standard error on."""
        await self.feed.stderr(line)

    async def on_stdout(self, line: Line) -> None:
        """Handle one line of standard output."""
        self.lines += 1
        if line.truncated:
            self._overlong(line)
        elif line.text.strip():
            message = parse_message(line.text)
            if message is None:
                self._no_message(line)
            else:
                await self._receive(message)
        if self.feed.broken.is_set():
            self.close()

    def _overlong(self, line: Line) -> None:
        self.feed.turn.incomplete()
        violation(
            self.feed.turn, f"the agent sent a line of more than {self._limits.line_bytes} bytes", "line_too_long"
        )
        if '"method"' not in line.text[:_HEAD]:
            # it may have been the answer that we wait for: there will be no other
            self.feed.turn.failed("protocol_violation")
            self.close()

    def _no_message(self, line: Line) -> None:
        """A banner, or a damaged message. Before the prompt it means nothing; in its turn it may have been an effect."""
        turn = self.feed.turn
        self._garbage += 1
        if self._prompted:
            turn.incomplete()
        if self._garbage <= _QUOTED:
            violation(turn, "the agent wrote a line that is no message to standard output", "not_json_rpc")
            # whoever wrote it, it was not the runtime by its protocol: never failure evidence (R-EVI-6)
            turn.signal(Signal(channel=Channel.TOOL_OUTPUT, text=line.text[:_EXCERPT]))
        if self._garbage > self._limits.garbage_lines:
            violation(
                turn,
                f"the agent wrote more than {self._limits.garbage_lines} lines that are no messages",
                "garbage_flood",
            )
            turn.failed("protocol_violation")
            self.close()

    # Messages -----------------------------------------------------------------------------------------------------------

    async def _receive(self, message: Message) -> None:
        pending = self.peer.answered(message)
        if pending is not None:
            await self.feed.receive(AcpFrame(message, request=pending.method))
            if pending.method == "session/prompt":
                self.asked.end()
                self.settled.set()
            if not pending.answer.done():
                pending.answer.set_result(message)
        elif isinstance(message.get("method"), str):
            await self._spoken(message)
        elif "result" in message or "error" in message:
            self.stale += 1  # an answer to nothing, or a second one
        else:
            self._no_message(Line(str(message)[:_EXCERPT], truncated=False))

    async def _spoken(self, message: Message) -> None:
        params = as_object(message.get("params"))
        if self._is_foreign(params):
            self.stale += 1
            if self._prompted and _kind(as_object(params.get("update"))) not in SESSION_UPDATES:
                # it authorises nothing, but whoever acts in this process was started for this attempt
                self.feed.turn.incomplete()
            self._answer(message, foreign=True)
            return
        if message["method"] == "session/update":
            update = as_object(params.get("update"))
            if self.capabilities.update(update) and self._prompted:
                self.feed.turn.update(CapabilitiesUpdate(self.capabilities.value))
            if self._is_replay(update):
                return
        if "id" in message and message["method"] in CLIENT_REQUESTS:
            self.feed.turn.client_asked(effect=message["method"] in CLIENT_EFFECTS)
        await self.feed.receive(AcpFrame(message))
        self._answer(message)

    def _is_foreign(self, params: Frame) -> bool:
        named = as_text(params.get("sessionId"))
        return bool(named) and self.session_id is not None and named != self.session_id

    def _is_replay(self, update: Frame) -> bool:
        return self.replays and not self._prompted and _kind(update) not in SESSION_UPDATES

    def _answer(self, message: Message, *, foreign: bool = False) -> None:
        if "id" not in message:
            return
        if foreign:
            self.peer.reply(message, error={"code": messages.INVALID_PARAMS, "message": "No such session"})
        else:
            self.asked.take(message)

    def _reply(self, message: Message, result: JsonValue, error: JsonValue) -> bool:
        return self.peer.reply(message, result=result, error=error)

    def _send(self, data: bytes, droppable: bool) -> bool:  # noqa: FBT001  # the peer's callback
        return self._child is not None and self._child.send(data, droppable=droppable)


def _kind(update: Frame) -> str:
    return as_text(update.get("sessionUpdate"))

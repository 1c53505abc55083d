"""One agent process over the Agent Client Protocol (R-EVI-3, R-SAFE-6)."""

from __future__ import annotations

import asyncio

import anyio

from kandev_routing_sdk.acp.early import EarlyTurn
from kandev_routing_sdk.acp.handshake import Handshake
from kandev_routing_sdk.acp.messages import prompt as prompt_call
from kandev_routing_sdk.acp.wire import Wire
from kandev_routing_sdk.errors import LaunchError
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.process.child import Child
from kandev_routing_sdk.process.driver import AgentDriver
from kandev_routing_sdk.process.endings import launch_failed, note_child, note_exit, settle
from kandev_routing_sdk.process.feed import TurnFeed, call_host, violation
from kandev_routing_sdk.process.limits import ProcessLimits
from kandev_routing_sdk.spec.adapter import Exited, Extractor


class AcpDownstream(AgentDriver):
    """Drives one ACP agent for one attempt; implements :class:`~kandev_routing_sdk.ports.Downstream`.

    What the host's callbacks raise is raised by :meth:`start` or :meth:`prompt`; ``on_first_sign()`` is called when the first event
    of the turn came back after the prompt was sent. ``resume_session_id`` continues a native session of this very profile.
    """

    _wire: Wire | None = None
    _watcher: asyncio.Task[None] | None = None

    @property
    def stale_frames(self) -> int:
        """How many messages of other sessions were ignored (R-EVI-4)."""
        return self._wire.stale if self._wire is not None else 0

    # Downstream ---------------------------------------------------------------------------------------------------------

    async def start(self, turn: TurnRecord) -> Ready | None:
        """Spawn, initialise and make a session; see :class:`~kandev_routing_sdk.ports.Downstream`."""
        if self._asked_to_end():
            turn.cancelled()
            return None
        early = EarlyTurn(turn)
        wire = self._wire = Wire(
            self._plan, TurnFeed(self._extractor, early, None, self._limits), self._limits, self._host
        )
        try:
            child = await self._spawn(wire)
        except LaunchError as exc:
            launch_failed(turn, exc)
            return None
        try:
            if self._on_spawn is not None:
                await call_host(self._on_spawn(child.process_group, child.started_at))
            ready = None if self._asked_to_end() else await self._handshake(wire, early)
        except BaseException:
            await self._end(child)
            raise
        if ready is not None and wire.replays:
            await self._quiet(wire)  # the rest of the past may come late, and is not this turn's
        early.close()
        if ready is None or turn.ended:
            await self._gone(child, wire.feed, otherwise="no_session")
            if not child.gone:
                turn.incomplete()
            return None
        return ready

    async def prompt(self, text: str, turn: TurnRecord) -> None:
        """Send the prompt and wait for the response and the quiet after it; see :class:`~kandev_routing_sdk.ports.Downstream`."""
        child, wire = self._child, self._wire
        if self._asked_to_end():
            turn.cancelled()
            return
        if child is None or wire is None or wire.session_id is None:
            turn.failed("no_session")
            return
        feed = TurnFeed(self._extractor, turn, self._on_first_sign, self._limits)
        await self._exchange(child, wire, wire.turn_to(feed), text)

    async def ask(self, text: str, turn: TurnRecord, extractor: Extractor) -> bool:
        """Give the agent one more prompt after its turn, with a turn and an extractor of its own; whether it could take one.

        As :meth:`prompt` otherwise. Cancelling it ends the process.
        """
        child, wire = self._child, self._wire
        if self._asked_to_end() or child is None or wire is None or wire.session_id is None:
            return False
        if wire.peer.closed or child.ended:
            return False
        feed = TurnFeed(extractor, turn, None, self._limits)
        await self._exchange(child, wire, wire.turn_to(feed), text)
        return True

    async def _exchange(self, child: Child, wire: Wire, feed: TurnFeed, text: str) -> None:
        """One prompt, its answer, and the quiet after it."""
        turn, session_id = feed.turn, wire.session_id or ""
        giving_up = asyncio.create_task(_close_when_hopeless(feed, wire, self._plan.first_sign_s), name="hopeless turn")
        try:
            if not wire.peer.closed:
                turn.sent()
            response = await wire.call(prompt_call(session_id, text))
            if response is not None:
                await self._quiet(wire)
        except BaseException:
            await self._end(child)
            raise
        finally:
            giving_up.cancel()
        if response is None or child.failure is not None:
            await self._gone(child, feed, otherwise="agent_exited")
            return
        settle(turn, asked_to_cancel=self._asked_to_end(), otherwise="no_result")

    async def cancel(self) -> None:
        """Send ``session/cancel``; end the process when its answer does not come within ``cancel_grace_s``, or there is no turn."""
        self._cancel_asked = True
        child, wire = self._child, self._wire
        if child is None or wire is None:
            return
        if wire.session_id is not None and wire.peer.waits_for("session/prompt"):
            wire.peer.notify("session/cancel", {"sessionId": wire.session_id})
            wire.asked.end()
            with anyio.move_on_after(self._limits.cancel_grace_s):
                await wire.settled.wait()
                return
        await self._end(child)

    async def stop(self) -> None:
        """End and reap the whole process group; idempotent and shielded."""
        self._stop_asked = True
        if self._child is not None:
            await self._end(self._child)

    # Parts --------------------------------------------------------------------------------------------------------------

    async def _spawn(self, wire: Wire) -> Child:
        child = await self._spawn_child(wire.on_stdout, wire.on_stderr)
        wire.attach(child)
        self._watcher = asyncio.create_task(_close_at_end(child, wire, self._limits), name="agent end")
        return child

    async def _handshake(self, wire: Wire, early: EarlyTurn) -> Ready | None:
        ready = None
        with anyio.move_on_after(self._limits.handshake_s) as scope:
            ready = await Handshake(self._plan, wire, early, self._resume, self._host.offers).run()
        if scope.cancelled_caught:
            violation(early, f"the agent opened no session within {self._limits.handshake_s:g} s", "handshake_timeout")
            early.failed("handshake_timeout")
        return ready

    async def _quiet(self, wire: Wire) -> None:
        """Listen on until nothing has come for the plan's quiet period, bounded."""
        with anyio.move_on_after(self._limits.quiet_max_s) as scope:
            seen = -1
            while seen != wire.lines:
                seen = wire.lines
                await anyio.sleep(self._plan.acp.quiet_period_s)
        if scope.cancelled_caught:
            wire.feed.turn.incomplete()

    async def _gone(self, child: Child, feed: TurnFeed, *, otherwise: str) -> None:
        """The conversation is over before its time: end the process and say what is known."""
        if not feed.turn.over:
            with anyio.move_on_after(self._limits.pipe_grace_s):
                # an agent that closed its output is about to exit: its own exit is evidence, ours is not
                await child.wait_exited()
        by_itself = child.ended and not self._asked_to_end()
        await self._end(child, at_once=feed.turn.over)
        status, turn = await child.stop(), feed.turn
        note_child(turn, child, self._limits)
        if child.failure is not None:
            turn.failed("interrupted")
            raise child.failure
        if by_itself:
            note_exit(turn, status, eof=True)
        await feed.receive(Exited(status.code, status.signal, stopped=not by_itself))
        settle(turn, asked_to_cancel=self._asked_to_end(), otherwise=otherwise)

    async def _end(self, child: Child, *, at_once: bool = False) -> None:
        try:
            await child.stop(at_once=at_once)
        finally:
            if self._watcher is not None:
                self._watcher.cancel()
            if self._wire is not None:
                self._wire.close()


async def _close_when_hopeless(feed: TurnFeed, wire: Wire, first_sign_s: float | None) -> None:
    """Release whoever waits for the prompt's answer once the agent is beyond hope."""
    await feed.hopeless(first_sign_s)
    wire.close()


async def _close_at_end(child: Child, wire: Wire, limits: ProcessLimits) -> None:
    """Release whoever waits for an answer once there can be none."""
    end = asyncio.create_task(child.wait_stdout_end())
    exited = asyncio.create_task(child.wait_exited())
    deaf = asyncio.create_task(child.wait_deaf())
    try:
        await asyncio.wait({end, exited, deaf}, return_when=asyncio.FIRST_COMPLETED)
        if not (end.done() or exited.done()):
            # one that is about to exit closes its input first, and its own exit tells more
            await asyncio.wait({end, exited}, timeout=limits.pipe_grace_s, return_when=asyncio.FIRST_COMPLETED)
        if exited.done() and not end.done():
            await child.wait_quiet()
        elif not end.done():
            violation(
                wire.feed.turn, "the agent closed its standard input before it had read all of it", "input_closed"
            )
    finally:
        for wait in (end, exited, deaf):
            wait.cancel()
        wire.close()

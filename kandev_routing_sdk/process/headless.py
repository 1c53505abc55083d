"""A headless agent: one process for one prompt, which goes to standard input (R-SAFE-6: quiet is EOF and reap)."""

from __future__ import annotations

import asyncio

import anyio

from kandev_routing_sdk.errors import LaunchError
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.process.child import Child
from kandev_routing_sdk.process.driver import AgentDriver
from kandev_routing_sdk.process.endings import launch_failed, note_child, note_exit, settle
from kandev_routing_sdk.process.feed import TurnFeed, call_host
from kandev_routing_sdk.process.lines import Line
from kandev_routing_sdk.spec.adapter import Exited, StdoutLine


class HeadlessDownstream(AgentDriver):
    """Drives one headless agent for one attempt; implements :class:`~kandev_routing_sdk.ports.Downstream`.

    What the host's callbacks raise is raised by :meth:`prompt`.
    """

    async def start(self, turn: TurnRecord) -> Ready | None:
        """Return at once: a headless agent starts with its prompt."""
        del turn
        return Ready()

    async def prompt(self, text: str, turn: TurnRecord) -> None:
        """Run the agent on ``text`` until it is gone; see :class:`~kandev_routing_sdk.ports.Downstream`."""
        if self._asked_to_end():
            turn.cancelled()
            return
        feed = TurnFeed(self._extractor, turn, self._on_first_sign, self._limits)
        try:
            child = await self._spawn(feed)
        except LaunchError as exc:
            launch_failed(turn, exc)
            return
        by_itself = False
        try:
            await self._run(text, child, feed)
            by_itself = child.ended and not self._asked_to_end()
        finally:
            status = await child.stop(at_once=turn.over)
        note_child(turn, child, self._limits)
        if child.failure is not None:
            turn.failed("interrupted")
            raise child.failure
        if by_itself:
            note_exit(turn, status)
        await feed.receive(Exited(status.code, status.signal, stopped=not by_itself))
        settle(turn, asked_to_cancel=self._asked_to_end(), otherwise="no_result")

    async def cancel(self) -> None:
        """Interrupt the whole group; end it when it does not go within ``cancel_grace_s``."""
        self._cancel_asked = True
        if self._child is None:
            return
        await self._child.interrupt()
        with anyio.move_on_after(self._limits.cancel_grace_s):
            await self._child.wait_exited()
            return
        await self._child.stop()

    async def stop(self) -> None:
        """End and reap the whole process group; idempotent and shielded."""
        self._stop_asked = True
        if self._child is not None:
            await self._child.stop()

    async def _spawn(self, feed: TurnFeed) -> Child:
        async def on_stdout(line: Line) -> None:
            if line.truncated:
                feed.turn.incomplete()
            await feed.receive(StdoutLine(line.text, truncated=line.truncated))

        return await self._spawn_child(on_stdout, feed.stderr)

    async def _run(self, text: str, child: Child, feed: TurnFeed) -> None:
        if not self._plan.stdin_prompt:
            feed.turn.sent()  # it travelled with the spawn
        if self._on_spawn is not None:
            await call_host(self._on_spawn(child.process_group, child.started_at))
        if self._asked_to_end():
            return
        if self._plan.stdin_prompt:
            feed.turn.sent()
            child.send(text.encode("utf-8", "replace"))
        child.close_stdin()
        hopeless = feed.hopeless(self._plan.first_sign_s)
        waits = [asyncio.create_task(wait) for wait in (child.wait_quiet(), self._lingered(feed), hopeless)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _lingered(self, feed: TurnFeed) -> None:
        """Return when an agent that said that its turn is over has had the time to go."""
        await feed.ended.wait()
        await anyio.sleep(self._limits.linger_s)

"""The worker: takes what is due, lost or free again, as much as it has room for, and drives it until it rests.

Any number of workers, in any number of processes and hosts, share one database and nothing else. A tick asks the store for a few
rows; what it costs does not depend on how many sessions wait (R-DUR-4). That nobody storms a provider that is back follows from two
bounds: one probe a resource over all workers, and so many sessions at once in each.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import anyio
from anyio.abc import TaskGroup

from kandev_routing_sdk.conductor import Engine, Tell, end_left, in_thread
from kandev_routing_sdk.conductor.engine import OWNER_LEASE_S
from kandev_routing_sdk.errors import PreconditionFailed, RoutingError, StoreError, UsageError
from kandev_routing_sdk.records import AttemptRecord, Claim
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.scheduler.probes import Prober
from kandev_routing_sdk.sessions import go_on, is_dynamic, reconsider, switch_flag

_log = logging.getLogger(__name__)

_PAGE: Final = 200
_ORDER: Final = (Claim.LOST, Claim.DUE, Claim.RECOVERED)
"""What somebody was at comes first: its user waits the longest."""
_CONCERNED: Final = (State.ACTION_REQUIRED, State.WAITING)
"""Where the settings, or the flag, may have left a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works."""

    max_sessions: int = 8
    """How many sessions it drives at once."""
    poll_s: float = 1.0
    """Seconds between two looks, give or take a quarter, so that workers do not look in step."""
    grace_s: float = 30.0
    """How long a stopping worker lets turns end by themselves; then their agents are ended and the sessions left to others."""
    until_idle: bool = False
    """End once there is nothing to do now."""


@dataclass(slots=True)
class WorkerReport:
    """What a worker did."""

    claimed: int = 0
    settled: int = 0
    """Sessions that came to rest here."""
    given_up: int = 0
    """Sessions that somebody else moved on, or that an error left to others."""
    probes: int = 0
    interrupted_calls: int = 0


class Worker:
    """One worker. Make it, :meth:`run` it, and set ``stop`` to end it gracefully."""

    def __init__(
        self,
        engine: Engine,
        options: WorkerOptions,
        tell: Callable[[str], Tell],
        stop: anyio.Event | None = None,
        report: WorkerReport | None = None,
    ) -> None:
        if options.max_sessions < 1 or options.poll_s <= 0 or options.grace_s < 0:
            raise UsageError("max_sessions must be at least 1, poll_s positive, and grace_s not negative")
        self._engine, self._options, self._tell = engine, options, tell
        self._running: set[str] = set()
        self._prober = Prober(engine)
        self._caught_up = False
        self._failed: StoreError | None = None
        self.report = report or WorkerReport()
        self.stop = stop or anyio.Event()

    async def run(self) -> WorkerReport:
        """Work until ``stop`` is set (or there is nothing to do, if that was wanted).

        A database that restarts does not end a worker: it tries again. One that was to work until there is nothing to do raises
        :class:`~kandev_routing_sdk.errors.StoreError` instead, for it cannot know.
        """
        async with self._sessions() as group:
            group.start_soon(self._catch_up)
            while not self.stop.is_set():
                took = await self._tick(group)
                idle = self._caught_up and not took and not self._running
                if self._failed is not None or (idle and self._options.until_idle):
                    break
                await self._pause()
        if self._failed is not None:
            raise self._failed
        return self.report

    @asynccontextmanager
    async def _sessions(self) -> AsyncIterator[TaskGroup]:
        """Room for sessions; at the end those that run have a while to come to rest."""
        async with anyio.create_task_group() as group:
            try:
                yield group
            finally:
                group.start_soon(self._drain, group)

    async def _drain(self, group: TaskGroup) -> None:
        with anyio.move_on_after(self._options.grace_s):
            while self._running:  # noqa: ASYNC110  # not one event: whoever is the last
                await anyio.sleep(0.05)
        group.cancel_scope.cancel()

    async def _tick(self, group: TaskGroup) -> bool:
        """Take what there is room for; whether there was anything."""
        try:
            took = await self._take(group)
            if self._engine.dynamic_enabled:  # flag off: probes stop (R-RES-4)
                self.report.probes += await self._prober.tick()
        except StoreError as problem:
            self._unreachable(problem)
            return True
        return took

    def _unreachable(self, problem: StoreError) -> None:
        if self._options.until_idle:
            self._failed = problem
        _log.warning("a look at the durable state failed; trying again: %s", problem)

    async def _take(self, group: TaskGroup) -> bool:
        engine, took = self._engine, False
        interrupted = await in_thread(engine.store.interrupt_calls, now=engine.clock.now())
        self.report.interrupted_calls += interrupted.calls
        for attempt in interrupted.attempts:
            group.start_soon(self._end_orphan, attempt)
        for why in _ORDER:
            room = self._options.max_sessions - len(self._running)
            if room <= 0:
                break
            now = engine.clock.now()
            found = await in_thread(
                engine.store.claim,
                why,
                now=now,
                owner_id=engine.new_owner(),
                until=now + timedelta(seconds=OWNER_LEASE_S),
                limit=room,
            )
            for route in found:
                took = True
                self.report.claimed += 1
                self._running.add(route.session_id)
                group.start_soon(self._drive, route, why)
        return took

    async def _end_orphan(self, attempt: AttemptRecord) -> None:
        """End the agent of a call whose process died (R-CON-11); nothing waits for it, for a call is never re-armed."""
        if not await end_left(self._engine, attempt):
            _log.warning("the agent of attempt %s could not be proven gone", attempt.attempt_id)

    async def _drive(self, route: Route, why: Claim) -> None:
        try:
            if not self._engine.dynamic_enabled and is_dynamic(self._engine, route):
                await switch_flag(self._engine, route)
            else:
                await go_on(self._engine, route, self._tell(route.session_id), why)
            self.report.settled += 1
        except PreconditionFailed as moved:
            self.report.given_up += 1
            _log.info("session %s was moved on by somebody else: %s", route.session_id, moved)
        except RoutingError as problem:
            self.report.given_up += 1
            _log.warning("session %s is left to others: %s", route.session_id, problem)
        except Exception as problem:  # noqa: BLE001  # one session's fault must not end the others; its text may hold anything
            self.report.given_up += 1
            _log.error("session %s is left to others (%s)", route.session_id, type(problem).__name__)
        finally:
            self._running.discard(route.session_id)

    async def _pause(self) -> None:
        seconds = self._options.poll_s * (0.75 + 0.5 * self._engine.ids.uniform())
        with anyio.move_on_after(seconds):  # real time, whatever the clock: a poll is about other processes
            await self.stop.wait()

    async def _catch_up(self) -> None:
        """Bring stored sessions in line with flag and settings, once: a router reads them when it opens (R-RES-4, R-ENG-6)."""
        states = _CONCERNED if self._engine.dynamic_enabled else tuple(s for s in State if s is not State.STOPPED)
        last: Route | None = None
        while not self._caught_up and self._failed is None:
            try:
                page = await in_thread(self._engine.store.sessions, states=states, before=last, limit=_PAGE)
                for route in page:
                    await self._bring_in_line(route)
                    last = route
                self._caught_up = not page
            except StoreError as problem:
                self._unreachable(problem)
                await self._pause()

    async def _bring_in_line(self, route: Route) -> None:
        engine = self._engine
        owned = route.owner_until is not None and route.owner_until > engine.clock.now()
        if route.kind != "session" or owned:
            return
        try:
            if engine.dynamic_enabled and route.prior_state is None:
                await reconsider(engine, route)
            elif engine.dynamic_enabled or is_dynamic(engine, route):
                await switch_flag(engine, route)
        except PreconditionFailed:
            _log.info("session %s was moved on by somebody else", route.session_id)

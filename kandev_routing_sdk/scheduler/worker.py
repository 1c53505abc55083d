"""The worker: takes what is due, lost or free again, as much as it has room for, and drives it until it rests.

Any number of workers, in any number of processes and hosts, share one database and nothing else. A tick asks the store for a few
rows; what it costs does not depend on how many sessions wait (R-DUR-4). That nobody storms a provider that is back follows from two
bounds: one probe a resource over all workers, and so many sessions at once in each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from kandev_routing_sdk.conductor import Engine, Tell, end_left, folder_problem, in_thread
from kandev_routing_sdk.conductor.engine import HEARTBEAT_S, OWNER_LEASE_S
from kandev_routing_sdk.errors import PreconditionFailed, RoutingError, StoreError, UsageError
from kandev_routing_sdk.records import AttemptRecord, Claim
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.scheduler.keeper import Keeper
from kandev_routing_sdk.scheduler.probes import Prober
from kandev_routing_sdk.sessions import LEAVE_S, go_on, is_dynamic, switch_flag
from kandev_routing_sdk.telemetry import Stale, fields, get_logger, problem_fields

_log = get_logger(__name__)

_ORDER: Final = (Claim.LOST, Claim.DUE, Claim.RECOVERED)
PATIENCE_S: Final = HEARTBEAT_S + 5
"""For so many seconds after a sleep of the machine nobody is taken for dead: owners that woke up, too, renew meanwhile."""
_ABANDONED: Final = timedelta(minutes=10)
"""A session that works in a folder of another machine is left to that machine's workers for so long."""


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
    """Sessions that it took."""
    settled: int = 0
    """Sessions that came to rest here."""
    given_up: int = 0
    """Sessions that somebody else moved on, or that an error left to others."""
    probes: int = 0
    """Circuits that it asked."""
    interrupted_calls: int = 0
    """Utility calls whose process died."""


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
        self._running: dict[str, str] = {}
        """The sessions that are driven here, and under which owner."""
        self._order = list(_ORDER)
        self._looked: tuple[datetime, float] | None = None
        self._patient_until = 0.0
        self._caught_up = False
        self._failed: StoreError | None = None
        self.report: WorkerReport = report or WorkerReport()
        self.stop: anyio.Event = stop or anyio.Event()

    async def run(self) -> WorkerReport:
        """Work until ``stop`` is set (or there is nothing to do, if that was wanted).

        A database that restarts does not end a worker: it tries again. One that was to work until there is nothing to do raises
        :class:`~kandev_routing_sdk.errors.StoreError` instead, for it cannot know.
        """
        keeper, prober = Keeper(self._engine), Prober(self._engine)
        async with self._sessions() as group:
            if not self._options.until_idle:
                group.start_soon(keeper.keep, self.stop)
                group.start_soon(self._probe, prober)
            while not self.stop.is_set():
                busy = await self._tick(group)
                if self._options.until_idle:
                    busy = await self._once(keeper, prober) or busy or bool(self._running) or self._is_patient
                    if self._failed is not None or not busy:
                        break
                await self._pause()
        if self._failed is not None:
            raise self._failed
        return self.report

    async def _once(self, keeper: Keeper, prober: Prober) -> bool:
        """What a standing worker does beside its looks, once; whether anything may have come of it."""
        moved = False
        if not self._caught_up:
            try:
                moved = await keeper.catch_up()
            except StoreError as problem:
                self._failed = problem
                return True
            await keeper.end_strays()
            self._caught_up = True
        asked = await prober.tick() if self._engine.dynamic_enabled else 0
        self.report.probes += asked
        return moved or asked > 0

    async def _probe(self, prober: Prober) -> None:
        """Ask circuits beside everything else: a slow answer must not keep sessions waiting. Flag off: probes stop (R-RES-4)."""
        while self._engine.dynamic_enabled and not self.stop.is_set():
            self.report.probes += await prober.tick()
            await self._pause()

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
            await self._wake_up()
            return await self._take(group)
        except StoreError as problem:
            if self._options.until_idle:
                self._failed = problem
            _log.warning("a look at the durable state failed; trying again", extra=problem_fields(problem))
            return True

    async def _wake_up(self) -> None:
        """After a sleep of the machine, or a jump of its clock, every owner looks dead: renew our leases first (R-DUR-5)."""
        now, real = self._engine.clock.now(), anyio.current_time()
        before, self._looked = self._looked, (now, real)
        if (
            before is None
            or max((now - before[0]).total_seconds(), real - before[1]) < self._options.poll_s + HEARTBEAT_S
        ):
            return
        self._patient_until = real + PATIENCE_S
        until = now + timedelta(seconds=OWNER_LEASE_S)
        for session_id, owner_id in list(self._running.items()):
            renew = partial(self._engine.store.renew, owner_id=owner_id, until=until, lease_token=None, now=now)
            await in_thread(renew, session_id)

    @property
    def _is_patient(self) -> bool:
        return anyio.current_time() < self._patient_until

    async def _take(self, group: TaskGroup) -> bool:
        engine, took = self._engine, False
        interrupted = await in_thread(engine.store.interrupt_calls, now=engine.clock.now())
        self.report.interrupted_calls += interrupted.calls
        engine.telemetry.interrupted(interrupted.calls)
        for attempt in interrupted.attempts:
            group.start_soon(self._end_orphan, attempt)
        self._order.append(
            self._order.pop(0)
        )  # each kind comes first in turn, so that none can keep the others waiting
        for why in self._order:
            room = self._options.max_sessions - len(self._running)
            if room <= 0:
                break
            if (why is Claim.LOST and self._is_patient) or (why is Claim.RECOVERED and not engine.dynamic_enabled):
                continue
            now = engine.clock.now()
            until = now + timedelta(seconds=OWNER_LEASE_S)
            owner_id = engine.new_owner()
            found = await in_thread(engine.store.claim, why, now=now, owner_id=owner_id, until=until, limit=room)
            for route in found:
                took = True
                self.report.claimed += 1
                self._running[route.session_id] = owner_id
                group.start_soon(self._drive, route, why)
        return took

    async def _end_orphan(self, attempt: AttemptRecord) -> None:
        """End the agent of a call whose process died (R-CON-11); nothing waits for it, for a call is never re-armed."""
        if not await end_left(self._engine, attempt):
            _log.warning(
                "an agent could not be proven gone",
                extra=fields(session_id=attempt.session_id, attempt_id=attempt.attempt_id),
            )

    async def _drive(self, route: Route, why: Claim) -> None:
        try:
            await self._move(route, why)
            self.report.settled += 1
        except PreconditionFailed as moved:
            self.report.given_up += 1
            self._engine.telemetry.dropped(Stale.TIMER)
            _log.info(
                "a session was moved on by somebody else", extra=problem_fields(moved, session_id=route.session_id)
            )
        except RoutingError as problem:
            self.report.given_up += 1
            _log.warning("a session is left to others", extra=problem_fields(problem, session_id=route.session_id))
        except Exception as problem:  # noqa: BLE001  # one session's fault must not end the others; its text may hold anything
            self.report.given_up += 1
            _log.error("a session is left to others", extra=problem_fields(problem, session_id=route.session_id))
        finally:
            if self._running.get(route.session_id) == route.owner_id:
                del self._running[route.session_id]

    async def _move(self, route: Route, why: Claim) -> None:
        engine = self._engine
        off = not engine.dynamic_enabled and await in_thread(is_dynamic, engine, route)
        if off or (route.prior_state is not None and engine.dynamic_enabled):
            await switch_flag(engine, route)
        elif self._is_another_machines(route):
            at = engine.clock.now() + timedelta(seconds=LEAVE_S)
            await in_thread(engine.store.release, route.session_id, owner_id=route.owner_id or "", at=at)
        else:
            await go_on(engine, route, self._tell(route.session_id), woken=why is not Claim.LOST)

    def _is_another_machines(self, route: Route) -> bool:
        """Whether its folder is not here, and a worker of another machine may still come for it."""
        missing = route.cwd is not None and folder_problem(Path(route.cwd)) is not None
        free_since = max(route.updated_at, route.deadline or route.updated_at)
        return missing and self._engine.clock.now() - free_since < _ABANDONED

    async def _pause(self) -> None:
        seconds = self._options.poll_s * (0.75 + 0.5 * self._engine.ids.uniform())
        with anyio.move_on_after(seconds):  # real time, whatever the clock: a poll is about other processes
            await self.stop.wait()

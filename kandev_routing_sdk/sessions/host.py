"""Sessions that are driven in this process, by tasks that outlive whoever asked (R-CON-10, R-CON-11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import anyio

from kandev_routing_sdk.conductor import Drive, Engine, in_thread
from kandev_routing_sdk.conductor.engine import OWNER_LEASE_S
from kandev_routing_sdk.errors import PreconditionFailed, RoutingError, StoreError, StoreUnavailable, TurnInProgress
from kandev_routing_sdk.records import Claim
from kandev_routing_sdk.route.guards import is_at_rest
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.sessions.actions import stop_session
from kandev_routing_sdk.sessions.crew import Crew
from kandev_routing_sdk.sessions.feed import EventFeed
from kandev_routing_sdk.sessions.life import Order, begin_session, go_on, is_dynamic, keep_going, silent, switch_flag
from kandev_routing_sdk.telemetry import Stale, get_logger, problem_fields

_log = get_logger(__name__)

_WAITS: Final = frozenset({State.RETRY_WAIT, State.WAITING_FOR_RESET, State.WAITING})
Request = Callable[[], Awaitable[Drive | None]]
"""Makes something durable that a person asked for; returns what goes on from there, or None: it was carried out before."""
_LEAST_S: Final = 0.01
_SLOWLY: Final = 4
"""In every so many looks it is also looked whether what a session waits for is back before its time."""


class Asked:
    """What came of a request that a task of its own carries out."""

    def __init__(self, session_id: str = "") -> None:
        self._session_id = session_id
        self._settled = anyio.Event()
        self._route: Route | None = None
        self._problem: BaseException | None = None
        self._told = self._dropped = False
        self.after: int = 0
        """The newest event before it."""

    def done(self, route: Route | None) -> None:
        """It is durable; None: it was before."""
        self._route = route
        self._settled.set()

    def refused(self, problem: BaseException) -> None:
        """It was not carried out; nothing new once it is settled."""
        if not self._settled.is_set():
            self._problem = problem
            self._settled.set()
            self._say()

    def dropped(self) -> None:
        """Nobody will wait for it any more: why it was refused is logged instead, unless that was told."""
        self._dropped = True
        self._say()

    def _say(self) -> None:
        if self._dropped and self._problem is not None and not self._told:
            self._told = True
            _log.warning(
                "a prompt was refused, and nobody asked why",
                extra=problem_fields(self._problem, session_id=self._session_id),
            )

    async def wait(self) -> Route | None:
        """Wait until it is settled. Whoever is cancelled here changes nothing: it is carried out."""
        await self._settled.wait()
        if self._problem is not None:
            self._told = True
            raise self._problem
        return self._route


class SessionHost:
    """Drives sessions here: their turns, and what they wait for in between."""

    def __init__(self, engine: Engine, crew: Crew, feed: EventFeed, *, poll_s: float) -> None:
        self.engine: Engine = engine
        self.feed: EventFeed = feed
        self._crew, self._poll_s = crew, poll_s
        self._watches: dict[str, object] = {}
        """Who waits for a session here: the newest only."""

    async def start(self, order: Order) -> Route:
        """Begin a session and go on with it here; one without a prompt first comes to rest, for it can be asked then."""
        asked = Asked()
        self._crew.start(self._start(order, asked))
        route = await asked.wait()
        assert route is not None  # noqa: S101  # it was begun
        return route

    def ask(self, session_id: str, request: Request) -> Asked:
        """Carry out a person's request and go on with the session here, whatever becomes of who asked."""
        asked = Asked(session_id)
        self._crew.start(self._ask(session_id, request, asked))
        return asked

    def take_up(self, session_id: str) -> None:
        """See a session through here that nobody goes on with, unless that is being done already."""
        if session_id not in self._watches:
            self._crew.start(self._see_through(session_id, None))

    async def _start(self, order: Order, asked: Asked) -> None:
        begun: Route | None = None
        try:
            route = begun = await begin_session(self.engine, order, here=True)
            if order.prompt is None:
                route = await go_on(self.engine, route, silent)
            asked.done(route)
        except Exception as problem:  # noqa: BLE001  # raised where it was asked for
            if begun is not None:
                await self._take_back(begun.session_id)
            asked.refused(problem)
            return
        finally:
            asked.refused(_closed())
        await self._see_through(route.session_id, None if order.prompt is None else go_on(self.engine, route, silent))

    async def _take_back(self, session_id: str) -> None:
        """Stop a session that nobody learns the id of, and that was asked nothing."""
        try:
            await stop_session(self.engine, session_id, silent)
        except RoutingError as problem:
            _log.warning("a session that was refused is left", extra=problem_fields(problem, session_id=session_id))

    async def _ask(self, session_id: str, request: Request, asked: Asked) -> None:
        try:
            asked.after = await in_thread(self.engine.store.last_sequence)
            drive = await request()
            asked.done(None if drive is None else drive.route)
        except TurnInProgress as problem:
            asked.refused(problem)
            if session_id not in self._watches:  # somebody else's, who may be dead: then it is settled here (R-DUR-3)
                await self._see_through(session_id, None)
            return
        except Exception as problem:  # noqa: BLE001  # as above
            asked.refused(problem)
            return
        finally:
            asked.refused(_closed())
        if drive is not None:
            await self._see_through(session_id, keep_going(drive))

    async def _see_through(self, session_id: str, moving: Awaitable[Route] | None) -> None:
        """Go on with a session until a person is needed or its turn is over: through waits, and behind owners that died."""
        watch = self._watches[session_id] = object()
        looks = 0
        try:
            while True:
                if moving is not None:
                    await self._move(session_id, moving, timer=looks > 0)
                if self._watches.get(session_id) is not watch:
                    return  # somebody asked for something else meanwhile, and goes on from there
                pause, moving = await self._next(session_id, patient=looks % _SLOWLY != 0)
                if moving is None and pause is None:
                    return
                looks += 1
                if pause is not None:
                    await anyio.sleep(pause)  # real time, whatever the clock: others may move it, too
        finally:
            if self._watches.get(session_id) is watch:
                del self._watches[session_id]

    async def _move(self, session_id: str, moving: Awaitable[Route], *, timer: bool) -> None:
        """Go on, whatever comes of it. ``timer``: it was time to, and nobody asked (R-ENG-9)."""
        try:
            await moving
        except PreconditionFailed as moved:
            if timer:
                self.engine.telemetry.dropped(Stale.TIMER)
            _log.info("a session was moved on by somebody else", extra=problem_fields(moved, session_id=session_id))
        except RoutingError as problem:
            _log.warning("a session is left alone for a while", extra=problem_fields(problem, session_id=session_id))
        except Exception as problem:  # noqa: BLE001  # a host's own parts; their text may hold anything
            _log.error("a session is left alone for a while", extra=problem_fields(problem, session_id=session_id))

    async def _is_concerned(self, route: Route, now: datetime) -> bool:
        """Whether the feature flag, which has another position than the session was left at, is this session's (R-RES-4)."""
        owned = route.owner_until is not None and route.owner_until > now
        if owned or route.state is State.STOPPED:
            return False
        return self.engine.dynamic_enabled or await in_thread(is_dynamic, self.engine, route)

    async def _in_line(self, route: Route) -> Route:
        await switch_flag(self.engine, route)
        return route

    async def _next(self, session_id: str, *, patient: bool) -> tuple[float | None, Awaitable[Route] | None]:
        """Return how long to wait, or what to do; neither: the turn is over, or a person's."""
        engine, now = self.engine, self.engine.clock.now()
        try:
            route = await in_thread(engine.store.load, session_id)
            if route is None:
                return None, None
            if engine.dynamic_enabled is not (route.prior_state is None) and await self._is_concerned(route, now):
                return None, self._in_line(route)
            if _is_over(route) or (not engine.dynamic_enabled and await in_thread(is_dynamic, engine, route)):
                return None, None
            why = _claim_of(route, now, patient=patient)
            if why is not None:
                owner_id, until = engine.new_owner(), now + timedelta(seconds=OWNER_LEASE_S)
                claim = engine.store.claim
                found = await in_thread(claim, why, now=now, owner_id=owner_id, until=until, limit=1, only=session_id)
                if found:
                    return None, go_on(engine, found[0], silent, woken=why is not Claim.LOST)
        except StoreError as problem:
            _log.warning(
                "a session could not be looked at; trying again", extra=problem_fields(problem, session_id=session_id)
            )
            return self._poll_s, None
        except Exception as problem:  # noqa: BLE001  # as above
            _log.error(
                "a session could not be looked at; trying again", extra=problem_fields(problem, session_id=session_id)
            )
            return self._poll_s, None
        left = None if route.deadline is None else (route.deadline - now).total_seconds()
        return self._poll_s if left is None or left <= 0 else min(max(left, _LEAST_S), self._poll_s), None


def _is_over(route: Route) -> bool:
    return is_at_rest(route) and route.state not in _WAITS


def _claim_of(route: Route, now: datetime, *, patient: bool) -> Claim | None:
    """Why the session may be taken now; what it waits for may be back early, which is not looked for every time."""
    if route.owner_until is not None:
        return Claim.LOST if route.owner_until <= now else None
    if route.state not in _WAITS:
        return None
    if route.deadline is not None and route.deadline <= now:
        return Claim.DUE
    return None if patient else Claim.RECOVERED


def _closed() -> RoutingError:
    return StoreUnavailable(
        "the router was closed meanwhile; the session's events tell whether it was still carried out"
    )

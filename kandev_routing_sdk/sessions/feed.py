"""Live fan-out of durable events (R-CON-6): one reader for each process, and a bounded queue for each follower.

The store is the truth. The reader takes new events from it once, in order, for all followers. Whoever does not keep up loses the
queue, never an event: the store is read from that follower's own cursor until it is up to date again. Nobody waits for a follower.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self
from weakref import WeakSet

import anyio

from kandev_routing_sdk.conductor import alongside, in_thread
from kandev_routing_sdk.errors import StoreError, UsageError
from kandev_routing_sdk.events import EventRecord
from kandev_routing_sdk.ports import EventListener, Store
from kandev_routing_sdk.sessions.crew import Crew
from kandev_routing_sdk.telemetry import get_logger, problem_fields

_log = get_logger(__name__)

QUEUE: Final = 256
"""Events that wait for one follower."""
PAGE: Final = 256
_LISTENED_S: Final = 5.0
"""Seconds between two looks while somebody tells of new events, in case a word is lost."""
_AGAIN_S: Final = (0.5, 30.0)
"""How long to wait before listening again: at first, and at most."""


class EventStream:
    """The events of one session, or of all, from a cursor on: first those that there are, then those that come.

    Get one from :meth:`Session.events` or :meth:`Router.follow`. An async iterator that ends when it is closed. One that is
    dropped is forgotten; nothing has to be closed. Not for several tasks at once.
    """

    def __init__(
        self, feed: EventFeed, session_id: str | None, after: int, check: Callable[[], object] | None = None
    ) -> None:
        self._feed, self._session_id, self._check = feed, session_id, check
        self._cursor = after
        self._page: deque[EventRecord] = deque()
        self._queue: deque[EventRecord] = deque()
        self._behind, self._closed = True, False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()

    @property
    def cursor(self) -> int:
        """The ``sequence`` of the event that came last: where to go on from."""
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventRecord:
        """Return the next event. Raises :class:`~kandev_routing_sdk.errors.StoreError`; may be called again then."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # whoever handed events out was of another loop
            self._loop, self._news, self._behind = loop, asyncio.Event(), True
        while not self._closed and not self._feed.closed:
            waiting = self._page or (None if self._behind else self._queue)
            if waiting:
                event = waiting.popleft()
                if event.sequence > self._cursor:
                    self._cursor = event.sequence
                    return event
            elif self._behind:
                await self._catch_up()
            else:
                self._news.clear()
                await self._news.wait()
        raise StopAsyncIteration

    async def _catch_up(self) -> None:
        """Read the store. What is written from now on comes by the queue, so that nothing lies between the two."""
        try:
            await self._feed.attach(self)
            self._queue.clear()
            self._behind = False
            read = self._feed.store.events
            page = await in_thread(read, session_id=self._session_id, after=self._cursor, limit=PAGE)
            if not page and self._check is not None:
                await in_thread(self._check)
        except BaseException as problem:
            self._behind = True
            if isinstance(problem, StoreError) and self._feed.closed:
                return  # with its store: there is no more
            raise
        self._behind = self._behind or len(page) == PAGE
        self._page.extend(page)

    @property
    def session_id(self) -> str | None:
        """Whose events; None: everybody's."""
        return self._session_id

    def offer(self, event: EventRecord) -> None:
        """Take a new event, if there is room; never waits."""
        if self._behind:
            return
        if len(self._queue) >= QUEUE:
            self._queue.clear()
            self._behind = True
        else:
            self._queue.append(event)
        self._news.set()

    def wake(self) -> None:
        """Let whoever waits for an event look again."""
        self._news.set()

    async def aclose(self) -> None:
        """End it. Whoever waits for an event is told that there is none any more."""
        self._closed = True
        self._feed.detach(self)
        self.wake()


class EventFeed:
    """Reads new events of a store for all who follow them here. On one event loop at a time."""

    def __init__(self, store: Store, crew: Crew, *, poll_s: float) -> None:
        if poll_s <= 0:
            raise UsageError("poll_s must be positive")
        self.store: Store = store
        self._crew, self._poll_s = crew, poll_s
        self._followers: WeakSet[EventStream] = WeakSet()
        self.closed: bool = False
        """No stream goes on, whenever it was begun."""
        self._cursor = 0
        """Up to where events were handed out."""
        self._idle = self._listening = False
        """Nobody follows: the reader has nothing to do. Somebody tells of new events."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    def published(self) -> None:
        """Something was written in this process. From any thread."""
        loop = self._loop
        if loop is None or self._idle:
            return
        try:
            loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:  # its loop is over, and whoever followed there
            self._loop = None

    def follow(
        self, *, session_id: str | None = None, after: int = 0, check: Callable[[], object] | None = None
    ) -> EventStream:
        """Return the events behind the cursor ``after``, and then those that come. Where there are none yet, ``check`` is called
        before these are waited for: what it raises is the reader's.
        """
        return EventStream(self, session_id, after, check)

    async def attach(self, stream: EventStream) -> None:
        """Offer ``stream`` what is written from now on.

        Raises :class:`~kandev_routing_sdk.errors.UsageError` while events are followed on another event loop.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._loop.is_running():
                raise UsageError("a router's events are followed on one event loop at a time; open another router here")
            self._followers.clear()
            self._loop, self._wake, self._idle = loop, asyncio.Event(), True
            self._crew.start(self._read())
        if self._idle:
            last = await in_thread(self.store.last_sequence)
            if self._idle:  # nobody else came meanwhile
                self._cursor, self._idle = last, False
                self._wake.set()
        self._followers.add(stream)

    def detach(self, stream: EventStream) -> None:
        """Offer it nothing any more."""
        self._followers.discard(stream)

    def close(self) -> None:
        """End every stream; those that are on their way here, too. From any thread."""
        self.closed = True
        with suppress(RuntimeError):  # its loop is over, and whoever followed there
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for stream in list(self._followers):
            stream.wake()

    async def _read(self) -> None:
        """Hand out what is new, while somebody follows."""
        listener = self.store.listener()
        async with alongside(*([] if listener is None else [self._listen(listener)])):
            while True:
                self._wake.clear()
                self._idle = self._idle or not self._followers
                if self._idle:
                    await self._wake.wait()
                elif not await self._hand_out():
                    with anyio.move_on_after(_LISTENED_S if self._listening else self._poll_s):
                        await self._wake.wait()

    async def _hand_out(self) -> bool:
        """Hand out a page; whether there may be more. A store that fails is asked again a little later."""
        try:
            page = await in_thread(self.store.events, after=self._cursor, limit=PAGE)
        except StoreError as problem:
            _log.warning("new events could not be read; trying again", extra=problem_fields(problem))
            return False
        except Exception as problem:  # noqa: BLE001  # a host's own store; its text may hold anything
            _log.error("new events could not be read; trying again", extra=problem_fields(problem))
            return False
        whose: dict[str | None, list[EventStream]] = {}
        for stream in list(self._followers):
            whose.setdefault(stream.session_id, []).append(stream)
        for event in page:
            for stream in (*whose.get(event.session_id, ()), *whose.get(None, ())):
                stream.offer(event)
            self._cursor = event.sequence
        return len(page) == PAGE

    async def _listen(self, listener: EventListener) -> None:
        """Be told of what other processes write; while nobody tells, it is looked for more often."""
        first, most = _AGAIN_S
        wait = first

        def heard() -> None:
            nonlocal wait
            self._listening, wait = True, first
            self._wake.set()

        while True:
            try:
                await listener.listen(heard)
            except StoreError as problem:
                _log.warning("nobody tells of new events for a while", extra=problem_fields(problem))
            except Exception as problem:  # noqa: BLE001  # as above
                _log.error("nobody tells of new events for a while", extra=problem_fields(problem))
            self._listening = False
            self._wake.set()
            await anyio.sleep(wait)
            wait = min(2 * wait, most)

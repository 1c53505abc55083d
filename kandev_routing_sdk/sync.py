"""Sessions for scripts without an event loop: the same methods, blocking, over a loop in a thread of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.events import EventRecord
from kandev_routing_sdk.opening import in_event_loop
from kandev_routing_sdk.ports import AttemptRecord
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.router import Router
from kandev_routing_sdk.sessions import Action, EventStream, Session, Turn

_T = TypeVar("_T")
_NAME = "SyncRouter blocks; inside a running event loop use Router itself, with async with"


class SyncRouter:
    """A router whose sessions a script can use: ``with SyncRouter(Router.open()) as router: …``.

    What is driven runs in a thread of its own, and ends with the ``with``: agents are stopped, sessions left to others.

    Raises:
        UsageError: inside a running event loop, or outside of its ``with``.
    """

    router: Router
    """The router itself: for what blocks anyway (``explain``, ``events``, ``circuits``, …)."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self._exits: ExitStack | None = None
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        if in_event_loop():
            raise UsageError(_NAME)
        with ExitStack() as exits:
            portal = exits.enter_context(_portal())
            portal.call(self.router.__aenter__)
            exits.callback(portal.call, self.router.aclose)
            self._portal, self._exits = portal, exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        exits, self._exits, self._portal = self._exits, None, None
        if exits is not None:
            exits.close()

    @property
    def left(self) -> bool:
        """Whether its ``with`` is over, or not begun: then nothing can be asked of it."""
        return self._portal is None

    def call(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Await what ``work`` returns, on the router's event loop."""
        if in_event_loop():
            raise UsageError(_NAME)
        if self._portal is None:
            raise UsageError("SyncRouter is used inside its with: with SyncRouter(Router.open()) as router")
        return self._portal.call(work)

    def start_session(self, profile_id: str, *, cwd: str | Path, prompt: str | None = None) -> SyncSession:
        """Begin a durable session; see :meth:`Router.start_session`."""
        session = self.call(lambda: self.router.start_session(profile_id, cwd=cwd, prompt=prompt))
        return SyncSession(self, session)

    def session(self, session_id: str) -> SyncSession:
        """Return the handle of a stored session; see :meth:`Router.session`."""
        return SyncSession(self, self.router.session(session_id))


class SyncSession:
    """A session for scripts: the methods of :class:`~kandev_routing_sdk.Session`, each of which blocks, and raises the same."""

    id: str
    """To be kept: :meth:`SyncRouter.session` takes it, in any process."""

    def __init__(self, router: SyncRouter, session: Session) -> None:
        self._router, self._session = router, session
        self.id = session.id

    def __repr__(self) -> str:
        return f"SyncSession({self.id!r})"

    def prompt(self, text: str) -> Iterator[EventRecord]:
        """Give the session its next message, and return the events of its turn; see :meth:`Session.prompt`."""

        async def ask() -> Turn:
            return self._session.prompt(text)

        return _each(self._router, self._router.call(ask))

    def events(self, after: int = 0) -> Iterator[EventRecord]:
        """Return the events behind the cursor ``after``, and then those that come; does not end. See :meth:`Session.events`."""

        async def follow() -> EventStream:
            return self._session.events(after)

        return _each(self._router, self._router.call(follow))

    def act(
        self,
        action: Action | str,
        *,
        expected_generation: int,
        expected_revision: int | None = None,
        action_id: str | None = None,
    ) -> Snapshot:
        """Carry out a person's action; see :meth:`Session.act`."""
        return self._router.call(
            lambda: self._session.act(
                action,
                expected_generation=expected_generation,
                expected_revision=expected_revision,
                action_id=action_id,
            )
        )

    def go_on(self) -> Snapshot:
        """See the session through here; see :meth:`Session.go_on`."""
        return self._router.call(self._session.go_on)

    def snapshot(self) -> Snapshot:
        """Return the authoritative snapshot; see :meth:`Session.snapshot`."""
        return self._router.call(self._session.snapshot)

    def attempts(self) -> Sequence[AttemptRecord]:
        """Return all attempts; see :meth:`Session.attempts`."""
        return self._router.call(self._session.attempts)

    def stop(self) -> Snapshot:
        """Stop the session; see :meth:`Session.stop`."""
        return self._router.call(self._session.stop)


def _portal() -> AbstractContextManager[BlockingPortal]:
    return start_blocking_portal("asyncio")


def _each(router: SyncRouter, stream: AsyncIterator[EventRecord]) -> Iterator[EventRecord]:
    async def one() -> EventRecord | None:
        return await anext(stream, None)

    while True:
        try:
            event = router.call(one)
        except (UsageError, RuntimeError):
            if router.left:
                return  # with its router, as it would on an event loop
            raise
        if event is None:
            return
        yield event

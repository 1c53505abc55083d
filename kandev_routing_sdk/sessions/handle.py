"""One session, as a host holds it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

from kandev_routing_sdk.conductor import Gate, in_thread
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.ports import AttemptRecord, Operation
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.sessions.actions import Action, act, asked_for, prompt
from kandev_routing_sdk.sessions.feed import EventStream
from kandev_routing_sdk.sessions.host import Asked, SessionHost
from kandev_routing_sdk.sessions.life import silent
from kandev_routing_sdk.sessions.reading import load_session
from kandev_routing_sdk.sessions.service import Sessions


class Turn:
    """The events of one prompt, from its ``session.user_message`` to the end of its turn: an async iterator.

    Get one from :meth:`Session.prompt`. It goes on through retries, waits and switches, and ends behind the event after which the
    turn is over, a person is needed, or the session is stopped; also when the router is closed. Dropping it changes nothing: the
    turn goes on, and :meth:`Session.events` shows the rest. That a prompt was refused whose events nobody read is logged as a
    warning.
    """

    def __init__(self, host: SessionHost, session_id: str, asked: Asked) -> None:
        self._host, self._session_id, self._asked = host, session_id, asked
        self._stream: EventStream | None = None
        self._number = 0
        self._begun = self._over = False

    def __del__(self) -> None:
        self._asked.dropped()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventRecord:
        """Return the next event. The first time raises why the prompt was refused: see :meth:`Session.prompt`."""
        while not self._over:
            if self._stream is None:
                route = await self._asked.wait()
                self._number = 0 if route is None else route.prompt_number
                self._stream = self._host.feed.follow(session_id=self._session_id, after=self._asked.after)
            event = await anext(self._stream)
            self._begun = self._begun or self._is_ours(event)
            if self._begun:
                if ends_turn(event, self._number):
                    await self.aclose()
                return event
        raise StopAsyncIteration

    def _is_ours(self, event: EventRecord) -> bool:
        return event.kind is EventKind.USER_MESSAGE and event.params.get("prompt_number") == self._number

    async def aclose(self) -> None:
        """Follow it no further."""
        self._over = True
        if self._stream is not None:
            await self._stream.aclose()


class Session:
    """A durable session whose turns are driven in this process. Get it from the router; it may be held for as long as that.

    Methods are for asyncio. What is asked for is carried out by a task of the router's: cancelling who asked cuts nothing in half.
    """

    id: str
    """To be kept: :meth:`Router.session` takes it, in any process."""

    def __init__(self, host: SessionHost, session_id: str, *, read_only: bool) -> None:
        self._host, self._gate = host, Gate(host.engine, read_only)
        self._sessions = Sessions(host.engine, read_only=read_only)
        self.id = session_id

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def prompt(self, text: str) -> Turn:
        """Give the session its next message, and return the events of its turn. The message is sent whether these are read or not.

        Raises what the host's authorisation raises. The first event is, or raises:

        Raises:
            UsageError: no such session, or an empty message.
            TurnInProgress: a turn is on its way. Whoever else drives it, it is seen through here from now on, see :meth:`go_on`.
            DynamicRoutingDisabled: the feature flag is off.
            IllegalTransition: the session is stopped.
            StoreError: it could not be made durable.
        """
        self._gate(Operation.SESSION_PROMPT, self.id)
        asked = self._host.ask(self.id, partial(prompt, self._host.engine, self.id, text, silent))
        return Turn(self._host, self.id, asked)

    async def act(
        self,
        action: Action | str,
        *,
        expected_generation: int,
        expected_revision: int | None = None,
        action_id: str | None = None,
    ) -> Snapshot:
        """Carry out a person's action and go on with the session here; returns it as it is once that is durable (R-ENG-7).

        Arguments and errors: see :meth:`Sessions.act`.
        """
        self._gate(Operation.SESSION_ACT, self.id)
        wanted = asked_for(
            self.id,
            action,
            expected_generation=expected_generation,
            expected_revision=expected_revision,
            action_id=action_id,
        )
        await self._host.ask(self.id, partial(act, self._host.engine, wanted, silent)).wait()
        return await self.snapshot()

    async def go_on(self) -> Snapshot:
        """See the session through here, as after a prompt: when its wait is over, or its owner died. Returns what it is now.

        For a session that is opened again; one whose turn is over, or that needs a person, is left as it is. What a dead owner
        may have begun is never sent twice (R-DUR-3). Raises as :meth:`snapshot`, and what the host's authorisation raises.
        """
        self._gate(Operation.SESSION_ACT, self.id)
        now = await self.snapshot()
        self._host.take_up(self.id)
        return now

    async def snapshot(self) -> Snapshot:
        """Return the authoritative snapshot (R-ENG-7). Raises :class:`~kandev_routing_sdk.errors.UsageError` if there is none."""
        return await in_thread(self._sessions.snapshot, self.id)

    async def attempts(self) -> Sequence[AttemptRecord]:
        """Return all attempts in order; history, never relabelled (R-ENG-11). Raises as :meth:`snapshot`."""
        return await in_thread(self._sessions.attempts, self.id)

    def events(self, after: int = 0) -> EventStream:
        """Return the session's events behind the cursor ``after`` (an event's ``sequence``), and then those that come (R-CON-6).

        Reading the first one raises :class:`~kandev_routing_sdk.errors.UsageError` if there is no such session.
        """
        there_is_one = partial(load_session, self._host.engine.store, self.id)
        return self._host.feed.follow(session_id=self.id, after=after, check=there_is_one)

    async def stop(self) -> Snapshot:
        """Stop the session from any state: cancels its turn, ends its agent, charges nothing. Idempotent (R-ENG-7)."""
        return await self._sessions.stop(self.id)


def ends_turn(event: EventRecord, prompt_number: int) -> bool:
    """Whether a turn is over with this event, or goes on only if a person wants it to."""
    match event.kind:
        case EventKind.TURN_ENDED:
            number = event.params.get("prompt_number")
            return isinstance(number, int) and number >= prompt_number
        case EventKind.ROUTE_WAITING:
            return event.params.get("state") == State.ACTION_REQUIRED.value
        case kind:
            return kind is EventKind.ROUTE_STOPPED

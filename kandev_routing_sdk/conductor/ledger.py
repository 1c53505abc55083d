"""The durable side of one route: the value as it was last committed, and the only way to move it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import anyio

from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.conductor.claims import hand_backs
from kandev_routing_sdk.conductor.engine import HEARTBEAT_S, OWNER_LEASE_S, Engine, Tell
from kandev_routing_sdk.conductor.tasks import abandoned, in_thread
from kandev_routing_sdk.errors import StaleRevision, StoreUnavailable
from kandev_routing_sdk.events import EventDraft
from kandev_routing_sdk.records import (
    ActionRecord,
    Admit,
    AttemptRecord,
    CircuitChange,
    CircuitHandedBack,
    CircuitTransition,
    Commit,
    Committed,
    DecisionRecord,
    PromptRecord,
    SelectionRecord,
    Wait,
)
from kandev_routing_sdk.results import CircuitChanged
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import is_at_rest, is_watched, leaves_by_itself
from kandev_routing_sdk.route.model import Route, State, Trigger
from kandev_routing_sdk.route.step import Transition, step
from kandev_routing_sdk.telemetry import Fence, SpanName


class Ledger:
    """Steps and commits one route. Not for several tasks at once; other processes are kept away by the owner lease."""

    def __init__(self, engine: Engine, tell: Tell, owner_id: str | None = None) -> None:
        self._engine = engine
        self.owner_id: str = owner_id or engine.new_owner()
        """Whose the route is while it is driven here."""
        self._tell = tell
        self._route: Route | None = None
        self._attempts = 0
        self._past: dict[str, AttemptRecord] = {}
        self._committing = False
        self._beat = anyio.Event()

    @property
    def begun(self) -> bool:
        """Whether the session exists."""
        return self._route is not None

    @property
    def route(self) -> Route:
        """The route as it was last committed."""
        assert self._route is not None  # noqa: S101  # committing begin() comes first
        return self._route

    @property
    def next_ordinal(self) -> int:
        """The number of the session's next attempt."""
        return self._attempts + 1

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """The newest attempts as they were last committed, in order."""
        return tuple(self._past.values())

    def adopt(self, route: Route, attempts: Sequence[AttemptRecord]) -> None:
        """Go on with a stored route, whose newest attempts these are."""
        self._route, self._attempts = route, attempts[-1].ordinal if attempts else 0
        self._past = {attempt.attempt_id: attempt for attempt in attempts}

    async def last_attempt(self) -> AttemptRecord | None:
        """Return the session's newest attempt as it is stored; none before it can be unsettled."""
        rows = await in_thread(self._engine.store.attempts, self.route.session_id, newest=1)
        return rows[0] if rows else None

    async def hand_backs(self) -> tuple[CircuitHandedBack, ...]:
        """The lease of a retry that will not come must not keep its circuit's probe from others."""
        return hand_backs(await self.last_attempt())

    async def begin(self, transition: Transition) -> Route:
        """Make a new session durable, owned as it says."""
        commit = Commit(before=None, after=transition.after, now=transition.after.updated_at, events=transition.events)
        self._route = (await self._write(commit)).route
        return self._route

    async def append(self, drafts: Sequence[EventDraft]) -> bool:
        """Make events durable that belong to no transition; False: the route is somebody else's by now, nothing was written."""
        engine, route, now = self._engine, self.route, self._engine.clock.now()

        def write() -> bool:
            written = engine.store.append_events(route, owner_id=self.owner_id, events=drafts, now=now)
            if written is None:
                engine.telemetry.fenced(Fence.GENERATION)
            engine.published()
            return written is not None

        return await in_thread(write)

    async def disown(self, attempt: AttemptRecord) -> None:
        """Note of an attempt that nothing runs for it, and that nobody here will start it: whoever comes first may (R-DUR-3)."""
        left = replace(attempt, owner_id=None, process_group=None, process_started_at=None)
        await in_thread(self._engine.store.mark_attempt, left)

    async def hand_on(self, *, after_s: float = 0.0) -> None:
        """Leave a session that is ours to whoever comes first, in so many seconds."""
        if self.route.owner_id == self.owner_id:
            then = self._engine.clock.now() + timedelta(seconds=after_s)
            at = None if is_at_rest(self.route) and not after_s else then
            await in_thread(self._engine.store.release, self.route.session_id, owner_id=self.owner_id, at=at)

    async def rest(self) -> None:
        """Give up a session that is ours and at rest: nothing was to be done for it."""
        route = self.route
        if route.owner_id == self.owner_id and route.kind == "session" and is_at_rest(route):
            await in_thread(self._engine.store.release, route.session_id, owner_id=self.owner_id)

    async def reload(self) -> Route:
        """Read the route again."""
        self._route = await self._stored()
        return self.route

    async def _stored(self) -> Route:
        return await in_thread(self._engine.store.load, self.route.session_id) or self.route

    def step(self, trigger: Trigger, facts: Facts, *, now: datetime | None = None) -> Transition:
        """Return the one step that ``trigger`` makes; commit it before acting on it."""
        return step(self.route, trigger, facts, now=now or self._engine.clock.now())

    async def commit(  # noqa: PLR0913  # what one transaction holds
        self,
        transition: Transition,
        *,
        selection: SelectionRecord | None = None,
        new_attempt: AttemptRecord | None = None,
        update_attempt: AttemptRecord | None = None,
        circuits: tuple[CircuitChange, ...] = (),
        admit: Admit | None = None,
        decision: DecisionRecord | None = None,
        action: ActionRecord | None = None,
        prompt: PromptRecord | None = None,
        waits_for: tuple[Wait, ...] | None = None,
        keep_owner: bool = False,
    ) -> Committed:
        """Make a step durable together with everything that belongs to it, and tell which circuits changed.

        ``waits_for``: the circuits that it waits for; by default it goes on to wait for those that it did, if it stays where it is.
        ``keep_owner``: the session comes to rest, and something is still to be done for it; :meth:`rest` gives it up then.
        """
        now = transition.after.updated_at
        after = self._owned(transition.after, now, keep=keep_owner)
        commit = Commit(
            before=transition.before,
            after=after,
            now=now,
            selection=selection,
            new_attempt=new_attempt,
            update_attempt=update_attempt,
            events=transition.events,
            circuits=circuits,
            admit=admit,
            decision=decision,
            action=action,
            prompt=prompt,
            waits_for=() if waits_for is None and not _stays(transition) else waits_for,
        )
        self._committing = True
        try:
            committed = await self._write(commit)
            self._route = committed.route
        finally:
            self._committing = False
        if new_attempt is not None:
            self._attempts += 1
        for attempt in (update_attempt, new_attempt):
            if attempt is not None:
                self._past[attempt.attempt_id] = attempt
        self._tell_changes(committed.transitions)
        return committed

    async def _write(self, commit: Commit) -> Committed:
        """Commit, and count what that made true: on the same thread, so that no cancelled caller is in between."""
        store, telemetry, published = self._engine.store, self._engine.telemetry, self._engine.published

        def write() -> Committed:
            committed = store.commit(commit)
            telemetry.committed(commit, committed)
            if committed.events:
                published()
            return committed

        try:
            with telemetry.span(SpanName.COMMIT, session_id=commit.after.session_id, state=commit.after.state):
                return await in_thread(write)
        except StaleRevision as late:
            telemetry.fenced(late)
            raise

    def _owned(self, after: Route, now: datetime, *, keep: bool) -> Route:
        """Whoever commits is alive: each commit renews the lease. A session at rest is anybody's (R-DUR-4), a call its caller's."""
        owner = after.owner_id
        if after.kind == "session":
            owner = None if is_at_rest(after) and not keep else self.owner_id
        until = None if owner is None else now + timedelta(seconds=OWNER_LEASE_S)
        return after.model_copy(update={"owner_id": owner, "owner_until": until})

    async def book(self, circuits: tuple[CircuitChange, ...]) -> None:
        """Make what was learnt of shared health durable between two transitions; a failure to do so is raised (R-CIR-9)."""
        now = self._engine.clock.now()
        transitions = await in_thread(self._engine.store.change_circuits, circuits, now=now)
        self._engine.telemetry.booked(transitions, circuits)
        self._tell_changes(transitions)

    def _tell_changes(self, transitions: Iterable[CircuitTransition]) -> None:
        for change in transitions:
            self._tell(_told(change.after))

    async def heartbeat(self) -> None:
        """Return at the next heartbeat of :meth:`keep_owner`."""
        await self._beat.wait()

    async def keep_owner(self, probe_token: Callable[[], str | None]) -> None:
        """Renew ownership, and a running probe's lease, for as long as the route is ours; run it beside everything, waits too.

        Raises :class:`~kandev_routing_sdk.errors.StoreError` when that is no longer possible: an owner that cannot renew ends its
        agents before the lease ends (R-ENG-8). What counts is the time since the lease was renewed, not how often that failed: a
        store that does not answer at all must not be waited for.
        """
        renewed = anyio.current_time()
        while True:
            await anyio.sleep(HEARTBEAT_S)  # real time, whatever the clock: it is about this process being alive
            kept: bool | None = None
            with anyio.CancelScope(deadline=renewed + OWNER_LEASE_S - HEARTBEAT_S):  # the rest is for ending the agent
                with suppress(StoreUnavailable):
                    kept = await abandoned(self._renew, probe_token())
            if kept is None and anyio.current_time() >= renewed + OWNER_LEASE_S - 2 * HEARTBEAT_S:
                raise StoreUnavailable(
                    f"session {self.route.session_id} could not be kept: its store did not answer; its agent was ended"
                )
            if kept is None:
                continue
            renewed = anyio.current_time()
            self._beat.set()
            self._beat = anyio.Event()
            # a commit that is on its way may be the one that gives the session up; the next heartbeat knows
            if not kept and not self._committing and not is_at_rest(self.route):
                self._engine.telemetry.fenced(Fence.OWNER)
                raise StoreUnavailable(
                    f"session {self.route.session_id} was stopped or taken over by another process; its agent was ended"
                )

    def _renew(self, probe_token: str | None) -> bool:
        now = self._engine.clock.now()
        return self._engine.store.renew(
            self.route.session_id,
            owner_id=self.owner_id,
            until=now + timedelta(seconds=OWNER_LEASE_S),
            lease_token=probe_token,
            now=now,
        )


def _stays(transition: Transition) -> bool:
    """Whether a route goes on to wait for what it waits for: it is where it was, or only the flag is in between."""
    before, after = transition.before, transition.after
    if before is None or after.state is State.STOPPED:
        return False
    if after.prior_state is not None or before.prior_state is not None:
        return True
    untold = is_watched(after) and not after.may_be_back
    stuck = after.state is State.ACTION_REQUIRED and not leaves_by_itself(after) and not untold
    return before.state is after.state and not stuck


def _told(circuit: Circuit) -> CircuitChanged:
    key = circuit.key
    label = "/".join(part for part in (key.provider_id, key.model_id, key.profile_id) if part)
    return CircuitChanged(
        scope=key.scope,
        label=label,
        state=circuit.state,
        code=circuit.code,
        until=circuit.deadline,
        action_required=circuit.action_required,
    )

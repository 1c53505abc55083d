"""The store (R-DUR-1): :class:`SqlStore` on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.circuits import Circuit, ResourceKey
from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.events import EventDraft, EventKind, EventRecord
from kandev_routing_sdk.ports import EventListener
from kandev_routing_sdk.records import (
    ActionRecord,
    Admit,
    AttemptQuery,
    AttemptRecord,
    CallRecord,
    CircuitChange,
    CircuitTransition,
    Claim,
    Commit,
    Committed,
    DecisionRecord,
    Interrupted,
    PastAttempt,
    ProfilePlan,
    PromptRecord,
    SelectionRecord,
    StoredProfile,
)
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.store import (
    attempts,
    calls,
    circuits,
    failures,
    journal,
    keys,
    migrate,
    past,
    profiles,
    prompts,
    routes,
    waiting,
)
from kandev_routing_sdk.store.engine import BlockingClock, Database
from kandev_routing_sdk.store.listening import PostgresListener
from kandev_routing_sdk.store.transaction import Transaction
from kandev_routing_sdk.types import DispatchMark

DEFAULT_TIMEOUT_S = 10.0


class SqlStore:
    """Durable state; see :class:`~kandev_routing_sdk.ports.Store` for what each method promises.

    Safe to share between threads. Made by :func:`open_store`, which also sees to the schema.

    Raises:
        ConfigError: the URL is not one of a supported database.
        StoreError: and its children, from every method; nothing is half written.
    """

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: BlockingClock | None = None,
    ) -> None:
        self._database = Database(url, read_only=read_only, timeout_s=timeout_s, clock=clock or SystemClock())

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._database.read_only

    # --- transitions ---

    def commit(self, commit: Commit) -> Committed:
        """Make one transition durable, or change nothing."""
        for attempt in (commit.new_attempt, commit.update_attempt):
            if attempt is not None and attempt.session_id != commit.after.session_id:
                raise ValueError("an attempt is committed with its own session")
        if commit.before is not None and commit.before.session_id != commit.after.session_id:
            raise ValueError("a transition keeps its session")
        if commit.after.revision != (0 if commit.before is None else commit.before.revision) + 1:
            raise ValueError("a transition raises the revision by one")
        return self._database.write(
            lambda tx: _commit(tx, commit),
            landed=lambda tx, done: routes.is_stored(tx, done.route),
        )

    def mark_attempt(self, attempt: AttemptRecord) -> None:
        """Move an attempt's dispatch mark forward."""
        self._database.write(lambda tx: attempts.mark(tx, attempt))

    def renew(self, session_id: str, *, owner_id: str, until: datetime, lease_token: str | None, now: datetime) -> bool:
        """Renew the owner lease and the probe leases of ``lease_token``; return whether the session is still ours."""

        def work(tx: Transaction) -> bool:
            kept = routes.renew(tx, session_id, owner_id=owner_id, until=until)
            if kept and lease_token is not None:
                circuits.renew(tx, lease_token, now=now, ttl=until - now)
            return kept

        return self._database.write(work)

    def claim(  # whose, what and how much
        self, why: Claim, *, now: datetime, owner_id: str, until: datetime, limit: int, only: str | None = None
    ) -> list[Route]:
        """Take up to ``limit`` free sessions for which ``why`` holds, the longest waiting first.

        What this version cannot read is nobody's until ``until``, and told as a StoreError; nothing is taken then, and the next who
        asks gets the others.
        """
        # Asked every second, and hardly ever the case: no write lock for nothing.
        if limit <= 0 or not self._database.read(lambda tx: waiting.find(tx, why, now=now, limit=1, only=only)):
            return []

        def taken(tx: Transaction) -> list[Route] | None:
            found, unreadable = waiting.read(waiting.find(tx, why, now=now, limit=limit, only=only))
            for session_id in unreadable:
                waiting.set_aside(tx, session_id, until=until)
            if unreadable:
                return None
            mine = (waiting.take(tx, route, owner_id=owner_id, until=until) for route in found)
            return [route for route in mine if route is not None]

        mine = self._database.write(taken, landed=lambda tx, mine: routes.is_stored(tx, mine[0]) if mine else False)
        if mine is None:
            raise failures.unreadable(self._database.label)
        return mine

    def release(self, session_id: str, *, owner_id: str, at: datetime | None = None) -> bool:
        """Give up an owner lease that is still ours."""
        return self._database.write(lambda tx: waiting.release(tx, session_id, owner_id=owner_id, at=at))

    # --- reading ---

    def load(self, session_id: str) -> Route | None:
        """Return the route, or None."""
        return self._database.read(lambda tx: routes.load(tx, session_id))

    def sessions(
        self, *, states: Sequence[State] | None = None, before: Route | None = None, limit: int = 100
    ) -> list[Route]:
        """Return routes, newest first, from behind ``before`` on."""
        return self._database.read(lambda tx: routes.newest(tx, states, before, limit))

    def attempts(self, session_id: str, *, newest: int | None = None) -> list[AttemptRecord]:
        """Return all attempts of a session in order, or only so many of the newest."""
        return self._database.read(lambda tx: attempts.of_session(tx, session_id, newest))

    def prompts(self, session_id: str) -> list[PromptRecord]:
        """Return the exact prompts of a session's attempts, in their order."""
        return self._database.read(lambda tx: prompts.of_session(tx, session_id))

    def past_attempts(
        self, query: AttemptQuery, *, after: PastAttempt | None = None, limit: int = 200
    ) -> list[PastAttempt]:
        """Return a page of attempts of all sessions, newest first, whether they can be read or not."""
        return self._database.read(lambda tx: past.page(tx, query, after, limit))

    def selections(self, session_id: str) -> list[SelectionRecord]:
        """Return all selections of a session in order."""
        return self._database.read(lambda tx: routes.selections(tx, session_id))

    def decisions(self, session_id: str) -> list[DecisionRecord]:
        """Return all decisions of a session in order."""
        return self._database.read(lambda tx: journal.decisions(tx, session_id))

    def action(self, session_id: str, action_id: str) -> ActionRecord | None:
        """Return the action that was carried out under this id."""
        return self._database.read(lambda tx: journal.action(tx, session_id, action_id))

    def events(self, *, session_id: str | None = None, after: int = 0, limit: int = 500) -> list[EventRecord]:
        """Return events with ``sequence`` greater than ``after``, in order."""
        return self._database.read(lambda tx: routes.events(tx, session_id, after, limit))

    def newest_events(self, session_id: str, kinds: Sequence[EventKind], limit: int) -> list[EventRecord]:
        """Return so many of a session's newest events of these kinds, in order."""
        return self._database.read(lambda tx: routes.newest_events(tx, session_id, kinds, limit))

    def append_events(
        self, route: Route, *, owner_id: str, events: Sequence[EventDraft], now: datetime
    ) -> tuple[EventRecord, ...] | None:
        """Append events while the route's generation is ``owner_id``'s."""
        return self._database.write(
            lambda tx: routes.append_events(tx, route, owner_id, events, now),
            landed=lambda tx, written: written is not None and routes.is_appended(tx, written[-1]),
        )

    def last_sequence(self) -> int:
        """Return the newest event's sequence."""
        return self._database.read(routes.last_sequence)

    def listener(self) -> EventListener | None:
        """Return what tells of new events, on a connection of its own; None: nothing does, look now and then."""
        return None if self._database.is_sqlite else PostgresListener(self._database)

    # --- circuits ---

    def circuit_view(self, keys: Sequence[ResourceKey]) -> Mapping[str, Circuit]:
        """Return the stored circuits among ``keys``; writes nothing."""
        if not keys:
            return {}
        return self._database.read(lambda tx: circuits.view(tx, (key.key for key in keys)))

    def circuits(self) -> list[Circuit]:
        """Return every stored circuit, in key order."""
        return self._database.read(circuits.every)

    def change_circuits(self, changes: Sequence[CircuitChange], *, now: datetime) -> list[CircuitTransition]:
        """Apply changes outside a route transition."""
        if not changes:
            return []
        transitions, _ = self._database.write(
            lambda tx: circuits.apply(tx, now=now, changes=changes),
            landed=lambda tx, done: circuits.are(tx, [change.after for change in done[0]]),
        )
        return list(transitions)

    def admit(self, admit: Admit, *, now: datetime) -> tuple[ResourceKey, ...]:
        """Take the probe leases that ``admit`` needs."""
        return self._database.write(lambda tx: circuits.apply(tx, now=now, changes=(), admit=admit)[1])

    def put_circuit(self, before: Circuit, after: Circuit) -> bool:
        """Replace a circuit if it still is ``before``."""
        return self._database.write(
            lambda tx: circuits.replace_if(tx, before, after),
            landed=lambda tx, replaced: replaced and circuits.are(tx, [after]),
        )

    # --- calls ---

    def save_call(self, call: CallRecord) -> None:
        """Insert or update a call's record; an ended one never changes again."""
        self._database.write(lambda tx: calls.save(tx, call))

    def calls(self, *, limit: int = 50) -> list[CallRecord]:
        """Return calls, newest first."""
        return self._database.read(lambda tx: calls.newest(tx, limit))

    def call(self, call_id: str) -> CallRecord | None:
        """Return one call."""
        return self._database.read(lambda tx: calls.one(tx, call_id))

    def interrupt_calls(self, *, now: datetime) -> Interrupted:
        """Stop utility routes whose owner lease ran out."""
        # Asked at every start, and hardly ever the case: no write lock for nothing.
        if not self._database.read(lambda tx: routes.has_orphans(tx, now)) and not self.read_only:
            return Interrupted(0, ())
        return self._database.write(lambda tx: _interrupt(tx, now), landed=_are_interrupted)

    # --- profiles ---

    def profile(self, profile_id: str) -> StoredProfile | None:
        """Return one stored profile, or None."""
        return self._database.read(lambda tx: profiles.one(tx, profile_id))

    def profiles(self) -> list[StoredProfile]:
        """Return every stored profile, in the order of their ids."""
        return self._database.read(profiles.every)

    def change_profiles(self, plan: ProfilePlan, *, now: datetime) -> list[StoredProfile | None]:
        """Write what ``plan`` says, all or nothing."""
        written = self._database.write(lambda tx: profiles.change(tx, plan, now), landed=profiles.are)
        return [profiles.decode(row) for row in written]

    def profile_users(self, profile_id: str, *, limit: int = 20) -> list[Route]:
        """Return routes that are not stopped and were asked for this profile, or run it; newest first."""
        return self._database.read(lambda tx: routes.of_profile(tx, profile_id, limit))

    # --- installation key ---

    def installation_key(self, candidate: InstallationKey) -> InstallationKey:
        """Return the stored key, storing ``candidate`` if there is none; a read-only store keeps nothing."""
        known = self._database.read(keys.newest)
        if known is not None or self._database.read_only:
            return known or candidate
        return self._database.write(lambda tx: keys.keep(tx, candidate))

    # --- life ---

    def prepare(self, *, migrate_schema: bool) -> None:
        """See that the schema is this code's; see :func:`open_store`."""
        migrate.ensure(self._database, migrate=migrate_schema)

    def schema(self) -> migrate.Schema:
        """Return which schema is there, and what this code needs; changes nothing."""
        return migrate.Schema(self._database.label, self._database.read(migrate.version))

    def close(self) -> None:
        """Give back connections. The last one of all processes folds SQLite's log into its file (never a read-only one)."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    url: str,
    *,
    migrate: bool = True,
    read_only: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    clock: BlockingClock | None = None,
) -> SqlStore:
    """Open the durable state.

    Args:
        url: ``sqlite:////path/to/file.db`` (created with mode 0600 if missing, its folder with 0700) or
            ``postgresql+psycopg://user@host/name``.
        migrate: bring the schema up to date first; many processes may start at once.
        read_only: write nothing at all, neither schema nor checkpoint. A missing database reads as empty.
        timeout_s: how long a transaction may wait for others, in seconds.
        clock: waits between tries; the machine's by default.

    Raises:
        ConfigError: the URL is not one of a supported database.
        SchemaTooNew: a newer version of the SDK wrote it.
        StoreReadOnly: it cannot be written.
        StoreUnavailable: it cannot be opened or reached, or is older and may not be migrated.
    """
    store = SqlStore(url, read_only=read_only, timeout_s=timeout_s, clock=clock)
    try:
        store.prepare(migrate_schema=migrate)
    except BaseException:
        store.close()
        raise
    return store


def _commit(tx: Transaction, commit: Commit) -> Committed:
    # Always in this order: session, circuits in key order, the rest. So no two commits ever wait for each other in a ring.
    now, route = commit.now, commit.after
    routes.write(tx, commit.before, route)
    transitions, leased = circuits.apply(tx, now=now, changes=commit.circuits, admit=commit.admit)
    if commit.selection is not None:
        routes.add_selection(tx, route.session_id, commit.selection, now)
    if commit.update_attempt is not None:
        attempts.rewrite(tx, commit.update_attempt, revision=route.revision - 1)
    if commit.new_attempt is not None:
        attempts.add(tx, commit.new_attempt)
    if commit.prompt is not None:
        prompts.add(tx, commit.prompt, now)
    if commit.decision is not None:
        journal.add_decision(tx, route.session_id, commit.decision, revision=route.revision, now=now)
    if commit.action is not None:
        journal.add_action(tx, route.session_id, commit.action, revision=route.revision, now=now)
    waiting.wait_for(tx, commit.before, route.session_id, commit.waits_for)
    events = routes.add_events(tx, route, commit.events, now)
    return Committed(route=route, transitions=transitions, leased=leased, events=events)


def _interrupt(tx: Transaction, now: datetime) -> Interrupted:
    interrupted, unsettled = 0, list[AttemptRecord]()
    for route in routes.orphaned_utility(tx, now):
        stopped = route.model_copy(
            update={
                "state": State.STOPPED,
                "reason": Reason.CALL_ENDED,
                "turn_running": False,
                "deadline": None,
                "owner_id": None,
                "owner_until": None,
                "parked_prompt": None,
                "continuation": None,
                "updated_at": now,
                "revision": route.revision + 1,
            }
        )
        routes.write(tx, route, stopped)
        interrupted += calls.interrupt(tx, route.session_id, now)
        unsettled += (a for a in attempts.of_session(tx, route.session_id) if a.mark is not DispatchMark.SETTLED)
    return Interrupted(interrupted, tuple(unsettled))


def _are_interrupted(tx: Transaction, done: Interrupted) -> bool:
    # Who did it does not matter: the agents that are left have to be ended.
    route = routes.load(tx, done.attempts[0].session_id) if done.attempts else None
    return route is not None and route.state is State.STOPPED

"""Routes, selections and events (R-ENG-2, R-ENG-11, R-CON-6)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from kandev_routing_sdk.errors import StaleRevision
from kandev_routing_sdk.events import EventDraft, EventKind, EventRecord
from kandev_routing_sdk.ports import SelectionRecord
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import insert, insert_if_missing, one_of, padded, update, where
from kandev_routing_sdk.store.tables import EVENTS, SELECTIONS, SESSIONS
from kandev_routing_sdk.store.transaction import Transaction

_C = SESSIONS.c
_ROUTE: Final = sa.select(*(_C[name] for name in codec.ROUTE_COLUMNS), _C.body)
_NEWEST: Final = (_C.created_at.desc(), _C.session_id.desc())

_CREATE: Final = insert_if_missing(SESSIONS)
_ADVANCE: Final = update(
    SESSIONS,
    _C.session_id == where("session_id"),
    _C.revision == where("revision"),
    without=("session_id", "created_at"),
)
_LOAD: Final = _ROUTE.where(_C.session_id == where("session_id"))
_IN_STATES: Final = _ROUTE.where(one_of(_C.state, len(State))).order_by(*_NEWEST).limit(where("limit"))
_NEXT_IN_STATES: Final = _IN_STATES.where(
    sa.tuple_(_C.created_at, _C.session_id) < sa.tuple_(where("created_at"), where("session_id"))
)
_OF_PROFILE: Final = (
    _ROUTE.where(
        _C.state != State.STOPPED.value,
        sa.or_(_C.logical_profile_id == where("profile_id"), _C.execution_profile_id == where("profile_id")),
    )
    .order_by(*_NEWEST)
    .limit(where("limit"))
)
_ORPHANED: Final = (_C.kind == "utility", _C.owner_until <= where("now"), _C.state != State.STOPPED.value)
_ANY_ORPHAN: Final = sa.select(_C.session_id).where(*_ORPHANED).limit(1)
_ORPHANED_UTILITY: Final = _ROUTE.where(*_ORPHANED).order_by(_C.session_id).with_for_update()

_RENEW: Final = (
    sa.update(SESSIONS)
    .where(_C.session_id == where("session_id"), _C.owner_id == where("owner_id"))
    .values(owner_until=sa.bindparam("owner_until"))
)


def renew(tx: Transaction, session_id: str, *, owner_id: str, until: datetime) -> bool:
    """Extend an owner lease that is still ours; return whether it was. The revision stays.

    One that ran out unnoticed (a machine that slept) is still ours until somebody takes it over, and they change the owner.
    """
    values = {
        "where_session_id": session_id,
        "where_owner_id": owner_id,
        "owner_until": codec.to_micros(until),
    }
    return tx.run(_RENEW, values) == 1


def write(tx: Transaction, before: Route | None, after: Route) -> None:
    """Create the route, or advance it by one guarded UPDATE.

    Raises:
        StaleRevision: it exists already, or has another revision.
    """
    values = codec.encode_route(after)
    if before is None:
        touched, expected = tx.run(_CREATE, values), 0
    else:
        expected = before.revision
        values["where_session_id"], values["where_revision"] = before.session_id, expected
        touched = tx.run(_ADVANCE, values)
    if touched != 1:
        raise StaleRevision(after.session_id, expected)


def load(tx: Transaction, session_id: str) -> Route | None:
    """Return one route."""
    row = tx.row(_LOAD, {"where_session_id": session_id})
    return None if row is None else codec.decode_route(row)


def is_stored(tx: Transaction, route: Route) -> bool:
    """Return whether the route is stored just like that; only its lease may have been renewed since."""
    stored = load(tx, route.session_id)
    return stored is not None and route == stored.model_copy(update={"owner_until": route.owner_until})


def newest(tx: Transaction, states: Sequence[State] | None, before: Route | None, limit: int) -> list[Route]:
    """Return routes, newest first, from behind ``before`` on."""
    known = dict.fromkeys(state.value for state in (State if states is None else states))
    if not known:
        return []
    values: dict[str, object] = {"where_limit": limit, **padded(known, len(State))}
    if before is None:
        return [codec.decode_route(row) for row in tx.rows(_IN_STATES, values)]
    values |= {"where_created_at": codec.to_micros(before.created_at), "where_session_id": before.session_id}
    return [codec.decode_route(row) for row in tx.rows(_NEXT_IN_STATES, values)]


def of_profile(tx: Transaction, profile_id: str, limit: int) -> list[Route]:
    """Return routes that are not stopped and were asked for this profile, or run it; newest first."""
    rows = tx.rows(_OF_PROFILE, {"where_profile_id": profile_id, "where_limit": limit})
    return [codec.decode_route(row) for row in rows]


def has_orphans(tx: Transaction, now: datetime) -> bool:
    """Return whether there is a utility route whose owner lease ran out."""
    return tx.row(_ANY_ORPHAN, {"where_now": codec.to_micros(now)}) is not None


def orphaned_utility(tx: Transaction, now: datetime) -> list[Route]:
    """Return (and lock) utility routes whose owner lease ran out."""
    return [codec.decode_route(row) for row in tx.rows(_ORPHANED_UTILITY, {"where_now": codec.to_micros(now)})]


# --- selections ---

_SELECTED: Final = insert(SELECTIONS)
_SELECTIONS: Final = (
    sa.select(SELECTIONS.c.generation, SELECTIONS.c.chosen_profile_id, SELECTIONS.c.walk)
    .where(SELECTIONS.c.session_id == where("session_id"))
    .order_by(SELECTIONS.c.generation)
)


def add_selection(tx: Transaction, session_id: str, selection: SelectionRecord, now: datetime) -> None:
    """Record the one decision of a generation."""
    tx.run(_SELECTED, codec.encode_selection(session_id, selection, now))


def selections(tx: Transaction, session_id: str) -> list[SelectionRecord]:
    """Return a session's selections, in order."""
    return [codec.decode_selection(row) for row in tx.rows(_SELECTIONS, {"where_session_id": session_id})]


# --- events ---

_E = EVENTS.c
_EVENT: Final = sa.select(_E.sequence, _E.session_id, _E.generation, _E.kind, _E.reason, _E.params, _E.at)
_HAPPENED: Final = insert(EVENTS, without=("sequence",)).returning(_E.sequence)
_AFTER: Final = _EVENT.where(_E.sequence > where("after")).order_by(_E.sequence).limit(where("limit"))
_OF_SESSION: Final = (
    _EVENT.where(_E.session_id == where("session_id"), _E.sequence > where("after"))
    .order_by(_E.sequence)
    .limit(where("limit"))
)
_KINDS: Final = len(EventKind)
_NEWEST_EVENTS: Final = (
    _EVENT.where(_E.session_id == where("session_id"), one_of(_E.kind, _KINDS))
    .order_by(_E.sequence.desc())
    .limit(where("limit"))
)

# "kr_event" as a number; held to the end of the transaction, which takes no other lock after it.
_IN_ORDER: Final = sa.text(f"SELECT pg_advisory_xact_lock({0x6B725F6576656E74})")


def add_events(tx: Transaction, route: Route, drafts: Sequence[EventDraft], now: datetime) -> tuple[EventRecord, ...]:
    """Append events. Call last in a transaction.

    A reader's cursor must never pass a sequence that is still to be committed, so on PostgreSQL those who append take turns.
    """
    if not drafts:
        return ()
    if not tx.is_sqlite:
        tx.rows(_IN_ORDER, {})
    written = []
    for draft in drafts:
        values = codec.encode_event(route, draft, now)
        sequence: Any = tx.rows(_HAPPENED, values)[0][0]
        written.append(
            EventRecord(
                sequence=sequence,
                session_id=route.session_id,
                generation=route.generation,
                kind=draft.kind,
                reason=draft.reason,
                params=draft.params,
                at=now,
            )
        )
    return tuple(written)


_OWNED: Final = (
    sa.select(_C.session_id)
    .where(_C.session_id == where("session_id"), _C.owner_id == where("owner_id"), _C.generation == where("generation"))
    .with_for_update()
)
_IS_THERE: Final = sa.select(_E.at, _E.params).where(
    _E.sequence == where("sequence"), _E.session_id == where("session_id")
)
_LAST: Final = sa.select(sa.func.max(_E.sequence))


def append_events(
    tx: Transaction, route: Route, owner_id: str, drafts: Sequence[EventDraft], now: datetime
) -> tuple[EventRecord, ...] | None:
    """Append events of no transition, if the route's generation is still ``owner_id``'s; None if it is not."""
    values = {
        "where_session_id": route.session_id,
        "where_owner_id": owner_id,
        "where_generation": route.generation,
    }
    return None if tx.row(_OWNED, values) is None else add_events(tx, route, drafts, now)


def is_appended(tx: Transaction, event: EventRecord) -> bool:
    """Return whether this very event is stored."""
    row = tx.row(_IS_THERE, {"where_sequence": event.sequence, "where_session_id": event.session_id})
    return row is not None and row == (codec.to_micros(event.at), codec.to_json(event.params))


def last_sequence(tx: Transaction) -> int:
    """Return the newest event's sequence; 0 without any."""
    row = tx.row(_LAST, {})
    return 0 if row is None or row[0] is None else int(row[0])


def events(tx: Transaction, session_id: str | None, after: int, limit: int) -> list[EventRecord]:
    """Return events after the cursor, in order."""
    values = {"where_session_id": session_id, "where_after": after, "where_limit": limit}
    rows = tx.rows(_AFTER if session_id is None else _OF_SESSION, values)
    return [codec.decode_event(row) for row in rows]


def newest_events(tx: Transaction, session_id: str, kinds: Sequence[EventKind], limit: int) -> list[EventRecord]:
    """Return so many of a session's newest events of these kinds, in order."""
    if not kinds or limit <= 0:
        return []
    wanted = padded((kind.value for kind in dict.fromkeys(kinds)), _KINDS)
    rows = tx.rows(_NEWEST_EVENTS, {"where_session_id": session_id, "where_limit": limit, **wanted})
    return [codec.decode_event(row) for row in rows[::-1]]

"""What there is to do: sessions that are due, lost by their owner, or free of what they waited for (R-DUR-4, R-ENG-8).

Claiming is one short transaction. It asks an index for a few rows, whoever else waits: what it costs does not grow with the number
of waiting sessions. On PostgreSQL rows that somebody else is at are skipped, on SQLite those who write take turns anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa

from kandev_routing_sdk.records import Claim, Wait
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import insert, one_of, padded, where
from kandev_routing_sdk.store.tables import CIRCUITS, SESSIONS, WAITS
from kandev_routing_sdk.store.transaction import Transaction
from kandev_routing_sdk.types import CircuitState

HOLDS_WAITS: Final = frozenset({State.WAITING, State.WAITING_FOR_RESET, State.ACTION_REQUIRED})
"""States in which a session may wait for circuits."""

_S, _W, _C = SESSIONS.c, WAITS.c, CIRCUITS.c
_ROUTE: Final = sa.select(*(_S[name] for name in codec.ROUTE_COLUMNS), _S.body)
_NOW: Final = where("now")
_FREE: Final = (_S.kind == "session", sa.or_(_S.owner_until.is_(None), _S.owner_until <= _NOW))
_TIMED: Final = tuple(s.value for s in (State.RETRY_WAIT, State.WAITING_FOR_RESET, State.WAITING))
_CLOSED: Final = _C.state == CircuitState.CLOSED.value
_MAY_BE_PROBED: Final = sa.and_(
    _C.action_required == 0, _C.deadline <= _NOW, sa.or_(_C.probe_until.is_(None), _C.probe_until <= _NOW)
)
# There are few circuits. From them to who waits, never the other way: there may be a million of those.
_FREED: Final = sa.select(_C.key, _CLOSED).where(sa.or_(_CLOSED, _MAY_BE_PROBED)).order_by(_C.key)
_AT_ONCE: Final = 32
"""For how many circuits one statement asks who waits."""


def _of_this(rows: sa.Select[Any]) -> sa.Select[Any]:
    """Lock the sessions of ``rows`` that nobody else is at."""
    return rows.limit(where("limit")).with_for_update(skip_locked=True, of=SESSIONS)


_CLAIMS: Final[Mapping[Claim, sa.Select[Any]]] = MappingProxyType(
    {
        Claim.DUE: _of_this(
            _ROUTE.where(
                _S.deadline <= _NOW, _S.state.in_([sa.literal_column(f"'{s}'") for s in _TIMED]), *_FREE
            ).order_by(_S.deadline)
        ),
        # Of the stopped, those whose agent nobody has seen end: the others have no owner.
        Claim.LOST: _of_this(_ROUTE.where(_S.owner_until <= _NOW, _S.kind == "session").order_by(_S.owner_until)),
    }
)
_FREED_BY: Final = _of_this(
    _ROUTE.join(WAITS, _W.session_id == _S.session_id).where(
        one_of(_W.circuit, _AT_ONCE),
        _W.until_closed <= where("closed"),
        _S.state.in_([sa.literal_column(f"'{s.value}'") for s in sorted(HOLDS_WAITS)]),
        *_FREE,
    )
)
_THIS: Final = _S.session_id == where("session_id")
_CLAIMS_THIS: Final = MappingProxyType({why: rows.where(_THIS) for why, rows in _CLAIMS.items()})
_THIS_FREED_BY: Final = _FREED_BY.where(_THIS)
_TAKE: Final = (
    sa.update(SESSIONS)
    .where(_S.session_id == where("session_id"), _S.revision == where("revision"))
    .values(
        owner_id=sa.bindparam("owner_id"), owner_until=sa.bindparam("owner_until"), revision=sa.bindparam("revision")
    )
)
_RELEASE: Final = (
    sa.update(SESSIONS)
    .where(_S.session_id == where("session_id"), _S.owner_id == where("owner_id"))
    .values(owner_until=sa.bindparam("owner_until"), owner_id=sa.bindparam("owner_id"))
)
_SET_ASIDE: Final = (
    sa.update(SESSIONS).where(_S.session_id == where("session_id")).values(owner_until=sa.bindparam("owner_until"))
)
_ID: Final = codec.ROUTE_COLUMNS.index("session_id")
_FORGET: Final = sa.delete(WAITS).where(_W.session_id == where("session_id"))
_WAIT: Final = insert(WAITS)


def find(tx: Transaction, why: Claim, *, now: datetime, limit: int, only: str | None = None) -> list[tuple[Any, ...]]:
    """Return (and lock) the rows of sessions that ``why`` holds for and nobody else is at; ``only``: no other than this one."""
    since = codec.to_micros(now)
    values: dict[str, object] = {"where_now": since, "where_limit": limit}
    if only is not None:
        values["where_session_id"] = only
    if why is not Claim.RECOVERED:
        statement = (_CLAIMS if only is None else _CLAIMS_THIS)[why]
        return list(tx.rows(statement, values))
    found: dict[str, tuple[Any, ...]] = {}
    for freed in _freed(tx, since):
        rows = tx.rows(
            _FREED_BY if only is None else _THIS_FREED_BY, values | freed | {"where_limit": limit - len(found)}
        )
        # A session may wait for several circuits.
        found |= {row[_ID]: row for row in rows}
        if len(found) >= limit:
            break
    return list(found.values())


def _freed(tx: Transaction, now: int) -> Iterator[dict[str, object]]:
    """What names those who wait for a circuit that is closed, then those whom a probe helps too."""
    freed = tx.rows(_FREED, {"where_now": now})
    for closed in (True, False):
        circuits = [circuit_number(key) for key, is_closed in freed if bool(is_closed) is closed]
        for first in range(0, len(circuits), _AT_ONCE):
            yield {"where_closed": int(closed), **padded(circuits[first : first + _AT_ONCE], _AT_ONCE)}


def circuit_number(key: str) -> int:
    """Return what stands for a circuit in ``kr_wait``: its key is long, and there may be millions of rows (R-PRF-5)."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], signed=True)


def read(rows: Iterable[tuple[Any, ...]]) -> tuple[list[Route], list[str]]:
    """Return the routes of rows, and the sessions of those that this version cannot read."""
    routes, unreadable = list[Route](), list[str]()
    for row in rows:
        try:
            routes.append(codec.decode_route(row))
        except ValueError:  # its text would quote what stands there
            unreadable.append(row[_ID])
    return routes, unreadable


def set_aside(tx: Transaction, session_id: str, *, until: datetime) -> None:
    """Keep a session that cannot be read from all who look, until then: it must not stand before others for ever."""
    tx.run(_SET_ASIDE, {"where_session_id": session_id, "owner_until": codec.to_micros(until)})


def take(tx: Transaction, route: Route, *, owner_id: str, until: datetime) -> Route | None:
    """Give ``route`` a new owner, and a new revision with it; None if somebody was first."""
    values = {
        "where_session_id": route.session_id,
        "where_revision": route.revision,
        "owner_id": owner_id,
        "owner_until": codec.to_micros(until),
        "revision": route.revision + 1,
    }
    if tx.run(_TAKE, values) != 1:
        return None
    return route.model_copy(update={"owner_id": owner_id, "owner_until": until, "revision": route.revision + 1})


def release(tx: Transaction, session_id: str, *, owner_id: str, at: datetime | None) -> bool:
    """Give up a lease that is still ours."""
    values = {
        "where_session_id": session_id,
        "where_owner_id": owner_id,
        "owner_until": codec.to_micros_or_none(at),
        "owner_id": None if at is None else owner_id,
    }
    return tx.run(_RELEASE, values) == 1


def wait_for(tx: Transaction, before: Route | None, session_id: str, waits: Sequence[Wait] | None) -> None:
    """Let the session wait for these circuits, and for no others any more; None leaves it as it is."""
    if waits is None:
        return
    if before is not None and before.state in HOLDS_WAITS:
        tx.run(_FORGET, {"where_session_id": session_id})
    for wait in waits:
        values = {"circuit": circuit_number(wait.key), "until_closed": int(wait.until_closed), "session_id": session_id}
        tx.run(_WAIT, values)

"""Utility calls (R-UTL-4): durable, without prompt and answer, final once ended."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import sqlalchemy as sa

from kandev_routing_sdk.ports import CallRecord
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import by_name, insert_if_missing, names, update, where
from kandev_routing_sdk.store.tables import CALLS
from kandev_routing_sdk.store.transaction import Transaction

INTERRUPTED: Final = "interrupted"

_C = CALLS.c
_COLUMNS: Final = names(CALLS)
_RUNNING: Final = _C.ended_at.is_(None)
_ADD: Final = insert_if_missing(CALLS)
_UPDATE: Final = update(CALLS, _C.call_id == where("call_id"), _RUNNING, without=("call_id", "started_at"))
_NEWEST: Final = sa.select(CALLS).order_by(_C.started_at.desc(), _C.call_id.desc()).limit(where("limit"))
_ONE: Final = sa.select(CALLS).where(_C.call_id == where("call_id"))
_INTERRUPT: Final = (
    sa.update(CALLS)
    .where(_C.session_id == where("session_id"), _RUNNING)
    .values(outcome=INTERRUPTED, ended_at=sa.bindparam("ended_at"))
)


def save(tx: Transaction, call: CallRecord) -> None:
    """Insert or update; one that has ended stays as it is."""
    values = codec.encode_call(call)
    if tx.run(_UPDATE, values | {"where_call_id": call.call_id}) != 1:
        tx.run(_ADD, values)


def newest(tx: Transaction, limit: int) -> list[CallRecord]:
    """Return calls, newest first."""
    rows = tx.rows(_NEWEST, {"where_limit": limit})
    return [codec.decode_call(values) for values in by_name(_COLUMNS, rows)]


def one(tx: Transaction, call_id: str) -> CallRecord | None:
    """Return one call."""
    found = by_name(_COLUMNS, tx.rows(_ONE, {"where_call_id": call_id}))
    return codec.decode_call(found[0]) if found else None


def interrupt(tx: Transaction, session_id: str, now: datetime) -> int:
    """Mark the running calls of a session; return how many."""
    return tx.run(_INTERRUPT, {"where_session_id": session_id, "ended_at": codec.to_micros(now)})

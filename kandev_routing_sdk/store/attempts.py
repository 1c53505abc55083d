"""Attempts: append-only once settled, and their dispatch mark only goes forward (R-ENG-11, R-DUR-3)."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from kandev_routing_sdk.errors import PreconditionFailed, StaleRevision
from kandev_routing_sdk.ports import AttemptRecord
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import by_name, insert, names, one_of, padded, update, where
from kandev_routing_sdk.store.tables import ATTEMPTS
from kandev_routing_sdk.store.transaction import Transaction
from kandev_routing_sdk.types import DispatchMark

_A = ATTEMPTS.c
_COLUMNS: Final = names(ATTEMPTS)
_MARKS: Final = tuple(DispatchMark)
"""In the order in which an attempt goes through them."""

_BORN_WITH: Final = (
    "attempt_id",
    "session_id",
    "generation",
    "ordinal",
    "prompt_number",
    "execution_profile_id",
    "profile_version",
    "family",
    "resource_keys",
    "catalogue_version",
    "created_at",
)
"""Never change: what was launched, for whom, and to whom its health is booked (R-CIR-5)."""

_UNSETTLED: Final = (
    _A.attempt_id == where("attempt_id"),
    _A.session_id == where("session_id"),
    _A.settled_at.is_(None),
    _A.mark != DispatchMark.SETTLED.value,
    one_of(_A.mark, len(_MARKS)),
)
_ADD: Final = insert(ATTEMPTS)
_UPDATE: Final = update(ATTEMPTS, *_UNSETTLED, without=_BORN_WITH)
_MARK: Final = (
    sa.update(ATTEMPTS)
    .where(*_UNSETTLED)
    .values({name: sa.bindparam(name) for name in ("mark", "owner_id", "process_group", "process_started_at")})
)
_OF_SESSION: Final = sa.select(ATTEMPTS).where(_A.session_id == where("session_id"))
_ALL: Final = _OF_SESSION.order_by(_A.ordinal)
_NEWEST: Final = _OF_SESSION.order_by(_A.ordinal.desc()).limit(where("limit"))


def add(tx: Transaction, attempt: AttemptRecord) -> None:
    """Insert an attempt with its decision."""
    tx.run(_ADD, codec.encode_attempt(attempt))


def rewrite(tx: Transaction, attempt: AttemptRecord, *, revision: int) -> None:
    """Update an attempt that is not settled yet.

    Raises:
        StaleRevision: it is settled, or its mark would go back.
    """
    values = codec.encode_attempt(attempt)
    if tx.run(_UPDATE, values | _guards(attempt)) != 1:
        raise StaleRevision(attempt.session_id, revision)


def mark(tx: Transaction, attempt: AttemptRecord) -> None:
    """Move the mark forward; note who is at it, and its process group.

    Raises:
        StaleRevision: it is settled, or its mark would go back. ``expected`` is the attempt's generation.
        PreconditionFailed: settling is a commit's work, with an outcome.
    """
    if attempt.mark is DispatchMark.SETTLED:
        raise PreconditionFailed(
            "an attempt is settled by a commit, together with its outcome; mark it with what came before"
        )
    values = {
        "mark": attempt.mark.value,
        "owner_id": attempt.owner_id,
        "process_group": attempt.process_group,
        "process_started_at": codec.to_micros_or_none(attempt.process_started_at),
    }
    if tx.run(_MARK, values | _guards(attempt)) != 1:
        raise StaleRevision(attempt.session_id, attempt.generation)


def of_session(tx: Transaction, session_id: str, newest: int | None = None) -> list[AttemptRecord]:
    """Return a session's attempts, in order, or only so many of the newest."""
    if newest is None:
        rows = tx.rows(_ALL, {"where_session_id": session_id})
    else:
        rows = tx.rows(_NEWEST, {"where_session_id": session_id, "where_limit": newest})[::-1]
    return [codec.decode_attempt(values) for values in by_name(_COLUMNS, rows)]


def _guards(attempt: AttemptRecord) -> dict[str, object]:
    up_to = _MARKS[: _MARKS.index(attempt.mark) + 1]
    return {
        "where_attempt_id": attempt.attempt_id,
        "where_session_id": attempt.session_id,
        **padded((m.value for m in up_to), len(_MARKS)),
    }

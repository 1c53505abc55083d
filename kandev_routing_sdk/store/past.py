"""Attempts of all sessions, newest first, page by page, for those who look back (R-CLS-6). One damaged row hides no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.model import Effects, Evidence
from kandev_routing_sdk.ports import AttemptQuery, PastAttempt
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.tables import ATTEMPTS
from kandev_routing_sdk.store.transaction import Transaction
from kandev_routing_sdk.types import AttemptOutcome

T = TypeVar("T")

_A = ATTEMPTS.c
_PLAIN: Final = (
    _A.attempt_id,
    _A.session_id,
    _A.ordinal,
    _A.execution_profile_id,
    _A.family,
    _A.catalogue_version,
    _A.created_at,
    _A.outcome,
)
_DOCUMENTS: Final = (_A.effects, _A.evidence, _A.classification)


def page(tx: Transaction, query: AttemptQuery, after: PastAttempt | None, limit: int) -> list[PastAttempt]:
    """Return attempts, newest first, from behind ``after`` on."""
    documents: tuple[sa.ColumnElement[Any], ...] = _DOCUMENTS
    if tx.is_sqlite:
        # As bytes: SQLite refuses a whole page for one text in it that is not UTF-8.
        documents = tuple(sa.cast(column, sa.LargeBinary).label(column.name) for column in _DOCUMENTS)
    statement = (
        sa.select(*_PLAIN, *documents)
        .where(*_wanted(query))
        .order_by(_A.created_at.desc(), _A.attempt_id.desc())
        .limit(limit)
    )
    if after is not None:
        statement = statement.where(sa.tuple_(_A.created_at, _A.attempt_id) < sa.tuple_(*after.position))
    return [_decoded(row) for row in tx.core().execute(statement).mappings()]


def _wanted(query: AttemptQuery) -> list[sa.ColumnElement[bool]]:
    named = ((_A.session_id, query.session_id), (_A.attempt_id, query.attempt_id), (_A.family, query.family))
    wanted = [column == value for column, value in named if value is not None]
    if query.since is not None:
        wanted.append(_A.created_at >= codec.to_micros(query.since))
    return wanted


def _decoded(row: sa.RowMapping) -> PastAttempt:
    unreadable: list[str] = []

    def read(name: str, decode: Callable[[Any], T]) -> T | None:
        try:
            return None if row[name] is None else decode(row[name])
        except (ValueError, TypeError, OverflowError, RecursionError):  # a ValidationError is a ValueError
            # what is wrong is not said: the message would quote what stands there
            unreadable.append(name)
            return None

    return PastAttempt(
        attempt_id=row["attempt_id"],
        session_id=row["session_id"],
        ordinal=row["ordinal"],
        execution_profile_id=row["execution_profile_id"],
        family=row["family"],
        catalogue_version=row["catalogue_version"],
        created_at=read("created_at", codec.from_micros),
        outcome=read("outcome", AttemptOutcome),
        effects=read("effects", Effects.model_validate_json),
        evidence=read("evidence", Evidence.model_validate_json),
        classification=read("classification", Classification.model_validate_json),
        unreadable=tuple(unreadable),
        position=(row["created_at"], row["attempt_id"]),
    )

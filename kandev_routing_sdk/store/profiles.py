"""Profiles that are kept in the store (R-PRO-1, R-PRO-6).

A deleted profile leaves its row without a body: whoever read version 3 must not overwrite another profile's version 3 that was
given the same id since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from kandev_routing_sdk.profiles import Profile, ProfileConflict
from kandev_routing_sdk.records import ProfileChange, ProfilePlan, StoredProfile
from kandev_routing_sdk.store.codec import from_micros, to_micros
from kandev_routing_sdk.store.statements import insert_if_missing, names, update, where
from kandev_routing_sdk.store.tables import PROFILES
from kandev_routing_sdk.store.transaction import Row, Transaction
from kandev_routing_sdk.types import ProfileKind

DELETED: Final = "deleted"
"""The ``kind`` of a row whose profile is gone."""

_C = PROFILES.c
_COLUMNS: Final = names(PROFILES)
_ROWS: Final = sa.select(PROFILES).order_by(_C.profile_id)
_THERE: Final = _ROWS.where(_C.kind != DELETED)
_ONE: Final = _THERE.where(_C.profile_id == where("profile_id"))
_ADD: Final = insert_if_missing(PROFILES)
_REWRITE: Final = update(
    PROFILES, _C.profile_id == where("profile_id"), _C.version == where("version"), without=("profile_id",)
)

# "kr_prof" as a number; held to the end of the transaction. SQLite's writers take turns anyway.
_ONE_AT_A_TIME: Final = sa.text(f"SELECT pg_advisory_xact_lock({0x6B725F70726F66})")

Values = Mapping[str, Any]


def one(tx: Transaction, profile_id: str) -> StoredProfile | None:
    """Return one profile, or None."""
    row = tx.row(_ONE, {"where_profile_id": profile_id})
    return None if row is None else decode(_named(row))


def every(tx: Transaction) -> list[StoredProfile]:
    """Return every profile, in the order of their ids."""
    found = (decode(_named(row)) for row in tx.rows(_THERE, {}))
    return [profile for profile in found if profile is not None]


def change(tx: Transaction, plan: ProfilePlan, now: datetime) -> list[Values]:
    """Ask ``plan``, write what it says, and return the rows.

    What a plan reads is what its changes are written over: nobody else writes profiles meanwhile.

    Raises:
        ProfileConflict: a version is not the expected one.
    """
    if not tx.is_sqlite:
        tx.rows(_ONE_AT_A_TIME, {})
    rows = {row[0]: _named(row) for row in tx.rows(_ROWS, {})}
    known = {profile_id: decode(row) for profile_id, row in rows.items()}
    changes = plan({profile_id: stored for profile_id, stored in known.items() if stored is not None})
    return [_write(tx, wanted, rows, now) for wanted in changes]


def _write(tx: Transaction, wanted: ProfileChange, rows: dict[str, Values], now: datetime) -> Values:
    row = rows.get(wanted.profile_id)
    there = None if row is None or row["kind"] == DELETED else row["version"]
    if there != wanted.expected or (there is None and wanted.profile is None):
        raise _conflict(wanted, row)
    new = _encode(wanted, 1 if row is None else row["version"] + 1, now)
    if row is None:
        touched = tx.run(_ADD, new)
    else:
        touched = tx.run(_REWRITE, {**new, "where_profile_id": wanted.profile_id, "where_version": row["version"]})
    if touched != 1:
        raise _conflict(wanted, row)
    rows[wanted.profile_id] = new
    return new


def _conflict(wanted: ProfileChange, row: Values | None) -> ProfileConflict:
    current = None if row is None else decode(row)
    document = None
    if current is not None:
        document = {"id": current.profile_id, "kind": current.kind.value, "version": current.version}
        if current.profile is not None:
            document = current.profile.model_dump(mode="json")
    return ProfileConflict(wanted.profile_id, wanted.expected, document)


def are(tx: Transaction, written: Sequence[Values]) -> bool:
    """Return whether the rows are stored just like that."""
    stored = {row[0]: _named(row) for row in tx.rows(_ROWS, {})}
    return bool(written) and all(stored.get(row["profile_id"]) == row for row in written)


# --- values and columns ---


def _named(row: Row) -> Values:
    return dict(zip(_COLUMNS, row, strict=True))


def _encode(wanted: ProfileChange, version: int, now: datetime) -> Values:
    profile = wanted.profile
    return {
        "profile_id": wanted.profile_id,
        "kind": DELETED if profile is None else profile.kind,
        "version": version,
        "enabled": int(profile is not None and profile.enabled),
        # Everything is written out: a default that changes later must not change what was accepted.
        "body": "" if profile is None else profile.model_copy(update={"version": version}).model_dump_json(),
        "updated_at": to_micros(now),
    }


def decode(row: Values) -> StoredProfile | None:
    """Return the profile of a row, by column name; None: it was deleted."""
    if row["kind"] == DELETED:
        return None
    return StoredProfile(
        profile_id=row["profile_id"],
        kind=ProfileKind(row["kind"]),
        version=row["version"],
        profile=_read(row["body"]),
        updated_at=from_micros(row["updated_at"]),
    )


# Read at every decision (R-ENG-4), and hardly ever another one: what is read again is the row, not the document in it.
@lru_cache(maxsize=1024)
def _read(body: str) -> Profile | None:
    try:
        return _reader().validate_json(body)
    except ValidationError:  # what is wrong is not said: the message would quote what stands there
        return None


@cache
def _reader() -> TypeAdapter[Profile]:
    return TypeAdapter(Profile)

"""Shapes of statements that more than one concern uses. Built once, at import; compiled once per store."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from kandev_routing_sdk.store.transaction import PerDialect, Row

WHERE: Final = "where_"
"""Prefix of values that a WHERE clause takes, apart from those that are set."""


def names(table: sa.Table) -> tuple[str, ...]:
    """Return the table's column names, in order."""
    return tuple(column.name for column in table.columns)


def by_name(columns: tuple[str, ...], rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows as mappings."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def where(name: str) -> sa.BindParameter[Any]:
    """Return the placeholder of a WHERE clause's value ``where_<name>``."""
    return sa.bindparam(f"{WHERE}{name}")


def insert(table: sa.Table, *, without: Collection[str] = ()) -> sa.Insert:
    """Return an INSERT of every column by name."""
    return sa.insert(table).values(_all(table, without))


def insert_if_missing(table: sa.Table) -> PerDialect:
    """Return an INSERT that touches no row when the key is taken."""
    values = _all(table, ())
    return PerDialect(
        sqlite=sqlite.insert(table).values(values).on_conflict_do_nothing(),
        postgresql=postgresql.insert(table).values(values).on_conflict_do_nothing(),
    )


def update(table: sa.Table, *conditions: sa.ColumnElement[bool], without: Collection[str]) -> sa.Update:
    """Return a guarded UPDATE of every column but ``without``."""
    return sa.update(table).where(*conditions).values(_all(table, without))


def one_of(column: sa.Column[Any], count: int) -> sa.ColumnElement[bool]:
    """Return ``column IN (…)`` over ``count`` placeholders ``where_0`` …: its text never depends on the values."""
    return column.in_([where(str(i)) for i in range(count)])


def padded(values: Iterable[object], count: int) -> dict[str, object]:
    """Return at least one value for :func:`one_of`; the last one fills the placeholders left over."""
    known = list(values)
    known += known[-1:] * (count - len(known))
    return {f"{WHERE}{i}": value for i, value in enumerate(known)}


def _all(table: sa.Table, without: Collection[str]) -> dict[str, Any]:
    return {column.name: sa.bindparam(column.name) for column in table.columns if column.name not in without}


__all__ = [
    "WHERE",
    "by_name",
    "insert",
    "insert_if_missing",
    "names",
    "one_of",
    "padded",
    "update",
    "where",
]

"""What a transaction can do: run statements on its connection, the same way on SQLite and on PostgreSQL.

Statements are Core constructs, built once at import. Each store compiles a statement once, for its engine, and then runs
the text on a driver's connection (R-PRF-1): neither an ORM session nor Core's execution is on the decision path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.pool import PoolProxiedConnection

Row = tuple[Any, ...]


class PerDialect(NamedTuple):
    """A statement that Core spells differently for each engine."""

    sqlite: Executable
    postgresql: Executable


Statement: TypeAlias = Executable | PerDialect

_BEGIN: Final = PerDialect(sqlite=sa.text("BEGIN IMMEDIATE"), postgresql=sa.text("BEGIN"))


class Compiled:
    """SQL for one driver, and how to hand it its values."""

    __slots__ = ("_constants", "_in_order", "sql")

    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        if isinstance(statement, PerDialect):
            statement = statement.sqlite if dialect.name == "sqlite" else statement.postgresql
        compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        # psycopg remembers how it reads a statement only if that is bytes
        self.sql: str | bytes = str(compiled) if dialect.name == "sqlite" else str(compiled).encode()
        order: Sequence[str] = compiled.positiontup  # each engine was made with placeholders by position
        # itemgetter gives a tuple for two names or more only
        self._in_order = itemgetter(*order) if len(order) > 1 else lambda values: tuple(values[name] for name in order)
        required = {name for name, bind in compiled.binds.items() if bind.required}
        self._constants = {name: value for name, value in compiled.params.items() if name not in required}

    def arguments(self, values: Mapping[str, Any]) -> Row:
        """Return the values in the order of their placeholders."""
        row: Row = self._in_order({**self._constants, **values} if self._constants else values)
        return row


class Transaction:
    """Runs statements on one connection, one transaction after the other."""

    __slots__ = ("_compiled", "_cursor", "_dialect", "_engine", "connection")
    connection: PoolProxiedConnection

    def __init__(
        self, engine: sa.Engine, connection: PoolProxiedConnection, compiled: dict[Statement, Compiled]
    ) -> None:
        self._engine, self.connection, self._compiled = engine, connection, compiled
        self._dialect = engine.dialect
        self._cursor: Any = connection.cursor()

    @property
    def is_sqlite(self) -> bool:
        """Whether transactions that write already exclude each other."""
        return self._dialect.name == "sqlite"

    def begin(self) -> None:
        """Begin to write."""
        self._execute(_BEGIN, {})

    def run(self, statement: Statement, values: Mapping[str, Any]) -> int:
        """Execute and return how many rows it touched."""
        self._execute(statement, values)
        return int(self._cursor.rowcount)

    def rows(self, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        """Execute and return all rows."""
        self._execute(statement, values)
        found: list[Row] = self._cursor.fetchall()
        return found

    def row(self, statement: Statement, values: Mapping[str, Any]) -> Row | None:
        """Execute and return the first row, or None."""
        found = self.rows(statement, values)
        return found[0] if found else None

    def core(self) -> sa.Connection:
        """Return a Core connection inside this transaction, for what is not on the decision path."""
        return sa.Connection(self._engine, connection=self.connection)

    def _execute(self, statement: Statement, values: Mapping[str, Any]) -> None:
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = self._compiled[statement] = Compiled(statement, self._dialect)
        self._cursor.execute(compiled.sql, compiled.arguments(values))

"""Transactions: one way to run statements on SQLite and on PostgreSQL, and what to do when that fails.

Statements are Core constructs, built once at import. Each store compiles a statement once, for its engine, and then runs
the text on a pooled driver connection (R-PRF-1): neither an ORM session nor Core's execution is on the decision path.

SQLite: ``BEGIN IMMEDIATE`` for every transaction that writes (a deferred one that reads first fails under load instead of
waiting). PostgreSQL: READ COMMITTED, rows locked in key order. Readers need no transaction on either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.sql.base import Executable

from kandev_routing_sdk.errors import PreconditionFailed, StoreError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import failures
from kandev_routing_sdk.store.connections import is_gone, memory_engine, open_place
from kandev_routing_sdk.store.failures import Again, Retry
from kandev_routing_sdk.store.turns import turn

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.pool import PoolProxiedConnection

T = TypeVar("T")

Row = tuple[Any, ...]
MAX_TRIES: Final = 40


class BlockingClock(Protocol):
    """What waiting for a busy database needs; :class:`~kandev_routing_sdk.clock.SystemClock` has it."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        ...

    def block(self, seconds: float) -> None:
        """Wait ``seconds`` on this thread."""
        ...


class PerDialect(NamedTuple):
    """A statement that Core spells differently for each engine."""

    sqlite: Executable
    postgresql: Executable


Statement = Executable | PerDialect

_BEGIN: Final = PerDialect(
    sqlite=sa.text("BEGIN IMMEDIATE"), postgresql=sa.text("BEGIN ISOLATION LEVEL READ COMMITTED")
)


class _Compiled:
    """SQL text for one driver, and how to hand it its values."""

    __slots__ = ("_constants", "_order", "sql")

    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        if isinstance(statement, PerDialect):
            statement = statement.sqlite if dialect.name == "sqlite" else statement.postgresql
        compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self.sql = str(compiled)
        self._order: tuple[str, ...] | None = tuple(compiled.positiontup) if compiled.positional else None
        required = {name for name, bind in compiled.binds.items() if bind.required}
        self._constants = {name: value for name, value in compiled.params.items() if name not in required}

    def arguments(self, values: Mapping[str, Any]) -> Row | Mapping[str, Any]:
        if self._constants:
            values = {**self._constants, **values}
        return values if self._order is None else tuple([values[name] for name in self._order])


class Transaction:
    """Runs statements inside one transaction."""

    __slots__ = ("_compiled", "_connection", "_cursor", "_dialect", "_engine")

    def __init__(
        self, engine: sa.Engine, connection: PoolProxiedConnection, compiled: dict[Statement, _Compiled]
    ) -> None:
        self._engine, self._connection, self._compiled = engine, connection, compiled
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
        return sa.Connection(self._engine, connection=self._connection)

    def _execute(self, statement: Statement, values: Mapping[str, Any]) -> None:
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = self._compiled[statement] = _Compiled(statement, self._dialect)
        self._cursor.execute(compiled.sql, compiled.arguments(values))


class _Job(Generic[T]):
    """What one call does, over all of its tries."""

    __slots__ = ("_landed", "_work", "lost", "writing")

    def __init__(
        self,
        work: Callable[[Transaction], T],
        *,
        writing: bool,
        landed: Callable[[Transaction, T], bool] | None = None,
    ) -> None:
        self._work, self.writing, self._landed = work, writing, landed
        self.lost: tuple[T] | None = None
        """What a try returned that may count: the server's answer to its commit was lost."""

    def run(self, transaction: Transaction) -> T:
        if self.lost is None or self._landed is None:
            return self._work(transaction)
        (done,) = self.lost
        if self._landed(transaction, done):
            return done
        try:
            return self._work(transaction)
        except PreconditionFailed:
            # It was still being committed when we looked, and we waited for it.
            if self._landed(transaction, done):
                return done
            raise


class Database:
    """A pool of connections to one database.

    Args:
        url: ``sqlite:///path`` or ``postgresql+psycopg://…``.
        read_only: never write, not even a checkpoint; a missing SQLite file reads as empty.
        timeout_s: how long one transaction may wait for others, in seconds.
        clock: waits between tries.

    Raises:
        ConfigError: a URL that is neither, or a driver that is not installed.
        StoreError: the SQLite file or its folder cannot be made or written.
    """

    def __init__(self, url: str, *, read_only: bool, timeout_s: float, clock: BlockingClock) -> None:
        self.read_only, self._timeout_s, self._clock = read_only, timeout_s, clock
        self._compiled: dict[Statement, _Compiled] = {}
        self._reached = self._closed = False
        place = open_place(url, read_only=read_only, timeout_s=timeout_s)
        self.engine, self.label, self._file, self.missing = place

    @property
    def is_sqlite(self) -> bool:
        """Whether this is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    # --- transactions ---

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads; made anew while others are in the way."""
        return self._persist(_Job(work, writing=False))

    def write(self, work: Callable[[Transaction], T], *, landed: Callable[[Transaction, T], bool] | None = None) -> T:
        """Run ``work`` in one transaction and commit it; rolled back whatever it raises, made anew while others are in the way.

        ``landed``: asked when the connection was lost during a commit, whether the transaction that had returned this counts; if
        so, that is the answer. Without it, ``work`` is something that done twice is as good as done once.

        Raises:
            StoreError: and its children; nothing is half written.
        """
        if self.read_only:
            raise StoreReadOnly(
                f"{self.label} was opened for reading only; nothing was changed: open it without read_only"
            )
        return self._persist(_Job(work, writing=True, landed=landed))

    def _persist(self, job: _Job[T]) -> T:
        if self._closed:
            raise StoreUnavailable(f"{self.label} was closed; nothing was changed: open it again")
        try:
            return self._try(job)
        except StoreError:
            if job.lost is None:
                raise
            # What kept us from asking is not what matters now.
            raise failures.lost_in_commit(self.label) from None

    def _try(self, job: _Job[T]) -> T:
        started = self._clock.monotonic()
        try:
            return self._once(job)
        except Again as first:
            if self._clock.monotonic() - started >= self._timeout_s:
                raise first.error from None
        import tenacity  # noqa: PLC0415  # only who has to wait pays for it

        def is_over(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number >= MAX_TRIES or self._clock.monotonic() - started >= self._timeout_s

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Again),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=1.0),
            stop=is_over,
            sleep=self._clock.block,
            reraise=True,
        )
        try:
            result: T = retrying(self._once, job)
            return result
        except Again as last:
            raise last.error from None

    def _once(self, job: _Job[T]) -> T:
        if job.writing and self._file is not None:
            with turn(self._file.parent, self._timeout_s / 2):
                return self._transact(job)
        return self._transact(job)

    def _transact(self, job: _Job[T]) -> T:
        ended: tuple[T] | None = None
        connection: PoolProxiedConnection | None = None
        try:
            connection = self._connect()
            self._reached = True
            transaction = Transaction(self.engine, connection, self._compiled)
            if job.writing:
                transaction.begin()
            result = job.run(transaction)
            if job.writing:
                ended = (result,)
                connection.commit()
            return result
        except self._driver_errors as error:
            judged = self.judge(error, connection)
            lost = judged.retry is Retry.RECONNECT
            if lost:
                if connection is not None:
                    connection.invalidate()
                    connection = None
                self.engine.dispose()  # the others went to the same server
                job.lost = ended or job.lost
            # Whoever was never reached is more likely named wrongly than about to come back.
            if judged.retry is Retry.NO or (lost and not self._reached):
                raise judged.error from None
            raise judged from None
        finally:
            if connection is not None and self._closed:
                connection.invalidate()
            elif connection is not None:
                connection.close()  # rolls back what was not committed

    def _connect(self) -> PoolProxiedConnection:
        connection = self.engine.raw_connection()
        if self._file is not None and not self.missing and is_gone(self._file, connection):
            connection.invalidate()
            self.engine.dispose()
            connection = self.engine.raw_connection()
        return connection

    @property
    def _driver_errors(self) -> tuple[type[BaseException], ...]:
        return (self.engine.dialect.loaded_dbapi.Error, DBAPIError, PoolTimeout)

    def judge(self, error: BaseException, connection: PoolProxiedConnection | None = None) -> Again:
        """Turn a driver's error into ours, with what to do about it."""
        if isinstance(error, PoolTimeout):
            return Again(failures.busy(self.label), Retry.NO)
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        if self.is_sqlite:
            return Again(*failures.from_sqlite(error, self.label))
        driver = None if connection is None else connection.driver_connection
        lost = driver is not None and bool(getattr(driver, "closed", False))
        return Again(*failures.from_postgresql(error, self.label, lost=lost))

    def close(self) -> None:
        """Close every connection, those in use as soon as they come back. Everything later is refused."""
        self._closed = True
        self.engine.dispose()

    def forget(self) -> None:
        """Stand for a database that has nothing yet, from now on."""
        self.engine.dispose()
        self._compiled.clear()
        self.engine, self.missing = memory_engine(), True

"""Connections and transactions: one way to run a statement on SQLite and on PostgreSQL.

Statements are Core constructs, built once at import. Each store compiles a statement once, for its engine, and then runs
the text on a pooled driver connection (R-PRF-1): neither an ORM session nor Core's execution is on the decision path.

SQLite: WAL, ``BEGIN IMMEDIATE`` for every transaction that writes (a deferred one that reads first fails under load instead of
waiting), ``synchronous=FULL`` (a lost commit is a repeated prompt). PostgreSQL: READ COMMITTED, rows locked in key order.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool, StaticPool
from sqlalchemy.sql.base import Executable

from kandev_routing_sdk.errors import ConfigError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import failures
from kandev_routing_sdk.store.failures import Again, Retry
from kandev_routing_sdk.store.turns import turn

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.pool import PoolProxiedConnection

T = TypeVar("T")

Row = tuple[Any, ...]
MAX_TRIES: Final = 40
_BEGIN: Final = sa.text("BEGIN IMMEDIATE")


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
        self.missing = False
        """Read-only, and there is nothing yet: an empty database in memory stands for it."""
        self._compiled: dict[Statement, _Compiled] = {}
        self._reached = self._closed = False
        self._folder: Path | None = None
        parsed = _parse(url)
        if parsed.get_backend_name() == "sqlite":
            path = Path(parsed.database or "")
            self._folder = path.absolute().parent
            self.label = f"the database {path}"
            self.engine = self._sqlite_engine(path)
        else:
            host = parsed.host or parsed.query.get("host") or "the default host"
            self.label = f"the PostgreSQL database {parsed.database or ''!r} on {host}"
            self.engine = self._postgresql_engine(parsed)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    # --- transactions ---

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads; made anew while others are in the way."""
        return self._persist(work, writing=False)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction and commit it; rolled back whatever it raises, made anew while others are in the way.

        Raises:
            StoreError: and its children; nothing is half written.
        """
        if self.read_only:
            raise StoreReadOnly(
                f"{self.label} was opened for reading only; nothing was changed: open it without read_only"
            )
        return self._persist(work, writing=True)

    def _persist(self, work: Callable[[Transaction], T], *, writing: bool) -> T:
        if self._closed:
            raise StoreUnavailable(f"{self.label} was closed; nothing was changed: open it again")
        started = self._clock.monotonic()
        try:
            return self._once(work, writing=writing)
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
            result: T = retrying(self._once, work, writing=writing)
            return result
        except Again as last:
            raise last.error from None

    def _once(self, work: Callable[[Transaction], T], *, writing: bool) -> T:
        if writing and self._folder is not None:
            with turn(self._folder, self._timeout_s / 2):
                return self._transact(work, writing=True)
        return self._transact(work, writing=writing)

    def _transact(self, work: Callable[[Transaction], T], *, writing: bool) -> T:
        committing = False
        connection: PoolProxiedConnection | None = None
        try:
            connection = self.engine.raw_connection()
            self._reached = True
            transaction = Transaction(self.engine, connection, self._compiled)
            if writing and self.is_sqlite:
                transaction.run(_BEGIN, {})
            result = work(transaction)
            if writing:
                committing = True
                connection.commit()
            return result
        except self._driver_errors as error:
            judged = self.judge(error, connection)
            lost = judged.retry is Retry.RECONNECT
            if lost and connection is not None:
                connection.invalidate()
                connection = None
            if lost and committing:
                raise failures.lost_in_commit(self.label) from None
            # Whoever was never reached is more likely named wrongly than about to come back.
            if judged.retry is Retry.NO or (lost and not self._reached):
                raise judged.error from None
            raise judged from None
        finally:
            if connection is not None and self._closed:
                connection.invalidate()
            elif connection is not None:
                connection.close()  # rolls back what was not committed

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
        self.engine, self.missing = _memory_engine(), True

    # --- engines ---

    def _sqlite_engine(self, path: Path) -> sa.Engine:
        if self.read_only and not path.exists():
            self.missing = True
            return _memory_engine()
        if not self.read_only:
            _make_file(path, self.label)
        uri = f"file:{quote(str(path.absolute()))}?mode={'ro' if self.read_only else 'rw'}"
        log = path.with_name(f"{path.name}-wal")
        milliseconds = round(self._timeout_s * 1000)

        def connect() -> sqlite3.Connection:
            # Even a reader wants to make a log. Where it may not, and nobody who may has one, the file is all there is.
            alone = self.read_only and not log.exists() and not _may_write(path.parent)
            name = f"{uri}&immutable=1" if alone else uri
            connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
            try:
                connection.execute(f"PRAGMA busy_timeout={milliseconds}")
                connection.execute("PRAGMA foreign_keys=ON")
                if self.read_only:
                    connection.execute("PRAGMA query_only=ON")
                else:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute("PRAGMA synchronous=FULL")
            except BaseException:
                connection.close()
                raise
            return connection

        return sa.create_engine(
            "sqlite://", creator=connect, poolclass=QueuePool, pool_timeout=self._timeout_s, max_overflow=35
        )

    def _postgresql_engine(self, url: sa.URL) -> sa.Engine:
        try:
            engine = sa.create_engine(
                url, pool_size=5, max_overflow=10, pool_timeout=self._timeout_s, connect_args={"connect_timeout": 10}
            )
        except ImportError:
            raise ConfigError(
                "store.url names PostgreSQL, whose driver is not installed: pip install 'kandev-routing-sdk[postgresql]'"
            ) from None
        milliseconds = round(self._timeout_s * 1000)

        def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401  # psycopg is optional
            connection.autocommit = True
            connection.execute(f"SET lock_timeout = {milliseconds}")
            connection.autocommit = False
            connection.read_only = self.read_only

        sa.event.listen(engine, "connect", prepare)
        return engine


def _memory_engine() -> sa.Engine:
    # One shared connection: the database lives as long as it does.
    return sa.create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"isolation_level": None, "check_same_thread": False}
    )


def _parse(url: str) -> sa.URL:
    # What SQLAlchemy says of a URL it cannot read may repeat the password.
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError(
            "store.url is not a database URL: write sqlite:////path/to/file.db or postgresql+psycopg://user@host/name"
        ) from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}:
        raise ConfigError(
            f"store.url starts with {parsed.drivername!r}, which is not supported: write sqlite:////path/to/file.db "
            "or postgresql+psycopg://user@host/name"
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise ConfigError("store.url names a database in memory, which forgets: write sqlite:////path/to/file.db")
    if "\0" in (parsed.database or ""):
        raise ConfigError(
            "store.url holds a character that no file name can hold: write sqlite:////path/to/file.db without it"
        )
    return parsed


def _make_file(path: Path, label: str) -> None:
    """Create folder (0700) and file (0600) if missing, and see that both can be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise failures.from_os_error(error, label) from None
    if path.is_dir():
        raise StoreUnavailable(f"{label} is a folder: name a file in it with `url` under [store] in the configuration")
    for place, what in ((path.parent, "its folder"), (path, "it")):
        if not _may_write(place):
            raise StoreReadOnly(
                f"{label}: {what} cannot be written: make it writable, or choose another place with `url` under [store] "
                "in the configuration"
            )


def _may_write(place: Path) -> bool:
    return os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids)

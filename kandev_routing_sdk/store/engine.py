"""Transactions on SQLite and on PostgreSQL, and what to do when one fails.

SQLite: ``BEGIN IMMEDIATE`` for every transaction that writes (a deferred one that reads first fails under load instead of
waiting). PostgreSQL: READ COMMITTED, rows locked in key order. Readers need no transaction on either.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from kandev_routing_sdk.errors import PreconditionFailed, StoreError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import failures
from kandev_routing_sdk.store.connections import is_gone, memory_engine, open_place
from kandev_routing_sdk.store.failures import Again, Retry
from kandev_routing_sdk.store.held import Connections
from kandev_routing_sdk.store.transaction import Compiled, Statement, Transaction
from kandev_routing_sdk.store.turns import leave, line_up

T = TypeVar("T")

MAX_TRIES: Final = 40
_MOST_CONNECTIONS: Final = MappingProxyType({"sqlite": 40, "postgresql": 15})
"""SQLite: as many as an event loop has threads. PostgreSQL: few enough that ten processes stay within a server's default."""


class BlockingClock(Protocol):
    """What waiting for a busy database needs; :class:`~kandev_routing_sdk.clock.SystemClock` has it."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        ...

    def block(self, seconds: float) -> None:
        """Wait ``seconds`` on this thread."""
        ...


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
        self.read_only: bool = read_only
        self._timeout_s, self._clock = timeout_s, clock
        self._reached = self._closed = False
        place = open_place(url, read_only=read_only, timeout_s=timeout_s)
        self.engine: sa.Engine = place.engine
        self.label: str = place.label
        self.missing: bool = place.missing
        self._file = place.file
        self._folder = None if self._file is None else self._file.parent
        self._connections = self._connected()

    def _connected(self) -> Connections:
        engine, compiled, file = self.engine, dict[Statement, Compiled](), None if self.missing else self._file
        return Connections(
            lambda: Transaction(engine, engine.raw_connection(), compiled),
            most=_MOST_CONNECTIONS[engine.dialect.name],
            timeout_s=self._timeout_s,
            is_gone=None if file is None else lambda connection: is_gone(file, connection),
        )

    @property
    def is_sqlite(self) -> bool:
        """Whether this is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    # --- transactions ---

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads; made anew while others are in the way. A row that it cannot read is a StoreError."""
        try:
            return self._persist(_Job(work, writing=False))
        except UnicodeError:  # of what was asked for
            raise
        except ValueError:  # an enum's, JSON's or a model's, which would quote what stands there
            raise failures.unreadable(self.label) from None

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
        if not job.writing or self._folder is None:
            return self._transact(job)
        turn = line_up(self._folder, self._timeout_s / 2)
        try:
            return self._transact(job)
        finally:
            if turn is not None:
                leave(turn)

    def _transact(self, job: _Job[T]) -> T:
        ended: tuple[T] | None = None
        transaction: Transaction | None = None
        clean = False
        try:
            transaction = self._connections.take()
            if transaction is None:
                raise failures.busy(self.label)
            self._reached = True
            if job.writing:
                transaction.begin()
            result = job.run(transaction)
            if job.writing:
                ended = (result,)
                transaction.connection.commit()
            clean = True
            return result
        except self._driver_errors as error:
            judged = self.judge(error, transaction)
            lost = judged.retry is Retry.RECONNECT
            if lost:
                if transaction is not None:
                    self._connections.end(transaction)
                    transaction = None
                self._connections.forget()  # the others went to the same server
                job.lost = ended or job.lost
            # Whoever was never reached is more likely named wrongly than about to come back.
            if judged.retry is Retry.NO or (lost and not self._reached):
                raise judged.error from None
            raise judged from None
        finally:
            if transaction is not None and (clean or self._undone(transaction)):
                self._connections.give_back(transaction)

    def _undone(self, transaction: Transaction) -> bool:
        """Undo what was not committed; a connection that cannot even do that is closed."""
        try:
            transaction.connection.rollback()
        except BaseException as error:
            self._connections.end(transaction)
            if not isinstance(error, self._driver_errors):
                raise
            return False
        return True

    @property
    def _driver_errors(self) -> tuple[type[BaseException], ...]:
        return (self.engine.dialect.loaded_dbapi.Error, DBAPIError, OSError, *failures.UNSTORABLE)

    def judge(self, error: BaseException, transaction: Transaction | None = None) -> Again:
        """Turn a driver's error into ours, with what to do about it."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        if isinstance(error, OSError):  # a driver that could not wait for an answer knows no more of it
            return Again(failures.from_os_error(error, self.label), Retry.RECONNECT)
        if self.is_sqlite:
            return Again(*failures.from_sqlite(error, self.label))
        driver = None if transaction is None else transaction.connection.driver_connection
        lost = driver is not None and bool(getattr(driver, "closed", False))
        return Again(*failures.from_postgresql(error, self.label, lost=lost))

    def close(self) -> None:
        """Close every connection, those in use as soon as they come back. Everything later is refused."""
        self._closed = True
        self._connections.close()

    def forget_connections(self) -> None:
        """Close those that are not in use: the next transaction makes a new one."""
        self._connections.forget()

    def forget(self) -> None:
        """Stand for a database that has nothing yet, from now on."""
        self._connections.close()
        self.engine, self.missing = memory_engine(), True
        self._connections = self._connected()

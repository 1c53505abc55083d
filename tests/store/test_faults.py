"""Whatever fails at whatever step of whatever write: a typed error, nothing half written, and it works when the cause is gone
(R-DUR-6, R-ENG-2).
"""

from __future__ import annotations

import errno
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kandev_routing_sdk.errors import StoreError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import open_store
from tests.store._faults import WRITES, CountingClock, Fault, bench, writing_methods
from tests.store._values import advance, create


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


def says(kind: type[StoreError], *words: str, one_of: tuple[str, ...] = ("",)) -> Callable[[StoreError], bool]:
    """Whether an error is of this kind, says all of this, what it means, and repeats nothing of the driver's."""

    def is_it(error: StoreError) -> bool:
        text = str(error)
        known = all(word in text for word in (*words, ": ")) and any(word in text for word in one_of)
        return type(error) is kind and known and text.startswith("the ") and "canary" not in text

    return is_it


UNCHANGED = "nothing was changed"


def test_every_method_that_writes_is_tried() -> None:
    assert writing_methods() == {write.method for write in WRITES}


def test_a_driver_that_has_no_file_left_to_wait_with_is_asked_again(sqlite_url: str, clock: CountingClock) -> None:
    """As psycopg has none for its selector: it may be over at once, and if it is not, that is said."""
    with open_store(sqlite_url, clock=clock) as store:
        engine, left = store._database.engine, [OSError(errno.EMFILE, "canary")] * 2
        make = engine.raw_connection

        def scarce() -> object:
            if left:
                raise left.pop()
            return make()

        setattr(engine, "raw_connection", scarce)  # noqa: B010  # an instance's method
        store._database.forget_connections()
        assert store.load("nobody") is None
        left += [OSError(errno.EMFILE, "canary")] * 1000
        store._database.forget_connections()
        with pytest.raises(StoreUnavailable) as raised:
            store.load("nobody")
        assert says(StoreUnavailable, "more open files than are allowed here (EMFILE)")(raised.value)


# --- SQLite ---


def fills(connection: sqlite3.Connection) -> None:
    """The disk is full: the next page that is asked for is not there."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    try:
        connection.execute("CREATE TABLE kr_canary AS SELECT zeroblob(1000000)")
    finally:
        connection.execute("PRAGMA max_page_count=1073741823")


def forbids(connection: sqlite3.Connection) -> None:
    """The file may not be written (any more)."""
    connection.execute("PRAGMA query_only=ON")
    try:
        connection.execute("CREATE TABLE kr_canary (x)")
    finally:
        connection.execute("PRAGMA query_only=OFF")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (fills, says(StoreUnavailable, UNCHANGED, "disk is full", "free some space")),
        (forbids, says(StoreReadOnly, UNCHANGED, "[store]")),
    ],
)
def test_sqlite_refuses_at_each_step(
    sqlite_url: str, clock: CountingClock, fault: Fault, expected: Callable[[StoreError], bool]
) -> None:
    with bench(sqlite_url, clock) as b:
        steps = b.fails_at_every_step(fault, expected)
    # BEGIN, one statement and COMMIT at least; a whole commit writes eight tables.
    assert 3 == min(steps)
    assert 13 < max(steps)
    assert 0.0 == clock.time, "trying again would not help"


def test_a_file_that_may_not_grow_fails_the_commit_itself(sqlite_url: str, clock: CountingClock) -> None:
    """A quota, as the kernel enforces it: SQLite keeps everything in memory until COMMIT, and fails there."""
    log = Path(f"{sqlite_url.removeprefix('sqlite:///')}-wal")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limits(_connection: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, hard))

    with bench(sqlite_url, clock) as b:
        for number, write in enumerate(WRITES):
            write.set_up(b.store, number)
            before = b.tables.rows()
            try:
                with b.wire.armed(limits, at=-1), pytest.raises(StoreUnavailable) as caught:
                    write.act(b.store, number)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert says(StoreUnavailable, UNCHANGED, "SQLITE_IOERR", "check the disk")(caught.value)
            assert before == b.tables.rows(), write.method
            write.act(b.store, number)
            assert before != b.tables.rows()


def test_somebody_who_keeps_the_lock_stops_every_write(sqlite_url: str, clock: CountingClock) -> None:
    """Busy for longer than SQLite itself waits: BEGIN is where a transaction waits, and it holds everything from there on."""
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    with bench(sqlite_url, clock) as b:
        for number, write in enumerate(WRITES):
            write.set_up(b.store, number)
            before = b.tables.rows()
            other.execute("BEGIN IMMEDIATE")
            with b.wire.armed(lambda c: c.execute("PRAGMA busy_timeout=0"), at=1):
                with pytest.raises(StoreUnavailable) as caught:
                    write.act(b.store, number)
                assert says(StoreUnavailable, UNCHANGED, "locked", "end the process")(caught.value)
                assert b.wire.hits > 1, "it was tried again for a while"
            other.execute("ROLLBACK")
            assert before == b.tables.rows()
            write.act(b.store, number)
            assert before != b.tables.rows()
    other.close()


def test_a_file_that_was_moved_away_is_not_written_any_more(sqlite_url: str) -> None:
    """SQLite would go on in a file without a name, and nobody would ever find that again."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with open_store(sqlite_url) as store:
        first = store.commit(create()).route
        away = path.rename(path.with_suffix(".away"))
        for write in (lambda: store.commit(advance(first)), lambda: store.load("s1")):
            with pytest.raises(StoreUnavailable, match="cannot be opened"):
                write()
        assert not path.exists()
        away.rename(path)
        assert 2 == store.commit(advance(first)).route.revision
        assert 2 == (store.load("s1") or first).revision

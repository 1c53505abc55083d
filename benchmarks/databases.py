"""Where the store's benchmarks keep their databases, and whether two of them are set up alike and hold the same."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from benchmarks.by_hand import Hand, PostgresHand, SqliteHand
from kandev_routing_sdk.store import SqlStore
from tests import _postgres

TIMEOUT_S: Final = 10.0
"""How long a transaction may wait for others, with the store and by hand: the store's default."""

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": (
        "PRAGMA journal_mode",
        "PRAGMA synchronous",
        "PRAGMA busy_timeout",
        "PRAGMA foreign_keys",
        "PRAGMA wal_autocheckpoint",
        "PRAGMA cache_size",
        "PRAGMA page_size",
    ),
    "postgresql": (
        "SHOW fsync",
        "SHOW synchronous_commit",
        "SHOW full_page_writes",
        "SHOW lock_timeout",
        "SHOW transaction_isolation",
        "SHOW transaction_read_only",
    ),
}
WRITTEN: Final[Mapping[str, str]] = {
    "kr_session": "SELECT * FROM kr_session ORDER BY session_id",
    "kr_attempt": "SELECT * FROM kr_attempt ORDER BY session_id, ordinal",
    "kr_event": "SELECT * FROM kr_event ORDER BY sequence",
}
"""What a decision writes, in an order by which two databases can be compared."""


class Place(NamedTuple):
    """Makes new, empty databases."""

    engine: str
    folder: Path
    urls: Iterator[str]

    def __str__(self) -> str:
        return f"{self.engine} in {self.folder} ({file_system(self.folder)})"


def hand(url: str) -> Hand:
    """Connect to a database without the store."""
    return (SqliteHand if url.startswith("sqlite") else PostgresHand)(url, TIMEOUT_S)


def file_system(folder: Path) -> str:
    """Return the type of the file system that ``folder`` is on, as far as the machine tells."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return "file system not known"
    parents = {str(folder), *map(str, folder.parents)}
    # a later mount on the same folder hides an earlier one
    found = {mount[1]: mount[2] for mount in mounts if mount[1] in parents}
    return found[max(found, key=len)] if found else "file system not known"


@contextmanager
def place(engine: str, parent: Path | None, *, durable: bool = True) -> Iterator[Place]:
    """Make room for ``engine``'s databases in a new folder below ``parent``, and clean up.

    Args:
        engine: ``sqlite`` or ``postgresql``. PostgreSQL is a server of its own; its folder is the system's temporary one.
        parent: of SQLite's folder; the system's temporary folder by default.
        durable: PostgreSQL forces a commit to the disk before it answers, as SQLite does here.
    """
    with ExitStack() as stack:
        if engine == "sqlite":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kr-bench-", dir=parent))).resolve()
            urls = (f"sqlite:///{folder / f'{number}.db'}" for number in count())
        else:
            # what the tests turn off, because nothing of theirs has to outlive them
            on = dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "on")
            with patch.dict(_postgres.SETTINGS, on if durable else {}):
                server = stack.enter_context(_postgres.running_server())
            folder = server.folder
            urls = (stack.enter_context(server.database()) for _ in count())
        if file_system(folder) in _IN_MEMORY:
            print(
                f"{folder} is in memory, where nothing is forced to a disk: name another with --folder or TMPDIR",
                file=sys.stderr,
            )
        yield Place(engine, folder, urls)


def settings_of(connection: Any, engine: str) -> dict[str, Any]:  # noqa: ANN401  # either driver's
    """Return how a driver's connection is set up."""
    found = {}
    for question in _SETTINGS[engine]:
        cursor = connection.cursor()
        cursor.execute(question)
        ((found[question],),) = cursor.fetchall()
    connection.rollback()
    return found


def set_up_alike(engine: str, store: SqlStore, by_hand: Hand) -> None:
    """See that the store's connections and the one by hand have the same settings."""
    pooled = store._database.engine.raw_connection()  # noqa: SLF001  # nobody else needs a connection of the store
    try:
        theirs = settings_of(pooled, engine)
    finally:
        pooled.close()
    mine = settings_of(by_hand.connection, engine)
    if theirs != mine:
        raise SystemExit(f"the connections differ, so nothing can be compared: the store {theirs}, by hand {mine}")


def rows(url: str, wanted: Mapping[str, str] = WRITTEN) -> dict[str, list[tuple[Any, ...]]]:
    """Return what the statements find, by their names: every row that decisions wrote, by table."""
    found = {}
    with closing(hand(url)) as connected:
        for name, statement in wanted.items():
            cursor = connected.connection.cursor()
            cursor.execute(statement)
            found[name] = cursor.fetchall()
    return found

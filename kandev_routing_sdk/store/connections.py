"""The making of connections: what a URL names, and how each connection to it is set up.

SQLite: WAL, ``synchronous=FULL`` (a lost commit is a repeated prompt), no transaction that was not asked for. PostgreSQL: the same,
and every wait has an end: for a lock, for a statement, for an idle transaction, for a peer that vanished.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from kandev_routing_sdk.errors import ConfigError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import failures

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

_STATEMENT: Final = 2
"""How many times as long as for a lock a statement may take altogether."""
_IDLE: Final = 6
"""How many times as long a transaction may do nothing: its process was stopped, or its host is gone, and its rows are locked."""

# A commit that was confirmed must outlive a crash of the server, whatever its default is. Who was forbidden to write stays so.
_SET_UP: Final = """
SELECT set_config('lock_timeout', %(lock)s, false), set_config('statement_timeout', %(statement)s, false),
set_config('idle_in_transaction_session_timeout', %(idle)s, false),
set_config('default_transaction_isolation', 'read committed', false),
set_config('default_transaction_read_only', coalesce(%(read_only)s, current_setting('default_transaction_read_only')), false),
set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)
"""
_FILE: Final = "file"
_TCP: Final[Mapping[str, int]] = MappingProxyType(
    {
        "connect_timeout": 10,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }
)


class Place(NamedTuple):
    """What a URL names."""

    engine: sa.Engine
    label: str
    """How sentences call it; never holds a password."""
    file: Path | None
    """SQLite's."""
    missing: bool
    """Read-only, and there is nothing yet: an empty database in memory stands for it."""


def open_place(url: str, *, read_only: bool, timeout_s: float) -> Place:
    """Return a pool for what ``url`` names; an SQLite file is made if it is missing, nothing else is connected to yet.

    Raises:
        ConfigError: a URL that is neither SQLite's nor PostgreSQL's, or a driver that is not installed.
        StoreError: the SQLite file or its folder cannot be made or written.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(parsed.database or "")
        label, file = f"the database {path}", path.absolute()
        if read_only and not path.exists():
            return Place(memory_engine(), label, file, missing=True)
        if not read_only:
            _make_file(path, label)
        return Place(_sqlite(file, read_only, timeout_s), label, file, missing=False)
    host = parsed.host or parsed.query.get("host") or "the default host"
    label = f"the PostgreSQL database {parsed.database or ''!r} on {host}"
    return Place(_postgresql(parsed, read_only, timeout_s), label, None, missing=False)


def memory_engine() -> sa.Engine:
    """Return an empty database in memory: one shared connection, for it lives as long as that does."""
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


# --- SQLite ---


def _sqlite(path: Path, read_only: bool, timeout_s: float) -> sa.Engine:  # noqa: FBT001  # private
    uri = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rw'}"
    log = path.with_name(f"{path.name}-wal")
    milliseconds = round(timeout_s * 1000)

    def connect() -> sqlite3.Connection:
        # Even a reader wants to make a log. Where it may not, and nobody who may has one, the file is all there is.
        alone = read_only and not log.exists() and not _may_write(path.parent)
        name = f"{uri}&immutable=1" if alone else uri
        connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout={milliseconds}")
            connection.execute("PRAGMA foreign_keys=ON")
            if read_only:
                connection.execute("PRAGMA query_only=ON")
            else:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    def remember(_connection: object, record: Any) -> None:  # noqa: ANN401  # SQLAlchemy's
        record.info[_FILE] = _identity(path)

    sa.event.listen(engine, "connect", remember)
    return engine


def is_gone(path: Path, connection: PoolProxiedConnection) -> bool:
    """Return whether the file is another one by now, or none.

    SQLite would go on writing into one that was deleted or moved away, and nobody would ever find that again.
    """
    return bool(connection.info[_FILE] != _identity(path))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # on the decision path
    except OSError:
        return None
    return found.st_dev, found.st_ino


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


# --- PostgreSQL ---


def _postgresql(url: sa.URL, read_only: bool, timeout_s: float) -> sa.Engine:  # noqa: FBT001  # private
    arguments = {name: value for name, value in _TCP.items() if name not in url.query}
    try:
        # Placeholders by position: psycopg takes longer over names than over everything else that it does with them.
        engine = sa.create_engine(url, poolclass=NullPool, paramstyle="format", connect_args=arguments)
    except ImportError:
        raise ConfigError(
            "store.url names PostgreSQL, whose driver is not installed: pip install 'kandev-routing-sdk[postgresql]'"
        ) from None
    milliseconds = round(timeout_s * 1000)
    settings = {
        "lock": str(milliseconds),
        "statement": str(_STATEMENT * milliseconds),
        "idle": str(_IDLE * milliseconds),
        "read_only": "on" if read_only else None,
    }

    def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401  # psycopg is optional
        connection.autocommit = True
        connection.execute(_SET_UP, settings)

    sa.event.listen(engine, "connect", prepare)
    return engine

"""Bringing the schema up to date, once, however many start together (R-DUR-1).

The quick path reads one number and imports nothing. Otherwise check and upgrade happen under one lock, in one transaction: an
IMMEDIATE transaction on SQLite, an advisory lock on PostgreSQL.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from kandev_routing_sdk.errors import SchemaTooNew, StoreUnavailable
from kandev_routing_sdk.store.tables import METADATA, VERSION_TABLE

if TYPE_CHECKING:
    from kandev_routing_sdk.store.engine import Database
    from kandev_routing_sdk.store.transaction import Transaction

VERSIONS: Final = ("0001", "0002", "0003")
"""Every schema version, oldest first; the last is this code's. Append-only, like the migrations."""
HEAD: Final = VERSIONS[-1]
FOLDER: Final = Path(__file__).parent / "migrations"

_NAME: Final[Mapping[str, str]] = {"name": VERSION_TABLE}
_SQLITE_HAS: Final = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
_POSTGRESQL_HAS: Final = sa.text("SELECT 1 WHERE to_regclass(:name) IS NOT NULL")
_VERSION: Final[sa.Select[tuple[str]]] = sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE))
# "kr_vers" as a number.
_LOCK: Final = sa.text(f"SELECT pg_advisory_xact_lock({0x6B725F76657273})")
# How long a migration takes depends on the rows there are, and whoever starts meanwhile waits for it (in milliseconds).
_PATIENT: Final = sa.text(
    "SELECT current_setting('lock_timeout'), set_config('lock_timeout', '300000', true), "
    "set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '300000', true)"
)
# What waits for a table keeps everybody else from it.
_AS_EVER: Final = sa.text("SELECT set_config('lock_timeout', :usual, true)")

# Alembic's `op` and `context` are process-wide names: one migration at a time in a process.
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a database, as it was found."""

    label: str
    """The database in words; without its password."""
    version: str | None
    """None: there is none yet."""

    @property
    def pending(self) -> tuple[str, ...]:
        """The migrations that are still to be made, in order.

        Raises :class:`~kandev_routing_sdk.errors.SchemaTooNew` for a version that this code does not know.
        """
        if self.version is None:
            return VERSIONS
        if self.version not in VERSIONS:
            raise _too_new(self.label, self.version)
        return VERSIONS[VERSIONS.index(self.version) + 1 :]


def version(tx: Transaction) -> str | None:
    """Return the schema's version; None when there is none yet."""
    if tx.row(_SQLITE_HAS if tx.is_sqlite else _POSTGRESQL_HAS, _NAME) is None:
        return None
    row = tx.row(_VERSION, {})
    return None if row is None else str(row[0])


def ensure(database: Database, *, migrate: bool) -> None:
    """See that the schema is this code's. Read-only, a database without one reads as empty.

    Raises:
        SchemaTooNew: a newer version of the SDK wrote it; nothing was changed.
        StoreUnavailable: it is older, or missing, and ``migrate`` is False.
        StoreError: the migration failed; nothing was changed.
    """
    found = database.read(version)
    if _is_current(database, found):
        return
    if found is None and database.read_only:
        database.forget()
        METADATA.create_all(database.engine)
        return
    if not migrate or database.read_only:
        raise StoreUnavailable(
            f"{database.label} has {f'schema version {found}' if found else 'no schema'} and {HEAD} is needed: run "
            "kandev-routing db upgrade, or open it once with migrate=True"
        )
    with _ONE_AT_A_TIME:
        _upgrade(database)


def _is_current(database: Database, found: str | None) -> bool:
    if found is not None and found not in VERSIONS:
        raise _too_new(database.label, found)
    return found == HEAD


def _too_new(label: str, found: str) -> SchemaTooNew:
    return SchemaTooNew(
        f"{label} has schema version {found}, and this version of kandev-routing-sdk knows up to {HEAD}: "
        "upgrade the package, or choose another database; nothing was changed"
    )


def _upgrade(database: Database) -> None:
    # Before the lock: on a busy machine the imports take longer than the migration.
    from alembic import command  # noqa: F401, PLC0415  # only a migration pays for it

    def work(tx: Transaction) -> None:
        if not tx.is_sqlite:
            ((usual, *_),) = tx.rows(_PATIENT, {})
            tx.rows(_LOCK, {})
            tx.rows(_AS_EVER, {"usual": usual})
        if not _is_current(database, version(tx)):
            run_alembic(tx.core(), HEAD)

    database.write(work)


def run_alembic(connection: sa.Connection, revision: str) -> None:
    """Upgrade to ``revision`` inside the transaction of ``connection``."""
    from alembic import command  # noqa: PLC0415  # only a migration pays for it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
    except DBAPIError as error:
        # Without SQLAlchemy's text, which repeats the statement.
        raise (error.orig or error) from None

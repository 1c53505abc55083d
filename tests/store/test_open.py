"""Opening: files, folders, schema, and every way it can fail (R-DUR-1, R-DUR-6)."""

from __future__ import annotations

import os
import pickle
import sqlite3
import stat
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from kandev_routing_sdk.binding import new_installation_key
from kandev_routing_sdk.errors import ConfigError, SchemaTooNew, StoreError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import SqlStore, migrate, open_store, routes
from kandev_routing_sdk.store.tables import METADATA, VERSION_TABLE
from tests.store import _racers
from tests.store._race import CONTEXT
from tests.store._values import ACCOUNT, NOW, advance, attempt, call, create, event, failure


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


@contextmanager
def plain(url: str) -> Iterator[sa.Connection]:
    """A connection that is not ours."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def tables(url: str) -> set[str]:
    with plain(url) as connection:
        return set(sa.inspect(connection).get_table_names())


# --- schema ---


@pytest.mark.parametrize("start", [None, *migrate.VERSIONS])
def test_from_every_version_the_end_equals_the_models(database_url: str, start: str | None) -> None:
    if start is not None:
        with plain(database_url) as connection:
            migrate.run_alembic(connection, start)
    open_store(database_url).close()
    with plain(database_url) as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        assert [] == compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)


def test_versions_are_the_migrations_in_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    walked = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert list(migrate.VERSIONS) == walked[::-1]


def test_every_table_and_index_has_the_prefix(database_url: str) -> None:
    open_store(database_url).close()
    with plain(database_url) as connection:
        inspector = sa.inspect(connection)
        names = set(inspector.get_table_names())
        indexes = {str(i["name"]) for name in names for i in inspector.get_indexes(name)}
    assert {*METADATA.tables, VERSION_TABLE} == names
    assert [] == [name for name in names | indexes if not name.startswith("kr_")]


def test_new_events_are_told_once_a_transaction_on_postgresql(postgres_url: str) -> None:
    """R-CON-6: whoever listens hears of them, and of nothing else."""
    with (
        open_store(postgres_url) as store,
        psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as ear,
    ):
        ear.execute("LISTEN kr_event")
        store.commit(create(events=(event(), event())))
        store.commit(create("s2"))
        heard = list(ear.notifies(timeout=5.0, stop_after=1)) + list(ear.notifies(timeout=0.0))
    assert [("kr_event", "")] == [(word.channel, word.payload) for word in heard]


def test_foreign_tables_are_left_alone(database_url: str) -> None:
    """R-DUR-1: the SDK is a guest in a host's database."""
    with plain(database_url) as connection:
        connection.exec_driver_sql("CREATE TABLE office_runs (id INTEGER PRIMARY KEY, note VARCHAR(7))")
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("INSERT INTO office_runs VALUES (1, 'theirs')")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('host')")
    with open_store(database_url) as store:
        store.commit(create())
    with plain(database_url) as connection:
        assert [(1, "theirs")] == [tuple(row) for row in connection.exec_driver_sql("SELECT * FROM office_runs")]
        assert ["host"] == connection.exec_driver_sql("SELECT * FROM alembic_version").scalars().all()
        assert {"id", "note"} == {c["name"] for c in sa.inspect(connection).get_columns("office_runs")}


def test_a_newer_schema_is_refused_and_left_alone(database_url: str) -> None:
    with open_store(database_url) as store:
        store.commit(create())
    with plain(database_url) as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    for options in ({}, {"migrate": False}, {"read_only": True}):
        with pytest.raises(SchemaTooNew, match="9999"):
            open_store(database_url, **options)  # type: ignore[arg-type]
    with plain(database_url) as connection:
        assert ["9999"] == connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars().all()


def test_without_migration_a_missing_schema_is_an_error(database_url: str) -> None:
    with pytest.raises(StoreUnavailable, match="migrate=True"):
        open_store(database_url, migrate=False)
    assert set() == tables(database_url)
    open_store(database_url).close()
    open_store(database_url, migrate=False).close()


def test_a_migration_that_fails_changes_nothing(database_url: str) -> None:
    """A table of the same name is in the way of the second statement or a later one."""
    with plain(database_url) as connection:
        connection.exec_driver_sql("CREATE TABLE kr_call (mine INTEGER)")
    with pytest.raises(StoreError):
        open_store(database_url)
    assert {"kr_call"} == tables(database_url)
    with plain(database_url) as connection:
        connection.exec_driver_sql("DROP TABLE kr_call")
    open_store(database_url).close()


def test_a_current_schema_is_opened_without_alembic(sqlite_url: str) -> None:
    """R-PRF-4: the quick path imports nothing heavy."""
    import subprocess
    import sys

    open_store(sqlite_url).close()
    code = (
        "import sys; from kandev_routing_sdk.store import open_store; open_store(sys.argv[1]).close(); "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'alembic', 'psycopg', 'tenacity', 'anyio'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code, sqlite_url], capture_output=True, text=True, check=True)
    assert "[]" == ran.stdout.strip()


# --- the SQLite file ---


def test_file_and_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "routing.db"
    with open_store(f"sqlite:///{path}") as store:
        store.commit(create())
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
        assert {"routing.db": 0o600, "routing.db-wal": 0o600, "routing.db-shm": 0o600} == modes
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


def test_an_existing_file_keeps_its_mode(sqlite_url: str) -> None:
    path = path_of(sqlite_url)
    path.touch(mode=0o640)
    path.chmod(0o640)
    open_store(sqlite_url).close()
    assert 0o640 == stat.S_IMODE(path.stat().st_mode)


def test_sqlite_runs_as_designed(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        connection = store._database.engine.raw_connection()
        found = {
            name: connection.driver_connection.execute(f"PRAGMA {name}").fetchone()[0]  # type: ignore[union-attr]
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
        connection.close()
    assert {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000} == found


@pytest.mark.parametrize("name", ["with space & 100%.db", "q?x=1#y.db", "ünï.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    url = sa.URL.create("sqlite", database=str(path)).render_as_string()
    with open_store(url) as store:
        store.commit(create())
    assert [path] == list(tmp_path.iterdir())


# --- reading without writing ---


def read_everything(url: str) -> list[Any]:
    with open_store(url, read_only=True) as store:
        key = store.installation_key(new_installation_key(b"k" * 32))
        assert b"k" * 32 == key.material.get_secret_value()
        return [
            store.load("s1"),
            store.sessions(),
            store.attempts("s1"),
            store.selections("s1"),
            store.events(),
            dict(store.circuit_view([ACCOUNT])),
            store.circuits(),
            store.calls(),
            store.call("c1"),
        ]


NOTHING: list[Any] = [None, [], [], [], [], {}, [], [], None]


def test_reading_changes_no_byte(sqlite_url: str) -> None:
    """`explain` on a database whose last writer died before its log was folded in: the file stays as it is."""
    process = CONTEXT.Process(target=_racers.leaves_a_log, args=(sqlite_url,))
    process.start()
    process.join(60)
    assert 0 == process.exitcode
    process.close()
    path = path_of(sqlite_url)
    log = path.with_name(path.name + "-wal")
    before = (path.read_bytes(), log.read_bytes())
    assert len(before[1]) > 5000

    found = read_everything(sqlite_url)

    assert "s1" == found[0].session_id
    assert before == (path.read_bytes(), log.read_bytes())
    open_store(sqlite_url).close()
    assert path.read_bytes() != before[0], "an ordinary store does fold it in, or this test proves nothing"


def test_reading_a_closed_database_changes_no_byte(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        store.commit(create())
    before = path_of(sqlite_url).read_bytes()
    assert "s1" == read_everything(sqlite_url)[0].session_id
    assert before == path_of(sqlite_url).read_bytes()


def test_a_missing_database_reads_as_empty_and_stays_missing(sqlite_url: str) -> None:
    assert NOTHING == read_everything(sqlite_url)
    assert not path_of(sqlite_url).exists()


def test_a_database_without_our_tables_reads_as_empty(database_url: str) -> None:
    assert NOTHING == read_everything(database_url)
    assert set() == tables(database_url)


WRITES: list[Callable[[Any], object]] = [
    lambda store: store.commit(create()),
    lambda store: store.mark_attempt(attempt()),
    lambda store: store.change_circuits([failure()], now=NOW),
    lambda store: store.save_call(call()),
    lambda store: store.interrupt_calls(now=NOW),
]


@pytest.mark.parametrize("existing", [True, False])
def test_a_read_only_store_writes_nothing(database_url: str, existing: bool) -> None:
    if existing:
        open_store(database_url).close()
    with open_store(database_url, read_only=True) as store:
        assert store.read_only
        for write in WRITES:
            with pytest.raises(StoreReadOnly, match="reading only"):
                write(store)
        # Nor does what would go past our own check.
        if existing:
            store._database.read_only = False
            with pytest.raises(StoreReadOnly):
                store.commit(create())
            assert [] == store.sessions()


# --- what can go wrong ---


@contextmanager
def as_somebody(folder: Path) -> Iterator[None]:
    """Root may write everywhere: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.chown(folder, 65534, 65534)
    for path in folder.iterdir():
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that anybody can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="kr-store-", dir="/tmp") as name:
        yield Path(name)


def test_a_read_only_folder_is_named(folder: Path) -> None:
    with as_somebody(folder):
        folder.chmod(0o500)
        with pytest.raises(StoreReadOnly, match=rf"{folder}/routing\.db.* written .*url.*\[store\]"):
            open_store(f"sqlite:///{folder}/routing.db")
        with pytest.raises(StoreReadOnly):
            open_store(f"sqlite:///{folder}/deeper/routing.db")
        assert [] == list(folder.iterdir())
        folder.chmod(0o700)


def test_a_read_only_file_is_named_and_can_be_read(folder: Path) -> None:
    url = f"sqlite:///{folder}/routing.db"
    with open_store(url) as store:
        store.commit(create())
    with as_somebody(folder):
        (folder / "routing.db").chmod(0o400)
        with pytest.raises(StoreReadOnly):
            open_store(url)
        with open_store(url, read_only=True) as store:
            assert ["s1"] == [r.session_id for r in store.sessions()]


def test_a_database_in_a_read_only_folder_can_be_read(folder: Path) -> None:
    url = f"sqlite:///{folder}/routing.db"
    with open_store(url) as store:
        store.commit(create())
    with as_somebody(folder):
        folder.chmod(0o500)
        with pytest.raises(StoreReadOnly, match="folder"):
            open_store(url)
        with open_store(url, read_only=True) as store:
            assert ["s1"] == [r.session_id for r in store.sessions()]
        folder.chmod(0o700)


def test_a_path_below_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="not a place"):
        open_store(f"sqlite:///{tmp_path}/file/routing.db")
    with pytest.raises(StoreUnavailable, match="is a folder"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database(sqlite_url: str) -> None:
    path_of(sqlite_url).write_text("shopping list, quite a long one " * 200)
    before = path_of(sqlite_url).read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreUnavailable, match="not an SQLite database"):
            open_store(sqlite_url, read_only=read_only)
    assert before == path_of(sqlite_url).read_bytes()


def test_a_damaged_database_is_a_typed_error(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        for number in range(200):
            store.commit(create(f"s{number}"))
    path = path_of(sqlite_url)
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable), open_store(sqlite_url) as store:
        store.sessions()


def test_a_full_disk_keeps_what_was_there(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        first = store.commit(create()).route
        store._database.read(lambda tx: tx.rows(sa.text("PRAGMA max_page_count=1"), {}))
        with pytest.raises(StoreUnavailable, match="full"):
            store.commit(advance(first, to={"parked_prompt": "x" * 1_000_000}))
        assert first == store.load("s1")


def test_somebody_who_keeps_the_database_locked(sqlite_url: str) -> None:
    with open_store(sqlite_url, timeout_s=0.2) as store:
        first = store.commit(create()).route
        other = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            store.commit(advance(first))
        assert first == store.load("s1"), "readers do not wait for writers"
        other.execute("ROLLBACK")
        other.close()
        assert 2 == store.commit(advance(first)).route.revision


def test_somebody_who_keeps_a_row_locked(postgres_url: str) -> None:
    with open_store(postgres_url, timeout_s=0.2) as store:
        first = store.commit(create()).route
        with plain(postgres_url) as other:
            other.exec_driver_sql("SELECT 1 FROM kr_session FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                store.commit(advance(first))
        assert 2 == store.commit(advance(first)).route.revision


def test_a_lost_connection_is_replaced(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        first = store.commit(create()).route
        uses: list[Callable[[], object]] = [lambda: store.load("s1"), lambda: store.commit(advance(first)).route]
        for use in uses:
            with plain(postgres_url) as other:
                other.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            assert use() is not None
        assert 2 == (store.load("s1") or first).revision


def test_a_server_that_is_not_there_keeps_the_password_to_itself() -> None:
    # Put together here, so that a traceback's source lines do not show it.
    password = "hunter" + "2"
    with pytest.raises(StoreUnavailable) as caught:
        open_store(f"postgresql://kim:{password}@127.0.0.1:1/routing?password={password}")
    for text in (str(caught.value), repr(caught.value), *traceback.format_exception(caught.value)):
        assert password not in text
    assert "'routing' on 127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://kim:hunter2@host/name",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////tmp/\0hunter2",
        "hunter2",
        "postgresql://a:hunter2@h:x/y",
    ],
)
def test_a_url_that_is_none_of_ours(url: str) -> None:
    with pytest.raises(ConfigError, match=r"store\.url .*sqlite:////path") as caught:
        open_store(url)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_errors_pickle(sqlite_url: str) -> None:
    path_of(sqlite_url).write_text("no database at all, but long enough to be looked at " * 50)
    with pytest.raises(StoreUnavailable) as caught:
        open_store(sqlite_url)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(caught.value), str(caught.value)) == (type(again), str(again))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_closed_store_says_so(database_url: str, read_only: bool) -> None:
    store = open_store(database_url, read_only=read_only)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="was closed"):
        store.load("s1")


def test_closing_does_not_wait_for_a_transaction_and_does_not_tear_it(database_url: str) -> None:
    store = open_store(database_url)
    first = store.commit(create()).route

    after = first.model_copy(update={"revision": 2})

    def closes(tx: Any) -> None:
        store.close()
        routes.write(tx, first, after)

    store._database.write(closes)
    with open_store(database_url) as again:
        assert 2 == (again.load("s1") or first).revision


def test_a_schema_change_in_the_way_is_waited_for(sqlite_url: str) -> None:
    """The very first connection may meet a lock as well."""
    open_store(sqlite_url).close()
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode=DELETE")
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, other.execute, ("COMMIT",))
    timer.start()
    with open_store(sqlite_url) as store:
        assert [] == store.sessions()
    timer.join()
    other.close()


@pytest.mark.parametrize(
    ("table", "column", "read"),
    [
        ("kr_session", "state", lambda store: store.load("s1")),
        ("kr_session", "body", lambda store: store.sessions()),
        ("kr_attempt", "mark", lambda store: store.attempts("s1")),
    ],
)
def test_a_row_that_this_version_cannot_read_is_a_typed_error(
    sqlite_url: str, table: str, column: str, read: Callable[[SqlStore], object]
) -> None:
    """R-DUR-6: one sentence with the way out, and not a word of what stands there."""
    with open_store(sqlite_url) as store:
        store.commit(advance(store.commit(create()).route, new_attempt=attempt()))
        assert read(store)
        with plain(sqlite_url) as connection:
            connection.execute(sa.text(f"UPDATE {table} SET {column} = 'zq-later'"))
        with pytest.raises(StoreError, match="this version cannot read: upgrade") as caught:
            read(store)
        assert "zq-later" not in "".join(traceback.format_exception(caught.value))

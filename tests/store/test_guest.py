"""A guest in somebody else's database: whatever is there stays as it is, byte for byte (R-DUR-1)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import psycopg
import pytest
import sqlalchemy as sa

from kandev_routing_sdk.cli import main
from kandev_routing_sdk.errors import SchemaTooNew
from kandev_routing_sdk.store import migrate, open_store
from kandev_routing_sdk.store.tables import VERSION_TABLE
from tests.store import _racers
from tests.store._faults import WRITES
from tests.store._race import race

Rows = dict[str, list[Any]]

_COMMON: Final = """
CREATE TABLE office_agents (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, weight REAL DEFAULT 0.5, CHECK (weight >= 0));
CREATE TABLE office_runs (id INTEGER PRIMARY KEY, agent_id INTEGER NOT NULL REFERENCES office_agents (id) ON DELETE CASCADE, note TEXT);
CREATE TABLE office_log (what TEXT);
CREATE INDEX office_runs_agent ON office_runs (agent_id, note);
CREATE UNIQUE INDEX office_runs_noted ON office_runs (note) WHERE note IS NOT NULL;
CREATE VIEW office_busy AS SELECT a.name, count(*) AS runs FROM office_agents a JOIN office_runs r ON r.agent_id = a.id GROUP BY a.name;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE session (kr_session TEXT);
CREATE TABLE krill (kr TEXT);
INSERT INTO office_agents VALUES (1, 'Grüße', 0.1), (7, 'b''b', 0.30000000000000004), (9, '', NULL);
INSERT INTO office_runs VALUES (1, 1, 'one'), (2, 1, NULL), (3, 7, 'a longer note, with; a semicolon');
INSERT INTO alembic_version VALUES ('host');
INSERT INTO session VALUES ('theirs');
INSERT INTO krill VALUES ('swims');
DELETE FROM office_runs WHERE id = 2;
"""
_SQLITE: Final = """
PRAGMA user_version = 41;
PRAGMA application_id = 4242;
CREATE TABLE office_blobs (k BLOB PRIMARY KEY, v ANY) WITHOUT ROWID;
INSERT INTO office_blobs VALUES (x'00ff', 1), (x'', x'00'), ('text', 2.5);
CREATE TABLE office_counted (id INTEGER PRIMARY KEY AUTOINCREMENT);
INSERT INTO office_counted VALUES (41);
DELETE FROM office_counted;
CREATE TRIGGER office_runs_log AFTER INSERT ON office_runs BEGIN INSERT INTO office_log VALUES (new.note); END;
INSERT INTO office_runs VALUES (4, 9, 'logged');
"""
_POSTGRESQL: Final = """
CREATE SCHEMA office;
CREATE TABLE office.kr_session (id SERIAL PRIMARY KEY, at TIMESTAMPTZ NOT NULL, tags TEXT[] NOT NULL);
INSERT INTO office.kr_session (at, tags) VALUES ('2026-03-01 12:00:00.123456+01', '{a,NULL,"b c"}');
CREATE TYPE office_mood AS ENUM ('calm', 'busy');
CREATE TABLE office_moods (mood office_mood, data BYTEA);
INSERT INTO office_moods VALUES ('busy', '\\x00ff');
CREATE FUNCTION office_logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO office_log VALUES (new.note); RETURN new; END $$;
CREATE TRIGGER office_runs_log AFTER INSERT ON office_runs FOR EACH ROW EXECUTE FUNCTION office_logs();
COMMENT ON TABLE office_runs IS 'what the office did';
INSERT INTO office_runs VALUES (4, 9, 'logged');
"""

# All that is not ours: what it is, where it lies, who may do what with it.
_THEIRS: Final = """
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND NOT (n.nspname = 'public' AND c.relname LIKE 'kr\\_%')
"""
_CATALOGUE: Final = (
    f"SELECT oid, oid::regclass::text, relfilenode, relkind, relowner, relacl::text, reloptions FROM pg_class WHERE oid IN ({_THEIRS})",
    f"SELECT attrelid, attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid IN ({_THEIRS})",
    f"SELECT adrelid, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid IN ({_THEIRS})",
    f"SELECT conrelid, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid IN ({_THEIRS})",
    f"SELECT indexrelid, pg_get_indexdef(indexrelid), indisvalid FROM pg_index WHERE indrelid IN ({_THEIRS})",
    f"SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid IN ({_THEIRS})",
    f"SELECT oid, pg_get_viewdef(oid) FROM pg_class WHERE relkind = 'v' AND oid IN ({_THEIRS})",
    "SELECT oid, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace::regnamespace::text = 'office' OR proname LIKE 'office\\_%'",
    "SELECT enumtypid::regtype::text, enumlabel FROM pg_enum",
    f"SELECT objoid, description FROM pg_description WHERE objoid IN ({_THEIRS})",
    "SELECT nspname, nspowner, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'",
    "SELECT datname, datacl::text, datconnlimit FROM pg_database WHERE datname = current_database()",
    "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting",
    "SELECT extname, extversion FROM pg_extension",
    "SELECT last_value, is_called FROM office.kr_session_id_seq",
)
_TABLES: Final = f"SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND oid IN ({_THEIRS}) ORDER BY 1"


def sqlite_host(url: str) -> Callable[[], Rows]:
    """Fill a database, and return what looks at it."""
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.executescript(_COMMON + _SQLITE)
    connection.close()

    def look() -> Rows:
        connection = sqlite3.connect(path, isolation_level=None)
        ours = "name NOT LIKE 'kr\\_%' ESCAPE '\\' AND tbl_name NOT LIKE 'kr\\_%' ESCAPE '\\'"
        found: Rows = {
            "schema": connection.execute(f"SELECT * FROM sqlite_master WHERE {ours} ORDER BY name").fetchall()
        }
        for kind, name, *_ in found["schema"]:
            if kind in {"table", "view"}:
                columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({name})")]
                exact = ", ".join(f"typeof({c}), quote({c})" for c in columns)
                found[name] = sorted(connection.execute(f"SELECT {exact} FROM {name}"))
        # SQLite's own table counts for everybody.
        found["sqlite_sequence"] = [row for row in found["sqlite_sequence"] if not row[1].startswith("'kr_")]
        for pragma in ("user_version", "application_id", "encoding", "page_size", "auto_vacuum", "integrity_check"):
            found[pragma] = connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.close()
        return found

    return look


def postgresql_host(url: str) -> Callable[[], Rows]:
    """As above. Of rows also where they lie and which transaction wrote them."""
    address = url.replace("+psycopg", "")
    with psycopg.connect(address) as connection:
        connection.execute(_COMMON + _POSTGRESQL)

    def look() -> Rows:
        with psycopg.connect(address) as connection:
            found: Rows = {query: sorted(connection.execute(query), key=repr) for query in _CATALOGUE}
            for (name,) in connection.execute(_TABLES).fetchall():
                found[name] = connection.execute(f"SELECT ctid, xmin, t.* FROM {name} t ORDER BY ctid").fetchall()
        return found

    return look


@pytest.fixture
def look(database_url: str) -> Callable[[], Rows]:
    """A host's database, full of its own things, and what sees all of them."""
    return (sqlite_host if database_url.startswith("sqlite") else postgresql_host)(database_url)


def execute(url: str, statement: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def at_version(url: str, version: str) -> None:
    """Leave the schema of an older version."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        migrate.run_alembic(connection, version)
    engine.dispose()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE office_agents SET weight = 0.30000000000000001 WHERE id = 7",
        "DROP INDEX office_runs_noted",
    ],
)
def test_what_would_be_seen(look: Callable[[], Rows], database_url: str, change: str) -> None:
    """Or what follows proves nothing."""
    before = look()
    assert before == look()
    execute(database_url, change)
    assert before != look()


@pytest.mark.parametrize("start", [None, *migrate.VERSIONS[:-1]])
def test_a_host_keeps_everything(
    look: Callable[[], Rows], database_url: str, start: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Opened, upgraded, used by every call that writes, upgraded by the command line, refused, read, and closed."""
    before = look()
    if start is not None:
        at_version(database_url, start)
    assert before == look()
    assert 0 == main(("db", "upgrade", "--store", database_url)), capfd.readouterr().err
    with open_store(database_url) as store:
        for number, write in enumerate(WRITES):
            write.set_up(store, number)
            write.act(store, number)
        assert before == look()
    assert 0 == main(("db", "upgrade", "--store", database_url))
    with open_store(database_url, read_only=True) as store:
        assert len(store.sessions()) > 3
    execute(database_url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(SchemaTooNew, match="9999"):
        open_store(database_url)
    assert before == look()


def test_processes_upgrade_one_host_s_database_at_once(look: Callable[[], Rows], database_url: str) -> None:
    """R-DUR-1: from an older schema, too; each of them goes on to use it."""
    before = look()
    at_version(database_url, migrate.VERSIONS[0])
    assert [f"s{n}" for n in range(3)] == race(_racers.opens, database_url, count=3)
    with open_store(database_url, migrate=False) as store:
        assert 3 == len(store.sessions())
    assert before == look()

"""``db``: which schema is there, and how it is brought up to date (R-DUR-1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from kandev_routing_sdk.store.migrate import HEAD, VERSIONS, run_alembic
from tests.cli._world import Ran, World


@pytest.fixture
def database(world: World, database_url: str) -> str:
    """An empty database on each engine, and a configuration that names it."""
    world.url = database_url
    world.configure()
    return database_url


def tables(url: str) -> set[str]:
    engine = sa.create_engine(url)
    try:
        return set(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def at_version(url: str, version: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        run_alembic(connection, version)
    engine.dispose()


def test_an_empty_database_is_told_made_and_told_again(here: Callable[..., Ran], database: str) -> None:
    first = here("db", "status", "--json").document
    assert (None, HEAD, list(VERSIONS), 0) == tuple(
        first[k] for k in ("version", "newest_version", "pending", "exit_code")
    )
    assert "no schema yet; to be done: 0001" in here("db", "status").out
    assert 1 == here("db", "status", "--check").code
    assert set() == {t for t in tables(database) if t.startswith("kr_")}
    ran = here("db", "upgrade")
    assert (0, True) == (ran.code, ran.out.endswith(f": schema {HEAD} was made\n")), ran
    assert "kr_session" in tables(database)
    assert 0 == here("db", "status", "--check").code
    assert here("db", "status").out.endswith(f": schema {HEAD}, up to date\n")
    again = here("db", "upgrade", "--json").document
    assert (HEAD, HEAD, [], []) == tuple(again[k] for k in ("previous_version", "version", "applied", "pending"))
    assert here("db", "upgrade").out.endswith("nothing to be done\n")


def test_an_older_schema_is_told_and_brought_up_to_date(here: Callable[..., Ran], database: str) -> None:
    """What is not ours stays as it is."""
    execute(database, "CREATE TABLE office_run (name TEXT)", "INSERT INTO office_run VALUES ('theirs')")
    at_version(database, VERSIONS[0])
    assert list(VERSIONS[1:]) == here("db", "status", "--json").document["pending"]
    assert f"schema {VERSIONS[0]}; to be done: {VERSIONS[1]}" in here("db", "status").out
    told = here("calls").error  # a command that only reads upgrades nothing
    assert f"has schema version {VERSIONS[0]} and {HEAD} is needed: run kandev-routing db upgrade" in told
    ran = here("db", "upgrade")
    assert ran.out.endswith(f": schema {VERSIONS[0]} became {HEAD}\n"), ran
    assert 0 == here("calls").code
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        assert ["theirs"] == list(connection.scalars(sa.text("SELECT name FROM office_run")))
    engine.dispose()


def test_a_newer_schema_is_refused_and_left_as_it_is(here: Callable[..., Ran], database: str) -> None:
    assert 0 == here("db", "upgrade").code
    execute(database, "UPDATE kr_version SET version_num = '9999'")
    for verb in ("status", "upgrade"):
        ran = here("db", verb)
        assert (73, "") == (ran.code, ran.out), ran
        assert "schema version 9999" in ran.error
        assert "upgrade the package" in ran.error
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        assert "9999" == connection.scalar(sa.text("SELECT version_num FROM kr_version"))
    engine.dispose()


def test_looking_makes_no_file_and_needs_no_configuration(world: World, here: Callable[..., Ran]) -> None:
    path = Path(world.database)
    assert 0 == here("--store", world.url, "db", "status").code
    assert not path.exists()
    assert not path.parent.exists()
    assert 0 == here("--store", world.url, "db", "upgrade").code
    assert path.exists()


@pytest.mark.parametrize("verb", ["status", "upgrade"])
def test_a_database_that_is_not_there_is_73(world: World, here: Callable[..., Ran], verb: str) -> None:
    """And never shows a password."""
    ran = here("db", verb, "--store", "postgresql+psycopg://me:hunter2secret@127.0.0.1:1/x", "--json")
    assert (73, "store_unavailable") == (ran.code, ran.document["error"]["code"]), ran
    assert "hunter2secret" not in ran.out + ran.err


def test_a_verb_is_asked_for(here: Callable[..., Ran]) -> None:
    ran = here("db")
    assert (2, "") == (ran.code, ran.out)
    assert "upgrade" in ran.err

"""Fixtures for tests of sessions that outlive their process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kandev_routing_sdk.store import open_store
from tests._postgres import PostgresServer
from tests.sessions._empty import emptied
from tests.sessions._home import Home, home_at
from tests.sessions._played import Stage, install, profiles_table
from tests.sessions._town import Town


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the schema and nothing in it, to be copied: making one anew costs more than a test."""
    path = tmp_path_factory.mktemp("migrated") / "routing.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def ready_sqlite(migrated_file: Path, tmp_path: Path) -> str:
    """An SQLite database of this test's own, with the schema."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'routing.db')}"


@pytest.fixture
def quick_sqlite(migrated_file: Path) -> Iterator[Path]:
    """An SQLite file with the schema, in memory where the machine has a place for that: nothing of it is to last."""
    memory = Path("/dev/shm")  # a folder of our own in it
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(shutil.copy(migrated_file, Path(folder) / "routing.db"))


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """A PostgreSQL database with the schema."""
    with postgres_server.database() as url:
        open_store(url).close()
        yield url


@pytest.fixture
def ready_postgres(migrated_postgres: str) -> str:
    """The same database for all who use this, emptied."""
    emptied(migrated_postgres)
    return migrated_postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def ready_url(request: pytest.FixtureRequest) -> str:
    """The same test on both engines, over an empty database with the schema."""
    url: str = request.getfixturevalue({"sqlite": "ready_sqlite", "postgresql": "ready_postgres"}[request.param])
    return url


@pytest.fixture
def home(tmp_path: Path, ready_url: str) -> Iterator[Home]:
    """Scripted headless agents, on either engine."""
    with home_at(tmp_path, ready_url) as home:
        yield home


@pytest.fixture
def lite_home(tmp_path: Path, ready_sqlite: str) -> Iterator[Home]:
    """Scripted headless agents over an SQLite file."""
    with home_at(tmp_path, ready_sqlite) as home:
        yield home


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A machine on which agents are played."""
    stage = Stage()
    install(monkeypatch, stage)
    return stage


@pytest.fixture
def town(stage: Stage, ready_url: str) -> Iterator[Town]:
    """Hosts over one store, on either engine; ``frontier`` is fable, then sol."""
    town = Town(open_store(ready_url), stage)
    concrete = {"fable": ("played", "fable", "acme"), "sol": ("played", "sol", "other")}
    town.shelf.put(profiles_table(concrete, {"frontier": [{"profile": "fable"}, {"profile": "sol"}]}))
    try:
        yield town
    finally:
        town.close()
        town.store.close()

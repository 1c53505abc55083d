"""Fixtures for tests of sessions that outlive their process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests._postgres import PostgresServer
from tests.sessions._campaign import Databases, postgresql_databases, sqlite_databases
from tests.sessions._empty import Reused, reused
from tests.sessions._home import Home
from tests.sessions._played import Stage, install
from tests.sessions._town import Town, town_over


@pytest.fixture(scope="session")
def sqlite_store() -> Iterator[Reused]:
    """An SQLite file, in memory where the machine has a place for that: nothing of it is to last."""
    memory = Path("/dev/shm")  # a folder of our own in it
    place = memory if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(dir=place) as folder, reused(f"sqlite:///{folder}/routing.db") as store:
        yield store


@pytest.fixture(scope="session")
def postgres_store(postgres_server: PostgresServer) -> Iterator[Reused]:
    """A PostgreSQL database."""
    with postgres_server.database() as url, reused(url) as store:
        yield store


@pytest.fixture
def lite_store(sqlite_store: Reused) -> Reused:
    """SQLite, with the schema and nothing else."""
    sqlite_store.empty()
    return sqlite_store


@pytest.fixture(params=["sqlite", "postgresql"])
def either_store(request: pytest.FixtureRequest) -> Reused:
    """The same test on both engines, each with the schema and nothing else."""
    store: Reused = request.getfixturevalue(f"{'sqlite' if request.param == 'sqlite' else 'postgres'}_store")
    store.empty()
    return store


@pytest.fixture
def home(tmp_path: Path, either_store: Reused) -> Home:
    """Scripted headless agents, on either engine."""
    return Home(tmp_path, either_store.url, store=either_store.store)


@pytest.fixture
def lite_home(tmp_path: Path, lite_store: Reused) -> Home:
    """The same on SQLite: for what does not depend on the engine."""
    return Home(tmp_path, lite_store.url, store=lite_store.store)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A machine on which agents are played."""
    stage = Stage()
    install(monkeypatch, stage)
    return stage


@pytest.fixture
def either_town(stage: Stage, either_store: Reused) -> Iterator[Town]:
    """Hosts over one store, on either engine; ``frontier`` is fable, then sol."""
    with town_over(either_store.store, stage) as town:
        yield town


@pytest.fixture
def town(stage: Stage, lite_store: Reused) -> Iterator[Town]:
    """The same on SQLite: for what does not depend on the engine."""
    with town_over(lite_store.store, stage) as town:
        yield town


@pytest.fixture
def lite_town(town: Town) -> Town:
    """The same, by its whole name."""
    return town


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Databases]:
    """Empty databases of one engine."""
    if request.param == "sqlite":
        with sqlite_databases(tmp_path) as found:
            yield found
    else:
        with postgresql_databases(request.getfixturevalue("postgres_url")) as found:
            yield found

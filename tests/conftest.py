"""Fixtures for every test: a home that is nobody's, the one supported event loop, an empty database on each back end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests._nursery import Nursery, nursery
from tests._postgres import PostgresServer, running_server

# Machines differ in speed: an example that is slow once is not a failure. Build servers do not draw lots.
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("house")


DECIDING = frozenset(
    {
        "adapters", "binding", "catalogue", "circuits", "conductor", "evidence", "fuzz", "policy", "profiles", "route", "spec",
    }
)  # fmt: skip
"""Folders of the tests of the floors that decide, and of what brings them their evidence."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests under which lines are counted."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        if folder in DECIDING and item.get_closest_marker("exhaustive") is None:
            item.add_marker("counted")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of `tests/fuzz` and `tests/sessions`; pytest reads options only here."""
    parser.addoption(
        "--fuzz-seconds", type=float, help="how long to fuzz, all rules together (default: 60 with CI set, else 7)"
    )
    parser.addoption(
        "--model-steps", type=int, help="steps of tests/sessions/test_model.py (default: 20000 with CI set, else 4000)"
    )
    parser.addoption(
        "--fuzz-seed", type=int, help="number of the first batch (default: 1 with CI set, else another one each time)"
    )
    parser.addoption(
        "--kills",
        type=int,
        default=16,
        help="workers killed at random moments, for each engine, besides those at commits",
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The only event loop supported, so the only one tested."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the configuration, stores and agent logins of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for name in [
            name
            for name in os.environ
            if name.startswith(("XDG_", "KANDEV_", "ANTHROPIC_", "OPENAI_", "CLAUDE_", "CODEX_"))
        ]:
            patch.delenv(name)
        # A terminal of fixed size and no colour: what the CLI prints does not depend on who looks.
        patch.setenv("COLUMNS", "120")
        patch.setenv("NO_COLOR", "1")
        patch.delenv("FORCE_COLOR", raising=False)
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server per test process, started by the first test that needs it."""
    with running_server() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'routing.db'}"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty PostgreSQL database (15 or newer) of this test's own."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The same test on both back ends (R-DUR): the SQLAlchemy URL of an empty database."""
    url: str = request.getfixturevalue({"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param])
    return url


@pytest.fixture(scope="session")
def workers() -> Iterator[Nursery]:
    """Where processes of the test's own code come from; one per test process, started by the first test that needs it."""
    with nursery() as found:
        yield found

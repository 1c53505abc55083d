"""Fixtures for tests of whole routes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.routes._world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Scripted headless agents over an SQLite file."""
    return World(tmp_path, f"sqlite:///{tmp_path / 'routing.db'}")


@pytest.fixture(params=["headless", "acp"])
def either_world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    """Scripted agents on each transport."""
    return World(tmp_path, f"sqlite:///{tmp_path / 'routing.db'}", transport=request.param)

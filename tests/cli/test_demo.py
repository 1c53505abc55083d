"""``demo``: what a newcomer sees first."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._world import Ran, World


@pytest.fixture
def alone(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Temporary folders are counted in a place of their own."""
    place = world.folder.parent / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return world


def test_the_demo_shows_a_failover_and_what_it_taught(alone: World, here: Callable[..., Ran]) -> None:
    ran = here("demo")
    assert 0 == ran.code, ran
    assert ["Air scatters blue light more than red.", "Still because of the air."] == ran.out.splitlines()
    said = ran.err
    assert "attempt 1: Fable (north, fable-1)" in said
    assert "Fable failed: quota_limited (hard), until " in said
    assert "decision: next candidate" in said
    assert "Sol failed: provider_overloaded (transient)" in said
    assert "decision: same candidate again (retry 1 of 2) at " in said
    assert "waiting 2 s for Sol, then retry 1 of 2" in said or "waiting 1." in said
    assert "answered by Sol (scripted, south, sol-1); attempt 3; 2 others failed: " in said
    first, second = said.split("Second call.")
    assert "skipped Fable" not in first
    assert "skipped Fable (circuit open): account resource: quota_limited; until " in second
    assert "answered by Sol (scripted, south, sol-1); attempt 1; passed over: Fable (circuit open)" in second
    assert {} == alone.files()
    assert [] == list(Path(os.environ["TMPDIR"]).iterdir())


def test_the_demo_as_a_document(alone: World, here: Callable[..., Ran]) -> None:
    ran = here("demo", "--json")
    assert (0, "") == (ran.code, ran.err), ran
    first, second = ran.document["routes"]
    assert ["fable", "sol", "sol"] == [a["execution_profile_id"] for a in first["attempts"]]
    assert ["skip", "retry", None] == [a["decision"] and a["decision"]["kind"] for a in first["attempts"]]
    assert ["sol"] == [a["execution_profile_id"] for a in second["attempts"]]

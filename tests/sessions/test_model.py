"""The stateful model: at least 20,000 random steps with CI set, more with ``--model-steps``."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kandev_routing_sdk.store import open_store
from tests.sessions._empty import emptied
from tests.sessions._model import Heard, Lives, Tally
from tests.sessions._played import Stage

LIFE = 100
"""Steps of one life."""
IN_CI, ELSEWHERE, ON_POSTGRES = 20_000, 4_000, 1_000


@pytest.fixture
def steps(request: pytest.FixtureRequest) -> int:
    """How many steps."""
    wanted: int | None = request.config.getoption("--model-steps")
    return wanted or (IN_CI if "CI" in os.environ else ELSEWHERE)


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What was logged."""
    lines: list[str] = []
    handler, logger = Heard(lines), logging.getLogger("kandev_routing_sdk")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def lived(stage: Stage, url: str, steps: int, heard: list[str], dump: Callable[[], bytes]) -> Tally:
    """Live so many steps over the database at ``url``."""
    tally = Tally()
    with open_store(url) as store:

        class Here(Lives):
            pass

        Here.store, Here.stage, Here.tally, Here.log = store, stage, tally, heard
        Here.empty, Here.dump = staticmethod(lambda: emptied(url)), staticmethod(dump)
        run_state_machine_as_test(
            Here,
            settings=settings(
                settings.get_profile("house"),
                max_examples=5 + steps * 3 // (2 * LIFE),  # many end before that
                stateful_step_count=LIFE,
                deadline=None,
                database=None,
                phases=[Phase.generate],  # shrinking a life takes longer than a build server has
                suppress_health_check=list(HealthCheck),
            ),
        )
    return tally


def test_random_lives(stage: Stage, quick_sqlite: Path, steps: int, heard: list[str]) -> None:
    """Nothing that may happen to sessions breaks one of the eight invariants."""
    files = [quick_sqlite, quick_sqlite.with_name(f"{quick_sqlite.name}-wal")]

    tally = lived(
        stage, f"sqlite:///{quick_sqlite}", steps, heard, lambda: b"".join(f.read_bytes() for f in files if f.exists())
    )

    print(tally.steps, dict(tally.states), dict(tally.refusals))
    assert tally.steps >= steps
    assert {"active", "waiting", "waiting_for_reset", "retry_wait", "action_required", "stopped"} <= set(tally.states)


def test_random_lives_on_postgresql(stage: Stage, ready_postgres: str, heard: list[str]) -> None:
    """The same there, for a little while: the store is one, its engines are two (R-DUR-1)."""
    tally = lived(stage, ready_postgres, ON_POSTGRES, heard, lambda: b"")
    assert tally.steps >= ON_POSTGRES

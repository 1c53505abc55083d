"""The stateful model: at least 20,000 random steps with CI set, more with ``--model-steps``."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import SystemRandom

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import get_state_machine_test

from tests.sessions._empty import Reused
from tests.sessions._model import Heard, Lives, Tally
from tests.sessions._played import Stage

LIFE = 150
"""Steps of one life, at most."""
BATCH = 4
"""Lives that are drawn together."""
IN_CI, ELSEWHERE, ON_POSTGRES = 20_000, 3_000, 600
PARTS = 4
"""Tests that share the steps: side by side where there are processors for it, and none of them too long for its time limit."""


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


def lived(
    stage: Stage, reused: Reused, steps: int, heard: list[str], dump: Callable[[], bytes], *, part: int = 0
) -> Tally:
    """Live so many steps, or a few more. With CI set always the same ones."""
    tally = Tally()

    class Here(Lives):
        pass

    Here.store, Here.stage, Here.tally, Here.log = reused.store, stage, tally, heard
    Here.empty, Here.dump = staticmethod(reused.empty), staticmethod(dump)
    options = settings(
        settings.get_profile("house"),
        derandomize=False,
        max_examples=BATCH,
        stateful_step_count=LIFE,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # shrinking a life takes longer than a build server has
        suppress_health_check=list(HealthCheck),
    )
    first = 1 + part * IN_CI if "CI" in os.environ else SystemRandom().randrange(2**32)
    for number in count(first):
        if tally.steps >= steps:
            break
        seed(number)(get_state_machine_test(Here, settings=options))()
    return tally


@pytest.mark.parametrize("part", range(PARTS))
def test_random_lives(stage: Stage, lite_store: Reused, steps: int, heard: list[str], part: int) -> None:
    """Nothing that may happen to sessions breaks one of the eight invariants."""
    file = Path(lite_store.url.removeprefix("sqlite:///"))
    files = [file, file.with_name(f"{file.name}-wal")]

    def dump() -> bytes:
        return b"".join(f.read_bytes() for f in files if f.exists())

    tally = lived(stage, lite_store, steps // PARTS, heard, dump, part=part)

    print(tally.steps, dict(tally.states), dict(tally.refusals))
    assert tally.steps >= steps // PARTS
    if steps >= IN_CI:  # a few hundred steps may not come everywhere
        assert {"active", "waiting", "waiting_for_reset", "retry_wait", "action_required", "stopped"} <= set(
            tally.states
        )


def test_random_lives_on_postgresql(stage: Stage, postgres_store: Reused, heard: list[str]) -> None:
    """The same there, for a little while: the store is one, its engines are two (R-DUR-1)."""
    tally = lived(stage, postgres_store, ON_POSTGRES, heard, lambda: b"")
    assert tally.steps >= ON_POSTGRES

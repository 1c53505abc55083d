"""How long to fuzz, and from where."""

from __future__ import annotations

import os
import time

import pytest

from tests.fuzz._rules import TARGETS

IN_CI = 60.0
ELSEWHERE = 7.0


@pytest.fixture
def fuzz_share(request: pytest.FixtureRequest) -> float:
    """Seconds for one rule: all of them together take what was asked for."""
    asked: float | None = request.config.getoption("--fuzz-seconds")
    if asked is None:
        asked = IN_CI if "CI" in os.environ else ELSEWHERE
    return asked / len(TARGETS)


@pytest.fixture
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    """The number of the first batch: asked for; in CI, which has to say the same of the same change, 1; else another one each time."""
    asked: int | None = request.config.getoption("--fuzz-seed")
    if asked is None:
        asked = 1 if "CI" in os.environ else time.time_ns() // 1000
    return asked

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
    """The number of the first batch: asked for, or another one every microsecond."""
    asked: int | None = request.config.getoption("--fuzz-seed")
    return time.time_ns() // 1000 if asked is None else asked

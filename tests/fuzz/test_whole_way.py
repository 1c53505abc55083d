"""Fuzzing from the record to the result (R-CLS-1, R-CLS-7, R-EVI-2, R-EVI-6, R-SAFE-1).

Two parts try the same rules:

- a fixed one, the same inputs on every machine and every day;
- one that goes on with new inputs for as long as asked: ``pytest tests/fuzz --fuzz-seconds 600`` shares ten minutes among
  the rules; the default is a minute on a build server (``CI`` is set) and a few seconds elsewhere. It prints the seed of each
  batch. ``--fuzz-seed N`` repeats the batches from number N on.
"""

from __future__ import annotations

import faulthandler
import itertools
import time
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning

from tests.fuzz._rules import TARGETS, Target

pytestmark = pytest.mark.exhaustive

FIXED_EXAMPLES = 60
BATCH = 40
BATCH_HANGS_S = 180
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

targets = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)


@targets
def test_fixed(target: Target) -> None:
    """The same on every run."""

    @settings(
        derandomize=True, max_examples=FIXED_EXAMPLES, deadline=None, database=None, suppress_health_check=SLOW_IS_FINE
    )
    @given(target.given)
    def holds(value: object) -> None:
        target.holds(value)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Generating overly large repr", HypothesisWarning)
        holds()


@targets
def test_as_long_as_asked(target: Target, fuzz_share: float, fuzz_seed: int) -> None:
    """New inputs on every run; the seed of the batch that fails is the last one printed."""
    until = time.monotonic() + fuzz_share
    for number in itertools.count(fuzz_seed):
        # pytest's limit is for a whole test: here it is for a batch, or nobody could ask for an hour
        faulthandler.dump_traceback_later(BATCH_HANGS_S, exit=True, file=2)
        print(f"fuzzing {target.name!r}: batch {number}; to repeat it: --fuzz-seed {number}")

        @seed(number)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=SLOW_IS_FINE,
            # shrinking a megabyte takes minutes: repeat the batch for that
            phases=[Phase.generate],
        )
        @given(target.given)
        def holds(value: object) -> None:
            target.holds(value)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Generating overly large repr", HypothesisWarning)
            holds()
        if time.monotonic() >= until:
            break

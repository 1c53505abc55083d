"""Whose evidence it is (R-EVI-4)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.evidence.correlation import Correlation, staleness
from kandev_routing_sdk.evidence.model import Evidence
from kandev_routing_sdk.types import Phase

CURRENT = Correlation(session_id="s", generation=2, prompt=1, attempt_id="a")


def evidence(**other: Any) -> Evidence:
    return Evidence(family="x", phase=Phase.STREAMING, signals=(), **{**CURRENT._asdict(), **other})


def test_the_attempts_own_evidence_is_current() -> None:
    assert staleness(evidence(), CURRENT) is None


@pytest.mark.parametrize(
    ("name", "other"), [("session_id", "t"), ("generation", 1), ("generation", 3), ("prompt", 2), ("attempt_id", "b")]
)
def test_anothers_is_stale(name: str, other: object) -> None:
    assert f"the evidence is of another {name}" == staleness(evidence(**{name: other}), CURRENT)


@pytest.mark.parametrize("name", Correlation._fields)
def test_what_does_not_say_whose_it_is_is_stale(name: str) -> None:
    assert f"the evidence names no {name}" == staleness(evidence(**{name: None}), CURRENT)

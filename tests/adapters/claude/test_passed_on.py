"""Conversations of claude-agent-acp 0.101.0 that was asked for its inner events, as this adapter asks it (R-EVI-1, R-SAFE-7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.types import AttemptOutcome
from tests.adapters._replay import Replayed, full_catalogue, replay

FOLDER = Path(__file__).parent / "passed_on"
WHEN = datetime(2026, 11, 30, 8, 5, tzinfo=UTC)


class Case(NamedTuple):
    """What a conversation amounts to."""

    name: str
    code: str | None
    automatic: bool
    retries: int = 0
    text: str = ""


PARTIAL = "Partial answer, still going and then"
HELLO = "Hello from the fake provider."
CASES = [
    Case("success", None, automatic=False, text=HELLO),
    Case("500_twice_then_ok@retries3", None, automatic=False, retries=1, text=HELLO),
    Case("529_overloaded", "provider_overloaded", automatic=True, retries=1),
    Case("429_unified_5h@oauth", "quota_limited", automatic=True),
    Case("401_invalid_key", "auth_required", automatic=True),
    Case("not_logged_in", "missing_credentials", automatic=True),
    Case("sse_overloaded_before_text", "provider_overloaded", automatic=False),
    Case("sse_rate_limit_first@nofallback", "rate_limited", automatic=False),
    Case("partial_then_clean_end", "network_unavailable", automatic=False, retries=1, text=PARTIAL),
    Case("dns_failure", "network_unavailable", automatic=False, retries=1),
    Case("tool_then_529", "provider_overloaded", automatic=False, retries=1),
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def played(name: str, catalogue: Catalogue) -> Replayed:
    return replay(json.loads((FOLDER / f"{name}.json").read_text("utf-8")), catalogue, WHEN)


def test_every_conversation_is_judged() -> None:
    assert {case.name for case in CASES} == {path.stem for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_conversation_comes_out_as_it_was(case: Case, catalogue: Catalogue) -> None:
    found = played(case.name, catalogue)
    code = None if found.classification is None else found.classification.code
    assert (AttemptOutcome.SUCCESS if case.code is None else AttemptOutcome.FAILED) == found.outcome
    assert (case.code, case.automatic) == (code, found.automatic)
    assert (case.retries, case.text) == (found.report.inner_retries, found.report.text)


def test_a_plan_limit_tells_its_reset_to_the_second(catalogue: Catalogue) -> None:
    """The sentence alone tells the minute."""
    found = played("429_unified_5h@oauth", catalogue).classification
    assert found is not None
    assert datetime(2026, 11, 30, 9, 4, 22, tzinfo=UTC) == found.reset_at

"""Recorded runs of the older agent that is called ``codex-acp`` too (0.16.0): it names no message and types no failure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from tests.adapters._replay import complaints, full_catalogue, replay

RUNS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "older_agent.jsonl").read_text("utf-8").splitlines()
]
WHEN = datetime(2026, 11, 30, 8, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["name"])
def test_a_recorded_run_comes_out_right(run: dict[str, Any], catalogue: Catalogue) -> None:
    assert [] == complaints(replay(run, catalogue, WHEN), run["expected"], WHEN)


def test_its_warning_is_in_every_run_and_in_no_answer(catalogue: Catalogue) -> None:
    prompted = [run for run in RUNS if "session/prompt" in json.dumps(run["frames"])]
    assert 40 <= len(prompted)
    for run in prompted:
        assert "Model metadata" in json.dumps(run["frames"])
        assert "Model metadata" not in replay(run, catalogue, WHEN).report.text

"""Sentences worded as providers and their agents may word them, and lines that only sound like it (R-CLS-1, R-CLS-5).

They were written without a look at the rules. A rule is mended by the kind of sentence, never by the sentence.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.model import Evidence
from kandev_routing_sdk.types import ErrorClass
from tests.adapters._replay import WHEN, full_catalogue

PHRASES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("phrases.jsonl").read_text("utf-8").splitlines()
]
FLOOR = 0.97


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def classified(phrase: dict[str, Any], catalogue: Catalogue) -> Classification:
    evidence = {
        "family": phrase["family"],
        "phase": "prompt_send",
        "observed_at": WHEN,
        "local_zone": "UTC",
        "signals": [{"channel": phrase["channel"], "text": phrase["text"]}],
    }
    return catalogue.classify(Evidence.model_validate(evidence))


def test_what_only_sounds_like_a_failure_is_none(catalogue: Catalogue) -> None:
    """Code, tests, history, documentation and other tools' words on the agent's stderr."""
    lines = [phrase for phrase in PHRASES if not phrase["codes"]]
    assert len(lines) >= 150
    false = [p["text"] for p in lines if classified(p, catalogue).error_class is not ErrorClass.UNCLASSIFIED]
    assert [] == false


def test_nearly_every_wording_is_understood(catalogue: Catalogue) -> None:
    sentences = [phrase for phrase in PHRASES if phrase["codes"]]
    assert len(sentences) >= 250
    missed = [(p["text"], str(c)) for p in sentences if (c := classified(p, catalogue).code) not in p["codes"]]
    assert 1 - len(missed) / len(sentences) >= FLOOR, missed


def test_the_time_that_is_named_is_taken(catalogue: Catalogue) -> None:
    wrong = []
    for phrase in (p for p in PHRASES if "due" in p):
        found, due = classified(phrase, catalogue), phrase["due"]
        wanted = datetime.fromisoformat(due) if isinstance(due, str) else WHEN + timedelta(seconds=due)
        at = found.reset_at if found.retry_after is None else WHEN + found.retry_after
        if at is None or abs(at - wanted) > timedelta(seconds=60):
            wrong.append((phrase["text"], at, wanted))
    assert [] == wrong

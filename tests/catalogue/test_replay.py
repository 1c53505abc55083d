"""Two answers to one failure, compared (R-CLS-6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classification import HintProvenance
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.replay import Change, changes, replay
from kandev_routing_sdk.catalogue.rules import neutral_sources
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
from kandev_routing_sdk.types import Channel, Code, Confidence, Delivery, ErrorClass, Phase, Scope
from tests.store._values import NOW, classification

CATALOGUE = Catalogue.load(neutral_sources(), verify=False)
CLEAN = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)


def _evidence(effects: Effects | None = CLEAN, text: str = "API Error: 529 Overloaded") -> Evidence:
    signal = Signal(channel=Channel.AGENT_NOTICE, text=text)
    return Evidence(family="claude", phase=Phase.PROMPT_SEND, signals=(signal,), observed_at=NOW, effects=effects)


def test_the_same_catalogue_says_the_same() -> None:
    evidence = _evidence()
    found = replay(CATALOGUE, CATALOGUE.classify(evidence), evidence)
    assert ((), Code.PROVIDER_OVERLOADED) == (found.changes, found.now.code)


ONE_CHANGE: dict[Change, dict[str, Any]] = {
    Change.CLASS: {"error_class": ErrorClass.TRANSIENT},
    Change.CODE: {"code": Code.SUBSCRIPTION_REQUIRED},
    Change.SCOPE: {"scope": Scope.MODEL},
    Change.TIMING: {"reset_at": NOW},
    Change.CONFIDENCE: {"confidence": Confidence.MEDIUM},
    Change.RULE: {"classifier_rule": None},
}


@pytest.mark.parametrize("change", ONE_CHANGE)
def test_each_difference_is_found_alone(change: Change) -> None:
    """Before anything was sent, as sure as medium is enough: nothing else follows from any of these."""
    then, evidence = classification(), _evidence(NOTHING_SENT)
    assert (change,) == changes(then, then.model_copy(update=ONE_CHANGE[change]), evidence)
    assert (change,) == changes(then.model_copy(update=ONE_CHANGE[change]), then, evidence)


def test_every_kind_of_difference_is_tried() -> None:
    assert set(Change) - {Change.AUTOMATIC} == set(ONE_CHANGE)


def test_a_delay_is_timing_too() -> None:
    then = classification()
    now = then.model_copy(update={"retry_after": timedelta(seconds=1)})
    assert (Change.TIMING,) == changes(then, now, _evidence())


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        (CLEAN, (Change.AUTOMATIC, Change.CONFIDENCE)),
        (NOTHING_SENT, (Change.CONFIDENCE,)),
        (None, (Change.CONFIDENCE,)),
        (CLEAN.model_copy(update={"tool_call": True}), (Change.CONFIDENCE,)),
    ],
)
def test_whether_anything_automatic_may_follow_depends_on_what_was_done(
    effects: Effects | None, expected: tuple[Change, ...]
) -> None:
    """The gravest first: once something was sent and nothing done, only high confidence is enough."""
    then = classification()
    now = then.model_copy(update={"confidence": Confidence.MEDIUM})
    assert expected == changes(then, now, _evidence(effects))


def test_where_a_time_was_read_words_and_versions_are_no_difference() -> None:
    then = classification()
    other = {
        "hint": HintProvenance(source="field", written="x", zone="none"),
        "catalogue_version": "2020.01+00000000",
        "safe_excerpt": "other words",
        "because": (),
    }
    assert () == changes(then, then.model_copy(update=other), _evidence())


def test_what_an_older_sanitiser_left_is_not_shown_again() -> None:
    """R-EVI-5: stored evidence is cleaned once more before its words are shown."""
    secret = "sk-ant-api03-" + "Zq7x" * 12
    evidence = _evidence(text=f"API Error: 529 Overloaded {secret}")
    found = replay(CATALOGUE, classification(), evidence)
    assert "529 Overloaded" in (found.now.safe_excerpt or "")
    assert secret not in found.now.model_dump_json()

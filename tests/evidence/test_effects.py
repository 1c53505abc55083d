"""The effect ledger and the gate (R-EVI-3, R-SAFE-1, R-SAFE-2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.effects import EffectLedger, automatic_refusal, effect_refusal
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.types import Confidence, Delivery, ErrorClass

CLEAN = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
MARKS = ["sent", "acknowledged", "output", "thinking", "tool_call", "tool_effect", "incomplete"]
RANK = [Delivery.NOT_SENT, Delivery.UNKNOWN, Delivery.SENT, Delivery.ACKNOWLEDGED]


def after(*marks: str) -> Effects:
    ledger = EffectLedger()
    for mark in marks:
        getattr(ledger, mark)()
    return ledger.effects


def test_a_new_ledger_knows_that_nothing_left() -> None:
    """Before the prompt was sent nothing can have happened, and all of that was seen."""
    assert Effects(delivery=Delivery.NOT_SENT, complete=True) == after()


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("sent", Effects(delivery=Delivery.SENT, complete=True)),
        ("acknowledged", CLEAN),
        ("output", CLEAN.model_copy(update={"output": True})),
        ("thinking", CLEAN.model_copy(update={"thinking": True})),
        ("tool_call", CLEAN.model_copy(update={"tool_call": True})),
        ("tool_effect", CLEAN.model_copy(update={"tool_call": True, "tool_effect": True})),
        ("incomplete", Effects(delivery=Delivery.NOT_SENT, complete=False)),
    ],
)
def test_each_mark(mark: str, expected: Effects) -> None:
    """What comes back proves delivery; a tool that ran was called."""
    assert expected == after(mark)


@given(st.lists(st.sampled_from(MARKS)), st.sampled_from(MARKS))
def test_marks_only_go_up(marks: list[str], more: str) -> None:
    """Nothing that was seen can be unseen."""
    before, now = after(*marks), after(*marks, more)
    assert RANK.index(before.delivery) <= RANK.index(now.delivery)
    assert all(
        getattr(before, name) <= getattr(now, name) for name in ("output", "thinking", "tool_call", "tool_effect")
    )
    assert now.complete <= before.complete


@pytest.mark.parametrize(
    ("effects", "refusal"),
    [
        (None, "nothing is known of the effects"),
        (Effects(), "delivery is ambiguous (unknown)"),
        (Effects(delivery=Delivery.SENT, complete=True), "delivery is ambiguous (sent)"),
        (Effects(delivery=Delivery.ACKNOWLEDGED), "observation was incomplete"),
        (CLEAN.model_copy(update={"tool_effect": True}), "a tool ran"),
        (CLEAN.model_copy(update={"tool_call": True}), "a tool was called"),
        (CLEAN.model_copy(update={"output": True}), "output was seen"),
        (CLEAN.model_copy(update={"thinking": True}), "thinking was seen"),
        (CLEAN, None),
        (Effects(delivery=Delivery.NOT_SENT, complete=True), None),
    ],
)
def test_the_gate(effects: Effects | None, refusal: str | None) -> None:
    """R-SAFE-1: delivery known, no output, no thinking, no tool, complete observation."""
    assert refusal == effect_refusal(effects)


@pytest.mark.parametrize("mark", ["output", "thinking"])
def test_a_resume_guarantee_stands_in_for_no_output(mark: str) -> None:
    """R-SAFE-2: for output and thinking."""
    assert effect_refusal(after(mark), resume_guarantee=True) is None


@pytest.mark.parametrize("mark", ["tool_call", "tool_effect", "sent", "incomplete"])
def test_a_resume_guarantee_stands_in_for_nothing_else(mark: str) -> None:
    """R-SAFE-2: never for a tool or for doubt."""
    assert effect_refusal(after(mark), resume_guarantee=True) is not None


def test_unclassified_is_never_automatic() -> None:
    """R-CLS-2."""
    assert automatic_refusal(ErrorClass.UNCLASSIFIED, Confidence.HIGH, CLEAN) == "the failure is unclassified"


@pytest.mark.parametrize("error_class", [ErrorClass.TRANSIENT, ErrorClass.HARD])
@pytest.mark.parametrize(
    ("confidence", "delivery", "allowed"),
    [
        (Confidence.HIGH, Delivery.NOT_SENT, True),
        (Confidence.HIGH, Delivery.ACKNOWLEDGED, True),
        (Confidence.HIGH, Delivery.SENT, False),
        (Confidence.MEDIUM, Delivery.NOT_SENT, True),
        (Confidence.MEDIUM, Delivery.ACKNOWLEDGED, False),
        (Confidence.LOW, Delivery.NOT_SENT, False),
        (Confidence.LOW, Delivery.ACKNOWLEDGED, False),
    ],
)
def test_confidence(error_class: ErrorClass, confidence: Confidence, delivery: Delivery, allowed: bool) -> None:
    """R-SAFE-1: high, or medium while nothing was sent."""
    effects = Effects(delivery=delivery, complete=True)
    assert allowed == (automatic_refusal(error_class, confidence, effects) is None)


def test_unknown_effects_are_unsafe_at_any_confidence() -> None:
    """R-EVI-3: missing evidence is unknown, which is unsafe."""
    assert automatic_refusal(ErrorClass.HARD, Confidence.MEDIUM, None) == "confidence is medium"
    assert automatic_refusal(ErrorClass.HARD, Confidence.HIGH, None) == "nothing is known of the effects"


@given(st.lists(st.sampled_from(MARKS)), st.sampled_from(ErrorClass), st.sampled_from(Confidence), st.booleans())
def test_one_more_mark_never_makes_it_safe(
    marks: list[str], error_class: ErrorClass, confidence: Confidence, guarantee: bool
) -> None:
    """Only an acknowledgement resolves doubt about delivery; every other mark can only forbid."""
    refused = automatic_refusal(error_class, confidence, after(*marks), resume_guarantee=guarantee)
    for more in ("tool_call", "tool_effect", "incomplete"):
        now = automatic_refusal(error_class, confidence, after(*marks, more), resume_guarantee=guarantee)
        assert now is not None
    again = automatic_refusal(error_class, confidence, after(*marks, "sent"), resume_guarantee=guarantee)
    assert refused is None or again is not None


def test_any_activity() -> None:
    """Work may hide behind anything that came back."""
    assert [False, False, True, True, True, True] == [
        after(m).any_activity for m in ("sent", "acknowledged", "output", "thinking", "tool_call", "tool_effect")
    ]

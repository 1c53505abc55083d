"""Most lines of standard error are told from the few that may decide in one pass (R-EVI-2, R-PRF-2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.collector import Decisive
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.types import Channel, Phase
from tests.catalogue._shipped import shipped

LINES = sorted({s.text for r in shipped().rules for f in r.fixtures for s in f.signals if s.text})


def line(text: str) -> Signal:
    return Signal(channel=Channel.STDERR, text=text)


def winner(text: str, family: str) -> str | None:
    """What decides, found out the long way."""
    judged = shipped().judge(Evidence(family=family, phase=Phase.PROMPT_SEND, signals=(line(text),)))
    best = [*judged.conflict, *([judged.winner] if judged.winner else [])]
    return " ".join(m.rule.id for m in best if not m.rule.foreign) or None


@pytest.mark.parametrize("family", ["claude", "codex", "opencode", "other"])
def test_no_line_that_decides_is_called_silent(family: str) -> None:
    """Every text of every fixture."""
    found = {text: shipped().decides(line(text), family) for text in LINES}
    assert {text: winner(text, family) for text in LINES} == {t: d.rule if d else None for t, d in found.items()}


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=20), min_size=1, max_size=4), st.sampled_from(" \n:{"))
def test_nor_is_any_that_is_made_of_several(parts: list[str], glue: str) -> None:
    """Neighbours may take a line away, never bring one in that the pass did not see."""
    text = glue.join(parts).encode("utf-8", "replace").decode()
    found = shipped().decides(line(text), "other")
    assert winner(text, "other") == (found.rule if found else None)


def test_what_decides_says_whether_the_agent_still_tries_and_until_when() -> None:
    """What an envelope needs to tell a verdict from its repetitions."""
    said = ("Error: You've hit your usage limit. Try again in 3 hours.", "Reconnecting... 1/5 (rate limit exceeded)")
    found = [shipped().decides(Signal(channel=Channel.AGENT_NOTICE, text=t), "codex") for t in said]
    assert [(False, True), (True, True)] == [(d.interim, d.timed) for d in found if isinstance(d, Decisive)]

"""What is tried, each with its inputs: the same for the fixed part and for the part that goes on for as long as asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from kandev_routing_sdk.catalogue.rules import Rank
from kandev_routing_sdk.types import ErrorClass
from tests.fuzz import _inputs as inputs
from tests.fuzz._way import played

SURE = {"delivery": "acknowledged", "complete": True}
"""Effects that forbid nothing: whatever is classified may be automatic."""
STRUCTURED = [
    (min(rule.families, default="other"), signal.model_dump(mode="json", exclude_none=True))
    for rule, fixture, signal in inputs.FIXTURES
    if fixture.kind == "positive" and rule.rank is Rank.STRUCTURED and signal.data is not None and not rule.phases
]


class Target(NamedTuple):
    """A rule about the whole way and what it is tried with."""

    name: str
    given: st.SearchStrategy[Any]
    holds: Callable[[Any], object]


def record(*signals: dict[str, Any], family: str = "other") -> dict[str, Any]:
    return {
        "evidence": {
            "family": family,
            "phase": "prompt_send",
            "observed_at": "2026-04-29T14:58:12Z",
            "effects": SURE,
            "signals": list(signals),
        }
    }


def content_is_nothing(given: dict[str, Any]) -> None:
    """R-EVI-6."""
    for key in ("http_status", "exit_code", "exit_signal"):
        given["evidence"].pop(key, None)
    found = played(given)
    if found is not None:
        assert (ErrorClass.UNCLASSIFIED, False) == (found.answer["class"], found.answer["automatic"])


def bent_on_content(given: tuple[str, str, str]) -> None:
    """A true report, however bent, said by the model or a tool."""
    text, channel, family = given
    content_is_nothing(record({"channel": channel, "text": text}, family=family))


def bent_anywhere(given: tuple[str, str, str]) -> None:
    """A true report, however bent, on any channel: answered in the published form."""
    text, channel, family = given
    assert played(record({"channel": channel, "text": text}, family=family)) is not None


def foreign_adds_nothing(given: tuple[str, tuple[str, str, str], bool]) -> None:
    """Somebody else's line beside an unclassified text makes nothing automatic."""
    text, (line, channel, family), first = given
    alone = played(record({"channel": channel, "text": text}, family=family))
    assert alone is not None
    if alone.answer["class"] != ErrorClass.UNCLASSIFIED:
        return
    both = f"{line}\n{text}" if first else f"{text}\n{line}"
    for beside in (
        record({"channel": channel, "text": both}, family=family),
        record({"channel": channel, "text": text}, {"channel": channel, "text": line}, family=family),
    ):
        found = played(beside)
        assert found is not None
        assert not found.answer["automatic"], f"{alone.answer['code']} became {found.answer['classifier_rule']}"


def noise_hides_nothing(given: tuple[tuple[str, dict[str, Any]], list[str], list[str], int]) -> None:
    """A decisive event counts wherever it stands in however much output (R-EVI-2)."""
    (family, event), before, after, times = given
    alone = played(record(event, family=family))
    noisy = played(
        record(
            *({"channel": "stderr", "text": line} for line in before * times),
            event,
            *({"channel": "stderr", "text": line} for line in after * times),
            family=family,
        )
    )
    assert alone is not None
    assert noisy is not None
    assert (alone.answer["code"], alone.answer["classifier_rule"]) == (
        noisy.answer_of_kept["code"],
        noisy.answer_of_kept["classifier_rule"],
    )


CHANNELS = st.sampled_from(inputs.RUNTIME)
FAMILIES = st.sampled_from(inputs.FAMILIES)
NOISE = st.lists(st.sampled_from(inputs.NOISE), max_size=5)
TARGETS = (
    Target("records", inputs.records(inputs.RUNTIME + inputs.CONTENT), played),
    Target("no records", inputs.WRONG, played),
    Target("content", inputs.records(inputs.CONTENT), content_is_nothing),
    Target("bent", st.tuples(inputs.BENT, CHANNELS, FAMILIES), bent_anywhere),
    Target("bent content", st.tuples(inputs.BENT, st.sampled_from(inputs.CONTENT), FAMILIES), bent_on_content),
    Target(
        "foreign lines",
        st.tuples(inputs.BENT, inputs.picked(inputs.FOREIGN_LINES), st.booleans()),
        foreign_adds_nothing,
    ),
    Target(
        "noise", st.tuples(inputs.picked(STRUCTURED), NOISE, NOISE, st.sampled_from([1, 9, 40])), noise_hides_nothing
    ),
)

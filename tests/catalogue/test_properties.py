"""Whatever comes in: an answer, deterministic, bounded, and never from content (R-CLS-1, R-CLS-7, R-EVI-6)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.catalogue.matcher import Mark
from kandev_routing_sdk.evidence.collector import MAX_SIGNALS, SignalCollector
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.timing import hints_from_text
from kandev_routing_sdk.types import Channel, Code, ErrorClass, JsonValue, Phase
from tests.catalogue._shipped import CORPUS, evidence, shipped

FIXTURES = [f for r in shipped().rules for f in r.fixtures]
WORDS = [s.text for f in FIXTURES for s in f.signals if s.text] + [
    '{"error":',
    "HTTP/2 429\nretry-after: 5",
    "\ud800",
    "\x00",
    "{" * 50,
]
KEYS = [
    "error",
    "type",
    "code",
    "message",
    "status",
    "api_error",
    "codexErrorInfo",
    "data",
    "name",
    "statusCode",
    "sessionUpdate",
]

TEXTS = st.text(max_size=200) | st.lists(st.sampled_from(WORDS) | st.text(max_size=9), max_size=4).map("\n".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
STATUSES = st.none() | st.sampled_from([200, 400, 401, 402, 403, 404, 413, 429, 500, 503, 529]) | st.integers()


def signals(channels: list[Channel]) -> st.SearchStrategy[Signal]:
    return st.builds(
        Signal.model_construct,
        channel=st.sampled_from(channels),
        text=st.none() | TEXTS,
        data=JSON,
        headers=st.none()
        | st.dictionaries(st.sampled_from(["retry-after", "x", "anthropic-ratelimit-unified-status"]), TEXTS),
        code=st.none() | st.integers() | TEXTS,
        http_status=STATUSES,
        phase=st.none() | st.sampled_from(Phase),
    )


def envelope(*given_signals: Signal, family: str = "claude", **more: Any) -> Evidence:
    return Evidence.model_construct(family=family, phase=Phase.PROMPT_SEND, signals=given_signals, **more)


@given(
    st.lists(signals(list(Channel)), max_size=4),
    st.sampled_from(["claude", "codex", "other"]),
    STATUSES,
    st.none() | st.integers(),
)
def test_there_is_always_an_answer_and_always_the_same(
    made: list[Signal], family: str, status: int | None, exit_code: int | None
) -> None:
    """Never raises; what is unclassified has low confidence or a code that says so."""
    seen = envelope(*made, family=family, http_status=status, exit_code=exit_code)
    found = shipped().classify(seen)
    assert found == shipped().classify(seen)
    assert isinstance(found.code, Code)
    assert found.safe_excerpt is None or len(found.safe_excerpt.encode("utf-8", "replace")) <= 4096
    assert json.loads(found.model_dump_json())["catalogue_version"] == shipped().version


@given(st.lists(signals([Channel.ASSISTANT_TEXT, Channel.TOOL_OUTPUT]), max_size=4))
def test_content_never_classifies(made: list[Signal]) -> None:
    """Whatever a model or a tool says."""
    assert ErrorClass.UNCLASSIFIED == shipped().classify(envelope(*made)).error_class


@pytest.mark.parametrize("channel", [Channel.ASSISTANT_TEXT, Channel.TOOL_OUTPUT])
def test_every_true_fixture_is_nothing_on_a_content_channel(channel: Channel) -> None:
    """Each positive, said by the model or by a tool."""
    for fixture in FIXTURES:
        for signal in fixture.signals:
            moved = signal.model_copy(update={"channel": channel})
            assert ErrorClass.UNCLASSIFIED == shipped().classify(evidence(moved)).error_class, fixture


@given(signals([Channel.ASSISTANT_TEXT, Channel.TOOL_OUTPUT]), st.sampled_from(FIXTURES))
def test_content_beside_evidence_changes_nothing(content: Signal, fixture: object) -> None:
    """Neither code, nor timing, nor excerpt."""
    signal = fixture.signals[0]  # type: ignore[attr-defined]
    if signal.channel.is_runtime:
        assert shipped().classify(envelope(signal)) == shipped().classify(envelope(content, signal))


ADVERSARIES = {
    "nothing": "x",
    "spaces": " ",
    "newlines": "\n",
    "brackets": "{",
    "nesting": '{"error":',
    "lists": "[",
    "quotes": '"\\"',
    "near": "you hit reached exceeded ",
    "limits": "limit ",
    "noise": "MCP server x\n",
    "times": "resets in 3 hours ",
    "prefix": "error: ",
    "wide": "é€𝄞",
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_64_kib_of_anything_is_answered(name: str) -> None:
    """R-CLS-7: the answer comes; how fast is measured by the benchmark."""
    unit = ADVERSARIES[name]
    text = unit * (65536 // len(unit))
    assert ErrorClass.UNCLASSIFIED == shipped().classify(evidence({"channel": "stderr", "text": text})).error_class


@pytest.mark.parametrize("depth", [10, 500, 20_000])
def test_depth_is_no_danger(depth: int) -> None:
    """Nesting in words and in fields."""
    text = '{"error":' * depth + "1" + "}" * depth
    data: JsonValue = 1
    for _ in range(depth):
        data = {"error": data}
    signal = Signal.model_construct(channel=Channel.HTTP, text=text, data=data)
    assert Code.UNKNOWN_PROVIDER_ERROR == shipped().classify(envelope(signal)).code


DECISIVE = [
    s
    for r in shipped().rules
    for f in r.fixtures
    for s in f.signals
    if f.kind == "positive" and not r.foreign and not r.families and not r.phases and shipped().decides(s, "other")
]
NOISE = ["compiling crate 12", "ok", "x" * 900, "Reading files…", '{"level":"info"}', "step\n" * 300]


@settings(max_examples=60)
@given(
    st.sampled_from(DECISIVE),
    st.sampled_from(NOISE),
    st.sampled_from([0, 1, 30, 150]),
    st.sampled_from([0, 1, 30, 150]),
    st.sampled_from([Channel.STDERR, Channel.STDOUT_EVENT, Channel.AGENT_NOTICE]),
)
def test_a_decisive_event_counts_wherever_it_stands(
    event: Signal, noise: str, before: int, after: int, channel: Channel
) -> None:
    """First, in the middle, last, in however much output: it is kept, and it decides (R-EVI-2)."""
    collector = SignalCollector(Sanitiser(), lambda s: shipped().decides(s, "other"))
    collector.add(event)
    alone = shipped().classify(envelope(*collector.signals(), family="other"))
    collector = SignalCollector(Sanitiser(), lambda s: shipped().decides(s, "other"))
    for n in range(before):
        collector.add(Signal(channel=channel, text=f"{noise} {n}"))
    collector.add(event)
    for n in range(after):
        collector.add(Signal(channel=channel, text=f"{noise} {n}"))
    kept = collector.signals()
    assert len(kept) <= MAX_SIGNALS
    assert len(kept) + collector.dropped >= before + 1 + after
    found = shipped().classify(envelope(*kept, family="other"))
    assert (alone.code, alone.classifier_rule) == (found.code, found.classifier_rule)


TIMED = [
    f"{a} {b}"
    for a in ["", "limit reached|", "try again in", "resets", "retrying", "will be back", "cycle ends on"]
    for b in ["5 s", "3pm (UTC)", "1760000400"]
]


@given(st.lists(st.sampled_from([*TIMED, *WORDS]), max_size=3).map("\n".join))
def test_words_that_hold_a_time_are_read_for_it(text: str) -> None:
    """The gate in front of the timing grammar lets everything through that the grammar takes."""
    clean = text.encode("utf-8", "replace").decode()
    if hints_from_text(clean, observed_at=None, local_zone=None):
        reading = shipped().judge(evidence({"channel": "http", "text": clean})).readings[0]
        assert Mark.TIMED in reading.marks


def test_every_timed_report_passes_the_gate() -> None:
    """The same, for the words that people have seen."""
    now = datetime(2026, 6, 1, tzinfo=UTC)
    for line in CORPUS.read_text("utf-8").splitlines():
        text = json.loads(line)["evidence"]["signals"][0]["text"]
        if hints_from_text(text, observed_at=now, local_zone="UTC"):
            assert Mark.TIMED in shipped().judge(evidence({"channel": "http", "text": text})).readings[0].marks, text


def test_what_is_sanitised_already_gives_the_same() -> None:
    """The shortcut of those who sanitise before."""
    seen = evidence({"channel": "agent_notice", "text": "You've hit your usage limit. Try again in 3 hours."})
    assert shipped().classify(seen) == shipped().classify(seen, sanitised=True)

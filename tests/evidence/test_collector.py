"""The envelope's bounds (R-EVI-2): what is kept, what is dropped, what is cut."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.collector import (
    MAX_ENVELOPE_BYTES,
    MAX_SIGNAL_BYTES,
    MAX_SIGNALS,
    MAX_TEXT_CHARS,
    Decisive,
    SignalCollector,
    Torn,
)
from kandev_routing_sdk.evidence.fitting import cut_utf8
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.types import Channel, JsonValue

YES = Decisive("rule")
KEY = "sk-ant-api03-" + "FAKEfake" * 6


def collect(*signals: Signal, decisive_word: str | None = None) -> SignalCollector:
    decides = (lambda s: YES if decisive_word in (s.text or "") else None) if decisive_word else None
    collector = SignalCollector(Sanitiser(), decides)
    for signal in signals:
        collector.add(signal)
    return collector


def line(n: int, text: str = "compiling crate") -> Signal:
    return Signal(channel=Channel.STDERR, text=f"{text} {n}")


def event(n: int) -> Signal:
    return Signal(channel=Channel.STDOUT_EVENT, data={"type": "error", "n": n})


def size_of(signal: Signal) -> int:
    data = json.dumps(signal.data, ensure_ascii=False) if signal.data is not None else ""
    return len((signal.text or "").encode()) + len(data.encode())


def test_order_is_the_order_of_arrival() -> None:
    """Structured and plain signals come back as they came."""
    collector = collect(line(1), event(2), line(3), event(4))
    assert [Channel.STDERR, Channel.STDOUT_EVENT] * 2 == [s.channel for s in collector.signals()]


def test_of_plain_lines_the_newest_stay_and_the_rest_is_counted() -> None:
    """R-EVI-2: the newest are kept, what was dropped is counted."""
    collector = collect(*(line(n) for n in range(500)))
    assert ([f"compiling crate {n}" for n in range(500 - MAX_SIGNALS, 500)], 500 - MAX_SIGNALS) == (
        [s.text for s in collector.signals()],
        collector.dropped,
    )


@pytest.mark.parametrize("at", [0, 250, 499])
def test_a_structured_event_stays_wherever_it_stands(at: int) -> None:
    """R-EVI-2: first, middle or last in however much output."""
    collector = collect(*(event(n) if n == at else line(n) for n in range(500)))
    assert [{"type": "error", "n": at}] == [s.data for s in collector.signals() if s.data is not None]


@pytest.mark.parametrize("at", [0, 250, 499])
def test_a_decisive_line_stays_wherever_it_stands(at: int) -> None:
    """R-EVI-2, for words without structure: the catalogue names them."""
    lines = [line(n, "usage limit reached" if n == at else "noise") for n in range(500)]
    assert any("usage limit" in (s.text or "") for s in collect(*lines, decisive_word="usage limit").signals())


@pytest.mark.parametrize("at", [0, 100, 199])
def test_a_decisive_event_outlives_other_events(at: int) -> None:
    """More structured events than there is room for: the deciding one is dropped last."""
    events = [
        Signal(channel=Channel.STDOUT_EVENT, text="fatal" if n == at else "ok", data={"n": n}) for n in range(200)
    ]
    assert ["fatal"] == [s.text for s in collect(*events, decisive_word="fatal").signals() if s.text == "fatal"]


def test_a_flood_of_decisive_events_keeps_the_first_and_the_last() -> None:
    """A cause may come first, a verdict last."""
    kept = collect(
        *(Signal(channel=Channel.HTTP, text="fatal", http_status=n) for n in range(200)), decisive_word="fatal"
    )
    statuses = [s.http_status for s in kept.signals()]
    assert (0, 199) == (statuses[0], statuses[-1])


@pytest.mark.parametrize("where", ["head", "middle", "tail"])
def test_a_long_text_loses_nothing(where: str) -> None:
    """The decisive sentence at the head, in the middle or at the end of 6 KiB of other output."""
    noise = "x" * 40 + "\n"
    decisive = "You've hit your usage limit.\n"
    parts = {
        "head": [decisive, noise * 150],
        "middle": [noise * 75, decisive, noise * 75],
        "tail": [noise * 150, decisive],
    }
    collector = collect(Signal(channel=Channel.STDERR, text="".join(parts[where])))
    assert decisive in "".join(s.text or "" for s in collector.signals())


def test_a_long_line_is_cut_with_an_overlap() -> None:
    """A sentence at the cut of one endless line is whole in one of its pieces."""
    for offset in range(4000, 4200, 7):
        text = "y " * (offset // 2) + "usage limit reached" + " z" * 3000
        pieces = [s.text or "" for s in collect(Signal(channel=Channel.STDERR, text=text)).signals()]
        assert any("usage limit reached" in p for p in pieces), offset


def test_a_cut_text_keeps_its_structure_once() -> None:
    """Data, headers, code and status belong to the first piece only."""
    collector = collect(
        Signal(channel=Channel.HTTP, text="line\n" * 2000, data={"a": 1}, headers={"x": "y"}, code=7, http_status=500)
    )
    assert [({"a": 1}, {"x": "y"}, 7, 500)] == [
        (s.data, s.headers, s.code, s.http_status) for s in collector.signals() if s.data is not None
    ]


def test_everything_is_sanitised_before_it_is_kept() -> None:
    """R-EVI-5: text, data and headers."""
    collector = collect(
        Signal(
            channel=Channel.HTTP,
            text=f"bad key {KEY}",
            data={"message": f"bad key {KEY}"},
            headers={"authorization": f"Bearer {KEY}", "retry-after": "30"},
        )
    )
    kept = "".join(s.model_dump_json() for s in collector.signals())
    assert (False, True) == (KEY in kept, "retry-after" in kept)


def test_content_is_never_kept_in_a_structured_place() -> None:
    """A tool's structured output may not push runtime signals out."""
    tools = [Signal(channel=Channel.TOOL_OUTPUT, data={"n": n}) for n in range(200)]
    collector = collect(event(-1), *tools)
    assert {"type": "error", "n": -1} in [s.data for s in collector.signals()]


@pytest.mark.parametrize(
    "data",
    [
        {"message": "m" * 100_000},
        {f"key{n}": "v" * 2000 for n in range(400)},
        [["deep"] * 50] * 50,
        {"k" * 5000: "v"},
        {f"k{n}" * 100: {f"i{m}" * 100: "v" * 500 for m in range(40)} for n in range(40)},
    ],
)
def test_structured_data_fits(data: JsonValue) -> None:
    """4 KiB a signal, whatever its shape."""
    (kept,) = collect(Signal(channel=Channel.STDOUT_EVENT, data=data)).signals()
    assert size_of(kept) <= MAX_SIGNAL_BYTES


def test_nesting_is_bounded() -> None:
    """Deep structure becomes an ellipsis, not a stack overflow."""
    deep: JsonValue = "bottom"
    for _ in range(60):
        deep = {"down": [deep]}
    (kept,) = collect(Signal(channel=Channel.STDOUT_EVENT, data=deep)).signals()
    assert (True, False) == ("…" in json.dumps(kept.data, ensure_ascii=False), "bottom" in json.dumps(kept.data))


def test_long_headers_are_cut() -> None:
    """Header values cannot fill the envelope."""
    headers = {f"x-header-{n}": "v" * 1000 for n in range(100)}
    (kept,) = collect(Signal(channel=Channel.HTTP, headers=headers)).signals()
    assert sum(len(k) + len(v) for k, v in (kept.headers or {}).items()) <= MAX_SIGNAL_BYTES


def test_a_huge_text_is_read_at_both_ends() -> None:
    """What no envelope could hold is bounded before it is sanitised."""
    text = "first word\n" + "n\n" * 500_000 + "last word"
    kept = "".join(
        s.text or "" for s in collect(Signal(channel=Channel.STDERR, text=text), decisive_word="first").signals()
    )
    assert (True, True, True) == ("first word" in kept, "last word" in kept, len(kept) <= MAX_ENVELOPE_BYTES)


def by_word(*words: str) -> Callable[[Signal], Decisive | None]:
    """A catalogue with one rule a word; what begins with "retry" is interim."""

    def decides(signal: Signal) -> Decisive | None:
        said = [w for w in words if w in (signal.text or "")]
        return Decisive(said[0], (signal.text or "").startswith("retry")) if said else None

    return decides


@pytest.mark.parametrize("at", [0, 24, 150, 299])
@pytest.mark.parametrize("channel", [Channel.STDERR, Channel.STDOUT_EVENT])
def test_a_rare_verdict_outlives_what_is_said_often(at: int, channel: Channel) -> None:
    """R-EVI-2: more that decides than there are places: of one cause the first and the last are enough."""
    collector = SignalCollector(Sanitiser(), by_word("usage limit", "network"))
    for n in range(300):
        if n == at:
            collector.add(Signal(channel=channel, text="usage limit reached"))
        collector.add(Signal(channel=channel, text=f"retry {n}: network" if n % 2 else f"network {n}"))
    texts = [s.text for s in collector.signals()]
    assert {"network 0", "retry 1: network", "usage limit reached", "network 298", "retry 299: network"} <= set(texts)
    assert 301 == len(texts) + collector.dropped


def test_what_the_runtime_says_is_not_a_duplicate_of_a_line() -> None:
    """The same rule on another channel is another cause: only one of them may count in the end."""
    collector = SignalCollector(Sanitiser(), by_word("limit"))
    for n in range(100):
        collector.add(line(n, "limit"))
        if n == 50:
            collector.add(Signal(channel=Channel.AGENT_NOTICE, text="limit"))
    assert 1 == [s.channel for s in collector.signals()].count(Channel.AGENT_NOTICE)


def test_of_many_causes_the_tries_go_first() -> None:
    """R-EVI-2: what the agent repeats by itself is worth less than a verdict."""
    words = [f"<{n}>" for n in range(70)]
    collector = SignalCollector(Sanitiser(), by_word(*words))
    for n, word in enumerate(words):
        collector.add(Signal(channel=Channel.AGENT_NOTICE, text=word if n % 2 else f"retry {word}"))
    kept = {s.text for s in collector.signals()}
    assert {f"<{n}>" for n in range(1, 70, 2)} <= kept


def test_all_of_a_long_text_is_looked_at() -> None:
    """R-EVI-2: the middle of four million characters, also at the edges of what is looked at in one piece."""
    decisive = " You've hit your usage limit. "
    for at in (32_000, 33_000, 61_440, 100_001, 2_000_000, 4_100_000):
        for noise in ("x", "a b", "step\n"):
            text = noise * (at // len(noise)) + decisive + noise * ((4_190_000 - at) // len(noise))
            collector = collect(Signal(channel=Channel.AGENT_NOTICE, text=text), decisive_word="usage limit")
            kept = collector.signals()
            assert any(decisive.strip() in (s.text or "") for s in kept), (at, noise)
            assert collector.dropped > 900


def test_of_an_endless_text_both_ends_count_and_the_rest_is_counted() -> None:
    """R-EVI-2: what is not looked at is counted as dropped."""
    half = MAX_TEXT_CHARS // 2
    text = "x" * (half - 100) + "first word" + "x" * 10_000_000 + "last word" + "x" * (half - 100)
    collector = SignalCollector(Sanitiser(), by_word("first word", "last word"))
    collector.add(Signal(channel=Channel.STDERR, text=text))
    kept = " ".join(s.text or "" for s in collector.signals())
    assert (True, True) == ("first word" in kept, "last word" in kept)
    assert collector.dropped > 10_000_000 // MAX_SIGNAL_BYTES


@pytest.mark.parametrize("at", [40_000, 65_000, 65_500, 100_000, 150_000])
def test_a_secret_in_a_long_text_stays_whole_until_it_is_cleaned(at: int) -> None:
    """R-EVI-5: however the text is cut around it."""
    for shift in range(0, 4096, 173):
        text = "y " * ((at + shift) // 2) + f"usage limit {KEY} " + "z " * (100_000)
        kept = "".join(
            s.text or ""
            for s in collect(Signal(channel=Channel.STDERR, text=text), decisive_word="usage limit").signals()
        )
        assert (True, False) == ("usage limit" in kept, "FAKE" in kept), shift


@pytest.mark.parametrize("torn", [Torn(start=True), Torn(end=True), Torn(start=True, end=True)])
@pytest.mark.parametrize("length", [6_000, 200_000])
def test_what_stands_beside_a_tear_goes(torn: Torn, length: int) -> None:
    """R-EVI-5: half a secret has lost its shape."""
    collector = SignalCollector(Sanitiser(), by_word("alpha", "omega"))
    collector.add(Signal(channel=Channel.STDERR, text=f"alpha {'w ' * (length // 2)} omega"), torn)
    kept = "".join(s.text or "" for s in collector.signals())
    assert (torn.start, torn.end) == ("alpha" not in kept, "omega" not in kept)
    assert "w w w" in kept


def test_a_word_under_colours_or_beside_a_secret_is_seen() -> None:
    """What decides is asked before a line is sanitised; what sanitising brings out counts all the same."""
    decides = lambda s: Decisive("r") if re.search(r"usage limit|key .{1,20} revoked", s.text or "") else None  # noqa: E731
    for text in ("\x1b[31musage\x1b[0m limit", f"key {KEY} revoked"):
        collector = SignalCollector(Sanitiser(), decides)
        for n in range(200):
            collector.add(Signal(channel=Channel.AGENT_NOTICE, text=f"step {n}"))
            if n == 100:
                collector.add(Signal(channel=Channel.AGENT_NOTICE, text=text))
        texts = [s.text for s in collector.signals()]
        assert 1 == sum("step" not in (t or "") for t in texts)
        assert not any("\x1b" in (t or "") or "FAKE" in (t or "") for t in texts)


def test_a_line_that_decides_keeps_the_lines_around_it() -> None:
    """R-EVI-6: what stands around a line of standard error says whose it is, also when a flood follows."""
    collector = SignalCollector(Sanitiser(), by_word("limit"))
    said = ["first", "snyk: testing", "a limit", "{ its body", *(f"step {n}" for n in range(200))]
    for text in said:
        collector.add(Signal(channel=Channel.STDERR, text=text))
    kept = [s.text for s in collector.signals()]
    assert ("first\nsnyk: testing\na limit\n{ its body", *said[-63:]) == tuple(kept)
    assert len(said) == 3 + len(kept) + collector.dropped


def test_a_line_that_decides_only_below_its_headline_is_kept_with_it() -> None:
    """R-EVI-2: a bare phrase is the agent's own under its headline."""

    def decides(signal: Signal) -> Decisive | None:
        return Decisive("r") if re.search(r"API Error:\n(.*\n)*slow down", signal.text or "") else None

    for before in range(100, 108):
        collector = SignalCollector(Sanitiser(), decides)
        said = (*"s" * before, "API Error:", *"12345", "slow down", *"t" * 100)
        for text in said:
            collector.add(Signal(channel=Channel.STDERR, text=text))
        (kept,) = [s.text or "" for s in collector.signals() if "slow" in (s.text or "")]
        assert "API Error:\n1\n2\n3\n4\n5\nslow down" in kept


def test_a_try_is_not_read_with_the_lines_around_it() -> None:
    """What an agent says while it still tries is worth less, so that it may not be taken for what it says at its end."""
    collector = SignalCollector(Sanitiser(), by_word("limit"))
    for text in ("above", "Retrying: limit", "below", "Reconnecting", "limit", *(f"step {n}" for n in range(100))):
        collector.add(Signal(channel=Channel.STDERR, text=text))
    assert ["Retrying: limit", "limit\nstep 0"] == [s.text for s in collector.signals() if "limit" in (s.text or "")]


@pytest.mark.parametrize("length", [40, 400])
def test_the_headers_that_tell_are_kept_first(length: int) -> None:
    """R-EVI-2: wherever they stand among many."""
    noise = {f"x-h{n}": "v" * length for n in range(100)}
    telling = {
        "Retry-After": "120",
        "x-ratelimit-reset": "9",
        "x-codex-primary-used-percent": "100",
        "anthropic-beta": "b",
    }
    (kept,) = collect(Signal(channel=Channel.HTTP, headers={**noise, **telling, "content-type": "text/html"})).signals()
    assert kept.headers is not None
    assert [*telling, "content-type"] == [n for n in kept.headers if not n.startswith("x-h")]
    assert list(kept.headers) == sorted(kept.headers, key=[*noise, *telling, "content-type"].index)


@pytest.mark.parametrize("value", ["v", "v" * 300])
@pytest.mark.parametrize(
    "name", ["error", "code", "codexErrorInfo", "errorName", "resets_at", "resets_in_seconds", "retry_after"]
)
def test_the_fields_that_tell_are_kept_first(name: str, value: str) -> None:
    """R-EVI-2: behind any number of others, at any depth that is kept."""
    wide: dict[str, JsonValue] = {f"k{n}": value for n in range(100)}
    (kept,) = collect(Signal(channel=Channel.ACP_ERROR, data={**wide, "error": {**wide, name: 7}})).signals()
    assert isinstance(kept.data, dict)
    error = kept.data["error"]
    assert isinstance(error, dict)
    assert (7, name) == (error[name], list(error)[-1])


SIGNALS = st.builds(
    Signal,
    channel=st.sampled_from(Channel),
    text=st.none() | st.text(max_size=300) | st.integers(0, 30_000).map(lambda n: "é€" * n),
    data=st.none()
    | st.recursive(st.text(max_size=200) | st.integers(), lambda c: st.dictionaries(st.text(max_size=9), c)),
    http_status=st.none() | st.integers(100, 599),
)


@given(st.lists(SIGNALS, max_size=90), st.booleans())
def test_no_input_breaks_the_bounds(signals: list[Signal], everything_decides: bool) -> None:
    """64 signals, 4 KiB a signal, 64 KiB in all, and every signal is either kept or counted."""
    collector = SignalCollector(Sanitiser(), (lambda s: YES) if everything_decides else None)
    for signal in signals:
        collector.add(signal)
    kept = collector.signals()
    assert kept == collector.signals()
    assert len(kept) <= MAX_SIGNALS
    assert all(size_of(s) <= MAX_SIGNAL_BYTES for s in kept)
    assert sum(len(s.model_dump_json(exclude_none=True).encode()) for s in kept) <= MAX_ENVELOPE_BYTES
    assert len(kept) + collector.dropped >= len(signals)


@given(st.text(), st.integers(0, 50))
def test_cutting_stays_on_a_character_boundary(text: str, limit: int) -> None:
    """A prefix, within the limit, and the longest such one."""
    text = text.encode("utf-8", "replace").decode()
    cut = cut_utf8(text, limit)
    longer = text[: len(cut) + 1]
    assert text.startswith(cut)
    assert len(cut.encode()) <= limit
    assert cut == text or len(longer.encode()) > limit


def test_content_channels_are_no_evidence() -> None:
    """R-EVI-6: assistant text and tool output are never failure evidence."""
    assert set(Channel) - {Channel.ASSISTANT_TEXT, Channel.TOOL_OUTPUT} == {c for c in Channel if c.is_runtime}

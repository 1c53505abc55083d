"""The envelope's bounds (R-EVI-2): what is kept, what is dropped, what is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.collector import (
    MAX_ENVELOPE_BYTES,
    MAX_SIGNAL_BYTES,
    MAX_SIGNALS,
    Decisive,
    SignalCollector,
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

"""The record of one turn: whatever an extractor says, safety's bookkeeping is the core's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from kandev_routing_sdk.evidence import turn as turn_module
from kandev_routing_sdk.evidence.collector import Decides, Decisive
from kandev_routing_sdk.evidence.model import Effects, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import (
    AgentUpdate,
    CapabilitiesUpdate,
    InnerRetry,
    Notice,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from kandev_routing_sdk.types import AttemptOutcome, Channel, Delivery, Phase

NOW = datetime(2026, 11, 30, 3, 30, tzinfo=UTC)
CONTEXT = TurnContext(
    family="claude",
    session_id="s1",
    generation=3,
    prompt=2,
    attempt_id="a1",
    provider_id="anthropic",
    model_id="asked",
    local_zone="Europe/Berlin",
)


class Turn:
    def __init__(self, decides: Decides | None = None) -> None:
        self.updates: list[AgentUpdate] = []
        self.record = TurnRecord(CONTEXT, Sanitiser(), self.updates.append, decides)


@pytest.fixture
def turn() -> Turn:
    return Turn()


def test_a_turn_that_says_nothing_has_failed(turn: Turn) -> None:
    """Nothing said of the end means that it failed."""
    report = turn.record.report(NOW)
    assert (AttemptOutcome.FAILED, None, "", False) == (
        report.outcome,
        report.stop_reason,
        report.text,
        turn.record.ended,
    )


def test_evidence_names_whose_it_is(turn: Turn) -> None:
    """R-EVI-4: session, generation, prompt and attempt, so that stale evidence can be told."""
    evidence = turn.record.report(NOW).evidence
    assert ("claude", "s1", 3, 2, "a1", "anthropic", "asked", "Europe/Berlin", NOW) == (
        evidence.family,
        evidence.session_id,
        evidence.generation,
        evidence.prompt,
        evidence.attempt_id,
        evidence.provider_id,
        evidence.model_id,
        evidence.local_zone,
        evidence.observed_at,
    )


def test_every_update_is_an_effect_mark_and_an_event(turn: Turn) -> None:
    """R-EVI-3: no adapter can pass on activity without marking it."""
    record = turn.record
    record.sent()
    record.session("native-1", "m")
    record.session("native-1", "m")
    record.thinking("hm")
    record.text("")
    record.text("Hel")
    record.text("lo")
    record.tool_call("t1", "Bash")
    record.tool_result("t1", ok=True)
    record.update(CapabilitiesUpdate({}))
    assert [
        SessionStarted("native-1", "m"),
        ThinkingDelta("hm"),
        TextDelta("Hel"),
        TextDelta("lo"),
        ToolCall("t1", "Bash"),
        ToolResult("t1", True),
        CapabilitiesUpdate({}),
    ] == turn.updates
    report = record.report(NOW)
    assert ("Hello", "native-1") == (report.text, report.native_session_id)
    assert (
        Effects(
            delivery=Delivery.ACKNOWLEDGED, output=True, thinking=True, tool_call=True, tool_effect=True, complete=True
        )
        == record.effects
    )


@pytest.mark.parametrize(
    ("step", "phase"),
    [
        (lambda r: None, Phase.PROCESS_START),
        (lambda r: r.sent(), Phase.PROMPT_SEND),
        (lambda r: r.text("x"), Phase.STREAMING),
        (lambda r: r.thinking("x"), Phase.STREAMING),
        (lambda r: r.tool_call("t", "x"), Phase.TOOL_EXECUTION),
        (lambda r: (r.tool_call("t", "x"), r.tool_result("t")), Phase.STREAMING),
        (lambda r: (r.text("x"), r.sent()), Phase.STREAMING),
    ],
    ids=["start", "sent", "text", "thinking", "tool", "after the tool", "text before sent"],
)
def test_phases_follow_what_happens(turn: Turn, step: Callable[[TurnRecord], object], phase: Phase) -> None:
    """R-EVI-1: a signal carries the phase in which it was seen, unless it says its own."""
    step(turn.record)
    turn.record.signal(Signal(channel=Channel.STDERR, text="x"))
    turn.record.signal(Signal(channel=Channel.STDERR, text="y", phase=Phase.SHUTDOWN))
    report = turn.record.report(NOW)
    assert ([phase, Phase.SHUTDOWN], phase) == ([s.phase for s in report.evidence.signals], report.evidence.phase)


def test_notices_and_retries_prove_delivery_but_are_no_output(turn: Turn) -> None:
    """A runtime's notice is not an answer; the agent's own retries are counted (R-CON-9) and bounded elsewhere."""
    key = "sk-ant-api03-" + "FAKEfake" * 6
    turn.record.notice(f"key {key}")
    turn.record.inner_retry(maximum=10, delay_s=0.5, status=529)
    turn.record.inner_retry()
    first = turn.updates[0]
    assert isinstance(first, Notice)
    assert key not in first.text
    assert [InnerRetry(1, 10, 0.5, 529), InnerRetry(2)] == turn.updates[1:]
    report = turn.record.report(NOW)
    assert (2, Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)) == (report.inner_retries, report.effects)


def test_the_end_as_the_extractor_tells_it(turn: Turn) -> None:
    """Everything said of the end is in the report and in the evidence."""
    record = turn.record
    record.acknowledged()
    record.incomplete()
    record.served_model("served")
    record.usage(0, 0)
    assert not record.has_usage
    record.usage(5, 7)
    record.http_status(529)
    record.exited(1, None)
    record.succeeded("end_turn")
    report = record.report(NOW)
    assert (AttemptOutcome.SUCCESS, "end_turn", Usage(5, 7), "served", True, True) == (
        report.outcome,
        report.stop_reason,
        report.usage,
        report.model,
        record.has_usage,
        record.ended,
    )
    assert (529, 1, None, "served", False) == (
        report.evidence.http_status,
        report.evidence.exit_code,
        report.evidence.exit_signal,
        report.evidence.model_id,
        report.effects.complete,
    )


def test_no_usage_is_no_usage(turn: Turn) -> None:
    """Absent tokens are not tokens."""
    assert not turn.record.has_usage


def test_numbers_that_no_database_can_hold_do_not_lose_the_answer(turn: Turn) -> None:
    """A turn's record is written when its work is done: what an agent counts must not make that fail."""
    turn.record.usage(10**30, -3)
    assert Usage(2**53 - 1, 0) == turn.record.report(NOW).usage


def test_failed_and_cancelled(turn: Turn) -> None:
    """The other two ends."""
    turn.record.failed("refusal")
    failed = turn.record.report(NOW)
    turn.record.cancelled()
    cancelled = turn.record.report(NOW)
    assert [(AttemptOutcome.FAILED, "refusal"), (AttemptOutcome.CANCELLED, "cancelled")] == [
        (failed.outcome, failed.stop_reason),
        (cancelled.outcome, cancelled.stop_reason),
    ]


def test_a_failure_is_not_turned_back_into_a_success(turn: Turn) -> None:
    """A success that an agent claims after it failed is not believed."""
    turn.record.failed("error")
    turn.record.succeeded("end_turn")
    report = turn.record.report(NOW)
    assert (AttemptOutcome.FAILED, "error") == (report.outcome, report.stop_reason)


def test_an_endless_answer_is_cut_and_observation_is_incomplete(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not kept was not observed."""
    monkeypatch.setattr(turn_module, "MAX_TEXT_CHARS", 10)
    for _ in range(4):
        turn.record.text("abcd")
    report = turn.record.report(NOW)
    assert ("abcdabcdab", False, 4) == (report.text, report.effects.complete, len(turn.updates))


def test_signals_are_bounded_and_counted() -> None:
    """R-EVI-2: through the collector, with the catalogue's word on what decides."""
    turn = Turn(lambda s: Decisive("r") if s.text == "0" else None)
    for n in range(100):
        turn.record.signal(Signal(channel=Channel.STDERR, text=str(n)))
    evidence = turn.record.report(NOW).evidence
    assert ("0\n1", 64, 35) == (evidence.signals[0].text, len(evidence.signals), evidence.dropped)


def test_the_whole_envelope_fits_with_its_own_facts() -> None:
    """R-EVI-2: 64 KiB are of everything in it, however much of that the caller named."""
    for ids in (10, 8_000):
        record = TurnRecord(TurnContext(family="acme", session_id="s" * ids), Sanitiser(), lambda _: None)
        for n in range(64):
            record.signal(Signal(channel=Channel.STDERR, text=f"{n} " + "x " * 2000))
        evidence = record.report(NOW).evidence
        assert 65_536 - 5_000 - 4_096 <= len(evidence.model_dump_json().encode()) <= 65_536


def test_what_an_agent_calls_itself_and_its_end_is_clean_and_short() -> None:
    """R-EVI-2, R-EVI-5: they go into rows and documents as they are."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 5
    record = TurnRecord(TurnContext(family="acme"), Sanitiser([key]), lambda _: None)
    record.served_model(f"model {key} " + "x" * 1000)
    record.session("s" * 1000)
    record.failed(f"because of {key}")
    report = record.report(datetime(2026, 1, 1, tzinfo=UTC))
    assert report.model is not None
    assert report.stop_reason is not None
    assert key not in report.model + report.stop_reason + str(report.evidence.model_id)
    assert len(report.model) <= 220
    assert report.native_session_id is None


def test_a_turn_that_was_given_up_stays_so() -> None:
    """R-CON-9: what its agent says while it is ended is no evidence, and what it did is not known."""
    record = TurnRecord(TurnContext(family="acme"), Sanitiser(), lambda _: None)
    record.abandoned("silence")
    record.failed("error")
    record.succeeded("end_turn")
    report = record.report(datetime(2026, 1, 1, tzinfo=UTC))
    assert (AttemptOutcome.FAILED, "silence", False) == (report.outcome, report.stop_reason, report.effects.complete)

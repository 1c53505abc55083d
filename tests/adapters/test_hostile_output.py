"""Agents may print anything: an extractor never raises, and what it cannot read is never taken for a success (R-EVI-3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_sdk.spec import Extractor, StderrLine, StdoutLine
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._turns import Turn

EXTRACTORS: Mapping[str, Callable[[], Extractor]] = {"claude": ClaudeExtractor, "codex": CodexExtractor}
WORDS = st.sampled_from(
    [
        "system", "assistant", "user", "stream_event", "rate_limit_event", "result", "init", "api_retry", "success", "text", "thinking",
        "tool_use", "tool_result", "message_start", "content_block_start", "content_block_delta", "text_delta", "<synthetic>", "rejected",
        "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.completed", "error", "agent_message",
        "reasoning", "command_execution", "Reconnecting... 1/5 (x)", "Reconnecting... waiting for network", "\ud83d", "",
    ]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "type", "subtype", "message", "content", "event", "delta", "content_block", "item", "id", "text", "error", "usage", "model", "status",
        "is_error", "result", "errors", "rate_limit_info", "attempt", "max_retries", "error_status", "retry_delay_ms", "input_tokens",
        "parent_tool_use_id", "tool_use_id", "session_id", "thread_id", "permission_denials", "api_error_status", "is_api_error_message",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=20
)
EVENTS = st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=8)


@pytest.mark.parametrize("family", EXTRACTORS)
@settings(max_examples=100, deadline=None)
@given(events=EVENTS)
def test_no_event_of_any_shape_breaks_an_extractor(family: str, events: list[dict[str, Any]]) -> None:
    turn = Turn(EXTRACTORS[family]())
    report = turn.feed(*[StdoutLine(json.dumps(event)) for event in events]).exit(0)
    assert turn.record.ended
    assert report.evidence.model_dump_json()
    report.text.encode()


@pytest.mark.parametrize("family", EXTRACTORS)
@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"a":' * 100_000, "null", "3", '"text"', "{", "\x00\x1b[31m", "9" * 5000]
)
def test_garbage_is_no_success(family: str, line: str) -> None:
    report = Turn(EXTRACTORS[family]()).feed(StdoutLine(line), StderrLine(line)).exit(0)
    assert (AttemptOutcome.FAILED, Delivery.SENT, False) == (
        report.outcome,
        report.effects.delivery,
        report.effects.complete,
    )


@pytest.mark.parametrize("family", EXTRACTORS)
def test_half_an_emoji_can_be_stored(family: str) -> None:
    event = {
        "claude": '{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"Hi \\ud83d"}]}}',
        "codex": '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Hi \\ud83d"}}',
    }[family]
    assert "Hi ?" == Turn(EXTRACTORS[family]()).feed(StdoutLine(event)).exit(1).text

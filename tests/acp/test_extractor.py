"""What standard frames mean; whatever they are, nothing raises and nothing unknown is safe (R-EVI-3, R-SAFE-1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import AgentUpdate, ToolCall, ToolResult
from kandev_routing_sdk.spec.acp import StandardAcpExtractor
from kandev_routing_sdk.spec.adapter import AcpFrame, Exited, StderrLine
from kandev_routing_sdk.types import Channel, Delivery
from tests.process._drive import PlainCleaner

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "session_info_update",
    ]
)
FIELDS = ["toolCallId", "title", "status", "content", "messageId", "text", "type"]


def turn() -> TurnRecord:
    record = TurnRecord(TurnContext(family="x"), PlainCleaner(), lambda _: None)
    record.sent()
    return record


def update(**fields: Any) -> AcpFrame:
    return AcpFrame({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": fields}})


@given(st.dictionaries(st.sampled_from(["method", "params", "id", "result", "error"]), JSON, max_size=5))
def test_no_message_makes_it_raise(message: dict[str, Any]) -> None:
    for request in (None, "initialize", "session/new", "session/prompt"):
        StandardAcpExtractor().receive(AcpFrame(message, request=request), turn())


@given(KINDS | st.text(max_size=12), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=7))
def test_no_update_makes_it_raise(kind: str, fields: dict[str, Any]) -> None:
    StandardAcpExtractor().receive(update(sessionUpdate=kind, **fields), turn())


@given(st.text(max_size=20), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=7))
def test_an_update_of_an_unknown_kind_is_never_safe(kind: str, fields: dict[str, Any]) -> None:
    known = {"available_commands_update", "config_option_update", "current_mode_update", "user_message_chunk"}
    if kind in known | {"session_info_update", "usage_update"}:
        return
    record = turn()
    StandardAcpExtractor().receive(update(sessionUpdate=kind, **fields), record)
    record.acknowledged()
    assert effect_refusal(record.effects) is not None


@pytest.mark.parametrize("kind", ["tool_call", "tool_call_update"])
@pytest.mark.parametrize(
    ("status", "ran"), [("pending", False), ("in_progress", True), ("completed", True), ("failed", True), (None, False)]
)
def test_a_tool_that_started_may_have_had_an_effect(kind: str, status: str | None, ran: bool) -> None:
    record = turn()
    StandardAcpExtractor().receive(
        update(sessionUpdate=kind, toolCallId="c", **({"status": status} if status else {})), record
    )
    assert (True, ran) == (record.effects.tool_call, record.effects.tool_effect)


@pytest.mark.parametrize("kind", ["plan", "plan_update", "plan_removed"])
def test_a_plan_is_a_thought(kind: str) -> None:
    record = turn()
    StandardAcpExtractor().receive(update(sessionUpdate=kind, entries=[]), record)
    assert record.effects.thinking


@pytest.mark.parametrize("kind", ["available_commands_update", "config_option_update", "current_mode_update"])
def test_updates_of_the_session_say_nothing_of_the_turn(kind: str) -> None:
    record = turn()
    StandardAcpExtractor().receive(update(sessionUpdate=kind), record)
    assert (Delivery.SENT, True) == (record.effects.delivery, record.effects.complete)


@pytest.mark.parametrize(
    ("content", "complete"),
    [
        ({"type": "text", "text": ""}, True),
        ({"type": "text"}, False),
        ({"type": "text", "text": 5}, False),
        ("x", False),
    ],
)
def test_a_message_that_cannot_be_read_may_have_been_output(content: object, complete: bool) -> None:
    """R-SAFE-1."""
    record = turn()
    StandardAcpExtractor().receive(update(sessionUpdate="agent_message_chunk", content=content), record)
    assert (Delivery.ACKNOWLEDGED, complete) == (record.effects.delivery, record.effects.complete)


def test_an_error_without_an_error_object_fails_the_turn() -> None:
    messages: list[dict[str, Any]] = [{"id": 1}, {"id": 1, "error": None}, {"id": 1, "error": [1]}]
    for message in messages:
        record = turn()
        StandardAcpExtractor().receive(AcpFrame(message, request="session/prompt"), record)
        assert record.ended
        assert Delivery.ACKNOWLEDGED is record.effects.delivery


def test_extensions_say_nothing_and_unknown_notifications_may_be_effects() -> None:
    for method, complete in (("_auth/status_update", True), ("$/progress", True), ("terminal/output", False)):
        record = turn()
        StandardAcpExtractor().receive(AcpFrame({"method": method}), record)
        assert complete is record.effects.complete


def test_standard_error_and_exit_are_evidence_of_their_channel() -> None:
    record, extractor = turn(), StandardAcpExtractor()
    extractor.receive(StderrLine("boom"), record)
    extractor.receive(StderrLine("  "), record)
    extractor.receive(Exited(1), record)
    from datetime import UTC, datetime

    report = record.report(datetime(2026, 1, 1, tzinfo=UTC))
    assert [Channel.STDERR] == [s.channel for s in report.evidence.signals]
    assert "agent_exited" == report.stop_reason


def test_a_tool_is_shown_once_however_often_it_is_mentioned() -> None:
    """Its effects are marked all the same; one whose title comes late is shown again with it."""
    updates: list[AgentUpdate] = []
    record = TurnRecord(TurnContext(family="x"), PlainCleaner(), updates.append)
    extractor = StandardAcpExtractor()
    for fields in (
        {"sessionUpdate": "tool_call", "title": ""},
        {"sessionUpdate": "tool_call_update", "title": "Run ls"},
        {"sessionUpdate": "tool_call_update", "status": "in_progress"},
        {"sessionUpdate": "tool_call_update", "status": "in_progress", "content": []},
        {"sessionUpdate": "tool_call_update", "title": "Run ls", "status": "completed"},
    ):
        extractor.receive(update(toolCallId="c", **fields), record)
    assert [ToolCall("c", ""), ToolCall("c", "Run ls"), ToolResult("c", None), ToolResult("c", ok=True)] == updates

"""Agents may send anything: no frame breaks an extractor, and none makes a failure look repeatable (R-EVI-3, R-SAFE-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_codex.acp import NAMING_AGENT, CodexAcpExtractor
from kandev_routing_codex.app_server import CodexAppServerExtractor
from kandev_routing_codex.failures import error_info, info_status
from kandev_routing_sdk.spec import AcpFrame, Exited, Extractor
from kandev_routing_sdk.types import AttemptOutcome
from tests.adapters._turns import Turn
from tests.adapters.codex._frames import answer, chunk, reported, status

EXTRACTORS: Mapping[str, Callable[[], Extractor]] = {"acp": CodexAcpExtractor, "app server": CodexAppServerExtractor}
WORDS = st.sampled_from(
    [
        "session/update", "session/request_permission", "_auth/status_update", "agent_message_chunk", "agent_thought_chunk", "tool_call",
        "tool_call_update", "session_info_update", "usage_update", "plan", "systemError", "active", "idle", "end_turn", "cancelled", "error",
        "warning", "text", "in_progress", "completed", "failed", "item/started", "item/completed", "item/agentMessage/delta", "turn/completed",
        "thread/tokenUsage/updated", "account/rateLimits/updated", "agentMessage", "commandExecution", "reasoning", "usageLimitExceeded",
        "Reconnecting... 1/5", "Reconnecting... waiting for network", "unexpected status 503 x", NAMING_AGENT, "\ud83d", "",
    ]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "method", "params", "update", "sessionUpdate", "content", "type", "text", "messageId", "_meta", "codex", "threadStatus", "error",
        "message", "willRetry", "additionalDetails", "codexErrorInfo", "codex_error_info", "jetbrains", "air", "sessionFailure", "category",
        "severity", "title", "actions", "result", "stopReason", "usage", "used", "inputTokens", "outputTokens", "quota", "model_usage", "model",
        "agentInfo", "name", "code", "data", "restartable", "item", "id", "delta", "itemId", "turn", "status", "tokenUsage", "last",
        "rateLimits", "primary", "usedPercent", "resetsAt", "httpStatusCode", "toolCallId", "authStatus", "kind",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=24
)
UPDATES = st.fixed_dictionaries(
    {"sessionUpdate": WORDS}, optional={"_meta": VALUES, "content": VALUES, "messageId": VALUES, "used": VALUES}
)
MESSAGES = st.one_of(
    st.dictionaries(KEYS, VALUES, max_size=6),
    UPDATES.map(lambda update: {"method": "session/update", "params": {"update": update}}),
    st.fixed_dictionaries({"method": WORDS, "params": VALUES}),
)
REQUESTS = st.sampled_from(
    [None, None, None, "initialize", "session/new", "session/prompt", "thread/start", "turn/start"]
)
FRAMES = st.lists(st.builds(AcpFrame, MESSAGES, REQUESTS), max_size=10)


@pytest.mark.parametrize("kind", EXTRACTORS)
@settings(max_examples=100, deadline=None)
@given(frames=FRAMES)
def test_no_frame_of_any_shape_breaks_an_extractor(kind: str, frames: list[AcpFrame]) -> None:
    turn = Turn(EXTRACTORS[kind]()).feed(*frames, Exited(1))
    report = reported(turn)
    assert turn.record.ended
    assert report.evidence.model_dump_json()
    report.text.encode("utf-8", "surrogatepass")


@settings(max_examples=100, deadline=None)
@given(frames=FRAMES, words=st.text(min_size=1, max_size=30), name=st.sampled_from(["", "m"]))
def test_no_frame_unsees_an_answer_nor_a_system_error(frames: list[AcpFrame], words: str, name: str) -> None:
    turn = Turn(CodexAcpExtractor()).feed(chunk("Hello.", "first"), *frames, chunk(words, name or None))
    assert turn.record.effects.output
    ended = turn.record.outcome
    turn.feed(status("systemError"), answer())
    assert turn.record.outcome is not AttemptOutcome.SUCCESS or ended is AttemptOutcome.CANCELLED


@settings(max_examples=100, deadline=None)
@given(info=VALUES)
def test_any_kind_of_failure_can_be_read(info: Any) -> None:
    found = error_info({"codex_error_info": info})
    assert found is None or isinstance(found, (str, dict))
    assert found == error_info({"codexErrorInfo": found})
    assert info_status(found) is None or 100 <= (info_status(found) or 0) < 600

"""claude-agent-acp gone mad: any field may be missing or of another type; nothing raises, and nothing becomes repeatable."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_claude.acp_extractor import ClaudeAcpExtractor
from kandev_routing_sdk.spec import AcpFrame, StderrLine
from tests.adapters._replay import WHEN
from tests.adapters._turns import Turn
from tests.adapters.claude._frames import MODEL, REFUSED, RUNTIME, chunk, notice, refused, result, retry, tool, usage

ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=True) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "_meta", "content", "messageId", "sessionUpdate", "used", "status", "toolCallId", "title", "type", "text", "message",
        "subtype", "attempt", "max_retries", "retry_delay_ms", "error_status", "rate_limit_info", "usage", "is_error", "result",
        "errors", "permission_denials", "model", "id", "uuid", "parent_tool_use_id", "error", "data", "errorKind", "code",
        "stopReason", "_claude/model", "_claude/rateLimit", "claudeCode", "kind", "authStatus", "jetbrains", "air", "sessionFailure",
    ]
)  # fmt: skip
KINDS = st.sampled_from(
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "session_info_update",
        "plan",
        "new",
    ]
)
TYPES = st.sampled_from(["system", "assistant", "rate_limit_event", "result", "user", "unheard_of"])
OBJECTS = st.dictionaries(KEYS, ODD | st.dictionaries(KEYS, ODD, max_size=4), max_size=6)


def _update(kind: Any, fields: dict[str, Any]) -> AcpFrame:
    return AcpFrame({"method": "session/update", "params": {"update": {**fields, "sessionUpdate": kind}}})


def _event(kind: Any, fields: dict[str, Any]) -> AcpFrame:
    return AcpFrame({"method": "_claude/sdkMessage", "params": {"message": {**fields, "type": kind}}})


REQUESTS = st.sampled_from(["session/prompt", "session/new", "initialize"])
FRAMES = (
    st.builds(_update, KINDS | ODD, OBJECTS)
    | st.builds(_event, TYPES | ODD, OBJECTS)
    | st.builds(lambda m, r: AcpFrame(m, request=r), OBJECTS, REQUESTS)
    | st.builds(lambda m, p: AcpFrame({"method": m, "params": p}), st.sampled_from(["_auth/status_update", "_claude/sdkMessage"]), ODD)
    | st.builds(AcpFrame, OBJECTS)
    | st.builds(StderrLine, st.text(max_size=80))
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(FRAMES, max_size=12))
def test_no_frame_raises(frames: list[AcpFrame | StderrLine]) -> None:
    turn = Turn(ClaudeAcpExtractor(credential_kinds={"api_key"})).feed(*frames)
    turn.exit()


GOOD = st.sampled_from(
    [chunk("words "), chunk("words ", MODEL), chunk("more", None), usage(), usage(0), tool(), retry(529), retry(None)]
)
SIGNS = {"tool_call", "output"}


@settings(max_examples=150, deadline=None)
@given(st.lists(GOOD, max_size=8), st.booleans())
def test_what_the_model_did_is_marked_in_whatever_order_it_comes(frames: list[AcpFrame], passed_on: bool) -> None:
    """R-SAFE-1: a turn that ends in a refusal is repeatable only if nothing came before but refusals."""
    own = [notice(REFUSED, RUNTIME, error="server_error", api_error_status=529)] if passed_on else []
    spent = [result(REFUSED, is_error=True, api_error_status=529)] if passed_on else []
    report = (
        Turn(ClaudeAcpExtractor()).feed(*frames, *own, chunk(REFUSED, RUNTIME), *spent, refused()).record.report(WHEN)
    )
    harmless = all(frame in (usage(0), retry(529)) for frame in frames)
    assert harmless is (report.effects.complete and not report.effects.any_activity)

"""Recorded refusals of claude-agent-acp, with a sign that something had happened: never repeated by itself (R-SAFE-1, R-SAFE-7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from tests.adapters._replay import WHEN, complaints, expectations, full_catalogue, recording, replay

FOLDER = "claude-agent-acp/acp/"
REPEATABLE = {
    name: expected
    for name, expected in expectations().items()
    if name.startswith(FOLDER) and expected["automatic"] == "yes"
}


def update(kind: str, **fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"update": {"sessionUpdate": kind, **fields}}}


def words(text: str, **fields: Any) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": text}, **fields)


def passed_on(**message: Any) -> dict[str, Any]:
    return {"method": "_claude/sdkMessage", "params": {"message": message}}


UUID = "11111111-2222-4333-8444-555555555555"
TAINTS: dict[str, dict[str, Any]] = {
    "text": words("Hello", messageId="msg_1"),
    "text of a gateway": words("Hello", messageId="chatcmpl-1"),
    "text that the runtime may have written": words("Hello", messageId=UUID),
    "text without a name": words("Hello"),
    "text that quotes a limit": words("You've hit your 5-hour limit · resets 4am (UTC)", messageId="msg_1"),
    "an image": update("agent_message_chunk", content={"type": "image", "data": "x"}, messageId="msg_1"),
    "thinking": update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
    "a tool": update("tool_call", toolCallId="t", title="Terminal", status="pending"),
    "a tool without a title": update("tool_call", toolCallId="t"),
    "a tool that ran": update("tool_call_update", toolCallId="t", status="completed"),
    "a question": {"id": 0, "method": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}},
    "a plan": update("plan", entries=[]),
    "an update that nobody knows": update("subagent_spawned"),
    "a notification that nobody knows": {"method": "session/other", "params": {}},
    "tokens": update("usage_update", used=13, size=200000),
    "the model's own message": passed_on(type="assistant", message={"id": "msg_1", "model": "m", "content": []}),
    "a try that broke off": passed_on(type="system", subtype="api_retry", attempt=1, error_status=None),
    "tokens of the turn": passed_on(type="result", subtype="success", usage={"output_tokens": 1}),
}


def tainted(record: dict[str, Any], taint: dict[str, Any]) -> dict[str, Any]:
    """The sign comes right after the prompt."""
    frames = [*record["frames"]]
    prompt = next(
        i for i, (_, way, frame) in enumerate(frames) if way == "out" and frame.get("method") == "session/prompt"
    )
    frames.insert(prompt + 1, [frames[prompt][0], "in", taint])
    return {**record, "frames": frames}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


@pytest.mark.parametrize("label", TAINTS)
def test_a_sign_that_something_happened_forbids_to_repeat(label: str, catalogue: Catalogue) -> None:
    assert REPEATABLE
    wrong: dict[str, object] = {}
    for name, expected in REPEATABLE.items():
        when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
        replayed = replay(tainted(recording(name), TAINTS[label]), catalogue, when)
        if found := complaints(replayed, {**expected, "automatic": "no"}, when):
            wrong[name] = found
    assert {} == wrong


HARMLESS: dict[str, dict[str, Any]] = {
    "commands": update("available_commands_update", availableCommands=[]),
    "a healthy limit": update("usage_update", used=0, _meta={"_claude/rateLimit": {"status": "allowed_warning"}}),
    "a sign-in": {"method": "_auth/status_update", "params": {"authStatus": {"kind": "none"}}},
    "an extension": {"method": "_claude/other", "params": {"text": "rate limit exceeded"}},
    "a retry of a refused try": passed_on(type="system", subtype="api_retry", attempt=1, error_status=500),
    "a remark": words("**Warning:** a hook", _meta={"claudeCode": {"kind": "informational"}}),
}


def logs(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The log quotes what somebody said, before or after."""
    line = "You are out of quota: 429 rate_limit_error, please run /login"
    for when in (0.0, 10**6):
        yield {**record, "stderr_lines": [*record["stderr_lines"], [when, f"[session/prompt] {line}"]]}
    yield {**record, "stderr_lines": [*record["stderr_lines"], [10**6, line]]}


@pytest.mark.parametrize("label", HARMLESS)
def test_what_says_nothing_of_the_turn_changes_nothing(label: str, catalogue: Catalogue) -> None:
    for name, expected in REPEATABLE.items():
        when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
        record = tainted(recording(name), HARMLESS[label])
        assert [] == complaints(replay(record, catalogue, when), expected, when), name


def test_what_the_log_quotes_changes_nothing(catalogue: Catalogue) -> None:
    for name, expected in expectations().items():
        if name.startswith(FOLDER):
            when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
            for record in logs(json.loads(json.dumps(recording(name)))):
                assert [] == complaints(replay(record, catalogue, when), expected, when), name

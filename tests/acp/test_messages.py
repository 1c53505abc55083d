"""What we send is what the protocol's schema says, and the schema is never needed to send it (R-PRF-4)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from pydantic import BaseModel, JsonValue

from kandev_routing_sdk.acp import messages
from kandev_routing_sdk.acp.peer import Peer, parse_message
from kandev_routing_sdk.spec.adapter import AcpSettings, LaunchPlan
from kandev_routing_sdk.types import Transport

PLAN = LaunchPlan(
    transport=Transport.ACP,
    argv=("/bin/agent",),
    environ={},
    cwd=Path("/work"),
    descriptor=None,
    provider_id=None,
    acp=AcpSettings(
        client_meta={"vendor": {"version": 1}},
        mcp_servers=[{"name": "files", "command": "/bin/files", "args": [], "env": []}],
    ),
)
OPTIONS: dict[str, Any] = {
    "configOptions": [
        {"id": "mode", "category": "mode", "type": "select", "currentValue": "plan"},
        {"id": "llm", "category": "model", "type": "select", "currentValue": "small"},
    ]
}
OLD: dict[str, Any] = {"models": {"currentModelId": "small"}, "modes": {"currentModeId": "plan"}}


def call(made: messages.Call | None) -> messages.Call:
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("made", "method", "model"),
    [
        (messages.initialize(PLAN), "initialize", schema.InitializeRequest),
        (messages.authenticate("api-key"), "authenticate", schema.AuthenticateRequest),
        (messages.open_session(PLAN, None, {}), "session/new", schema.NewSessionRequest),
        (messages.open_session(PLAN, "n", {"loadSession": True}), "session/load", schema.LoadSessionRequest),
        (
            messages.open_session(PLAN, "n", {"loadSession": True, "sessionCapabilities": {"resume": {}}}),
            "session/resume",
            schema.ResumeSessionRequest,
        ),
        (messages.prompt("s", "Hi"), "session/prompt", schema.PromptRequest),
        (call(messages.choose_mode("s", OLD, "edit")), "session/set_mode", schema.SetSessionModeRequest),
        (
            call(messages.choose_mode("s", OPTIONS, "edit")),
            "session/set_config_option",
            schema.SetSessionConfigOptionSelectRequest,
        ),
        (
            call(messages.choose_model("s", OPTIONS, "big")),
            "session/set_config_option",
            schema.SetSessionConfigOptionSelectRequest,
        ),
        (
            messages.set_option("s", "fast", True),
            "session/set_config_option",
            schema.SetSessionConfigOptionBooleanRequest,
        ),
    ],
)
def test_requests_are_those_of_the_schema(made: messages.Call, method: str, model: type[BaseModel]) -> None:
    assert method == made.method
    parsed = model.model_validate(made.params)
    assert made.params == json.loads(parsed.model_dump_json(by_alias=True, exclude_unset=True))


def test_what_is_set_already_is_not_set_again() -> None:
    for offered in (OLD, OPTIONS):
        assert messages.choose_mode("s", offered, "plan") is None
        assert messages.choose_model("s", offered, "small") is None
    assert ("session/set_model", {"sessionId": "s", "modelId": "big"}) == messages.choose_model("s", OLD, "big")


def test_a_session_that_cannot_be_continued_is_not_replaced_by_a_new_one() -> None:
    """R-CON-2: whoever asks looks first whether the agent offers a way, and says of a new session that it is one."""
    ways: list[dict[str, JsonValue]] = [
        {},
        {"loadSession": False},
        {"loadSession": True},
        {"sessionCapabilities": {"resume": {}}},
    ]
    assert [False, False, True, True] == [messages.offers_resume(agent) for agent in ways]


def test_text_that_is_half_a_character_can_be_sent() -> None:
    assert [{"type": "text", "text": "a?"}] == messages.prompt("s", "a\ud800").params["prompt"]


KINDS = ["allow_always", "allow_once", "reject_once", "reject_always"]


@pytest.mark.parametrize(
    ("kinds", "wanted", "chosen"),
    [
        (KINDS, "allow", "allow_once"),
        (KINDS, "reject", "reject_once"),
        (["allow_always", "reject_always"], "allow", "allow_always"),
        (["allow_once"], "reject", None),
        ([], "allow", None),
    ],
)
def test_permissions_are_given_once_rather_than_always(kinds: list[str], wanted: str, chosen: str | None) -> None:
    answer = messages.permission_answer([{"kind": k, "optionId": k, "name": k} for k in kinds], wanted)
    parsed = schema.RequestPermissionResponse.model_validate(answer)
    assert chosen == getattr(parsed.outcome, "option_id", None)


@pytest.mark.parametrize("options", [None, 7, "x", [1, None, {"kind": 3}, {"kind": "allow_once"}]])
def test_permission_options_of_any_shape_are_answered(options: Any) -> None:
    assert {"outcome": {"outcome": "cancelled"}} == messages.permission_answer(options, "allow")


def test_the_protocols_package_is_not_imported() -> None:
    code = "import sys, kandev_routing_sdk.acp; print(sorted(m for m in sys.modules if m == 'acp' or m.startswith('acp.')))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "[]" == out.strip()


# The peer -------------------------------------------------------------------------------------------------------------


async def test_responses_find_their_request_once() -> None:
    lines: list[Any] = []

    def send(data: bytes, _droppable: bool) -> bool:
        lines.append(json.loads(data))
        return True

    peer = Peer(send)
    first, second = peer.request(messages.authenticate("a")), peer.request(messages.authenticate("b"))
    assert [1, 2] == [line["id"] for line in lines]
    assert peer.waits_for("authenticate")
    pending = peer.answered({"id": 2, "result": {}})
    assert pending is not None
    assert second is pending.answer
    for stray in (
        {"id": 2, "result": {}},
        {"id": [1]},
        {"id": True},
        {"id": "1"},
        {"id": None},
        {},
        {"id": 1, "method": "x"},
    ):
        assert peer.answered(stray) is None  # type: ignore[arg-type]
    peer.close()
    assert await first is None
    assert await peer.request(messages.authenticate("c")) is None
    assert 2 == len(lines)


@pytest.mark.parametrize("number", [None, True, 1.5, [1], {}])
async def test_a_request_without_a_usable_id_is_not_answered(number: Any) -> None:
    peer = Peer(lambda *_: pytest.fail("answered"))
    assert not peer.reply({"id": number, "method": "x"}, result={})


@pytest.mark.parametrize("text", ["", "x", "[1,2]", "7", "null", "[" * 100_000, '{"a":', "1" * 10_000])
def test_what_is_no_object_is_no_message(text: str) -> None:
    assert parse_message(text) is None


def test_the_settings_of_a_plan_reach_the_wire() -> None:
    made = messages.open_session(replace(PLAN, acp=AcpSettings()), None, {})
    assert made is not None
    assert [] == made.params["mcpServers"]
    capabilities = messages.initialize(PLAN).params["clientCapabilities"]
    assert isinstance(capabilities, dict)
    assert {"vendor": {"version": 1}} == capabilities["_meta"]

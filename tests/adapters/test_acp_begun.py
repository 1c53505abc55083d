"""Quiet signs that a response, or work, had begun: after one of them no recorded refusal is repeated (R-SAFE-1, R-SAFE-7)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from tests.adapters._replay import WHEN, complaints, expectations, full_catalogue, recording, replay

pytestmark = pytest.mark.exhaustive

CLIS = ("claude-agent-acp", "codex-acp", "opencode")
UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def update(kind: str, **fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"update": {"sessionUpdate": kind, **fields}}}


def empty(name: str | None = None) -> dict[str, Any]:
    named = {} if name is None else {"messageId": name}
    return update("agent_message_chunk", content={"type": "text", "text": ""}, **named)


SIGNS: dict[str, dict[str, Any]] = {
    "an empty piece of an answer": empty("msg_1"),
    "one that a gateway named": empty(UUID),
    "one without a name": empty(),
    "an empty thought": update("agent_thought_chunk", content={"type": "text", "text": ""}),
    "tokens as text": update("usage_update", used="100", size=200000),
    "tokens with a fraction": update("usage_update", used=0.5, size=200000),
    "a request of an extension": {"id": 80, "method": "_vendor/run_tool", "params": {}},
    "one without parameters": {"id": "x", "method": "_opencode/question"},
    "a request of the protocol's own": {"id": 81, "method": "$/other", "params": {}},
    "a request to write": {"id": 82, "method": "fs/write_text_file", "params": {"path": "/x", "content": "y"}},
    "a request for a terminal": {"id": 83, "method": "terminal/create", "params": {"command": "rm"}},
}


def repeatable(cli: str) -> dict[str, dict[str, Any]]:
    return {n: e for n, e in expectations().items() if n.startswith(f"{cli}/acp/") and e["automatic"] == "yes"}


def signed(record: dict[str, Any], sign: dict[str, Any]) -> dict[str, Any]:
    frames = [*record["frames"]]
    sent = next(i for i, (_, way, f) in enumerate(frames) if way == "out" and f.get("method") == "session/prompt")
    frames.insert(sent + 1, [frames[sent][0], "in", sign])
    return {**record, "frames": frames}


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("label", SIGNS)
def test_no_refusal_is_repeated_after_it(label: str, cli: str, catalogue: Catalogue) -> None:
    wrong: dict[str, object] = {}
    cases = {name: e for name, e in repeatable(cli).items() if _is_prompted(name)}
    assert cases
    for name, expected in cases.items():
        when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
        replayed = replay(signed(recording(name), SIGNS[label]), catalogue, when)
        if found := complaints(replayed, {**expected, "automatic": "no"}, when):
            wrong[name] = found
    assert {} == wrong


def _is_prompted(name: str) -> bool:
    return any(way == "out" and f.get("method") == "session/prompt" for _, way, f in recording(name)["frames"])


@pytest.mark.parametrize("cli", CLIS)
def test_a_context_of_nothing_and_a_mere_word_of_an_extension_are_none(cli: str, catalogue: Catalogue) -> None:
    for name, expected in repeatable(cli).items():
        if not _is_prompted(name):
            continue
        when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
        for quiet in (update("usage_update", used=0, size=200000), {"method": "_vendor/word", "params": {}}):
            assert [] == complaints(replay(signed(recording(name), quiet), catalogue, when), expected, when), name

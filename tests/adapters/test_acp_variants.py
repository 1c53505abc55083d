"""Recorded ACP conversations, varied as reality varies them (R-EVI-3, R-SAFE-1, R-SAFE-7, R-CON-11)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from tests.adapters._replay import WHEN, complaints, expectations, full_catalogue, recording, replay

pytestmark = pytest.mark.exhaustive

Record = dict[str, Any]
Frame = list[Any]
STRIDE = 3
"""Each variation meets every third conversation; over all of them, every one meets several."""
CLIS = ("claude-agent-acp", "codex-acp", "opencode")
ANSWERS = {"claude-agent-acp": "msg_01Fake0000000000000000077", "codex-acp": "msg_0077", "opencode": "msg_22a9ffff0001"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def cases(cli: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, e) for name, e in expectations().items() if name.startswith(f"{cli}/acp/")]


def when_of(expected: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN


def prompted(record: Record) -> int:
    """The place of the prompt among the frames; beyond the end when there is none."""
    frames = record["frames"]
    return next(
        (n for n, f in enumerate(frames) if f[1] == "out" and f[2].get("method") == "session/prompt"), len(frames)
    )


def session_of(record: Record) -> str:
    found = (
        f[2]["result"].get("sessionId")
        for f in record["frames"]
        if f[1] == "in" and "sessionId" in f[2].get("result", {})
    )
    return str(next(found, "no-session"))


def update(record: Record, at: float, **fields: Any) -> Frame:
    params = {"sessionId": session_of(record), "update": fields}
    return [at, "in", {"jsonrpc": "2.0", "method": "session/update", "params": params}]


def after_prompt(record: Record, *frames: Frame) -> Record:
    """Put frames right behind the prompt."""
    place = prompted(record) + 1
    return {**record, "frames": [*record["frames"][:place], *frames, *record["frames"][place:]]}


def renamed(record: Record) -> Record:
    """Another session, another machine, another turn."""
    text = json.dumps(record).replace(session_of(record), "ses_zq0Other").replace("~/work", "~/elsewhere/deep")
    return json.loads(text)  # type: ignore[no-any-return]


def chatty(record: Record) -> Record:
    """Extensions, titles and commands at any time."""
    at = record["frames"][prompted(record) - 1][0] if prompted(record) else 0.0
    return after_prompt(
        record,
        update(record, at, sessionUpdate="available_commands_update", availableCommands=[]),
        update(record, at, sessionUpdate="session_info_update", title="Other words"),
        [at, "in", {"jsonrpc": "2.0", "method": "_vendor/telemetry", "params": {"x": 1}}],
    )


def noisy(record: Record) -> Record:
    """What runtimes print on standard error in every run."""
    noise = ["(node:7) ExperimentalWarning: SQLite is an experimental feature", "Debugger listening", ""]
    return {**record, "stderr_lines": [[0.0, line] for line in noise] + record["stderr_lines"]}


def unmeasured(record: Record) -> Record:
    """Without the updates that tell how full the context is."""
    kept = [
        f
        for f in record["frames"]
        if f[1] != "in" or f[2].get("params", {}).get("update", {}).get("sessionUpdate") != "usage_update"
    ]
    return {**record, "frames": kept}


HARMLESS: dict[str, Callable[[Record], Record]] = {
    "another session": renamed,
    "chatty": chatty,
    "noisy": noisy,
    "unmeasured": unmeasured,
}


@pytest.mark.parametrize("label", HARMLESS)
def test_what_does_not_matter_changes_nothing(label: str, catalogue: Catalogue) -> None:
    wrong = {}
    everything = [case for cli in CLIS for case in cases(cli)]
    for name, expected in everything[list(HARMLESS).index(label) % STRIDE :: STRIDE]:
        if label == "unmeasured" and "hint" in expected:
            continue  # a limit's reset may be said there alone
        record = HARMLESS[label](copy.deepcopy(recording(name)))
        if found := complaints(replay(record, catalogue, when_of(expected)), expected, when_of(expected)):
            wrong[name] = found
    assert {} == wrong


def thought(record: Record, at: float) -> Frame:
    return update(record, at, sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "Let me look."})


def answer(record: Record, at: float) -> Frame:
    content = {"type": "text", "text": "First I will look at the code, "}
    return update(record, at, sessionUpdate="agent_message_chunk", messageId=ANSWERS[record["cli"]], content=content)


def tool(record: Record, at: float) -> Frame:
    return update(record, at, sessionUpdate="tool_call", toolCallId="t1", title="Run ls", status="pending")


def asked(record: Record, at: float) -> Frame:
    params = {"sessionId": session_of(record), "toolCall": {"toolCallId": "t1", "title": "rm"}, "options": []}
    return [at, "in", {"jsonrpc": "2.0", "id": 900, "method": "session/request_permission", "params": params}]


def unheard_of(record: Record, at: float) -> Frame:
    return update(record, at, sessionUpdate="file_written", path="a.txt")


TAINTS = {"thought": thought, "answer": answer, "tool": tool, "leave": asked, "unheard of": unheard_of}


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("label", TAINTS)
def test_a_sign_that_something_happened_forbids_to_repeat(cli: str, label: str, catalogue: Catalogue) -> None:
    """The cause is still seen; only the attempt may not be repeated by itself."""
    repeatable = [
        (name, e)
        for name, e in cases(cli)
        if e["automatic"] != "no" and prompted(recording(name)) < len(recording(name)["frames"])
    ]
    assert len(repeatable) >= 3
    wrong = {}
    for name, expected in repeatable:
        record = recording(name)
        at = record["frames"][prompted(record)][0]
        replayed = replay(after_prompt(record, TAINTS[label](record, at)), catalogue, when_of(expected))
        if found := complaints(replayed, {**expected, "automatic": "no"}, when_of(expected)):
            wrong[name] = found
    assert {} == wrong

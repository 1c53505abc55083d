"""Errors of the real OpenCode 1.18.33, as its server told them of a provider that failed in so many ways, heard both ways.

``errors.jsonl`` holds the last error of each run: what the provider did, over which protocol, whether a response had begun, and
which codes and what decision are right. The headless mode prints the same object; over ACP only its name and its message remain.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_opencode.acp import OpenCodeAcpExtractor
from kandev_routing_opencode.extractor import OpenCodeExtractor
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.turn import TurnReport
from kandev_routing_sdk.spec import AcpFrame
from kandev_routing_sdk.types import AttemptOutcome
from tests.adapters._replay import WHEN, full_catalogue
from tests.adapters.opencode._turn import OpenCodeTurn, safe

Case = dict[str, Any]
CASES: list[Case] = [
    json.loads(line) for line in (Path(__file__).parent / "errors.jsonl").read_text("utf-8").splitlines()
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def _when(case: Case) -> datetime:
    return datetime.fromisoformat(case["at"]) if case["at"] else WHEN


def _headless(case: Case) -> TurnReport:
    turn = OpenCodeTurn(OpenCodeExtractor())
    if case["began"]:
        turn.feed({"type": "step_start", "sessionID": "ses_1", "part": {}})
    if case["tool"]:
        turn.feed({"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "callID": "c", "state": {}}})
    turn.feed({"type": "error", "sessionID": "ses_1", "error": case["error"]}).exit(1)
    return turn.record.report(_when(case))


def _acp(case: Case) -> TurnReport:
    turn = OpenCodeTurn(OpenCodeAcpExtractor())
    updates: list[Case] = []
    if case["tool"]:
        updates.append({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "bash"})
    if case["text"]:
        content = {"type": "text", "text": "Partial answer"}
        updates.append({"sessionUpdate": "agent_message_chunk", "messageId": "msg_1", "content": content})
    turn.feed(*(AcpFrame({"method": "session/update", "params": {"update": update}}) for update in updates))
    said, name = case["error"]["data"]["message"], case["error"]["name"]
    error: Case = {
        "code": -32603,
        "message": f"Internal error: {said}",
        "data": {"service": "session", "errorName": name},
    }
    turn.feed(AcpFrame({"id": 3, "error": error}, request="session/prompt"))
    return turn.record.report(_when(case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['scenario']}@{case['variant']}")
@pytest.mark.parametrize("heard", [_headless, _acp])
def test_every_failure_is_named_and_none_is_repeated_wrongly(heard: Any, case: Case, catalogue: Catalogue) -> None:
    report = heard(case)
    assert AttemptOutcome.FAILED is report.outcome
    assert catalogue.classify(report.evidence).code in case["codes"]
    if case["automatic"] == "no" or case["began"]:
        assert not safe(report, catalogue)
    elif case["automatic"] == "yes" and not (heard is _acp and "Our servers" in case["error"]["data"]["message"]):
        assert safe(report, catalogue)

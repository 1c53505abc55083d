"""The event stream of ``opencode serve``: recorded runs, and what a server may say beside them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from kandev_routing_opencode.events import OpenCodeEventReader
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import AgentUpdate, InnerRetry
from kandev_routing_sdk.types import AttemptOutcome
from tests.adapters._replay import WHEN, expectations, full_catalogue, recording

SESSION = "ses_1"
CASES = sorted(name for name in expectations() if name.startswith("opencode/serve/"))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


class Server:
    """One turn of one session."""

    def __init__(self, session: str = SESSION) -> None:
        self.updates: list[AgentUpdate] = []
        self.turn = TurnRecord(TurnContext(family="opencode"), Sanitiser(), self.updates.append)
        self.turn.sent()
        self.reader = OpenCodeEventReader(session)

    def feed(self, *events: dict[str, Any]) -> TurnRecord:
        for event in events:
            self.reader.receive(event, self.turn)
        return self.turn


def event(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": {"sessionID": SESSION, **properties}}


BUSY, END = event("session.status", status={"type": "busy"}), event("session.idle")


@pytest.mark.parametrize("name", CASES)
def test_recorded_streams_come_out_as_expected(name: str, catalogue: Catalogue) -> None:
    record, expected = recording(name), expectations()[name]
    session = next(m["properties"]["sessionID"] for _, _, m in record["frames"] if m["type"] == "session.created")
    server = Server(session)
    turn = server.feed(*(message for _, _, message in record["frames"]))
    when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
    report = turn.report(when)
    found = catalogue.classify(report.evidence)
    automatic = found.automatic_refusal(report.effects) is None
    assert (expected["outcome"], True) == (report.outcome, found.code in expected["codes"])
    assert automatic is (expected["automatic"] == "yes")
    assert expected.get("hint") == (found.retry_after.total_seconds() if found.retry_after else None)


def test_its_own_retries_are_counted_with_their_cause() -> None:
    """R-CON-9: only here do they show."""
    retry = event("session.status", status={"type": "retry", "attempt": 1, "message": "Too Many Requests", "next": 1})
    server = Server()
    report = server.feed(BUSY, retry, retry).report(WHEN)
    assert 2 == report.inner_retries
    assert [InnerRetry(1, 5), InnerRetry(2, 5)] == [u for u in server.updates if isinstance(u, InnerRetry)]
    assert ["Too Many Requests"] * 2 == [signal.text for signal in report.evidence.signals]


def test_an_answer_is_its_deltas_and_the_prompt_is_none() -> None:
    server = Server()
    turn = server.feed(
        BUSY,
        event("message.updated", info={"id": "msg_u", "role": "user"}),
        event("message.part.updated", part={"type": "text", "messageID": "msg_u", "text": "PROMPT"}),
        event("message.updated", info={"id": "msg_a", "role": "assistant", "modelID": "m-1"}),
        event("message.part.updated", part={"type": "step-start", "messageID": "msg_a"}),
        event("message.part.delta", messageID="msg_a", delta="Hel"),
        event("message.part.delta", messageID="msg_a", delta="lo"),
        event("message.part.updated", part={"type": "step-finish", "messageID": "msg_a", "reason": "stop", "tokens": {"input": 3, "output": 2}}),
        END,
        END,
    )  # fmt: skip
    report = turn.report(WHEN)
    assert (AttemptOutcome.SUCCESS, "Hello", "m-1") == (report.outcome, report.text, report.model)
    assert report.usage is not None
    assert (3, 2) == (report.usage.input_tokens, report.usage.output_tokens)


def test_tools_are_marked_and_what_is_not_known_makes_observation_incomplete() -> None:
    turn = Server().feed(BUSY, event("message.part.updated", part={"type": "tool", "tool": "bash", "callID": "c", "state": {"status": "running"}}))  # fmt: skip
    assert (True, True) == (turn.effects.tool_call, turn.effects.tool_effect)
    for unknown in (event("message.part.updated", part={"type": "of_tomorrow"}), event("of.tomorrow")):
        assert not Server().feed(BUSY, unknown).effects.complete
    assert Server().feed(BUSY, event("session.diff"), {"type": "plugin.added", "properties": {}}).effects.complete


def test_other_sessions_are_none_of_its_business() -> None:
    """R-EVI-4."""
    other = {"type": "session.error", "properties": {"sessionID": "ses_2", "error": {"name": "APIError"}}}
    for stray in (other, {"type": "session.error"}, {"type": 1, "properties": []}, {}):
        turn = Server().feed(BUSY, stray, END)
        assert AttemptOutcome.SUCCESS is turn.outcome
    assert Server().feed(END).outcome is None

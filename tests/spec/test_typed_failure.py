"""Failures that agents type on request, and what an agent says of its credential (R-CON-9, R-CIR-3, R-EVI-6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import AgentUpdate, InnerRetry, Notice
from kandev_routing_sdk.spec import (
    AcpFrame,
    Channel,
    StandardAcpExtractor,
    TypedFailureExtractor,
    typed_failure,
)
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._replay import WHEN


def meta(severity: str, title: str, category: str = "limit") -> dict[str, Any]:
    failure = {"category": category, "severity": severity, "title": title, "actions": ["retry"]}
    return {"_meta": {"jetbrains": {"air": {"version": 1, "sessionFailure": failure}}}}


def info(severity: str, title: str) -> AcpFrame:
    update = {"sessionUpdate": "session_info_update", **meta(severity, title)}
    return AcpFrame({"method": "session/update", "params": {"sessionId": "s", "update": update}})


def ended(result: dict[str, Any]) -> AcpFrame:
    return AcpFrame({"id": 3, "result": {"stopReason": "end_turn", **result}}, request="session/prompt")


class Turn:
    def __init__(self, extractor: StandardAcpExtractor) -> None:
        self.updates: list[AgentUpdate] = []
        self.record = TurnRecord(TurnContext(family="x"), Sanitiser(), self.updates.append)
        self.record.sent()
        self.extractor = extractor

    def feed(self, *frames: AcpFrame) -> Turn:
        for frame in frames:
            self.extractor.receive(frame, self.record)
        return self


def test_the_end_of_a_turn_with_a_failure_is_no_success() -> None:
    turn = Turn(TypedFailureExtractor()).feed(ended(meta("error", "You've hit your limit")))
    report = turn.record.report(WHEN)
    assert (AttemptOutcome.FAILED, Delivery.ACKNOWLEDGED) == (report.outcome, report.effects.delivery)
    (signal,) = report.evidence.signals
    assert (Channel.ACP_ERROR, "You've hit your limit") == (signal.channel, signal.text)
    assert {"category": "limit", "actions": ["retry"]} == signal.data


@pytest.mark.parametrize(
    ("title", "maximum"),
    [
        ("Reconnecting... 1/5", 5),
        ("Retrying Claude, attempt 1 of 3.", 3),
        ("Retrying, 2 / 10", 10),
        ("Model metadata not found; 1 of 3 files were read", None),
        ("Reconnecting", None),
    ],
)
def test_a_warning_is_a_retry_or_a_notice_and_never_output(title: str, maximum: int | None) -> None:
    turn = Turn(TypedFailureExtractor()).feed(info("warning", title))
    expected = [InnerRetry(1, maximum, None, None)] if maximum else [Notice(title)]
    assert expected == turn.updates
    assert not turn.record.effects.any_activity
    assert turn.record.outcome is None
    assert (1 if maximum else 0) == turn.record.report(WHEN).inner_retries


def test_a_warning_at_the_end_does_not_take_the_answer_back() -> None:
    turn = Turn(TypedFailureExtractor()).feed(ended(meta("warning", "Your plan is nearly used up")))
    assert AttemptOutcome.SUCCESS is turn.record.outcome


def test_an_error_in_mid_turn_is_evidence_and_the_response_decides() -> None:
    turn = Turn(TypedFailureExtractor()).feed(info("error", "The provider is overloaded"))
    assert turn.record.outcome is None
    assert ["The provider is overloaded"] == [s.text for s in turn.record.report(WHEN).evidence.signals]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_nothing_that_an_agent_may_send_raises(air: Any, failure: Any) -> None:
    holders: list[dict[str, Any]] = [{"_meta": air}, {"_meta": {"jetbrains": {"air": {"sessionFailure": failure}}}}]
    for said in holders:
        typed_failure(said)
        update = {"sessionUpdate": "session_info_update", **said}
        frame = AcpFrame({"method": "session/update", "params": {"update": update}})
        Turn(TypedFailureExtractor()).feed(frame, ended(said))


def status(kind: Any) -> AcpFrame:
    return AcpFrame({"method": "_auth/status_update", "params": {"authStatus": {"kind": kind}}})


@pytest.mark.parametrize(
    ("kinds", "said", "doubted"),
    [
        ({"api_key"}, "api_key", False),
        ({"api_key", "gateway"}, "gateway", False),
        ({"api_key"}, "gateway", True),
        ({"api_key"}, "none", False),  # said of tokens in the environment, too
        ({"api_key"}, "", False),
        ({"api_key"}, 7, False),
        (set(), "api_key", True),
        (None, "api_key", False),
    ],
)
def test_another_kind_of_credential_than_the_descriptors_is_doubted(
    kinds: set[str] | None, said: Any, doubted: bool
) -> None:
    turn = Turn(StandardAcpExtractor(credential_kinds=kinds)).feed(status(said))
    assert doubted is turn.record.report(WHEN).credential_doubted
    assert (Delivery.SENT, True) == (turn.record.effects.delivery, turn.record.effects.complete)

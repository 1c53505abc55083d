"""What the notifications of ``codex app-server`` mean, held by recorded runs (R-EVI-1, R-CLS-3, R-CLS-5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kandev_routing_codex.app_server import CodexAppServerExtractor
from kandev_routing_codex.failures import PATIENCE
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import InnerRetry
from kandev_routing_sdk.spec import AcpFrame, Exited
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._replay import WHEN, Replayed, _judged, complaints, expectations, full_catalogue, recording
from tests.adapters._turns import Turn
from tests.adapters.codex._frames import facts, repeatable, reported

RECORDED = [name for name in expectations() if name.startswith("codex/app-server/")]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def played(record: dict[str, Any], catalogue: Catalogue, when: datetime) -> Replayed:
    turn = TurnRecord(TurnContext(family="codex", local_zone="UTC"), Sanitiser(), lambda _: None)
    extractor = CodexAppServerExtractor()
    asked: dict[object, str] = {}
    for _, direction, message in record["frames"]:
        if direction == "out" and "id" in message:
            asked[message["id"]] = message["method"]
            if message["method"] == "turn/start":
                turn.sent()
        elif direction == "in":
            extractor.receive(AcpFrame(message, None if "method" in message else asked.get(message["id"])), turn)
    return _judged(turn, catalogue, when, [], finished=turn.ended)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_run_comes_out_right(name: str, catalogue: Catalogue) -> None:
    expected = expectations()[name]
    when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
    assert [] == complaints(played(recording(name), catalogue, when), expected, when)


def test_there_are_all_of_them() -> None:
    assert 25 == len(RECORDED)


def test_a_limit_resets_when_its_window_does_to_the_second(catalogue: Catalogue) -> None:
    """R-CLS-5: ``exec`` and ACP have the minute only, in local time."""
    run = played(recording("codex/app-server/429_usage_limit_reached@chatgpt.json"), catalogue, WHEN)
    assert run.classification is not None
    assert datetime.fromtimestamp(1796013867, UTC) == run.classification.reset_at


# Made-up notifications ------------------------------------------------------------------------------------------------


@pytest.fixture
def turn() -> Turn:
    return Turn(CodexAppServerExtractor())


def note(method: str, **params: Any) -> AcpFrame:
    return AcpFrame({"method": method, "params": params})


def item(state: str, kind: str, item_id: str = "i", **fields: Any) -> AcpFrame:
    return note(f"item/{state}", item={"type": kind, "id": item_id, **fields})


def failed(message: str, info: Any = "other") -> AcpFrame:
    return note("turn/completed", turn={"status": "failed", "error": {"message": message, "codexErrorInfo": info}})


def error(message: str, *, again: bool = False, cause: str | None = None, info: Any = "other") -> AcpFrame:
    said = {"message": message, "additionalDetails": cause, "codexErrorInfo": info}
    return note("error", error=said, willRetry=again)


def window(used: float, resets: int) -> dict[str, Any]:
    return {"usedPercent": used, "resetsAt": resets}


def limits(primary: Any, secondary: Any = None) -> AcpFrame:
    return note("account/rateLimits/updated", rateLimits={"primary": primary, "secondary": secondary})


DONE = note("turn/completed", turn={"status": "completed", "error": None})


def test_an_answer(turn: Turn) -> None:
    turn.feed(
        AcpFrame({"id": 2, "result": {"thread": {"id": "t-1", "model": "m"}}}, request="thread/start"),
        item("started", "userMessage"),
        note("item/agentMessage/delta", itemId="a", delta="One"),
        note("item/agentMessage/delta", itemId="a", delta="."),
        item("completed", "agentMessage", "a", text="One."),
        item("completed", "agentMessage", "b", text="Two."),
        note("thread/tokenUsage/updated", tokenUsage={"last": {"inputTokens": 12, "outputTokens": 6}}),
        DONE,
    )
    report = reported(turn)
    assert (AttemptOutcome.SUCCESS, "One.\n\nTwo.", "t-1") == (report.outcome, report.text, report.native_session_id)
    assert 18 == (report.usage.input_tokens + report.usage.output_tokens if report.usage else None)


def test_the_prompt_s_own_echo_is_no_sign_of_it(turn: Turn) -> None:
    turn.feed(item("started", "userMessage"), note("turn/started"), note("warning", message="x"), limits(None))
    assert Delivery.SENT is turn.record.effects.delivery


@pytest.mark.parametrize("kind", ["commandExecution", "fileChange", "mcpToolCall", "webSearch", "teleport"])
def test_a_tool_has_effects_when_it_ends(turn: Turn, kind: str) -> None:
    turn.feed(item("started", kind, command="echo secret"))
    assert (True, False) == (turn.record.effects.tool_call, turn.record.effects.tool_effect)
    turn.feed(item("completed", kind, command="echo secret", status="declined"))
    assert (True, kind != "teleport") == (turn.record.effects.tool_effect, turn.record.effects.complete)
    assert "secret" not in repr(turn.updates)


@pytest.mark.parametrize(
    "sign",
    [
        note("item/levitated"),
        note("item/reasoning/textDelta", delta="Hm."),
        note("item/commandExecution/requestApproval", itemId="i"),
        item("started", "reasoning"),
        note("thread/tokenUsage/updated", tokenUsage={"last": {"inputTokens": 1, "outputTokens": 0}}),
        error("Reconnecting... 1/1", again=True, cause="stream disconnected before completion: idle timeout"),
    ],
)
def test_whatever_was_answered_a_later_failure_is_not_repeated_by_itself(turn: Turn, sign: AcpFrame) -> None:
    assert not repeatable(turn.feed(sign, failed("unexpected status 529 x: y")))


def test_a_failure_is_told_once_with_its_kind(turn: Turn) -> None:
    words, kind = "unexpected status 402 x: y", {"httpConnectionFailed": {"httpStatusCode": 402}}
    report = reported(turn.feed(error(words, info=kind), failed(words, kind)))
    assert [{"message": words, "codexErrorInfo": kind}] == facts(report)
    assert (402, True) == (report.evidence.http_status, repeatable(turn))


def test_a_turn_that_failed_without_saying_why_is_explained_by_its_error(turn: Turn) -> None:
    silent = note("turn/completed", turn={"status": "failed", "error": None})
    assert ["serverOverloaded"] == [
        each["codexErrorInfo"] for each in facts(reported(turn.feed(error("x", info="serverOverloaded"), silent)))
    ]


def test_only_windows_that_are_used_up_say_when_a_limit_ends(turn: Turn) -> None:
    turn.feed(limits(window(93, 500), window(40, 900)), failed("limit", "usageLimitExceeded"))
    assert [False] == ["resets_at" in each for each in facts(reported(turn))]
    both = Turn(CodexAppServerExtractor()).feed(limits(window(100, 500), window(100, 900)))
    assert [900] == [each["resets_at"] for each in facts(reported(both.feed(failed("limit", "usageLimitExceeded"))))]


def test_tries_are_counted_and_waiting_for_ever_is_given_up(turn: Turn) -> None:
    turn.feed(error("Reconnecting... 1/5", again=True, cause="unexpected status 503 x: y"))
    assert [InnerRetry(1, 5, None, 503)] == turn.of(InnerRetry)
    other = Turn(CodexAppServerExtractor())
    other.feed(*[error("Reconnecting... waiting for network", again=True, cause="Connection failed")] * PATIENCE)
    assert (True, Delivery.SENT) == (other.record.over, other.record.effects.delivery)


@pytest.mark.parametrize(
    ("status", "outcome"), [("interrupted", AttemptOutcome.CANCELLED), ("levitating", AttemptOutcome.FAILED)]
)
def test_other_ends(turn: Turn, status: str, outcome: AttemptOutcome) -> None:
    assert outcome is turn.feed(note("turn/completed", turn={"status": status})).record.outcome


def test_a_request_that_fails_and_a_process_that_goes(turn: Turn) -> None:
    report = reported(turn.feed(AcpFrame({"id": 3, "error": {"code": -32600, "message": "no"}}, request="turn/start")))
    assert (AttemptOutcome.FAILED, "turn_start_error") == (report.outcome, report.stop_reason)
    gone = Turn(CodexAppServerExtractor()).feed(Exited(1))
    assert (AttemptOutcome.FAILED, False) == (gone.record.outcome, gone.record.effects.complete)

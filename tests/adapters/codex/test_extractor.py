"""What Codex's events mean (R-EVI-1, R-EVI-3, R-EVI-6, R-SAFE-7, R-CON-9)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_codex.failures import PATIENCE
from kandev_routing_codex.wording import before_response
from kandev_routing_sdk.evidence.updates import InnerRetry, ToolCall, ToolResult
from kandev_routing_sdk.spec import StderrLine, StdoutLine
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._turns import Turn, channels

THREAD = {"type": "thread.started", "thread_id": "t-1"}
STARTED = {"type": "turn.started"}
DONE = {"type": "turn.completed", "usage": {"input_tokens": 12, "output_tokens": 6}}


@pytest.fixture
def turn() -> Turn:
    return Turn(CodexExtractor()).feed(THREAD, STARTED)


def item(kind: str, state: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{state}", "item": {"id": fields.pop("id", "i"), "type": kind, **fields}}


def error(message: str) -> dict[str, Any]:
    return {"type": "error", "message": message}


def failed(message: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": message}}


def test_an_answer(turn: Turn) -> None:
    report = turn.feed(item("reasoning", text="Hm."), item("agent_message", text="Hello."), DONE).exit()
    assert (AttemptOutcome.SUCCESS, "Hello.", "t-1") == (report.outcome, report.text, report.native_session_id)
    assert (True, True) == (report.effects.thinking, report.effects.complete)


def test_messages_do_not_run_together_and_are_shown_once(turn: Turn) -> None:
    turn.feed(
        item("agent_message", "updated", text="On"),
        item("agent_message", text="One."),
        item("agent_message", id="j", text="Two."),
        DONE,
    )
    assert "One.\n\nTwo." == turn.exit().text


def test_a_message_that_was_begun_is_output(turn: Turn) -> None:
    report = turn.feed(
        item("agent_message", "updated", text="On"), failed("stream disconnected before completion: x")
    ).exit(1)
    assert ("On", True) == (report.text, report.effects.output)


def test_nothing_local_acknowledges_the_prompt(turn: Turn) -> None:
    turn.feed(
        item("error", message="Model metadata for `x` not found."),
        error("Reconnecting... waiting for network (Connection failed)"),
    )
    assert Delivery.SENT is turn.record.effects.delivery


def test_waiting_for_the_network_is_given_up(turn: Turn) -> None:
    """R-CON-9: it would wait for ever. R-SAFE-3: whether the prompt arrived is not known."""
    wait = error("Reconnecting... waiting for network (Connection failed: error sending request)")
    turn.feed(*[wait] * (PATIENCE - 1))
    assert (None, False) == (turn.record.outcome, turn.record.over)
    report = turn.feed(wait, wait).exit(0)
    assert (AttemptOutcome.FAILED, "reconnecting", True) == (report.outcome, report.stop_reason, turn.record.over)
    assert (Delivery.SENT, ["stdout_event"]) == (report.effects.delivery, [*channels(report)])


@pytest.mark.parametrize("kind", ["command_execution", "file_change", "mcp_tool_call", "web_search"])
def test_a_tool_is_called_once_and_has_effects_when_it_ends(turn: Turn, kind: str) -> None:
    turn.feed(item(kind, "started", command="echo secret"))
    assert (True, False) == (turn.record.effects.tool_call, turn.record.effects.tool_effect)
    turn.feed(item(kind, command="echo secret", status="failed"))
    assert (True, True) == (turn.record.effects.tool_effect, turn.record.effects.complete)
    assert 1 == len(turn.of(ToolCall))
    assert [ToolResult("i", False)] == turn.of(ToolResult)
    assert "secret" not in repr(turn.updates)


def test_an_unknown_item_may_have_done_anything(turn: Turn) -> None:
    turn.feed(item("teleport"))
    assert (True, False) == (turn.record.effects.tool_effect, turn.record.effects.complete)


@pytest.mark.parametrize("event", [{"type": "levitation"}, {"type": "item.completed", "item": 3}])
def test_what_nobody_knows_makes_observation_incomplete(turn: Turn, event: dict[str, Any]) -> None:
    assert not turn.feed(event).record.effects.complete


def test_a_warning_is_words_and_no_verdict(turn: Turn) -> None:
    report = turn.feed(
        item("error", message="Model metadata for `x` not found."), item("agent_message", text="Hello."), DONE
    ).exit()
    assert AttemptOutcome.SUCCESS is report.outcome
    assert () == report.evidence.signals


def test_retries_are_counted_and_are_not_the_end(turn: Turn) -> None:
    turn.feed(
        error("Reconnecting... 1/2 (unexpected status 529 <unknown>: Overloaded)"),
        error("Reconnecting... 2/2 (unexpected status 529 <unknown>: Overloaded)"),
    )
    assert [InnerRetry(1, 2, None, 529), InnerRetry(2, 2, None, 529)] == turn.of(InnerRetry)
    report = turn.feed(item("agent_message", text="Hello."), DONE).exit()
    assert (AttemptOutcome.SUCCESS, 2, ()) == (report.outcome, report.inner_retries, report.evidence.signals)


def test_the_cause_is_told_once(turn: Turn) -> None:
    words = "unexpected status 503 Service Unavailable: x"
    report = turn.feed(error(words), failed(words)).exit(1)
    assert [{"type": "turn.failed", "message": words}] == [signal.data for signal in report.evidence.signals]
    assert (503, 503) == (report.evidence.http_status, report.evidence.signals[0].http_status)


def test_an_error_without_an_end_is_the_evidence(turn: Turn) -> None:
    report = turn.feed(error("You’ve hit your usage limit. Try again at 4:18 AM.")).exit(1)
    assert (AttemptOutcome.FAILED, "no_result", False) == (report.outcome, report.stop_reason, report.effects.complete)
    assert "error" == (report.evidence.signals[0].data or {})["type"]  # type: ignore[index, call-overload]


COMPLETE = {
    "You’ve hit your usage limit. Try again at 4:18 AM.": True,
    "unexpected status 401 Unauthorized: x": True,
    "exceeded retry limit, last status: 429 Too Many Requests": True,
    "Selected model is at capacity. Please try a different model.": True,
    "We’re currently experiencing high demand, which may cause temporary errors.": True,
    "stream disconnected before completion: error sending request": True,
    "Missing environment variable: `KEY`.": True,
    "stream disconnected before completion: stream closed before response.completed": False,
    "stream disconnected before completion: idle timeout waiting for SSE": False,
    "Incomplete response returned, reason: max_output_tokens": False,
    "something that a newer Codex says": False,
}


@pytest.mark.parametrize("message", COMPLETE)
def test_observation_is_complete_only_if_no_response_had_begun(turn: Turn, message: str) -> None:
    """R-SAFE-7: the text of an unfinished response is hidden."""
    assert COMPLETE[message] is turn.feed(failed(message)).exit(1).effects.complete


@pytest.mark.parametrize(
    "event",
    [
        item("todo_list", "started", items=[]),
        item("todo_list", "updated", items=[{"text": "x"}]),
        item("agent_message", "started", text=""),
        item("agent_message", text=["not", "text"]),
        DONE,
    ],
)
def test_whatever_was_answered_a_later_failure_leaves_doubt(turn: Turn, event: dict[str, Any]) -> None:
    """R-SAFE-7: a response had begun, however little of it was shown."""
    assert not turn.feed(event, failed("unexpected status 529 x: y")).exit(1).effects.complete


def test_a_try_that_broke_before_a_clean_failure_leaves_doubt(turn: Turn) -> None:
    retry = "Reconnecting... 1/5 (stream disconnected before completion: stream closed before response.completed)"
    assert not turn.feed(error(retry), failed("unexpected status 529 x: y")).exit(1).effects.complete


def test_a_failure_is_never_turned_back_into_a_success(turn: Turn) -> None:
    assert AttemptOutcome.FAILED is turn.feed(failed("x"), DONE).exit(0).outcome


def test_words_of_the_model_and_noise_are_no_evidence(turn: Turn) -> None:
    turn.feed(StderrLine("Reading additional input from stdin..."), StderrLine(" "), StderrLine("ERROR real"))
    turn.feed(
        item("agent_message", text="You’ve hit your usage limit."),
        StdoutLine("not an event"),
        StdoutLine("{", truncated=True),
    )
    assert ["stderr", "assistant_text"] == channels(turn.exit(1))


@pytest.mark.parametrize(
    ("message", "proven"),
    [
        ('{"error":{"message":"…","code":"billing_hard_limit_reached"}}', True),
        ('{"detail":"Instructions are not valid"}', True),
        ('{"type":"error","status":429,"error":{}}', True),
        ('{"type":"error","status":200}', False),
        ('{"items":[]}', False),
        ("Your access token could not be refreshed because your refresh token was revoked. Please log out.", True),
        ("stream disconnected before completion: stream closed", False),
    ],
)
def test_what_proves_that_no_response_began(message: str, proven: bool) -> None:
    """R-SAFE-7: Codex gives a refusal's body as it came, and asks nobody with a token that it cannot renew."""
    assert proven is before_response(message)


TOOL_LINE = "2026-11-30T09:57:08Z  INFO codex_core::stream_events_utils: ToolCall: exec_command thread_id=01a2"
REFUSAL = "unexpected status 529 <unknown status code>: Overloaded"


@pytest.mark.parametrize("late", [False, True])
def test_a_tool_that_only_the_log_tells_of_is_work(turn: Turn, late: bool) -> None:
    """R-SAFE-1: a command that the sandbox refused something has no item; its effects are real."""
    failed = {"type": "turn.failed", "error": {"message": REFUSAL}}
    told = StderrLine(TOOL_LINE)
    turn.feed(THREAD, {"type": "turn.started"}, *((failed, told) if late else (told, failed)))
    report = turn.exit(1)
    assert report.effects.tool_effect
    assert REFUSAL in [signal.text for signal in report.evidence.signals]
    assert not any("ToolCall" in (signal.text or "") for signal in report.evidence.signals)


def test_a_tool_that_the_events_tell_of_is_shown_once(turn: Turn) -> None:
    item = {"id": "item_0", "type": "command_execution", "command": "ls", "status": "completed"}
    turn.feed(
        THREAD, StderrLine(TOOL_LINE), {"type": "item.started", "item": item}, {"type": "item.completed", "item": item}
    )
    turn.feed({"type": "turn.failed", "error": {"message": REFUSAL}}).exit(1)
    assert 1 == len(turn.of(ToolCall))

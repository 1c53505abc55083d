"""What Claude's events mean (R-EVI-1, R-EVI-3, R-EVI-6, R-SAFE-7, R-CON-9)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_sdk.evidence.updates import InnerRetry, Notice, ToolCall
from kandev_routing_sdk.spec import StderrLine, StdoutLine
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._replay import WHEN
from tests.adapters._turns import Turn, channels

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-sonnet-4-5"}


@pytest.fixture
def turn() -> Turn:
    return Turn(ClaudeExtractor())


def stream(**event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None}


def start() -> dict[str, Any]:
    return stream(type="message_start", message={"id": "m", "model": "claude-sonnet-4-5"})


def piece(text: str) -> dict[str, Any]:
    return stream(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def said(*content: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    message = {"id": "m", "model": "claude-sonnet-4-5", "content": [*content]}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def notice(words: str, **labels: Any) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"model": "<synthetic>", "content": [text(words)]},
        "is_api_error_message": True,
        **labels,
    }


def result(words: str = "", *, tokens: int = 0, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": tokens}
    return {"type": "result", "subtype": "success", "is_error": False, "result": words, "usage": usage, **fields}


def failed(words: str, *, tokens: int = 0, **fields: Any) -> dict[str, Any]:
    return result(words, tokens=tokens, is_error=True, terminal_reason="api_error", **fields)


def test_a_text_that_comes_in_pieces_and_then_whole_is_shown_once(turn: Turn) -> None:
    block = stream(type="content_block_start", content_block={"type": "text", "text": ""})
    turn.feed(INIT, start(), block, piece("Hel"), piece("lo."), said(text("Hello.")), result("Hello.", tokens=5))
    report = turn.exit()
    assert "Hello." == report.text
    assert AttemptOutcome.SUCCESS is report.outcome
    assert "claude-sonnet-4-5" == report.model
    assert "s-1" == report.native_session_id


def test_a_retried_stream_that_repeats_itself_is_shown_once(turn: Turn) -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 1}
    turn.feed(
        INIT, start(), piece("Hel"), retry, start(), piece("He"), piece("llo."), said(text("Hello.")), result(tokens=5)
    )
    assert "Hello." == turn.exit().text


def test_a_retried_stream_that_says_something_else_is_set_apart(turn: Turn) -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 1}
    turn.feed(
        INIT,
        start(),
        piece("Hel"),
        retry,
        start(),
        piece("He"),
        piece("avens."),
        said(text("Heavens.")),
        result(tokens=5),
    )
    assert "Hel\n\nHeavens." == turn.exit().text


def test_texts_around_a_tool_do_not_run_together(turn: Turn) -> None:
    turn.feed(
        INIT,
        said(text("Let me see."), {"type": "tool_use", "id": "t", "name": "Bash"}),
        said(text("Done.")),
        result("Done.", tokens=5),
    )
    assert "Let me see.\n\nDone." == turn.exit().text


def test_the_answer_of_a_result_alone_is_output(turn: Turn) -> None:
    report = turn.feed(result("Hello.", tokens=5)).exit()
    assert ("Hello.", True) == (report.text, report.effects.output)


def test_nothing_local_acknowledges_the_prompt(turn: Turn) -> None:
    turn.feed(INIT, {"type": "system", "subtype": "status", "status": "requesting"}, StderrLine("a warning"))
    assert Delivery.SENT is turn.record.effects.delivery


def test_a_tool_seen_twice_is_called_once_and_its_name_is_all_that_is_shown(turn: Turn) -> None:
    use = {"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": "echo secret"}}
    turn.feed(INIT, start(), stream(type="content_block_start", content_block=use), said(use))
    assert [ToolCall("t-1", "Bash")] == turn.of(ToolCall)
    assert not turn.record.effects.tool_effect
    turn.feed({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t-1"}]}})
    assert turn.record.effects.tool_effect


def test_what_a_subagent_says_is_activity_and_no_answer(turn: Turn) -> None:
    turn.feed(INIT, said(text("from below"), parent="task-1"), result("Done.", tokens=5))
    report = turn.exit()
    assert ("Done.", True) == (report.text, report.effects.tool_call)


def test_an_error_in_place_of_an_answer_is_a_notice_and_no_output(turn: Turn) -> None:
    words = "You've hit your 5-hour limit · resets 4:19am (UTC)"
    labels = {"error": "rate_limit", "api_error": "usage_limit_reached", "api_error_status": 429}
    turn.feed(INIT, notice(words, **labels), failed(words, api_error="usage_limit_reached", api_error_status=429))
    report = turn.exit(1)
    assert ("", False, True) == (report.text, report.effects.output, report.effects.complete)
    assert [Notice(words)] == turn.of(Notice)
    assert ["agent_notice", "stdout_event"] == channels(report)
    assert 429 == report.evidence.http_status
    assert labels == report.evidence.signals[0].data


def test_words_of_the_model_are_never_evidence(turn: Turn) -> None:
    turn.feed(INIT, said(text("API Error: 529 Overloaded. You've hit your limit.")), result("…", tokens=5))
    assert () == turn.exit().evidence.signals


@pytest.mark.parametrize("status", ["allowed", "allowed_warning"])
def test_a_healthy_limit_event_is_no_evidence(turn: Turn, status: str) -> None:
    turn.feed(INIT, {"type": "rate_limit_event", "rate_limit_info": {"status": status, "resetsAt": 1}})
    assert () == turn.record.report(WHEN).evidence.signals


def test_a_rejected_limit_event_is(turn: Turn) -> None:
    info = {"status": "rejected", "resetsAt": 1796012382, "rateLimitType": "five_hour"}
    turn.feed(INIT, {"type": "rate_limit_event", "rate_limit_info": info})
    report = turn.feed(result("You've hit your limit", is_error=True, api_error_status=429)).exit(1)
    assert {"type": "rate_limit_event", "rate_limit_info": info} == report.evidence.signals[0].data


def test_inner_retries_are_counted_and_a_token_refresh_is_none(turn: Turn) -> None:
    retry = {
        "type": "system",
        "subtype": "api_retry",
        "max_retries": 2,
        "retry_delay_ms": 501,
        "error_status": 529,
        "error": "overloaded",
    }
    turn.feed(INIT, {**retry, "attempt": 0}, {**retry, "attempt": 1}, {**retry, "attempt": 2})
    assert [InnerRetry(1, 2, 0.501, 529), InnerRetry(2, 2, 0.501, 529)] == turn.of(InnerRetry)
    report = turn.exit(143)
    assert 2 == report.inner_retries
    assert [{"type": "api_retry", "attempt": 2, "max_retries": 2, "error_status": 529, "error": "overloaded"}] == [
        signal.data for signal in report.evidence.signals
    ]


def test_a_retry_that_was_answered_is_no_evidence_of_a_later_failure(turn: Turn) -> None:
    retry = {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 1,
        "max_retries": 1,
        "error_status": 529,
        "error": "overloaded",
    }
    turn.feed(
        INIT,
        retry,
        said(text("Hello.")),
        notice("Invalid API key", error="authentication_failed", api_error_status=401),
    )
    turn.feed(failed("Invalid API key", api_error_status=401))
    assert ["authentication_failed", None] == [
        signal.data.get("error") for signal in turn.exit(1).evidence.signals if isinstance(signal.data, dict)
    ]


COMPLETE = {
    "an HTTP error": (notice("API Error: 529 Overloaded.", error="server_error", api_error_status=529), 0, True),
    "a limit without its number": (
        notice("You've hit your limit", error="rate_limit", api_error="usage_limit_reached", api_error_status=429),
        0,
        True,
    ),
    "an unlabelled error with its number": (
        notice("API Error: 402 Billing", error="unknown", api_error_status=402),
        0,
        True,
    ),
    "no connection": (
        notice("API Error: Connection refused (ECONNREFUSED)", error="server_error", api_error="connection_failed"),
        0,
        True,
    ),
    "not logged in": (notice("Not logged in · Please run /login", error="authentication_failed"), 0, True),
    "an error inside a stream": (notice("API Error: Overloaded", error="unknown", api_error_status=529), 0, False),
    "a dropped connection": (
        notice("API Error: Connection dropped (ECONNRESET).", error="server_error", api_error="connection_failed"),
        0,
        False,
    ),
    "a timeout": (notice("Request timed out.", error="server_error"), 0, False),
    "tokens that nobody saw": (
        notice("API Error: 529 Overloaded.", error="server_error", api_error_status=529),
        12,
        False,
    ),
}


@pytest.mark.parametrize("what", COMPLETE)
def test_observation_is_complete_only_if_no_response_had_begun(turn: Turn, what: str) -> None:
    """R-SAFE-7."""
    event, tokens, complete = COMPLETE[what]
    labels = {name: event[name] for name in ("api_error", "api_error_status") if name in event}
    turn.feed(INIT, event, failed("", tokens=tokens, **labels))
    assert complete is turn.exit(1).effects.complete


def test_a_try_that_broke_before_a_clean_failure_leaves_doubt(turn: Turn) -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 1, "error": "unknown"}
    clean = notice("API Error: 529 Overloaded.", error="server_error", api_error_status=529)
    turn.feed(INIT, retry, clean, failed("", api_error_status=529))
    assert not turn.exit(1).effects.complete


def test_a_response_that_began_and_showed_nothing_leaves_doubt(turn: Turn) -> None:
    turn.feed(
        INIT,
        start(),
        notice("API Error: 500", error="server_error", api_error_status=500),
        failed("", api_error_status=500),
    )
    assert not turn.exit(1).effects.complete


def test_going_without_a_result_is_a_failure_whatever_the_exit_code(turn: Turn) -> None:
    report = turn.feed(INIT).exit(0)
    assert (AttemptOutcome.FAILED, "no_result", False) == (report.outcome, report.stop_reason, report.effects.complete)


def test_a_failure_is_never_turned_back_into_a_success(turn: Turn) -> None:
    report = turn.feed(INIT, failed("API Error: 500"), result("Hello.", tokens=5)).exit(0)
    assert AttemptOutcome.FAILED is report.outcome


def test_a_refusal_is_no_success(turn: Turn) -> None:
    report = turn.feed(INIT, said(text("No.")), result("No.", tokens=5, stop_reason="refusal")).exit(0)
    assert AttemptOutcome.FAILED is report.outcome
    assert "refusal" == (report.evidence.signals[0].data or {})["stop_reason"]  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    "event",
    [{"type": "levitation"}, said({"type": "hologram"}), stream(type="content_block_delta", delta={"type": "smell"})],
)
def test_what_nobody_knows_makes_observation_incomplete(turn: Turn, event: dict[str, Any]) -> None:
    assert not turn.feed(INIT, event).record.effects.complete


def test_lines_that_are_no_events_are_content_of_unknown_origin(turn: Turn) -> None:
    turn.feed(
        INIT,
        StdoutLine("You've hit your usage limit"),
        StdoutLine("[1, 2]"),
        StdoutLine('{"type": "resu', truncated=True),
    )
    report = turn.exit(1)
    assert not report.effects.complete
    assert ["assistant_text", "assistant_text"] == channels(report)


def test_an_error_in_place_of_any_event_is_the_runtimes(turn: Turn) -> None:
    assert ["stdout_event"] == channels(turn.feed(StdoutLine("API Error: 529 Overloaded.")).exit(1))


def test_denied_tools_are_told(turn: Turn) -> None:
    turn.feed(
        INIT,
        said(text("No.")),
        result("No.", tokens=5, permission_denials=[{"tool_name": "Bash"}, {"tool_name": "Bash"}]),
    )
    assert [Notice("permission denied: Bash")] == turn.of(Notice)


@pytest.mark.parametrize(
    "events",
    [
        [start(), piece("")],
        [stream(type="content_block_start", content_block=text(""))],
        [stream(type="content_block_delta", delta={"type": "input_json_delta", "partial_json": "{"})],
        [stream(type="message_delta", usage={"output_tokens": 5})],
        [stream(type="something new")],
        [{"type": "tool_progress", "tool_name": "Bash"}],
        [{"type": "tool_use_summary", "summary": "x"}],
    ],
)
def test_whatever_of_a_stream_came_a_later_failure_leaves_doubt(turn: Turn, events: list[dict[str, Any]]) -> None:
    """R-SAFE-7: a response had begun, and nothing of it was seen."""
    overloaded = notice("API Error: 529 Overloaded.", error="server_error", api_error_status=529)
    assert not turn.feed(INIT, *events, overloaded, failed("API Error: 529 Overloaded.")).exit(1).effects.complete

"""What claude-agent-acp's frames mean (R-EVI-1, R-EVI-3, R-EVI-6, R-SAFE-7, R-CON-9)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_claude.acp_extractor import ClaudeAcpExtractor
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.evidence.updates import InnerRetry, Notice
from kandev_routing_sdk.process.endings import settle
from kandev_routing_sdk.spec import AcpFrame, Channel, Exited, JsonValue, StderrLine
from kandev_routing_sdk.types import AttemptOutcome
from tests.adapters._replay import WHEN, full_catalogue, recording, replay
from tests.adapters._turns import Turn, channels
from tests.adapters.claude._frames import (
    MODEL,
    REFUSED,
    RUNTIME,
    answer,
    chunk,
    error,
    event,
    notice,
    refused,
    result,
    retry,
    tool,
    typed,
    update,
    usage,
)


@pytest.fixture
def turn() -> Turn:
    return Turn(ClaudeAcpExtractor())


def reported(turn: Turn) -> TurnReport:
    return turn.record.report(WHEN)


def repeatable(report: TurnReport) -> bool:
    """Whether the effect gate could let it pass: nothing came back, and nothing can have been missed."""
    return report.effects.complete and not report.effects.any_activity


# Words in place of an answer -----------------------------------------------------------------------------------------


def test_an_error_in_place_of_an_answer_is_a_notice_and_no_output(turn: Turn) -> None:
    report = reported(turn.feed(chunk(REFUSED), refused()))
    assert (AttemptOutcome.FAILED, "", True) == (report.outcome, report.text, repeatable(report))
    assert [Notice(REFUSED)] == turn.of(Notice)
    assert ["acp_error"] == [*channels(report)]


def test_words_of_a_sign_in_are_kept_beside_their_unrelated_error(turn: Turn) -> None:
    report = reported(
        turn.feed(chunk("Invalid API key · Fix external API key"), error("Authentication required", code=-32000))
    )
    assert ["agent_notice", "acp_error"] == [*channels(report)]
    assert ("", True) == (report.text, repeatable(report))


@pytest.mark.parametrize(
    "text",
    [
        "Login expired · Run /login to sign in again",
        "OAuth token revoked · Please run /login",
        "Please run /login · API Error: 401 Invalid bearer token",
        "Failed to authenticate. API Error: 403 Request not allowed",
        "Your organization has disabled Claude subscription access for Claude Code · Use an Anthropic API key instead",
        "Your account does not have access to Claude Code. Please run /login.",
    ],
)
def test_the_runtimes_own_words_about_a_sign_in_explain_its_error(turn: Turn, text: str) -> None:
    assert "" == reported(turn.feed(chunk(text), error("Authentication required", code=-32000))).text


def test_other_words_before_it_are_output(turn: Turn) -> None:
    report = reported(turn.feed(chunk("Hello, I shall look"), error("Authentication required", code=-32000)))
    assert ("Hello, I shall look", False) == (report.text, repeatable(report))


def test_a_message_that_is_not_the_error_is_output_whoever_named_it(turn: Turn) -> None:
    """Gateways name messages by UUIDs too: the mark of an answer is never lost (R-SAFE-1)."""
    report = reported(turn.feed(chunk("Half an answer"), refused()))
    assert ("Half an answer", False) == (report.text, repeatable(report))


@pytest.mark.parametrize("message_id", [RUNTIME, None])
def test_a_message_in_several_pieces_is_the_models(turn: Turn, message_id: str | None) -> None:
    turn.feed(chunk("One, ", message_id), chunk("two", message_id))
    assert "One, two" == reported(turn).text


def test_a_message_after_which_the_model_goes_on_is_the_models(turn: Turn) -> None:
    turn.feed(chunk("I shall look."), tool())
    assert "I shall look." == reported(turn).text


def test_messages_are_set_apart_as_headless(turn: Turn) -> None:
    turn.feed(chunk("I shall ", "msg_1"), chunk("look.", "msg_1"), tool(), chunk("Done", "msg_2"), chunk(".", "msg_2"))
    assert "I shall look.\n\nDone." == reported(turn).text


def test_blanks_of_the_model_are_not_lost(turn: Turn) -> None:
    turn.feed(chunk("One", MODEL), chunk("\n\n", MODEL), chunk("two", MODEL))
    assert "One\n\ntwo" == reported(turn).text


def test_two_messages_of_the_runtime_are_shown_in_order(turn: Turn) -> None:
    other = "cffeef02-4890-4a8a-956f-59b5cd6ba9e5"
    report = reported(turn.feed(chunk("Unclear. "), chunk(REFUSED, other), refused()))
    assert ("Unclear. ", False) == (report.text, repeatable(report))


def test_a_command_answers_without_a_model(turn: Turn) -> None:
    report = reported(turn.feed(chunk("Total cost: $0.00"), answer(tokens=0)))
    assert (AttemptOutcome.SUCCESS, "Total cost: $0.00") == (report.outcome, report.text)


def test_an_error_that_ends_well_for_no_token_is_no_success_and_explains_nothing(turn: Turn) -> None:
    """Gateways count no tokens, and name their messages as the runtime does: a person has to look at it (R-EVI-6)."""
    report = reported(turn.feed(chunk(REFUSED), answer(tokens=0)))
    assert (AttemptOutcome.FAILED, REFUSED, False) == (report.outcome, report.text, repeatable(report))
    assert (["assistant_text"], True) == ([*channels(report)], report.effects.output)


def test_an_answer_that_begins_like_an_error_stays_one(turn: Turn) -> None:
    report = reported(turn.feed(usage(), chunk("API Error: what it means", RUNTIME), answer()))
    assert (AttemptOutcome.SUCCESS, "API Error: what it means") == (report.outcome, report.text)


@pytest.mark.parametrize("ending", [answer("cancelled"), answer("refusal"), answer("nonsense")])
def test_what_is_held_is_shown_however_the_turn_ends(turn: Turn, ending: AcpFrame) -> None:
    assert "Half an answer" == reported(turn.feed(chunk("Half an answer"), ending)).text


def test_what_is_held_is_shown_when_the_agent_dies(turn: Turn) -> None:
    assert "Half an answer" == reported(turn.feed(chunk("Half an answer"), Exited(None, "SIGKILL"))).text


def test_remarks_of_the_adapter_are_notices(turn: Turn) -> None:
    informational = {"claudeCode": {"kind": "informational", "level": "warning"}}
    turn.feed(chunk("**Warning:** a hook", None, _meta=informational), chunk("**Model fallback:** opus declined", None))
    assert ["**Warning:** a hook", "**Model fallback:** opus declined"] == [
        n.text for n in turn.of(Notice) if isinstance(n, Notice)
    ]
    assert "" == reported(turn).text


def test_what_a_subagent_says_is_no_answer(turn: Turn) -> None:
    turn.feed(chunk("inner words", MODEL, _meta={"claudeCode": {"parentToolUseId": "t"}}))
    assert "" == reported(turn).text


# What can have been missed -------------------------------------------------------------------------------------------


def test_once_a_response_had_begun_observation_is_incomplete(turn: Turn) -> None:
    """Tokens tell of it even if nothing was shown (R-SAFE-7)."""
    assert not reported(turn.feed(usage(), chunk(REFUSED), refused())).effects.complete


def test_a_context_of_nothing_is_no_response(turn: Turn) -> None:
    assert repeatable(reported(turn.feed(usage(0), chunk(REFUSED), refused())))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("API Error: Overloaded", "unknown"),
        ("API Error: Connection dropped (ECONNRESET). Try again.", "server_error"),
        ("Request timed out.", "server_error"),
        ("API Error: Rate limited", "rate_limit"),
        ("The Claude Agent process exited unexpectedly.", ""),
        ("The output was too long", "max_output_tokens"),
        ("", "transport_lost"),
    ],
)
def test_a_failure_that_may_have_come_inside_a_response_is_not_repeatable(turn: Turn, text: str, kind: str) -> None:
    assert not reported(turn.feed(error(f"Internal error: {text}", kind))).effects.complete


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("API Error: 502 Bad Gateway.", "server_error"),
        ("API Error: Request rejected (429) · Slow down", "rate_limit"),
        ("API Error: Connection refused — a firewall may be blocking it (ECONNREFUSED)", "server_error"),
        ("You've hit your 5-hour limit · resets 4:24am (UTC)", "rate_limit"),
        ("Credit balance is too low", "billing_error"),
        ("There's an issue with the selected model (x).", "model_not_found"),
    ],
)
def test_a_request_that_was_refused_as_a_whole_is_repeatable(turn: Turn, text: str, kind: str) -> None:
    assert repeatable(reported(turn.feed(chunk(text), refused(text, kind))))


def test_a_tool_shows_before_the_failure(turn: Turn) -> None:
    report = reported(turn.feed(usage(), tool(), chunk(REFUSED), refused()))
    assert (True, "") == (report.effects.tool_call, report.text)


def test_partial_text_is_shown_once_though_it_is_tried_again(turn: Turn) -> None:
    pieces = [chunk(words, MODEL) for words in ("Partial answer, ", "still going ", "and then")]
    report = reported(turn.feed(*pieces, retry(None), *pieces, chunk(REFUSED), refused()))
    assert ("Partial answer, still going and then", False) == (report.text, report.effects.complete)


# The events of the inner Claude --------------------------------------------------------------------------------------


def test_its_labels_and_its_status_are_evidence(turn: Turn) -> None:
    labels: dict[str, Any] = {"error": "server_error", "api_error_status": 529}
    turn.feed(
        notice(REFUSED, **labels), chunk(REFUSED), result(REFUSED, is_error=True, api_error_status=529), refused()
    )
    report = reported(turn)
    assert (529, "", True) == (report.evidence.http_status, report.text, repeatable(report))
    assert labels == report.evidence.signals[0].data
    assert [Notice(REFUSED)] == turn.of(Notice)


def test_a_message_that_it_names_its_own_is_a_notice_even_in_a_turn_that_goes_well(turn: Turn) -> None:
    retired = "⚠ Claude Sonnet 4.5 was retired."
    turn.feed(notice(retired), chunk(retired), chunk("Hello.", MODEL), answer())
    assert "Hello." == reported(turn).text


def test_a_notice_that_comes_after_its_message_still_proves_it(turn: Turn) -> None:
    turn.feed(chunk("Words"), notice("Words"), chunk("Hello.", MODEL), answer())
    assert "Hello." == reported(turn).text


def test_a_message_that_it_names_the_models_is_output_at_once(turn: Turn) -> None:
    said = {"id": RUNTIME, "model": "gateway-model", "content": [{"type": "text", "text": "Hello."}]}
    report = reported(turn.feed(chunk("Hello."), event(type="assistant", message=said)))
    assert ("Hello.", "gateway-model") == (report.text, report.model)


def test_its_retries_are_counted_and_a_lost_try_makes_observation_incomplete(turn: Turn) -> None:
    """R-CON-9, R-SAFE-7."""
    turn.feed(retry(529), retry(None, 2), chunk(REFUSED), refused())
    assert [InnerRetry(1, 3, 0.5, 529), InnerRetry(2, 3, 0.5, None)] == turn.of(InnerRetry)
    assert not reported(turn).effects.complete


def test_tries_that_were_all_refused_leave_it_complete(turn: Turn) -> None:
    assert repeatable(reported(turn.feed(retry(529), retry(529, 2), chunk(REFUSED), refused())))


def test_its_tokens_tell_of_a_response_that_was_not_shown(turn: Turn) -> None:
    """agents.md 6."""
    turn.feed(chunk(REFUSED), result(REFUSED, tokens=1, is_error=True, api_error_status=529), refused())
    assert not reported(turn).effects.complete


def test_its_word_may_come_after_the_agents(turn: Turn) -> None:
    """A missing login ends the turn before Claude's own result does."""
    words = "Not logged in · Please run /login"
    turn.feed(notice(words, error="authentication_failed"), error("Authentication required", code=-32000))
    before = reported(turn)
    turn.feed(result(words, is_error=True, terminal_reason="api_error"))
    after = reported(turn)
    assert (True, True) == (repeatable(before), repeatable(after))
    assert before.stop_reason == after.stop_reason


def test_late_tokens_revoke(turn: Turn) -> None:
    turn.feed(chunk(REFUSED), refused())
    assert repeatable(reported(turn))
    assert not repeatable(reported(turn.feed(result(REFUSED, tokens=3, is_error=True, api_error_status=529))))


def test_an_answer_that_only_its_result_has_is_not_lost(turn: Turn) -> None:
    report = reported(turn.feed(result("From the cache."), answer(tokens=0)))
    assert (AttemptOutcome.SUCCESS, "From the cache.") == (report.outcome, report.text)


def test_hidden_thinking_is_thinking(turn: Turn) -> None:
    said = {"id": MODEL, "model": "m", "content": [{"type": "redacted_thinking", "data": "x"}]}
    assert reported(turn.feed(event(type="assistant", message=said))).effects.thinking


def test_denied_permissions_are_told(turn: Turn) -> None:
    turn.feed(result("Done.", permission_denials=[{"tool_name": "Bash"}]), answer())
    assert Notice("permission denied: Bash") in turn.of(Notice)


# Limits, models, tokens ----------------------------------------------------------------------------------------------


def test_a_rejected_limit_is_evidence_with_its_reset_and_an_allowed_one_is_not(turn: Turn) -> None:
    for status in ("allowed", "allowed_warning"):
        turn.feed(usage(0, **{"_claude/rateLimit": {"status": status, "resetsAt": 1796013963}}))
    assert [] == [*channels(reported(turn))]
    limit = {"status": "rejected", "resetsAt": 1796013963, "rateLimitType": "five_hour"}
    turn.feed(usage(0, **{"_claude/rateLimit": limit}), event(type="rate_limit_event", rate_limit_info=limit))
    turn.feed(refused("API Error: Request rejected (429) · Slow down", "rate_limit"))
    assert ["stdout_event", "acp_error"] == [*channels(reported(turn))]
    assert {"type": "rate_limit_event", "rate_limit_info": limit} == reported(turn).evidence.signals[0].data


def test_the_model_that_serves_is_recorded(turn: Turn) -> None:
    model: dict[str, Any] = {"_claude/model": "claude-sonnet-4-5"}
    report = reported(turn.feed(usage(**model), chunk("Hi", MODEL), answer()))
    assert "claude-sonnet-4-5" == report.model


def test_cached_tokens_are_tokens(turn: Turn) -> None:
    spent = {"inputTokens": 1, "outputTokens": 2, "cachedReadTokens": 4, "cachedWriteTokens": 8}
    used = reported(turn.feed(chunk("Hi", MODEL), answer(usage=spent))).usage
    assert used is not None
    assert (13, 2) == (used.input_tokens, used.output_tokens)


# Typed failures, which are not asked for but read -------------------------------------------------------------------


def test_a_typed_failure_is_no_success(turn: Turn) -> None:
    report = reported(turn.feed(answer(tokens=0, **typed("limit", "API Error: Request rejected (429)"))))
    assert (AttemptOutcome.FAILED, True) == (report.outcome, repeatable(report))


def test_a_typed_failure_of_the_service_needs_a_status(turn: Turn) -> None:
    report = reported(turn.feed(answer(tokens=0, **typed("service", "The model provider reported an error."))))
    assert not report.effects.complete


def test_a_typed_warning_is_an_inner_retry(turn: Turn) -> None:
    warning = typed("service", "Retrying Claude, attempt 1 of 3.", "warning")
    assert [InnerRetry(1, 3, None, None)] == turn.feed(update("session_info_update", **warning)).of(InnerRetry)


# Ends ----------------------------------------------------------------------------------------------------------------


def test_an_empty_end_is_no_activity(turn: Turn) -> None:
    """agents.md 13: the conductor takes it for no answer (R-CON-7)."""
    report = reported(turn.feed(answer(tokens=0)))
    assert ("", False) == (report.text, report.effects.any_activity)


@pytest.mark.parametrize(("asked", "outcome"), [(True, AttemptOutcome.CANCELLED), (False, AttemptOutcome.FAILED)])
def test_an_agent_that_ends_cancelled_without_being_asked_failed(
    turn: Turn, asked: bool, outcome: AttemptOutcome
) -> None:
    turn.feed(answer("cancelled", tokens=0))
    settle(turn.record, asked_to_cancel=asked, otherwise="no_result")
    assert outcome is reported(turn).outcome


CANCELS = ["after_partial_text", "after_tool", "while_hanging", "while_retrying@retries10"]


@pytest.mark.parametrize("name", CANCELS)
def test_a_recorded_cancel_is_one_and_repeats_nothing(name: str) -> None:
    replayed = replay(recording(f"claude-agent-acp/acp/cancel_{name}.json"), full_catalogue())
    assert (AttemptOutcome.CANCELLED, False) == (replayed.outcome, replayed.automatic)
    assert ("after" in name) is replayed.report.effects.any_activity


def test_a_missing_binary_is_told_with_its_detail(turn: Turn) -> None:
    details: dict[str, JsonValue] = {"details": "Claude Code native binary not found at /opt/claude."}
    frame = AcpFrame({"error": {"code": -32603, "message": "Internal error", "data": details}}, request="session/new")
    report = reported(turn.feed(frame))
    assert (AttemptOutcome.FAILED, details) == (report.outcome, report.evidence.signals[0].data)


@pytest.mark.parametrize(
    "line",
    [
        "[session/create] sessionId=x phase=settings durationMs=25 totalMs=31",
        "[idle-compaction] skip: no request recorded in this process",
        "Session x: failed to generate a session title: Error: Query closed before response received",
        "    at process.processTicksAndRejections (node:internal/process/task_queues:103:5)",
        "Please fix the 429 rate limit exceeded bug in retry.py",
        "Error: usage limit reached, try again at 3pm",
    ],
)
def test_what_the_log_quotes_is_no_evidence(turn: Turn, line: str) -> None:
    """Neither noise nor the user's or the model's words (R-EVI-6)."""
    assert [] == [*channels(reported(turn.feed(StderrLine(line))))]


def test_the_end_of_the_inner_claude_is_evidence(turn: Turn) -> None:
    died = "Session x: Claude Agent process died: Claude Code process terminated by signal SIGKILL"
    report = reported(
        turn.feed(StderrLine(died), error("Internal error: The Claude Agent process exited unexpectedly."))
    )
    assert ["stderr", "acp_error"] == [*channels(report)]
    assert not report.effects.complete


def test_the_log_before_the_prompt_is_the_runtimes() -> None:
    record = TurnRecord(TurnContext(family="claude"), Sanitiser(), lambda update: None)
    ClaudeAcpExtractor().receive(StderrLine("Error: Cannot find module '@agentclientprotocol/sdk'"), record)
    assert [Channel.STDERR] == [signal.channel for signal in record.report(WHEN).evidence.signals]


@pytest.mark.parametrize(
    ("kind", "doubted"), [("api_key", False), ("none", False), ("account", True), ("external", True)]
)
def test_a_sign_in_that_contradicts_the_launch_is_doubted(kind: str, doubted: bool) -> None:
    turn = Turn(ClaudeAcpExtractor(credential_kinds={"api_key"}))
    turn.feed(AcpFrame({"method": "_auth/status_update", "params": {"authStatus": {"kind": kind}}}))
    assert doubted is reported(turn).credential_doubted


# Found by attack -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "work",
    [
        event(type="assistant", parent_tool_use_id="toolu_1", message={"id": MODEL, "content": [{"type": "tool_use"}]}),
        chunk("I deleted the files", MODEL, _meta={"claudeCode": {"parentToolUseId": "toolu_1"}}),
    ],
)
def test_a_subagent_at_work_is_a_tool_whoever_announced_it(turn: Turn, work: AcpFrame) -> None:
    report = reported(turn.feed(work, refused()))
    assert (True, "") == (report.effects.tool_call, report.text)


@pytest.mark.parametrize(
    ("text", "message_id"),
    [
        ("The token bucket is empty because nobody refills it", None),
        ("To sign in, add a login page.\n\nFirst, " + "we " * 200, RUNTIME),
        ("A login page\nneeds a form", RUNTIME),
    ],
)
def test_an_answer_about_signing_in_is_not_taken_for_the_words_of_a_sign_in(
    turn: Turn, text: str, message_id: str | None
) -> None:
    report = reported(turn.feed(chunk(text, message_id), error("Authentication required", code=-32000)))
    assert (text, True) == (report.text, report.effects.output)


def test_a_kind_of_message_that_nobody_knows_may_be_an_answer(turn: Turn) -> None:
    report = reported(turn.feed(chunk("Hello", MODEL, _meta={"claudeCode": {"kind": "poem"}}), answer()))
    assert "Hello" == report.text


@pytest.mark.parametrize("failure", [result("API Error: 529", is_error=True), notice(REFUSED, error="server_error")])
def test_the_end_of_a_turn_whose_inner_claude_failed_is_no_success(turn: Turn, failure: AcpFrame) -> None:
    report = reported(turn.feed(tool(), failure, answer()))
    assert AttemptOutcome.FAILED is report.outcome
    assert report.effects.tool_call


def test_a_failure_that_an_answer_followed_is_over(turn: Turn) -> None:
    report = reported(
        turn.feed(notice(REFUSED, error="server_error"), chunk("Hello", MODEL), result("Hello"), answer())
    )
    assert (AttemptOutcome.SUCCESS, "Hello") == (report.outcome, report.text)

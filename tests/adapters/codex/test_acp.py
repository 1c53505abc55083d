"""What the frames of Codex's ACP agents mean (R-EVI-1, R-EVI-3, R-EVI-6, R-SAFE-7, R-CON-9)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_codex.acp import CodexAcpExtractor
from kandev_routing_codex.failures import PATIENCE
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import InnerRetry, Notice
from kandev_routing_sdk.spec import AcpFrame, Exited, StderrLine
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._replay import WHEN
from tests.adapters._turns import Turn, channels
from tests.adapters.codex._frames import (
    WARNING,
    answer,
    chunk,
    codex_acp,
    facts,
    info,
    older_agent,
    refused,
    repeatable,
    reported,
    retry,
    status,
    tool,
    typed,
    update,
)

WAIT = retry("Reconnecting... waiting for network", "Connection failed: error sending request")


@pytest.fixture
def turn() -> Turn:
    return codex_acp()


# A failure that looks like a success ----------------------------------------------------------------------------------


def test_a_thread_in_system_error_is_no_success_and_its_next_words_are_the_cause(turn: Turn) -> None:
    report = reported(turn.feed(status("systemError"), chunk("Selected model is at capacity.\n\n"), answer()))
    assert (AttemptOutcome.FAILED, "system_error", "") == (report.outcome, report.stop_reason, report.text)
    assert [("agent_notice", "Selected model is at capacity.")] == [
        (s.channel, s.text) for s in report.evidence.signals
    ]
    assert repeatable(turn)


def test_a_system_error_without_words_is_still_a_failure(turn: Turn) -> None:
    report = reported(turn.feed(status("systemError"), answer()))
    assert (AttemptOutcome.FAILED, ()) == (report.outcome, report.evidence.signals)


def test_a_thread_that_is_active_again_has_recovered(turn: Turn) -> None:
    turn.feed(status("systemError"), chunk("busy"), status("active"), chunk("Hello.", "m"), answer())
    assert (AttemptOutcome.SUCCESS, "Hello.") == (turn.record.outcome, reported(turn).text)


def test_idle_after_an_error_does_not_make_it_a_success(turn: Turn) -> None:
    turn.feed(status("systemError"), chunk("busy"), status("idle"), answer())
    assert AttemptOutcome.FAILED is turn.record.outcome


def test_the_words_of_a_failure_name_their_http_status(turn: Turn) -> None:
    report = reported(turn.feed(status("systemError"), chunk("unexpected status 529 x: Overloaded"), answer()))
    assert (529, 529) == (report.evidence.http_status, report.evidence.signals[0].http_status)


# Whose words they are -------------------------------------------------------------------------------------------------


def test_words_without_a_name_are_the_runtime_s(turn: Turn) -> None:
    """R-EVI-6: no output and no sign that the prompt arrived."""
    turn.feed(chunk(f"Warning: {WARNING}\n\n"), status("active"))
    assert (Delivery.SENT, [], []) == (turn.record.effects.delivery, turn.of(Notice), [*channels(reported(turn))])
    turn.feed(chunk("Hello.", "m"), chunk("*Context compacted.*"), answer())
    assert (AttemptOutcome.SUCCESS, "Hello.") == (turn.record.outcome, reported(turn).text)
    assert [Notice("*Context compacted.*")] == turn.of(Notice)


def test_words_of_the_runtime_that_nobody_knows_may_stand_for_something_done(turn: Turn) -> None:
    turn.feed(chunk("Logged out from Codex account."), answer())
    assert (False, "") == (turn.record.effects.complete, reported(turn).text)


def test_an_older_agent_names_nothing_so_its_words_are_the_answer() -> None:
    turn = older_agent().feed(chunk(WARNING))
    assert Delivery.SENT is turn.record.effects.delivery
    turn.feed(chunk("Hello "), chunk("there."), answer())
    assert (AttemptOutcome.SUCCESS, "Hello there.") == (turn.record.outcome, reported(turn).text)


@pytest.mark.parametrize(
    "text", [f"{WARNING} So I stop.\nMore.", "The log says: " + WARNING, "You’ve hit your usage limit."]
)
def test_only_whole_known_words_at_the_head_are_an_older_agent_s_own(text: str) -> None:
    turn = older_agent().feed(chunk(text))
    assert (True, text) == (turn.record.effects.output, reported(turn).text)


def test_after_an_answer_began_the_same_words_are_the_answer_of_an_older_agent() -> None:
    assert f"Look: {WARNING}" == reported(older_agent().feed(chunk("Look: "), chunk(WARNING))).text


def test_an_agent_that_names_a_message_names_them_all() -> None:
    turn = older_agent().feed(chunk("Hello.", "m"), chunk("a notice"), answer())
    assert "Hello." == reported(turn).text


def test_messages_do_not_run_together(turn: Turn) -> None:
    turn.feed(chunk("One", "a"), chunk(".", "a"), chunk("Two.", "b"), answer())
    assert "One.\n\nTwo." == reported(turn).text
    older = older_agent().feed(chunk("One."), tool("completed"), chunk("Two."), answer())
    assert "One.\n\nTwo." == reported(older).text


# Its own tries --------------------------------------------------------------------------------------------------------


def test_a_retry_that_says_it_again_is_shown_once(turn: Turn) -> None:
    turn.feed(chunk("Partial ", "m"), chunk("answer", "m"), retry("Reconnecting... 1/3", "x"))
    turn.feed(chunk("Partial ", "m"), chunk("answer", "m"), chunk(" and more.", "m"), answer())
    assert "Partial answer and more." == reported(turn).text


def test_a_retry_that_says_something_else_is_another_message(turn: Turn) -> None:
    turn.feed(
        chunk("Partial ", "m"), chunk("answer", "m"), retry("Reconnecting... 1/3", "x"), chunk("Hello.", "m"), answer()
    )
    assert "Partial answer\n\nHello." == reported(turn).text


def test_retries_are_counted_with_their_status_and_are_not_the_end(turn: Turn) -> None:
    turn.feed(
        retry("Reconnecting... 1/2", "unexpected status 529 x: Overloaded"),
        retry("Reconnecting... 2/2", "x", {"responseStreamDisconnected": {"httpStatusCode": 429}}),
        info(**typed("Reconnecting... 2/2", "warning", "connection")),
    )
    assert [InnerRetry(1, 2, None, 529), InnerRetry(2, 2, None, 429), InnerRetry(3, 2, None, None)] == turn.of(
        InnerRetry
    )
    report = reported(turn.feed(chunk("Hello.", "m"), answer()))
    assert (AttemptOutcome.SUCCESS, 3, ()) == (report.outcome, report.inner_retries, report.evidence.signals)


@pytest.mark.parametrize("wait", [WAIT, info(**typed("Reconnecting... waiting for network", "warning", "connection"))])
def test_waiting_for_the_network_is_given_up_and_acknowledges_nothing(turn: Turn, wait: AcpFrame) -> None:
    """R-CON-9, R-SAFE-3: whether the prompt ever arrived is not known, so nothing is automatic."""
    turn.feed(*[wait] * (PATIENCE - 1))
    assert (None, False, ()) == (turn.record.outcome, turn.record.over, reported(turn).evidence.signals)
    report = reported(turn.feed(wait, wait))
    assert (AttemptOutcome.FAILED, "reconnecting", True) == (report.outcome, report.stop_reason, turn.record.over)
    assert (Delivery.SENT, ["acp_update"]) == (report.effects.delivery, [*channels(report)])


def test_a_failure_without_words_is_explained_by_the_last_try(turn: Turn) -> None:
    turn.feed(retry("Reconnecting... 1/1", "unexpected status 503 x: y"), status("systemError"), answer())
    assert [503] == [signal.http_status for signal in reported(turn).evidence.signals]


# Errors ---------------------------------------------------------------------------------------------------------------

LIMIT = "You’ve hit your usage limit. Try again at 4:25 AM."


@pytest.mark.parametrize(
    "data",
    [
        {"message": LIMIT, "codexErrorInfo": "usageLimitExceeded"},
        {"message": LIMIT, "codex_error_info": "usage_limit_exceeded"},
    ],
)
def test_an_error_is_kept_in_one_spelling(turn: Turn, data: dict[str, Any]) -> None:
    report = reported(turn.feed(status("systemError"), chunk(LIMIT), refused(data=data)))
    assert [("acp_error", LIMIT, {"message": LIMIT, "codexErrorInfo": "usageLimitExceeded"}, -32603)] == [
        (s.channel, s.text, s.data, s.code) for s in report.evidence.signals
    ]
    assert (AttemptOutcome.FAILED, True) == (report.outcome, repeatable(turn))


def test_a_kind_carries_its_status(turn: Turn) -> None:
    kind = {"response_too_many_failed_attempts": {"http_status_code": 429}}
    report = reported(turn.feed(refused(data={"message": "x", "codex_error_info": kind})))
    assert 429 == report.evidence.http_status
    assert {"responseTooManyFailedAttempts": {"httpStatusCode": 429}} == facts(report)[0]["codexErrorInfo"]


def test_an_error_without_a_vocabulary_is_kept_as_it_is(turn: Turn) -> None:
    report = reported(turn.feed(refused(-32000, "Authentication required")))
    assert [(-32000, "Authentication required", None)] == [(s.code, s.text, s.data) for s in report.evidence.signals]
    assert repeatable(turn)


def test_a_lost_app_server_leaves_doubt_and_its_log_is_no_word_of_it(turn: Turn) -> None:
    data = {"exitCode": None, "signal": "SIGKILL", "restartable": True}
    report = reported(
        turn.feed(refused(1001, "The Codex app-server was killed by SIGKILL.\nERROR quota exceeded", data))
    )
    assert [(1001, "The Codex app-server was killed by SIGKILL.")] == [
        (s.code, s.text) for s in report.evidence.signals
    ]
    assert not report.effects.complete


def test_a_handshake_that_fails_says_nothing_of_the_prompt(turn: Turn) -> None:
    turn = Turn(CodexAcpExtractor())
    report = reported(turn.feed(refused(data={"details": "failed to load configuration: x"}, request="session/new")))
    assert ["failed to load configuration: x"] == [signal.text for signal in report.evidence.signals]


@pytest.mark.parametrize(
    "data", [None, "text", 3, ["x"], {}, {"message": 3}, {"codexErrorInfo": 3}, {"codexErrorInfo": []}]
)
def test_any_data_of_an_error_will_do(turn: Turn, data: Any) -> None:
    report = reported(turn.feed(refused(data=data)))
    assert (AttemptOutcome.FAILED, "Internal error") == (report.outcome, report.evidence.signals[0].text)


# Typed failures -------------------------------------------------------------------------------------------------------


def test_a_typed_failure_is_the_proof_and_is_told_once(turn: Turn) -> None:
    meta = typed("unexpected status 529 x: Overloaded", "error", "connection", ("retry", "new_session"))
    report = reported(turn.feed(status("systemError"), answer(_meta=meta)))
    assert (AttemptOutcome.FAILED, "session_failure", 529) == (
        report.outcome,
        report.stop_reason,
        report.evidence.http_status,
    )
    assert ["connection"] == [each["category"] for each in facts(report)]
    assert repeatable(turn)


def test_a_typed_warning_is_no_sign_of_the_turn_until_there_is_one(turn: Turn) -> None:
    turn.feed(info(**typed(WARNING, "warning", "unknown")))
    assert (Delivery.SENT, []) == (turn.record.effects.delivery, turn.of(Notice))
    turn.feed(chunk("Hello.", "m"), info(**typed("Long thread.", "warning", "unknown")), answer())
    assert (AttemptOutcome.SUCCESS, [Notice("Long thread.")]) == (turn.record.outcome, turn.of(Notice))


# What may have been missed --------------------------------------------------------------------------------------------

COMPLETE = {
    "Selected model is at capacity. Please try a different model.": True,
    "unexpected status 401 Unauthorized: x": True,
    "stream disconnected before completion: An error occurred while processing your request.": True,
    "stream disconnected before completion: error sending request": True,
    "stream disconnected before completion: stream closed before response.completed": False,
    "stream disconnected before completion: Transport error: network error: error decoding response body": False,
    "stream disconnected before completion: idle timeout waiting for SSE": False,
}


@pytest.mark.parametrize("words", COMPLETE)
def test_a_response_that_broke_off_may_have_begun_something(words: str) -> None:
    """R-SAFE-7: text is seen while it is written, but not what was thought in silence."""
    assert COMPLETE[words] is repeatable(codex_acp().feed(status("systemError"), chunk(words), answer()))
    assert COMPLETE[words] is repeatable(codex_acp().feed(answer(_meta=typed(words))))
    assert COMPLETE[words] is repeatable(older_agent().feed(refused(data={"message": words})))
    again = codex_acp().feed(retry("Reconnecting... 1/1", words), status("systemError"), chunk("at capacity"), answer())
    assert COMPLETE[words] is repeatable(again)


@pytest.mark.parametrize(
    "sign",
    [
        update("usage_update", used=18, size=100),
        update("plan", entries=[]),
        update("agent_thought_chunk", content={"type": "text", "text": "Hm."}),
        update("teleport"),
        update("agent_message_chunk", content={"type": "image", "data": "x"}, messageId="m"),
        tool(),
        tool("completed"),
        info(**typed("Reconnecting... 1/1", "warning", "connection")),
        AcpFrame({"method": "session/request_permission", "id": 9, "params": {"toolCall": {"toolCallId": "t"}}}),
    ],
)
def test_whatever_was_answered_a_later_failure_is_not_repeated_by_itself(turn: Turn, sign: AcpFrame) -> None:
    assert not repeatable(turn.feed(sign, status("systemError"), chunk("at capacity"), answer()))


def test_tokens_without_a_word_leave_doubt(turn: Turn) -> None:
    usage = {"inputTokens": 12, "outputTokens": 6}
    assert not repeatable(turn.feed(status("systemError"), chunk("at capacity"), answer(usage=usage)))


# The rest -------------------------------------------------------------------------------------------------------------


def test_usage_and_the_model_that_answered_are_recorded(turn: Turn) -> None:
    quota = {"model_usage": [{"model": "a"}, {"model": "b"}, 3, {}]}
    usage = {"inputTokens": 12, "outputTokens": 6}
    report = reported(turn.feed(chunk("Hello.", "m"), answer(usage=usage, _meta={"quota": quota})))
    assert ("b", 12, 6) == (
        report.model,
        report.usage and report.usage.input_tokens,
        report.usage and report.usage.output_tokens,
    )


def test_a_cancelled_turn_is_cancelled(turn: Turn) -> None:
    assert AttemptOutcome.CANCELLED is turn.feed(chunk("Part", "m"), answer("cancelled")).record.outcome


def test_its_log_is_no_evidence(turn: Turn) -> None:
    """R-EVI-6: it repeats what is answered, and quotes prompts and hosts."""
    turn.feed(
        StderrLine("[SYSTEM_ERROR] Prompt for session s failed: RequestError: quota exceeded"),
        StderrLine("    at handle (index.js:1:1)"),
        StderrLine("2026-11-30T03:27:03Z ERROR codex_app_server: Codex could not find bubblewrap on PATH."),
        StderrLine("usage limit reached"),
    )
    assert [] == [*channels(turn.exit(1))]


def test_an_agent_that_dies_before_it_is_asked_is_explained_by_its_last_lines() -> None:
    record = TurnRecord(TurnContext(family="codex"), Sanitiser(), lambda _: None)
    extractor = CodexAcpExtractor()
    line = "[SYSTEM_ERROR] [APP-SERVER EXIT] The Codex app-server could not be started (spawn codex ENOENT): {}"
    for event in (StderrLine("npm warn"), StderrLine("TypeError: x"), StderrLine(line), Exited(0)):
        extractor.receive(event, record)
    assert ["npm warn", line] == [signal.text for signal in record.report(WHEN).evidence.signals]


def test_another_sign_in_than_the_launch_said_is_doubted() -> None:
    """R-CIR-3."""
    for kind, doubted in {"gateway": False, "api_key": False, "account": True, "none": False}.items():
        turn = Turn(CodexAcpExtractor(credential_kinds={"gateway", "api_key"}))
        turn.feed(AcpFrame({"method": "_auth/status_update", "params": {"authStatus": {"kind": kind}}}))
        assert doubted is reported(turn).credential_doubted

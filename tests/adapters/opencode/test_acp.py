"""What ``opencode acp`` says, frame by frame (R-EVI-1, R-EVI-6, R-CON-9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_opencode.acp import OpenCodeAcpExtractor
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.spec import AcpFrame, StderrLine
from kandev_routing_sdk.types import AttemptOutcome, Code
from tests.adapters._replay import WHEN, full_catalogue, recording, replay
from tests.adapters.opencode._turn import OpenCodeTurn, safe


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


@pytest.fixture
def turn() -> OpenCodeTurn:
    return OpenCodeTurn(OpenCodeAcpExtractor())


def update(kind: str, **fields: Any) -> AcpFrame:
    return AcpFrame({"method": "session/update", "params": {"update": {"sessionUpdate": kind, **fields}}})


def chunk(text: str, message: str = "msg_1") -> AcpFrame:
    return update("agent_message_chunk", messageId=message, content={"type": "text", "text": text})


def failed(message: str, name: str | None = "APIError", code: int = -32603, **data: Any) -> AcpFrame:
    data = {"service": "session", **data} | ({"errorName": name} if name else {})
    error: dict[str, Any] = {"code": code, "message": f"Internal error: {message}", "data": data}
    return AcpFrame({"id": 3, "error": error}, request="session/prompt")


DONE = AcpFrame({"id": 3, "result": {"stopReason": "end_turn"}}, request="session/prompt")
IDLE = update("usage_update", used=0, size=200000)

# Failures ------------------------------------------------------------------------------------------------------------

PROVEN = [
    (Code.PROVIDER_UNAVAILABLE, failed("Bad Gateway")),
    (Code.PROVIDER_UNAVAILABLE, failed("Internal server error")),
    (Code.PROVIDER_OVERLOADED, failed("Overloaded")),
    (Code.RATE_LIMITED, failed("Too Many Requests")),
    (Code.AUTH_REQUIRED, failed("Unauthorized: request was blocked by a gateway or proxy. Your token may be missing")),
    (Code.AUTH_REQUIRED, failed("Request not allowed")),
    (Code.SUBSCRIPTION_REQUIRED, failed("Insufficient Balance")),
    (Code.SUBSCRIPTION_REQUIRED, failed("No payment method. Add a payment method here")),
    (Code.MODEL_UNAVAILABLE, failed("model: claude-x")),
    (Code.MODEL_UNAVAILABLE, failed("Model x-1 not supported")),
    (Code.MISSING_CREDENTIALS, failed("Anthropic API key is missing.", "ProviderAuthError")),
    (Code.NETWORK_UNAVAILABLE, failed("Cannot connect to API: Unable to connect. Is the computer able to access the url?")),
    (Code.AUTH_REQUIRED, failed("provider authentication required", None, -32000)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "answer"), PROVEN)
def test_the_name_and_the_words_tell_a_failure_without_its_status(
    code: Code, answer: AcpFrame, turn: OpenCodeTurn, catalogue: Catalogue
) -> None:
    turn.feed(IDLE, answer)
    report = turn.record.report(WHEN)
    assert (AttemptOutcome.FAILED, code) == (report.outcome, catalogue.classify(report.evidence).code)
    assert safe(report, catalogue)


BROKEN = [
    failed("Connection reset by server"),
    failed("Response decompression failed"),
    failed("SSE read timed out"),
    failed("Our servers are currently overloaded. Please try again later."),
    failed("Provider response headers timed out after 300000ms"),
    failed("Cannot connect to API: The socket connection was closed unexpectedly."),
    failed('{"type":"overloaded_error","message":"Overloaded"}', "UnknownError"),
    failed('{"type":"response.failed","response":{"error":{"code":"server_error","message":"An error occurred."}}}', "UnknownError"),
    failed("OpenCode service failure", None),
    failed("Overloaded", "ErrorOfTomorrow"),
    AcpFrame({"id": 3, "error": "overloaded"}, request="session/prompt"),
    AcpFrame({"id": 3}, request="session/prompt"),
]  # fmt: skip


@pytest.mark.parametrize("answer", BROKEN)
def test_a_broken_stream_proves_nothing(answer: AcpFrame, turn: OpenCodeTurn, catalogue: Catalogue) -> None:
    report = turn.feed(IDLE, answer).record.report(WHEN)
    assert AttemptOutcome.FAILED is report.outcome
    assert not safe(report, catalogue)


def test_the_providers_own_error_inside_the_message_is_read_as_such(turn: OpenCodeTurn, catalogue: Catalogue) -> None:
    turn.feed(failed('{"message":"Busy.","type":"server_error","code":"server_is_overloaded"}', "UnknownError"))
    (signal,) = turn.record.report(WHEN).evidence.signals
    assert "Busy." == signal.text
    assert isinstance(signal.data, dict)
    assert {"message": "Busy.", "type": "server_error", "code": "server_is_overloaded"} == signal.data["error"]
    assert Code.PROVIDER_OVERLOADED is catalogue.classify(turn.record.report(WHEN).evidence).code


def test_tokens_of_the_failed_message_mean_that_a_response_had_begun(turn: OpenCodeTurn, catalogue: Catalogue) -> None:
    turn.feed(update("usage_update", used=12, size=200000), failed("Overloaded"))
    assert not safe(turn.record.report(WHEN), catalogue)


def test_a_session_that_cannot_be_continued_is_told_apart(catalogue: Catalogue) -> None:
    for request, code in (("session/load", Code.RESUME_CORRUPTED), ("session/new", Code.AGENT_RUNTIME_ERROR)):
        turn = OpenCodeTurn(OpenCodeAcpExtractor())
        error: dict[str, Any] = {
            "code": -32603,
            "message": "Internal error: OpenCode service failure",
            "data": {"service": "session"},
        }
        turn.feed(AcpFrame({"id": 2, "error": error}, request=request))
        assert code is catalogue.classify(turn.record.report(WHEN).evidence).code


# Standard error ------------------------------------------------------------------------------------------------------

DUMP = [
    "Error handling request {", '  method: "session/prompt",', "  params: {", "    prompt: [", "      {",
    '        text: "PROMPT: usage limit reached, key sk-ant-api03-FAKEfakeFAKEfake0123456789abcdefFAKE",', "}",
    "rate limit exceeded, said the prompt", "} {", "  code: -32603,", "}", "after it: overloaded",
]  # fmt: skip


def test_nothing_of_a_dumped_request_is_evidence(turn: OpenCodeTurn) -> None:
    turn.feed(StderrLine("before it"), *(StderrLine(line) for line in DUMP), failed("Overloaded"))
    report = turn.record.report(WHEN)
    assert ["before it", "Overloaded"] == [signal.text for signal in report.evidence.signals]
    assert "FAKEfake" not in report.evidence.model_dump_json()


# Text ----------------------------------------------------------------------------------------------------------------


def test_what_retries_say_again_is_shown_once(catalogue: Catalogue) -> None:
    """R-CON-9: six tries, one text."""
    replayed = replay(recording("opencode/acp/sse_overloaded_mid.json"), catalogue)
    assert "Partial answer, still going and then" == replayed.report.text


def test_text_that_is_not_shown_again_is_output_all_the_same(turn: OpenCodeTurn, catalogue: Catalogue) -> None:
    pieces = [chunk("Half an "), chunk("answer, ")]
    report = turn.feed(*pieces, *pieces, failed("Overloaded")).record.report(WHEN)
    assert ("Half an answer, ", True) == (report.text, report.effects.output)
    assert not safe(report, catalogue)


def test_what_was_held_back_is_shown_with_the_answer(turn: OpenCodeTurn) -> None:
    report = turn.feed(chunk("well, "), chunk("well, "), DONE).record.report(WHEN)
    assert (AttemptOutcome.SUCCESS, "well, well, ") == (report.outcome, report.text)


def test_messages_without_an_end_are_ended(turn: OpenCodeTurn) -> None:
    """A response that has no reason to end is asked for again, as another message, for ever."""
    turn.feed(*(chunk("Half an answer", f"msg_{number}") for number in range(4)))
    assert not turn.record.over
    assert turn.feed(chunk("Half an answer", "msg_4")).record.over
    busy = OpenCodeTurn(OpenCodeAcpExtractor())
    for number in range(9):
        busy.feed(chunk("next", f"msg_{number}"), update("tool_call", toolCallId=f"c{number}", title="bash"))
    assert not busy.record.over


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(["agent_message_chunk", "usage_update", "tool_call", "tool_call_update", "new"]) | JSON
UPDATES = st.builds(
    lambda kind, fields: AcpFrame(
        {"method": "session/update", "params": {"update": {**fields, "sessionUpdate": kind}}}
    ),
    KINDS,
    st.fixed_dictionaries({}, optional=dict.fromkeys(("messageId", "content", "used", "toolCallId", "status"), JSON)),
)
FRAMES = UPDATES | st.builds(
    lambda message, request: AcpFrame({"id": 1, "error": message}, request=request),
    JSON,
    st.sampled_from(["session/prompt", "session/new", "session/load"]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(FRAMES | st.builds(StderrLine, st.text(max_size=40)), max_size=8))
def test_nothing_that_it_may_say_is_too_much(frames: list[Any]) -> None:
    turn = OpenCodeTurn(OpenCodeAcpExtractor())
    report = turn.feed(*frames, failed("Overloaded")).record.report(WHEN)
    assert AttemptOutcome.FAILED is report.outcome


def test_a_response_that_had_begun_is_not_forgotten_by_the_next_try(turn: OpenCodeTurn, catalogue: Catalogue) -> None:
    """R-SAFE-7: the last try used nothing, one before it did."""
    turn.feed(update("usage_update", used=500, size=200000), IDLE, failed("Overloaded"))
    assert not safe(turn.record.report(WHEN), catalogue)


@pytest.mark.parametrize(
    "step",
    [
        lambda n: update("agent_thought_chunk", messageId=f"m{n}", content={"type": "text", "text": "hm"}),
        lambda n: update("usage_update", used=n, size=200000),
    ],
    ids=["thinking", "usage"],
)
def test_steps_without_words_are_bounded_too(turn: OpenCodeTurn, step: Any) -> None:
    """R-CON-9: a stream without an end is asked for again, whatever it holds."""
    turn.feed(*(step(n) for n in range(1, 5)))
    assert not turn.record.over
    turn.feed(step(5))
    assert turn.record.over


def test_tools_between_the_steps_are_progress(turn: OpenCodeTurn) -> None:
    for n in range(20):
        turn.feed(update("tool_call", toolCallId=f"t{n}", title="ls"), update("usage_update", used=n, size=200000))
    assert not turn.record.over

"""What ``opencode run --format json`` says, event by event (R-EVI-1, R-EVI-6, R-SAFE-7)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_opencode.extractor import OpenCodeExtractor
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.updates import Notice, TextDelta, ThinkingDelta, ToolCall, ToolResult
from kandev_routing_sdk.spec import Exited, StderrLine, StdoutLine
from kandev_routing_sdk.types import AttemptOutcome, Channel, Code, Delivery
from tests.adapters._replay import WHEN, full_catalogue
from tests.adapters._turns import Turn, channels
from tests.adapters.opencode._turn import OpenCodeTurn, safe

SESSION = "ses_00000000000000000000000000"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


@pytest.fixture
def turn() -> Turn:
    return OpenCodeTurn(OpenCodeExtractor())


def event(kind: str, **part: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": 1, "sessionID": SESSION, "part": {"sessionID": SESSION, **part}}


def error(name: str = "APIError", **data: Any) -> dict[str, Any]:
    return {"type": "error", "timestamp": 1, "sessionID": SESSION, "error": {"name": name, "data": data}}


def start() -> dict[str, Any]:
    return event("step_start", type="step-start")


def text(words: str, part_id: str = "prt_1") -> dict[str, Any]:
    return event("text", id=part_id, text=words, time={"start": 1, "end": 2})


def finish(reason: str = "stop", given_: int = 12, made: int = 6, **cache: int) -> dict[str, Any]:
    return event("step_finish", reason=reason, tokens={"input": given_, "output": made, "reasoning": 1, "cache": cache})


def tool(status: str = "completed") -> dict[str, Any]:
    state = {"status": status, "input": {"command": "deploy --token secret-000"}}
    return event("tool_use", tool="bash", callID="c1", state=state)


# Answers -------------------------------------------------------------------------------------------------------------


def test_an_answer_is_its_texts_with_what_it_used(turn: Turn) -> None:
    turn.feed(
        start(), text("First."), finish("tool-calls", read=3, write=2), start(), text("Second.", "prt_2"), finish()
    )
    report = turn.exit()
    assert (AttemptOutcome.SUCCESS, "stop", "First.\n\nSecond.") == (report.outcome, report.stop_reason, report.text)
    assert report.usage is not None
    assert (29, 14) == (report.usage.input_tokens, report.usage.output_tokens)
    assert SESSION == report.native_session_id


def test_a_part_that_comes_twice_is_shown_once_and_what_it_adds_too(turn: Turn) -> None:
    turn.feed(start(), text("Hello"), text("Hello"), text("Hello there"), finish())
    assert ["Hello", " there"] == [update.text for update in turn.of(TextDelta) if isinstance(update, TextDelta)]


def test_thinking_and_tools_are_marked_and_a_tools_arguments_are_not_shown(turn: Turn) -> None:
    turn.feed(start(), event("reasoning", id="r", text="hm"), tool("error"), finish("tool-calls"))
    effects = turn.record.effects
    assert (True, True, True, False) == (effects.thinking, effects.tool_call, effects.tool_effect, effects.output)
    assert [ThinkingDelta("hm"), ToolCall("c1", "bash"), ToolResult("c1", False)] == [
        update for update in turn.updates if isinstance(update, ThinkingDelta | ToolCall | ToolResult)
    ]


def test_an_answer_that_was_cut_off_or_refused_by_a_filter_is_no_success(turn: Turn, catalogue: Catalogue) -> None:
    """As Claude and Codex have it themselves; half an answer is never asked for again by itself."""
    cut = turn.feed(start(), text("Half"), finish("length")).exit()
    assert (AttemptOutcome.FAILED, "max_tokens", "Half") == (cut.outcome, cut.stop_reason, cut.text)
    assert catalogue.classify(cut.evidence).automatic_refusal(cut.effects) is not None
    refused = Turn(OpenCodeExtractor()).feed(start(), finish("content-filter")).exit()
    assert (AttemptOutcome.FAILED, "refusal") == (refused.outcome, refused.stop_reason)


def test_what_was_refused_for_want_of_leave_is_no_success(turn: Turn, catalogue: Catalogue) -> None:
    asked = StderrLine("\x1b[93m\x1b[1m! \x1b[0mpermission requested: bash (echo usage limit reached); auto-rejecting")
    report = turn.feed(start(), asked, tool("error"), finish("tool-calls")).exit()
    assert (AttemptOutcome.FAILED, "permission_denied") == (report.outcome, report.stop_reason)
    assert Code.PERMISSION_DENIED_BY_USER is catalogue.classify(report.evidence).code
    assert [Notice("permission denied: bash")] == turn.of(Notice)


def test_an_answer_after_a_refused_tool_is_an_answer(turn: Turn) -> None:
    asked = StderrLine("! permission requested: bash (ls); auto-rejecting")
    turn.feed(start(), asked, tool("error"), finish("tool-calls"), start(), text("Without it, then."), finish())
    assert AttemptOutcome.SUCCESS is turn.exit().outcome


REFUSED = StderrLine("! permission requested: bash (rm -rf x); auto-rejecting")


@pytest.mark.parametrize(
    "line",
    [
        REFUSED.text,
        "\x1b[93m\x1b[1m!\x1b[0m permission requested: external_directory (/etc/*); auto-rejecting",
        "! Permission requested: github_create-issue; auto-rejecting",
        "permission requested",
    ],
)
def test_what_asks_for_leave_is_a_tool_that_the_model_called(turn: Turn, line: str) -> None:
    """R-SAFE-1, R-SAFE-7: an answer had begun, though no event told of it."""
    effects = turn.feed(StderrLine(line), LIMITED).exit(1).effects
    assert (True, False) == (effects.tool_call, effects.complete)


def test_a_tool_that_asks_again_and_again_is_called_once(turn: Turn) -> None:
    assert [ToolCall("", "bash")] == turn.feed(REFUSED, REFUSED, LIMITED).of(ToolCall)


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({"sequence_number": 2}, True),
        ({}, True),
        ({"sequence_number": 40}, False),
        ({"response": {"output": [{"type": "message"}], "error": {"code": "server_error"}}}, False),
        ({"response": {"usage": {"output_tokens": 5}, "error": {"code": "server_error"}}}, False),
        ({"type": "error"}, False),
    ],
)
def test_a_response_failed_as_a_whole_only_if_nothing_of_it_had_come(
    turn: Turn, fields: dict[str, Any], whole: bool
) -> None:
    body = {"type": "response.failed", "response": {"error": {"code": "server_error"}}, **fields}
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    failure = error(message="x", statusCode=500, responseHeaders=headers, responseBody=json.dumps(body))
    assert whole is turn.feed(failure).exit(1).effects.complete


# Failures ------------------------------------------------------------------------------------------------------------

LIMITED = error(
    message="Rate limited",
    statusCode=429,
    isRetryable=True,
    responseHeaders={"Retry-After": "7", "date": "Mon, 30 Nov 2026 03:31:49 GMT", "request-id": "req_1"},
    responseBody=json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limited"}}),
)


def test_a_providers_answer_keeps_its_status_headers_and_body(turn: Turn, catalogue: Catalogue) -> None:
    report = turn.feed(LIMITED).exit(1)
    assert ["stdout_event", "http"] == channels(report)
    said, answered = report.evidence.signals
    assert ({"error": {"name": "APIError"}}, 429) == (said.data, said.http_status)
    assert ({"retry-after": "7"}, 429) == (answered.headers, answered.http_status)
    assert {"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limited"}} == answered.data
    found = catalogue.classify(report.evidence)
    assert (Code.RATE_LIMITED, 7) == (found.code, found.retry_after.total_seconds() if found.retry_after else None)
    assert safe(report, catalogue)
    assert 429 == report.evidence.http_status


@pytest.mark.parametrize(
    "hidden",
    [
        [start()],
        [start(), start()],
        [text("Hello")],
        [event("reasoning", text="")],
        [tool()],
        [start(), finish("tool-calls")],
        [{"type": "of_tomorrow", "sessionID": SESSION}],
        [StdoutLine("no JSON at all")],
    ],
)
def test_once_a_response_has_begun_nothing_is_automatic(hidden: list[Any], turn: Turn, catalogue: Catalogue) -> None:
    """R-SAFE-7: this mode shows a text only when it is finished."""
    report = turn.feed(*hidden, LIMITED).exit(1)
    assert AttemptOutcome.FAILED is report.outcome
    assert not safe(report, catalogue)


BROKEN = [
    error(message="Connection reset by server", isRetryable=True, metadata={"code": "ECONNRESET"}),
    error(message="Response decompression failed", isRetryable=True, metadata={"code": "ZlibError"}),
    error(message="Provider response headers timed out after 300000ms", metadata={"code": "ProviderHeaderTimeoutError"}),
    error(message="Cannot connect to API: The socket connection was closed unexpectedly.", isRetryable=True),
    error("UnknownError", message='{"type":"overloaded_error","message":"Overloaded"}'),
    error("UnknownError", message="Unexpected server error. Check server logs for details."),
    error(message="Quota exceeded. Check your plan and billing details.", responseBody='{"type":"error","error":{"code":"insufficient_quota"}}'),
    error(
        message="Our servers are currently overloaded.",
        statusCode=503,
        responseHeaders={"Content-Type": "text/event-stream; charset=utf-8"},
        responseBody='{"type":"error","code":"server_is_overloaded","message":"Our servers are currently overloaded."}',
    ),
    error(message="Invalid JSON response", statusCode=200, responseBody="<html>"),
    {"type": "error", "sessionID": SESSION, "error": "overloaded"},
    {"type": "error", "sessionID": SESSION},
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda entry: json.dumps(entry.get("error", ""))[:60])
def test_a_broken_stream_proves_nothing(broken: dict[str, Any], turn: Turn, catalogue: Catalogue) -> None:
    report = turn.feed(broken).exit(1)
    assert AttemptOutcome.FAILED is report.outcome
    assert not report.effects.complete
    assert not safe(report, catalogue)


PROVEN = [
    (Code.PROVIDER_OVERLOADED, error(message="Overloaded", statusCode=529, isRetryable=True)),
    (Code.AUTH_REQUIRED, error(message="Unauthorized", statusCode=401)),
    (Code.NETWORK_UNAVAILABLE, error(message="Cannot connect to API: Unable to connect. Is the computer able to access the url?")),
    (Code.NETWORK_UNAVAILABLE, error(message="Cannot connect to API: getaddrinfo ENOTFOUND llm.example")),
    (Code.MISSING_CREDENTIALS, error("ProviderAuthError", providerID="openai", message="OpenAI API key is missing. Pass it using the 'apiKey' parameter")),
    (Code.AUTH_REQUIRED, error("ProviderAuthError", providerID="openai", message="refused")),
    (Code.MODEL_UNAVAILABLE, error("ProviderModelNotFoundError", providerID="x", modelID="y", message="")),
    (Code.RATE_LIMITED, error(
        message="Rate limit reached", statusCode=429, responseHeaders={"content-type": "text/event-stream"},
        responseBody='{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached"}}}')),
    (Code.QUOTA_LIMITED, error(
        message="Rate limit exceeded. Please try again later.", statusCode=429,
        responseBody='{"type":"error","error":{"type":"FreeUsageLimitError","message":"Rate limit exceeded. Please try again later."}}')),
    (Code.SUBSCRIPTION_REQUIRED, error(
        message="Insufficient balance", statusCode=401,
        responseBody='{"type":"error","error":{"type":"CreditsError","message":"Insufficient balance"}}')),
]  # fmt: skip


@pytest.mark.parametrize(("code", "failure"), PROVEN)
def test_what_surely_ended_before_a_response_may_be_repeated(
    code: Code, failure: dict[str, Any], turn: Turn, catalogue: Catalogue
) -> None:
    report = turn.feed(failure).exit(1)
    assert code is catalogue.classify(report.evidence).code
    assert safe(report, catalogue)


def test_a_large_body_is_still_read(turn: Turn, catalogue: Catalogue) -> None:
    """R-EVI-2: what decides may stand behind much else."""
    body = {"error": {"message": "x" * 5000, "details": ["y" * 900] * 20, "type": "billing_error"}}
    report = turn.feed(error(message="no", statusCode=400, responseBody=json.dumps(body))).exit(1)
    assert Code.SUBSCRIPTION_REQUIRED is catalogue.classify(report.evidence).code


def test_an_error_that_it_got_over_is_a_notice(turn: Turn) -> None:
    """A full context is compacted and asked again; the exit code tells of the error all the same."""
    overflow = error("ContextOverflowError", message="prompt is too long")
    report = turn.feed(overflow, start(), text("Done."), finish()).exit(1)
    assert (AttemptOutcome.SUCCESS, "Done.") == (report.outcome, report.text)
    assert [Notice("prompt is too long")] == turn.of(Notice)


def test_both_errors_of_a_full_context_are_one_failure(turn: Turn, catalogue: Catalogue) -> None:
    overflow = error(
        "ContextOverflowError", message="prompt is too long", responseBody='{"error":{"message":"too long"}}'
    )
    report = turn.feed(overflow, overflow).exit(1)
    found = catalogue.classify(report.evidence)
    assert Code.CONTEXT_EXHAUSTED is found.code
    assert not safe(report, catalogue)


# Ends ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Exited(1), Exited(None, "SIGINT"), Exited(0), Exited(None, "SIGKILL", stopped=True)])
def test_going_without_a_word_leaves_the_delivery_ambiguous(end: Exited, turn: Turn) -> None:
    turn.feed(StderrLine("Error: Session not found"), end)
    assert (AttemptOutcome.FAILED, Delivery.SENT) == (turn.record.outcome, turn.record.effects.delivery)


@pytest.mark.parametrize("end", [Exited(1), Exited(None, "SIGKILL"), Exited(0)])
def test_going_in_the_middle_hides_what_was_done(end: Exited, turn: Turn) -> None:
    turn.feed(start(), end)
    assert (AttemptOutcome.FAILED, False) == (turn.record.outcome, turn.record.effects.complete)


def test_a_finished_answer_with_a_bad_exit_is_not_believed(turn: Turn) -> None:
    assert AttemptOutcome.FAILED is turn.feed(start(), text("Hi"), finish()).exit(1).outcome


def test_steps_without_an_end_are_ended(turn: Turn) -> None:
    """R-CON-9: OpenCode asks again for ever when a response has no reason to end."""
    turn.feed(start(), text("a"), finish("unknown"), start(), text("a", "prt_2"), finish("other"))
    assert not turn.record.over
    turn.feed(start(), text("a", "prt_3"), finish("unknown"))
    assert (True, AttemptOutcome.FAILED) == (turn.record.over, turn.record.outcome)
    busy = Turn(OpenCodeExtractor())
    for number in range(6):
        busy.feed(start(), text("a", f"prt_{number}"), tool(), finish("unknown"))
    assert not busy.record.over


def test_an_agent_that_is_not_there_is_not_replaced_by_another(turn: Turn, catalogue: Catalogue) -> None:
    """It would go on with other permissions than the profile's."""
    turn.feed(StderrLine('\x1b[93m\x1b[1m! \x1b[0m agent "paln" not found. Falling back to default agent'))
    assert turn.record.over
    report = turn.feed(Exited(None, stopped=True)).record.report(WHEN)
    assert Code.PROVIDER_NOT_CONFIGURED is catalogue.classify(report.evidence).code
    assert not safe(report, catalogue)


# Content is data (R-EVI-6) -------------------------------------------------------------------------------------------


def test_an_answer_about_limits_is_no_failure(turn: Turn) -> None:
    words = 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error"}} usage limit reached'
    state = {"status": "completed", "output": words, "input": {}}
    report = turn.feed(
        start(), text(words), event("tool_use", tool="bash", callID="c", state=state), finish(), StdoutLine(words)
    ).exit()
    assert AttemptOutcome.SUCCESS is report.outcome
    assert not [signal for signal in report.evidence.signals if signal.channel.is_runtime]


def test_what_stands_beside_a_tools_output_is_not_taken_for_an_error(turn: Turn) -> None:
    lines = [
        '{"type":"tool_use","part":{"state":{"error":"429"}}}',
        '{"error":{"name":"APIError"}}',
        "null",
        "[1]",
        "1",
    ]
    for line in lines:
        turn.feed(StdoutLine(line))
    assert AttemptOutcome.FAILED is turn.exit().outcome
    assert {str(Channel.ASSISTANT_TEXT)} == set(channels(turn.record.report(WHEN)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(["step_start", "step_finish", "text", "reasoning", "tool_use", "error", "new", ""])
EVENTS = st.fixed_dictionaries(
    {}, optional={"type": KINDS | JSON, "part": JSON, "error": JSON, "sessionID": JSON}
) | st.builds(
    lambda kind, part: {"type": kind, "part": part, "error": part},
    KINDS,
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("id", "text", "callID", "tool", "state", "reason", "tokens", "name", "data"), JSON),
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS | st.text(max_size=30), max_size=8), st.integers(0, 3))
def test_nothing_that_it_may_say_is_too_much(events: list[Any], code: int) -> None:
    turn = Turn(OpenCodeExtractor())
    for entry in events:
        turn.feed(StdoutLine(entry if isinstance(entry, str) else json.dumps(entry)))
    report = turn.feed(LIMITED).exit(code)
    assert AttemptOutcome.FAILED is report.outcome
    assert len(report.evidence.model_dump_json()) < 80_000

"""A stream that broke leaves doubt, in whatever words and over whatever way it is told (R-SAFE-1, R-SAFE-7)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_codex.app_server import CodexAppServerExtractor
from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_codex.wording import before_response, broken_off, known_whole, warns_of_break
from kandev_routing_sdk.spec import AcpFrame, StderrLine
from tests.adapters._turns import Turn
from tests.adapters.codex._frames import answer, chunk, codex_acp, older_agent, refused, repeatable, retry, status

CLEAN = "unexpected status 429 Too Many Requests: slow down"
BROKEN = [
    "stream disconnected before completion: idle timeout waiting for SSE",
    "stream disconnected before completion: stream closed before response.completed",
    "stream disconnected before completion: Transport error: network error: error decoding response body",
    "stream error: stream disconnected before completion; retrying 1/5 in 200ms…",
    "stream error: idle timeout; retrying 2/5 in 388ms…",
    "websocket closed by server before response.completed",
    "The connection was dropped after 100 tokens",
    "rate limit exceeded: the stream stopped after 100 tokens",
    "exceeded retry limit, last status: 429 (stream disconnected mid-way)",
    "You've hit your usage limit. The answer was cut in the middle",
    '{"error": {"message": "stream broke", "code": "rate_limit_exceeded"}}',
]
WHOLE = [
    CLEAN,
    "exceeded retry limit, last status: 429 Too Many Requests, request id: req_1",
    "unexpected status 503 Service Unavailable: upstream connect error or disconnect/reset before headers, url: https://x.test/v1",
    "unexpected status 502 Bad Gateway: <html></html>, url: https://stream.example.com/streaming/v1/responses",
    "rate limit exceeded: Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000.",
    "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try again at 4:18 AM.",
    "stream disconnected before completion: error sending request for url (https://api.openai.com/v1/responses)",
]
UNKNOWN = ["", "Something that a newer Codex says.", "unexpected status 200 OK: x", "request timed out"]


@pytest.mark.parametrize("message", BROKEN)
def test_no_beginning_of_a_sentence_proves_what_its_end_denies(message: str) -> None:
    assert (False, False) == (before_response(message), known_whole(message))


@pytest.mark.parametrize("message", BROKEN[:8])
def test_a_broken_response_is_known_by_any_of_its_words(message: str) -> None:
    assert (True, True) == (broken_off(message), warns_of_break(message))


@pytest.mark.parametrize("message", WHOLE)
def test_a_request_that_was_refused_is_known_by_its_whole_sentence(message: str) -> None:
    assert (True, False) == (before_response(message), broken_off(message))


# Headless -------------------------------------------------------------------------------------------------------------


def headless(*events: dict[str, Any] | StderrLine) -> Turn:
    started = ({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"})
    turn = Turn(CodexExtractor()).feed(*started, *events, {"type": "turn.failed", "error": {"message": CLEAN}})
    turn.exit(1)
    return turn


def error(message: str) -> dict[str, Any]:
    return {"type": "error", "message": message}


def warning(message: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "i", "type": "error", "message": message}}


@pytest.mark.parametrize("message", [*BROKEN, *UNKNOWN])
def test_each_try_counts_however_clean_the_last_one_ended(message: str) -> None:
    assert not repeatable(headless(error(message)))
    assert not repeatable(headless(error(message), error(CLEAN)))
    assert not repeatable(headless(error(f"Reconnecting... 1/5 ({message})")))


@pytest.mark.parametrize("message", WHOLE)
def test_tries_that_were_refused_leave_none(message: str) -> None:
    assert repeatable(headless(error(f"Reconnecting... 1/5 ({message})"), error(message)))


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Falling back from WebSockets to HTTPS transport.", True),
        ("Falling back from WebSockets to HTTPS transport. failed to connect to websocket: HTTP error: 426", True),
        (f"Falling back from WebSockets to HTTPS transport. {CLEAN}", True),
        ("Falling back from WebSockets to HTTPS transport. request timed out", False),
        (
            "Falling back from WebSockets to HTTPS transport. stream disconnected before completion: reset by peer",
            False,
        ),
        ("Model metadata for `m` not found. Defaulting to fallback metadata; this can degrade performance.", True),
        ("`config.toml` has the unknown key `stream_max_retries`; it is ignored.", True),
        ("stream error: closed; retrying 1/5", False),
    ],
)
def test_a_remark_may_tell_of_a_broken_try(message: str, left: bool) -> None:
    assert left is repeatable(headless(warning(message)))


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-30T09:57:08Z  INFO codex_core::stream_events_utils: ToolCall: exec_command thread_id=1",
        "INFO codex_core::exec: ToolCall: shell",
        'exec bash -lc "rm -rf x" in /w succeeded in 3ms',
        " succeeded in 12ms:",
        " exited 1 in 3.5s:",
    ],
)
def test_a_tool_that_only_the_log_tells_of_is_work(line: str) -> None:
    assert headless(StderrLine(line)).record.effects.tool_effect


@pytest.mark.parametrize(
    "line", ["npm: build succeeded in 3ms", "execution succeeded", "ToolCall: shell", "exec failed"]
)
def test_a_line_of_another_program_is_none(line: str) -> None:
    assert repeatable(headless(StderrLine(line)))


# Over ACP, and of the app server --------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [*BROKEN[:8], "Something that a newer Codex says."])
def test_over_acp_each_try_counts(message: str) -> None:
    turn = codex_acp().feed(retry("Reconnecting... 1/5", message), status("systemError"), chunk(CLEAN), answer())
    assert not repeatable(turn)


@pytest.mark.parametrize("message", WHOLE)
def test_over_acp_tries_that_were_refused_leave_none(message: str) -> None:
    turn = codex_acp().feed(retry("Reconnecting... 1/5", message), status("systemError"), chunk(CLEAN), answer())
    assert repeatable(turn)


@pytest.mark.parametrize("message", BROKEN)
def test_over_acp_the_verdict_counts_too(message: str) -> None:
    failure = {"message": message, "codexErrorInfo": "usageLimitExceeded"}
    assert not repeatable(codex_acp().feed(refused(data=failure)))


@pytest.mark.parametrize("make", [codex_acp, older_agent])
def test_over_acp_a_remark_may_tell_of_a_broken_try(make: Any) -> None:
    remark = "Warning: Falling back from WebSockets to HTTPS transport. stream closed before response.completed"
    failure = {"message": CLEAN, "codexErrorInfo": "rateLimitExceeded"}
    assert not repeatable(make().feed(chunk(remark), refused(data=failure)))
    assert repeatable(make().feed(chunk(remark.partition(". ")[0] + "."), refused(data=failure)))


def app_server(message: str, *, again: bool) -> Turn:
    said = {"message": "Reconnecting... 1/5", "additionalDetails": message} if again else {"message": message}
    last = {"message": CLEAN, "codexErrorInfo": "rateLimitExceeded"}
    frames: tuple[dict[str, Any], ...] = (
        {"method": "error", "params": {"error": said, "willRetry": again}},
        {"method": "turn/completed", "params": {"turn": {"status": "failed", "error": last}}},
    )
    return Turn(CodexAppServerExtractor()).feed(*(AcpFrame(frame) for frame in frames))


@pytest.mark.parametrize("message", BROKEN[:8])
@pytest.mark.parametrize("again", [True, False])
def test_of_the_app_server_each_try_counts(message: str, again: bool) -> None:
    assert not repeatable(app_server(message, again=again))


def test_of_the_app_server_tries_that_were_refused_leave_none() -> None:
    assert repeatable(app_server(CLEAN, again=True))
    assert not repeatable(app_server("Something that a newer Codex says.", again=True))

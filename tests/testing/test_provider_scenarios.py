"""What each scenario says on the wire, in each protocol, streamed and not."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from kandev_routing_sdk.testing import provider as package
from kandev_routing_sdk.testing.provider import SCENARIOS, LoopbackProvider

ROUTE = {"anthropic": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"name": "Bash"}],
    "responses": [{"type": "function", "name": "shell_command"}],
    "chat": [{"type": "function", "function": {"name": "bash"}}],
}
TURNS = {"anthropic": "messages", "responses": "input", "chat": "messages"}
"""Where each protocol keeps the conversation."""
RESET = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
STATUS = {
    "plan_limit": 429, "plan_limit_weekly": 429, "usage_limit": 429, "usage_not_included": 429,
    "insufficient_quota": 429, "rate_limit_short": 429, "rate_limit_long": 429, "rate_limit_no_hint": 429,
    "overloaded": 529, "overloaded_once": 529, "overloaded_twice": 529, "server_error": 500, "bad_gateway": 502,
    "unavailable": 503, "unauthorized": 401, "token_expired": 401, "no_credentials": 401, "billing": 402,
    "credit_balance": 400, "forbidden": 403, "region": 403, "model_not_found": 404, "prompt_too_long": 400,
    "invalid_request": 400, "too_large": 413,
}  # fmt: skip
GOOD = {"success", "near_limit", "truncated", "empty"}
BROKEN_STREAMS = {"stream_overloaded", "partial_then_overloaded", "partial_then_rate_limit", "partial_then_end"}
NO_ANSWER = {"partial_then_cut", "partial_then_reset", "partial_then_hang", "closed", "reset", "hang"}
AFTER_TOOL = {
    "success_tool": 200, "tool_then_overloaded": 529, "tool_then_plan_limit": 429, "tool_then_usage_limit": 429,
    "tool_then_rate_limit": 429, "tool_then_server_error": 500, "tool_then_unauthorized": 401, "tool_then_cut": None,
    "tool_then_hang": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


class Answer:
    """One answer, read to its end; ``broken`` names the error that ended it before."""

    def __init__(self, provider: LoopbackProvider, scenario: str, wire: str, body: dict[str, Any]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=1)
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.raw, self.broken = b"", ""
        try:
            connection.request("POST", f"/s/{scenario}{ROUTE[wire]}", json.dumps(body))
            answer = connection.getresponse()
            self.status, self.headers = answer.status, dict(answer.headers)
            self.raw = answer.read()
        except http.client.IncompleteRead as error:
            self.raw, self.broken = error.partial, "IncompleteRead"
        except (http.client.HTTPException, OSError) as error:
            self.broken = type(error).__name__
        finally:
            connection.close()

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        found = []
        for block in self.raw.decode().split("\n\n"):
            if block:
                name, data = re.fullmatch(r"event: (\S+)\ndata: (.*)", block).groups()  # type: ignore[union-attr]
                found.append(json.loads(data))
                assert name == found[-1]["type"]
        return found

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The events of Chat Completions, which have no names; the last line of a whole stream says that it is over."""
        return [json.loads(line.removeprefix("data: ")) for line in self.lines if line != "data: [DONE]"]

    @property
    def lines(self) -> list[str]:
        return [line for line in self.raw.decode().split("\n\n") if line]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]


def body(wire: str, *, stream: bool = False, tools: bool = True, after_tool: bool = False) -> dict[str, Any]:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Say hello."}]
    if after_tool and wire == "anthropic":
        turns.append({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]})
        turns.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]})
    elif after_tool and wire == "chat":
        call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        turns.append({"role": "assistant", "content": None, "tool_calls": [call]})
        turns.append({"role": "tool", "tool_call_id": "c", "content": "done"})
    elif after_tool:
        turns.append({"type": "function_call", "call_id": "c", "name": "shell_command", "arguments": "{}"})
        turns.append({"type": "function_call_output", "call_id": "c", "output": "done"})
    return {"model": "m", "stream": stream, TURNS[wire]: turns, "tools": TOOLS[wire] if tools else []}


def test_every_scenario_is_spoken_for() -> None:
    """A new scenario comes with its line here."""
    assert set(SCENARIOS) == set(STATUS) | GOOD | BROKEN_STREAMS | NO_ANSWER | set(AFTER_TOOL)
    assert all(name == scenario.name and scenario.summary for name, scenario in SCENARIOS.items())


def test_the_public_names_are_all_there() -> None:
    """``__all__`` is sorted and true."""
    assert sorted(package.__all__) == sorted(set(package.__all__))
    assert all(hasattr(package, name) for name in package.__all__)


@pytest.mark.parametrize(("scenario", "wire"), list(product(STATUS, ROUTE)))
def test_http_errors(provider: LoopbackProvider, scenario: str, wire: str) -> None:
    """An HTTP error has its status, and its body the protocol's form, also where a stream was asked for."""
    provider.set(scenario, fail_times=None)
    for stream in (False, True):
        answer = Answer(provider, scenario, wire, body(wire, stream=stream))
        assert STATUS[scenario] == answer.status
        if scenario != "bad_gateway":
            assert answer.json["error"]["message"]
            assert answer.json["error"]["type"]


@pytest.mark.parametrize("wire", list(ROUTE))
def test_a_good_answer_is_the_same_streamed_and_not(provider: LoopbackProvider, wire: str) -> None:
    """The text and the end of the turn are there either way."""
    streamed = Answer(provider, "success", wire, body(wire, stream=True))
    whole = Answer(provider, "success", wire, body(wire)).json
    if wire == "anthropic":
        deltas = [event["delta"]["text"] for event in streamed.events if event["type"] == "content_block_delta"]
        assert (["message_start", "message_stop"]) == [streamed.kinds[0], streamed.kinds[-1]]
        assert (whole["content"][0]["text"], "end_turn") == ("".join(deltas), whole["stop_reason"])
    elif wire == "chat":
        *content, last, usage = streamed.chunks
        said = "".join(chunk["choices"][0]["delta"]["content"] for chunk in content)
        choice = whole["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (
            said,
            last["choices"][0]["finish_reason"],
        )
        assert ("data: [DONE]", whole["usage"], []) == (streamed.lines[-1], usage["usage"], usage["choices"])
        assert 1 == len({chunk["id"] for chunk in streamed.chunks})
    else:
        assert ["response.created", "response.completed"] == [streamed.kinds[0], streamed.kinds[-1]]
        assert list(range(len(streamed.events))) == [event["sequence_number"] for event in streamed.events]
        last = streamed.events[-1]["response"]
        assert (whole["output"][0]["content"], "completed") == (last["output"][0]["content"], last["status"])


def test_ids_never_repeat(provider: LoopbackProvider) -> None:
    """A client that keeps messages by id keeps them all."""
    ids = [Answer(provider, "success", wire, body(wire)).json["id"] for wire in ROUTE for _ in range(3)]
    assert 9 == len(set(ids))


@pytest.mark.parametrize(
    ("wire", "name", "arguments"),
    [
        ("anthropic", "Bash", {"command": "true", "description": "Run the command of the scenario"}),
        ("responses", "shell_command", {"command": "true"}),
        ("responses", "exec_command", {"cmd": "true"}),
        ("responses", "shell", {"command": ["bash", "-lc", "true"]}),
        ("chat", "bash", {"command": "true", "description": "Run the command of the scenario"}),
        ("chat", "shell", {"command": "true", "description": "Run the command of the scenario"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_shell_tool_on_offer_is_called(
    provider: LoopbackProvider, wire: str, name: str, arguments: dict[str, Any], *, stream: bool
) -> None:
    """Each client's own shell tool gets the command in its own form."""
    provider.set("success_tool", tool_command="true")
    tool = {"type": "function", "function": {"name": name}} if wire == "chat" else {"name": name}
    answer = Answer(provider, "success_tool", wire, body(wire, stream=stream) | {"tools": [tool]})
    if wire == "anthropic" and stream:
        (start,) = (event["content_block"] for event in answer.events if event["type"] == "content_block_start")
        (delta,) = (event["delta"] for event in answer.events if event["type"] == "content_block_delta")
        found = start["name"], json.loads(delta["partial_json"])
    elif wire == "anthropic":
        found = answer.json["content"][0]["name"], answer.json["content"][0]["input"]
    elif wire == "chat":
        message = answer.chunks[0]["choices"][0]["delta"] if stream else answer.json["choices"][0]["message"]
        reason = (answer.chunks[1] if stream else answer.json)["choices"][0]["finish_reason"]
        (call,) = message["tool_calls"]
        assert ("tool_calls", "assistant", "function") == (reason, message["role"], call["type"])
        found = call["function"]["name"], json.loads(call["function"]["arguments"])
    else:
        item = (answer.events[-1]["response"] if stream else answer.json)["output"][0]
        found = item["name"], json.loads(item["arguments"])
    assert (name, arguments) == found


def test_code_mode_gets_a_script(provider: LoopbackProvider) -> None:
    """A custom tool that takes JavaScript gets the command quoted in it."""
    provider.set("success_tool", tool_command='echo "a"')
    request = body("responses", stream=True) | {"tools": [{"type": "custom", "name": "exec"}]}
    item = Answer(provider, "success_tool", "responses", request).events[-1]["response"]["output"][0]
    assert ("custom_tool_call", True) == (item["type"], r'{cmd: "echo \"a\""}' in item["input"])


@pytest.mark.parametrize(("scenario", "wire"), list(product(AFTER_TOOL, ROUTE)))
def test_a_tool_scenario_fails_only_after_the_tool(provider: LoopbackProvider, scenario: str, wire: str) -> None:
    """First the tool is called, and a request without tools gets a text; the failure comes with the tool's result."""
    first = Answer(provider, scenario, wire, body(wire))
    side = Answer(provider, scenario, wire, body(wire, tools=False))
    after = Answer(provider, scenario, wire, body(wire, after_tool=True))
    assert (200, 200, AFTER_TOOL[scenario]) == (first.status, side.status, after.status)
    assert b"A title" in side.raw
    assert any(word in first.raw for word in (b"tool_use", b"function_call", b"tool_calls"))


@pytest.mark.parametrize("wire", list(ROUTE))
def test_an_earlier_turns_tool_result_is_not_this_turns(provider: LoopbackProvider, wire: str) -> None:
    """A resumed conversation that holds old tool results begins its next turn anew."""
    request = body(wire, after_tool=True)
    request[TURNS[wire]].append({"role": "user", "content": "Again."})
    assert 200 == Answer(provider, "tool_then_overloaded", wire, request).status
    assert ("Again.", False) == (provider.requests[-1].prompt, provider.requests[-1].after_tool)


@pytest.mark.parametrize("wire", list(ROUTE))
def test_what_the_cli_adds_is_not_the_prompt(provider: LoopbackProvider, wire: str) -> None:
    """Reminders and the environment that a CLI puts among the user's messages are not what the user said."""
    kind = "input_text" if wire == "responses" else "text"
    added = [{"type": kind, "text": "<system-reminder>today</system-reminder>"}, {"type": kind, "text": "My prompt."}]
    after = {"role": "user", "content": [{"type": kind, "text": "<environment_context>x</environment_context>"}]}
    Answer(
        provider,
        "success",
        wire,
        {TURNS[wire]: [{"role": "user", "content": added}, after]},
    )
    assert "My prompt." == provider.requests[-1].prompt


@pytest.mark.parametrize("wire", list(ROUTE))
@pytest.mark.parametrize(
    "told",
    [
        "You are a title generator. You output ONLY a thread title.",
        "<session>\nSay hello.\n</session>\n\nWrite the title in the predominant language of the session.",
        "Your task is to generate a very short title for a conversation.",
    ],
)
def test_a_title_is_granted_and_is_no_prompt(wire: str, told: str) -> None:
    """What a CLI asks for itself gets a title in every scenario, uses up no failure and counts as no prompt."""
    place: dict[str, dict[str, Any]] = {
        "anthropic": {"system": [{"type": "text", "text": told}]},
        "responses": {"input": [{"role": "user", "content": [{"type": "input_text", "text": told}]}]},
        "chat": {"messages": [{"role": "system", "content": told}, {"role": "user", "content": "Say hello."}]},
    }
    with LoopbackProvider() as provider:
        provider.set("overloaded", fail_times=1)
        title = Answer(provider, "overloaded", wire, body(wire, tools=False) | place[wire])
        statuses = [Answer(provider, "overloaded", wire, body(wire)).status for _ in range(2)]
        with_tools = Answer(provider, "server_error", wire, place[wire] | body(wire))
        assert (200, True, [529, 200]) == (title.status, b"A title" in title.raw, statuses)
        assert 500 == with_tools.status, "an agent at work is no title generator, whatever its instructions quote"
        assert [True, False, False, False] == [record.side for record in provider.requests]
        assert ("Say hello.",) * 3 == provider.prompts()


def test_a_suggestion_is_no_prompt_either() -> None:
    """Claude Code asks for one after a turn, if it lives so long, with all its tools on offer."""
    told = "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]"
    asked = body("anthropic") | {"messages": [{"role": "user", "content": [{"type": "text", "text": told}]}]}
    with LoopbackProvider() as provider:
        provider.set("overloaded", fail_times=1)
        assert 200 == Answer(provider, "overloaded", "anthropic", asked).status
        assert [529, 200] == [Answer(provider, "overloaded", "anthropic", body("anthropic")).status for _ in range(2)]
        assert [True, False, False] == [record.side for record in provider.requests]
        assert ("Say hello.",) * 2 == provider.prompts()


@pytest.mark.parametrize("wire", list(ROUTE))
@pytest.mark.parametrize("scenario", sorted(BROKEN_STREAMS))
def test_streams_that_break_inside(provider: LoopbackProvider, scenario: str, wire: str) -> None:
    """An error event, or no closing event, after the stream has begun with status 200."""
    answer = Answer(provider, scenario, wire, body(wire, stream=True))
    assert (200, "") == (answer.status, answer.broken)
    if wire == "chat":
        assert ("choices" if scenario == "partial_then_end" else "error") in answer.chunks[-1]
        assert "data: [DONE]" not in answer.lines
        assert {None} == {c["finish_reason"] for chunk in answer.chunks for c in chunk.get("choices", [])}
    elif scenario == "partial_then_end":
        assert answer.kinds[-1] in {"content_block_delta", "response.output_text.delta"}
    else:
        assert answer.kinds[-1] in {"error", "response.failed"}
    assert (b"Partial answer, " in answer.raw) is scenario.startswith("partial")


@pytest.mark.parametrize("wire", list(ROUTE))
@pytest.mark.parametrize(
    ("scenario", "status", "broken"),
    [
        ("partial_then_cut", 200, "IncompleteRead"),
        ("partial_then_reset", 200, "ConnectionResetError"),
        ("partial_then_hang", 200, "TimeoutError"),
        ("closed", None, "RemoteDisconnected"),
        ("reset", None, "ConnectionResetError"),
        ("hang", None, "TimeoutError"),
    ],
)
def test_connections_that_break(
    provider: LoopbackProvider, wire: str, scenario: str, status: int | None, broken: str
) -> None:
    """Cut, reset and silence, before and after the first words."""
    answer = Answer(provider, scenario, wire, body(wire, stream=True))
    assert (status, broken) == (answer.status, answer.broken)
    assert status == provider.requests[-1].status


def test_claude_plan_limits_name_their_window_and_reset(provider: LoopbackProvider) -> None:
    """The unified headers say which window is used up and until when."""
    for scenario, claim in (("plan_limit", "five_hour"), ("plan_limit_weekly", "seven_day")):
        provider.set(scenario, resets_at=RESET)
        headers = Answer(provider, scenario, "anthropic", body("anthropic")).headers
        assert ("rejected", claim, str(int(RESET.timestamp()))) == (
            headers["anthropic-ratelimit-unified-status"],
            headers["anthropic-ratelimit-unified-representative-claim"],
            headers["anthropic-ratelimit-unified-reset"],
        )


def test_the_codex_usage_limit_names_its_reset(provider: LoopbackProvider) -> None:
    """Body and headers agree."""
    provider.set("usage_limit", resets_at=RESET)
    answer = Answer(provider, "usage_limit", "responses", body("responses"))
    error, epoch = answer.json["error"], int(RESET.timestamp())
    assert ("usage_limit_reached", epoch) == (error["type"], error["resets_at"])
    assert (str(epoch), str(error["resets_in_seconds"])) == (
        answer.headers["x-codex-primary-reset-at"],
        answer.headers["x-codex-primary-reset-after-seconds"],
    )


@pytest.mark.parametrize(
    ("scenario", "wait"), [("rate_limit_short", "2"), ("rate_limit_long", "3600"), ("rate_limit_no_hint", None)]
)
def test_throttles_say_when_to_come_back_or_do_not(provider: LoopbackProvider, scenario: str, wait: str | None) -> None:
    """``retry-after`` is what the scenario's name says."""
    for wire in ROUTE:
        assert wait == Answer(provider, scenario, wire, body(wire)).headers.get("retry-after")


def test_near_the_limit_is_a_healthy_answer(provider: LoopbackProvider) -> None:
    """A warning rides on a good answer and asks for no waiting."""
    answer = Answer(provider, "near_limit", "anthropic", body("anthropic"))
    assert (200, "allowed_warning", None) == (
        answer.status, answer.headers["anthropic-ratelimit-unified-status"], answer.headers.get("retry-after"),
    )  # fmt: skip
    codex = Answer(provider, "near_limit", "responses", body("responses"))
    assert (200, "93") == (codex.status, codex.headers["x-codex-primary-used-percent"])
    chat = Answer(provider, "near_limit", "chat", body("chat"))
    assert (200, "35", None) == (
        chat.status, chat.headers["x-ratelimit-remaining-requests"], chat.headers.get("retry-after"),
    )  # fmt: skip


def test_the_output_limit_and_the_empty_answer(provider: LoopbackProvider) -> None:
    """Both are told apart from a whole answer."""
    assert "max_tokens" == Answer(provider, "truncated", "anthropic", body("anthropic")).json["stop_reason"]
    assert "incomplete" == Answer(provider, "truncated", "responses", body("responses")).json["status"]
    assert "length" == Answer(provider, "truncated", "chat", body("chat")).json["choices"][0]["finish_reason"]
    assert "" == Answer(provider, "empty", "anthropic", body("anthropic")).json["content"][0]["text"]
    assert "" == Answer(provider, "empty", "chat", body("chat")).json["choices"][0]["message"]["content"]


def test_it_runs_from_the_command_line() -> None:
    """It prints its address, then a line per request without what was said, and ends at Ctrl-C with exit code 0."""
    argv = [
        sys.executable,
        "-m",
        "kandev_routing_sdk.testing.provider",
        "--scenario",
        "overloaded",
        "--fail-times",
        "1",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/messages", json.dumps(body("anthropic")), {"x-api-key": "sk-secret"})
        assert 529 == connection.getresponse().status
        connection.close()
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "closed\n" == process.stdout.read()
    assert 0 == process.returncode
    assert ("overloaded", "api_key", 529) == tuple(json.loads(line)[key] for key in ("scenario", "auth", "status"))
    assert "sk-secret" not in line and "hello" not in line  # noqa: PT018


def test_it_lists_its_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    """``--list`` names each one."""
    from kandev_routing_sdk.testing.provider.__main__ import main

    assert 0 == main(["--list"])
    assert list(SCENARIOS) == [line.split()[0] for line in capsys.readouterr().out.splitlines()]

"""The loopback provider as a server: scenarios by path, settings, the log, and an end that is clean."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kandev_routing_sdk.testing.provider import (
    SCENARIOS,
    Ask,
    AuthKind,
    LoopbackProvider,
    Reply,
    RequestRecord,
    Scenario,
    Wire,
)

SECRET = "sk-ant-this-must-not-be-shown"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"


@pytest.fixture
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


def ask(
    provider: LoopbackProvider,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, str], Any]:
    """Send one request; return status, headers and the parsed body."""
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), dict(headers or {}))
        answer = connection.getresponse()
        raw = answer.read()
        is_json = raw and answer.headers["content-type"] == "application/json"
        return answer.status, dict(answer.headers), json.loads(raw) if is_json else raw.decode()
    finally:
        connection.close()


def messages(text: str = "Say hello.", **fields: Any) -> dict[str, Any]:
    return {"model": "claude-x", "messages": [{"role": "user", "content": text}], **fields}


def test_the_path_chooses_the_scenario(provider: LoopbackProvider) -> None:
    """One provider serves several agents, each failing in its own way."""
    assert 200 == ask(provider, MESSAGES, messages())[0]
    assert 529 == ask(provider, f"/s/overloaded{MESSAGES}", messages())[0]
    assert 401 == ask(provider, f"/s/unauthorized{RESPONSES}", {"input": "hi"})[0]
    assert [("success", 200), ("overloaded", 529), ("unauthorized", 401)] == [
        (record.scenario, record.status) for record in provider.requests
    ]
    assert f"http://127.0.0.1:{provider.port}/s/overloaded" == provider.url("overloaded")


def test_an_unknown_scenario_is_named(provider: LoopbackProvider) -> None:
    """A misspelt name never passes for another scenario."""
    with pytest.raises(ValueError, match=r"unknown scenario 'overlaoded'; known are: .*overloaded"):
        provider.url("overlaoded")
    with pytest.raises(ValueError, match="unknown scenario"):
        provider.set("overlaoded", fail_times=1)
    with pytest.raises(ValueError, match="unknown scenario"):
        LoopbackProvider("overlaoded")
    status, _, body = ask(provider, f"/s/overlaoded{MESSAGES}", messages())
    assert (404, True) == (status, "no such scenario" in body["error"]["message"])


def test_failures_are_used_up_and_counted_anew(provider: LoopbackProvider) -> None:
    """``fail_times`` failures, then answers; ``set`` starts over."""
    provider.set("overloaded", fail_times=2)
    assert [529, 529, 200, 200] == [ask(provider, f"/s/overloaded{MESSAGES}", messages())[0] for _ in range(4)]
    provider.set("overloaded", fail_times=1, text="At last.")
    first, (status, _, body) = (ask(provider, f"/s/overloaded{MESSAGES}", messages()) for _ in range(2))
    assert (529, 200, "At last.") == (first[0], status, body["content"][0]["text"])


def test_racing_requests_get_exactly_the_failures_that_were_set(provider: LoopbackProvider) -> None:
    """Counting is safe under threads, and no request is lost from the log."""
    provider.set("overloaded", fail_times=7)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(provider, f"/s/overloaded{MESSAGES}", messages())[0]))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (7, 13) == (found.count(529), found.count(200))
    assert list(range(20)) == [record.sequence for record in provider.requests]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fail_times": -1}, "fail_times is -1"),
        ({"resets_at": datetime(2030, 1, 1)}, "resets_at has no time zone"),  # noqa: DTZ001  # the point of the case
    ],
)
def test_settings_that_cannot_be_are_refused(provider: LoopbackProvider, changes: dict[str, Any], message: str) -> None:
    """A naive reset or a negative count is an error of the test, told at once."""
    with pytest.raises(ValueError, match=message):
        provider.set("plan_limit", **changes)


class _FixedClock:
    def now(self) -> datetime:
        return datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)

    def monotonic(self) -> float:
        return 12.5

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("a provider does not wait")


def test_resets_follow_the_clock_that_was_given() -> None:
    """An injected clock makes every announced time predictable."""
    with LoopbackProvider("plan_limit", clock=_FixedClock()) as provider:
        _, headers, _ = ask(provider, MESSAGES, messages())
        assert ("3600", str(int(_FixedClock().now().timestamp()) + 3600)) == (
            headers["retry-after"],
            headers["anthropic-ratelimit-unified-reset"],
        )
        provider.set("plan_limit", resets_in=timedelta(minutes=2))
        assert "120" == ask(provider, MESSAGES, messages())[1]["retry-after"]
        provider.set("plan_limit", resets_at=datetime(2029, 1, 1, tzinfo=UTC))
        _, headers, _ = ask(provider, MESSAGES, messages())
        assert ("0", "1861920000") == (headers["retry-after"], headers["anthropic-ratelimit-unified-reset"])
        assert [(_FixedClock().now(), 12.5)] * 3 == [(record.at, record.monotonic) for record in provider.requests]


def test_the_log_says_who_asked_what(provider: LoopbackProvider) -> None:
    """A record holds protocol, path, kind of login, lower-case headers, body and prompt."""
    ask(provider, f"/s/success{MESSAGES}?beta=true", messages(), headers={"X-Api-Key": SECRET})
    ask(provider, RESPONSES, {"input": "And you?"}, headers={"Authorization": f"Bearer {SECRET}"})
    ask(provider, RESPONSES, {"input": "x"}, headers={"Authorization": "Basic eA=="})
    ask(provider, "/v1/models", method="GET")
    first, second, third, fourth = provider.requests
    assert ("POST", f"{MESSAGES}?beta=true", Wire.ANTHROPIC, AuthKind.API_KEY, "Say hello.") == (
        first.method, first.path, first.wire, first.auth, first.prompt,
    )  # fmt: skip
    assert (SECRET, messages()) == (first.headers["x-api-key"], dict(first.body or {}))
    assert (Wire.RESPONSES, AuthKind.BEARER, "And you?") == (second.wire, second.auth, second.prompt)
    assert AuthKind.OTHER is third.auth
    assert (None, AuthKind.NONE, None) == (fourth.wire, fourth.auth, fourth.prompt)
    assert (first, second, third) == provider.model_requests()
    assert ("Say hello.", "And you?", "x") == provider.prompts()


def test_no_secret_is_in_a_repr(provider: LoopbackProvider) -> None:
    """What a failing test prints of the log shows neither headers nor words; a search still finds them."""
    ask(provider, MESSAGES, messages(f"My password is {SECRET}."), headers={"x-api-key": SECRET})
    (record,) = provider.requests
    assert SECRET not in repr(record) + repr(provider)
    assert record.mentions(SECRET)
    assert not record.mentions("sk-other")


def test_what_a_record_mentions_is_found_in_any_place(provider: LoopbackProvider) -> None:
    """A leak is a leak in the path, a header, nested in the body, escaped or in bytes that are no JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    connection.request("POST", f"{RESPONSES}?id=in-path", b"not json: in-bytes", {"x-session": "in-header"})
    connection.getresponse().read()
    connection.close()
    ask(provider, RESPONSES, {"input": [{"content": [{"text": "naïve\nline"}]}]})
    raw, parsed = provider.requests
    assert [True, True, True] == [raw.mentions(text) for text in ("in-path", "in-bytes", "in-header")]
    assert [True, True, False] == [parsed.mentions(text) for text in ("naïve", "naïve\nline", "naïve line")]


def test_compressed_bodies_are_read(provider: LoopbackProvider) -> None:
    """A gzip body is parsed; one in an unknown encoding is answered by its ``accept`` header."""
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    connection.request("POST", MESSAGES, gzip.compress(json.dumps(messages()).encode()), {"content-encoding": "gzip"})
    connection.getresponse().read()
    connection.request("POST", RESPONSES, b"\x28\xb5", {"content-encoding": "zstd", "accept": "text/event-stream"})
    answer = connection.getresponse()
    assert "text/event-stream; charset=utf-8" == answer.headers["content-type"]
    answer.read()
    connection.close()
    first, second = provider.requests
    assert ("Say hello.", None, b"\x28\xb5") == (first.prompt, second.body, second.raw)


def test_a_chunked_request_is_read_whole(provider: LoopbackProvider) -> None:
    """Clients may stream their body; the connection stays usable after it."""
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    payload = json.dumps(messages()).encode()
    for _ in range(2):
        connection.request("POST", MESSAGES, iter([payload[:7], payload[7:]]), encode_chunked=True)
        answer = connection.getresponse()
        assert (200, True) == (answer.status, len(answer.read()) > 0)
    connection.close()
    assert ("Say hello.", "Say hello.") == provider.prompts()


@pytest.mark.parametrize(
    "body", [b"", b"[1, 2]", b"{", b'{"messages": 3, "tools": 4}', b'{"input": [1, {"role": "user", "content": 5}]}']
)
def test_hostile_bodies_get_an_answer(provider: LoopbackProvider, body: bytes) -> None:
    """Whatever a client sends, the provider answers and closes without a fault."""
    for path in (MESSAGES, RESPONSES, CHAT):
        connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
        connection.request("POST", path, body)
        assert 200 == connection.getresponse().status
        connection.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/", 200),
        ("GET", RESPONSES, 426),
        ("POST", f"{MESSAGES}/count_tokens", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/v1/models?client_version=0.1", 200),
        ("POST", "/oauth/token", 401),
        ("GET", "/v1/messages", 404),
        ("POST", "/nowhere", 404),
    ],
)
def test_other_routes_never_fail_as_the_scenario_does(method: str, path: str, status: int) -> None:
    """What is no model request is answered the same in every scenario, and is no model request in the log."""
    with LoopbackProvider("overloaded") as provider:
        assert status == ask(provider, path, {} if method == "POST" else None, method=method)[0]
        assert (1, ()) == (len(provider.requests), provider.model_requests())


def test_waiting_for_requests(provider: LoopbackProvider) -> None:
    """``wait_for`` returns once enough of them have arrived, and says how many there were when they have not."""
    sender = threading.Thread(target=ask, args=(provider, f"/s/near_limit{MESSAGES}", messages()))
    sender.start()
    (record,) = provider.wait_for(1, scenario="near_limit", timeout=10)
    sender.join()
    assert "near_limit" == record.scenario
    with pytest.raises(TimeoutError, match=r"1 of 2 model requests arrived within 0\.01 s"):
        provider.wait_for(2, timeout=0.01)


def test_following_ends_with_the_provider() -> None:
    """``follow`` yields what was, then what comes, and ends at ``close``."""
    provider = LoopbackProvider()
    provider.start()
    ask(provider, MESSAGES, messages("one"))
    seen: list[RequestRecord] = []
    reader = threading.Thread(target=lambda: seen.extend(provider.follow()))
    reader.start()
    ask(provider, MESSAGES, messages("two"))
    provider.close()
    reader.join(10)
    assert ["one", "two"] == [record.prompt for record in seen]


@pytest.mark.parametrize("scenario", ["hang", "partial_then_hang"])
def test_closing_ends_what_hangs(scenario: str) -> None:
    """No client and no thread is left waiting once the provider is closed."""
    before = threading.active_count()
    provider = LoopbackProvider(scenario)
    with provider, socket.create_connection(("127.0.0.1", provider.port)) as client:
        body = json.dumps(messages(stream=True)).encode()
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        provider.wait_for(1)
        began = time.monotonic()
        provider.close()
        client.settimeout(10)
        while client.recv(65536):
            pass
        assert time.monotonic() - began < 5
    assert before == threading.active_count()
    assert 1 == len(provider.requests)


def test_life_cycle() -> None:
    """Closed it has no address, starting twice is refused, closing twice is fine, and the log outlives it."""
    provider = LoopbackProvider()
    with pytest.raises(RuntimeError, match="not listening"):
        provider.url()
    provider.close()
    with provider:
        ask(provider, MESSAGES, messages())
        with pytest.raises(RuntimeError, match="already"):
            provider.start()
    provider.close()
    assert ("closed" in repr(provider), 1) == (True, len(provider.requests))


def test_a_step_that_raises_is_not_lost() -> None:
    """A mistake in somebody's own scenario comes out where the provider is closed."""

    def broken(_ask: Ask) -> Reply:
        raise LookupError("my own mistake")

    provider = LoopbackProvider("mine", scenarios=[Scenario("mine", "raises", broken)])
    provider.start()
    with pytest.raises(http.client.RemoteDisconnected):
        ask(provider, MESSAGES, messages())
    with pytest.raises(LookupError, match="my own mistake"):
        provider.close()


def test_own_scenarios_stand_beside_the_built_in_ones() -> None:
    """A third party adds scenarios, but never changes what a built-in name means."""

    def teapot(_ask: Ask) -> Reply:
        return Reply(status=418, body={"short": "and stout"}, failing=True)

    with LoopbackProvider(scenarios=[Scenario("teapot", "418", teapot)]) as provider:
        assert (418, {"short": "and stout"}) == ask(provider, f"/s/teapot{MESSAGES}", messages())[::2]
        assert 200 == ask(provider, MESSAGES, messages())[0]
    with pytest.raises(ValueError, match="'success' exists already"):
        LoopbackProvider(scenarios=[Scenario("success", "", teapot)])
    assert "teapot" not in SCENARIOS

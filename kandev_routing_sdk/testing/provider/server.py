"""The provider a test starts: scenarios, their settings and the log of requests, behind a loopback server."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, Unpack
from urllib.parse import urlsplit

from kandev_routing_sdk.clock import Clock, SystemClock
from kandev_routing_sdk.testing.provider.anthropic import AnthropicDialect
from kandev_routing_sdk.testing.provider.chat import ChatDialect
from kandev_routing_sdk.testing.provider.messages import Ask, Dialect, Reply, SettingsChange, Wire
from kandev_routing_sdk.testing.provider.record import (
    RequestRecord,
    auth_of,
    has_tool_result,
    is_side_request,
    parse_body,
    prompt_of,
    tool_names,
    wire_of,
)
from kandev_routing_sdk.testing.provider.responses import ResponsesDialect
from kandev_routing_sdk.testing.provider.scenarios import SCENARIOS, Scenario, succeed
from kandev_routing_sdk.testing.provider.transport import HOST, LoopbackServer

_DIALECTS: Final[Mapping[Wire, Dialect]] = MappingProxyType(
    {Wire.ANTHROPIC: AnthropicDialect(), Wire.RESPONSES: ResponsesDialect(), Wire.CHAT: ChatDialect()}
)
_DEFAULT_MODEL: Final = "loopback-model-1"


class LoopbackProvider:
    """A model provider on 127.0.0.1 that fails as told, for agents whose base URL can be set.

    It speaks Anthropic Messages (``…/v1/messages``), OpenAI Responses (``…/responses``) and OpenAI Chat Completions
    (``…/chat/completions``), streamed or not. The scenario is chosen per request by the path (``url(name)``), so that one
    provider serves several agents, each failing in its own way. All methods may be called from any thread.

    Args:
        scenario: what a request gets whose path names no scenario.
        port: the port to listen on; 0 takes a free one.
        clock: tells "now" for the resets that limits announce and for the log.
        scenarios: more scenarios, beside the built-in ones (``SCENARIOS``).

    Raises:
        ValueError: a scenario is unknown, or a given one has the name of another.
    """

    def __init__(
        self,
        scenario: str = "success",
        *,
        port: int = 0,
        clock: Clock | None = None,
        scenarios: Iterable[Scenario] = (),
    ) -> None:
        self._scenarios: dict[str, Scenario] = dict(SCENARIOS)
        for extra in scenarios:
            if extra.name in self._scenarios:
                raise ValueError(f"scenario {extra.name!r} exists already; give yours another name")
            self._scenarios[extra.name] = extra
        self._clock: Clock = clock or SystemClock()
        self._port = port
        self._server: LoopbackServer | None = None
        self._changed = threading.Condition()
        self._log: list[RequestRecord] = []
        self._failed: dict[str, int] = {}
        self._settings = {name: found.settings for name, found in self._scenarios.items()}
        self._default = self._known(scenario)

    def __repr__(self) -> str:
        where = f"port={self._server.server_port}" if self._server else "closed"
        return f"<LoopbackProvider {where} scenario={self._default!r} requests={len(self.requests)}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Listen.

        Raises:
            RuntimeError: it is listening already.
            OSError: the port is taken.
        """
        if self._server is not None:
            raise RuntimeError("the provider is listening already")
        self._server = LoopbackServer(self, self._port)

    def close(self) -> None:
        """End every connection and stop listening; the log stays. Closing twice is fine.

        Raises:
            Exception: what a scenario's step or the provider itself raised while serving, so that it is not lost.
        """
        server = self._server
        if server is None:
            return
        server.close()
        with self._changed:
            self._server = None
            self._changed.notify_all()
        if server.faults:
            raise server.faults[0]

    @property
    def port(self) -> int:
        """The port it listens on; ``RuntimeError`` before ``start``."""
        if self._server is None:
            raise RuntimeError("the provider is not listening; use it as a context manager or call start()")
        return self._server.server_port

    def url(self, scenario: str | None = None) -> str:
        """Return the base URL (without ``/v1``) at which ``scenario`` answers; without one, the default's.

        Raises:
            ValueError: the scenario is unknown.
            RuntimeError: the provider is not listening.
        """
        base = f"http://{HOST}:{self.port}"
        return base if scenario is None else f"{base}/s/{self._known(scenario)}"

    def set(self, scenario: str, **changes: Unpack[SettingsChange]) -> None:
        """Change settings of one scenario (see ``Settings``) and begin to count its failures anew.

        Raises:
            ValueError: the scenario is unknown, or a value cannot be.
        """
        name = self._known(scenario)
        with self._changed:
            self._settings[name] = replace(self._settings[name], **changes)
            self._failed[name] = 0

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """Everything received so far, in order of arrival."""
        with self._changed:
            return tuple(self._log)

    def model_requests(self, scenario: str | None = None) -> tuple[RequestRecord, ...]:
        """Return the model requests so far, of one scenario or of all."""
        return tuple(
            record
            for record in self.requests
            if record.wire is not None and (scenario is None or record.scenario == scenario)
        )

    def prompts(self, scenario: str | None = None) -> tuple[str, ...]:
        """Return what the user said in each model request that brings no tool result and asks for no title
        or suggestion.

        A CLI's own retries repeat a prompt: where they are not bounded, an agent's log is the better witness of how often
        it was prompted.
        """
        found = [record for record in self.model_requests(scenario) if not record.after_tool and not record.side]
        return tuple(record.prompt for record in found if record.prompt is not None)

    def wait_for(
        self, count: int = 1, *, scenario: str | None = None, timeout: float = 30.0
    ) -> tuple[RequestRecord, ...]:
        """Wait until ``count`` model requests have arrived, and return them all.

        Args:
            count: how many.
            scenario: counts only this one's.
            timeout: seconds.

        Raises:
            TimeoutError: they have not.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.model_requests(scenario)) >= count, timeout):
                seen = len(self.model_requests(scenario))
                raise TimeoutError(f"{seen} of {count} model requests arrived within {timeout} s")
            return self.model_requests(scenario)

    def follow(self) -> Iterator[RequestRecord]:
        """Yield every request, those so far and then each as it arrives, until the provider is closed."""
        seen = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._log) > seen or self._server is None)  # noqa: B023  # called here
                batch, closed = self._log[seen:], self._server is None
            yield from batch
            seen += len(batch)
            if closed:
                return

    def exchange(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        """Choose the answer to one request and log both; the server's threads call this."""
        body = parse_body(raw, headers.get("content-encoding", "").lower())
        with self._changed:
            scenario, route = self._split(path)
            wire = wire_of(route) if method == "POST" else None
            after_tool, side = has_tool_result(body or {}), is_side_request(body or {})
            sequence = len(self._log)
            now = self._clock.now()
            if scenario is None:
                reply = _json_error(404, f"no such scenario; known are: {', '.join(sorted(self._scenarios))}")
            elif wire is None:
                reply = _service_reply(method, route)
            else:
                ask = Ask(
                    dialect=_DIALECTS[wire],
                    model=str((body or {}).get("model") or _DEFAULT_MODEL),
                    stream=_wants_stream(body, headers),
                    tools=tool_names(body or {}),
                    after_tool=after_tool,
                    side=side,
                    sequence=sequence,
                    now=now,
                    settings=self._settings[scenario],
                )
                reply = self._scripted(self._scenarios[scenario], ask)
            self._log.append(
                RequestRecord(
                    sequence=sequence,
                    at=now,
                    monotonic=self._clock.monotonic(),
                    method=method,
                    path=route,
                    scenario=scenario or "",
                    wire=wire,
                    auth=auth_of(headers),
                    status=None if reply.silent else reply.status,
                    prompt=prompt_of(body or {}) if wire else None,
                    after_tool=after_tool,
                    side=side,
                    headers=MappingProxyType(dict(headers)),
                    body=None if body is None else MappingProxyType(dict(body)),
                    raw=raw,
                )
            )
            self._changed.notify_all()
        return reply

    def _scripted(self, scenario: Scenario, ask: Ask) -> Reply:
        """Answer as the scenario says, until its failures are used up."""
        reply = scenario.reply(ask)
        limit = ask.settings.fail_times
        if not reply.failing or limit is None:
            return reply
        failed = self._failed.get(scenario.name, 0)
        if failed >= limit:
            return succeed(ask)
        self._failed[scenario.name] = failed + 1
        return reply

    def _split(self, path: str) -> tuple[str | None, str]:
        """Return the scenario a path names (the default's when it names none, ``None`` when unknown) and the rest."""
        if not path.startswith("/s/"):
            return self._default, path
        name, _, route = path.removeprefix("/s/").partition("/")
        return (name if name in self._scenarios else None), f"/{route}"

    def _known(self, scenario: str) -> str:
        if scenario not in self._scenarios:
            raise ValueError(f"unknown scenario {scenario!r}; known are: {', '.join(sorted(self._scenarios))}")
        return scenario


def _wants_stream(body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> bool:
    """Tell whether the client wants a stream; a body that cannot be read leaves it to the ``accept`` header."""
    if body is None:
        return "event-stream" in headers.get("accept", "")
    return bool(body.get("stream"))


def _json_error(status: int, message: str, **fields: str) -> Reply:
    return Reply(status=status, body={"error": {"message": message, **fields}})


def _service_reply(method: str, route: str) -> Reply:
    """Answer what is no model request; these never fail, whatever the scenario."""
    parts = urlsplit(route)
    path = parts.path.rstrip("/")
    if method in {"HEAD", "OPTIONS"}:
        return Reply()
    if method == "GET" and path.endswith("/responses"):  # Codex's built-in provider tries a WebSocket first
        return _json_error(426, "WebSocket is not supported here")
    if path.endswith("/messages/count_tokens"):
        return Reply(body={"input_tokens": 42})
    if path.endswith("/oauth/token"):  # where Codex would renew a ChatGPT login
        return _json_error(401, "Your refresh token has expired.", code="refresh_token_expired")
    if path.endswith("/models"):
        if "client_version=" in parts.query:  # Codex's own catalogue
            return Reply(body={"models": []})
        model = {"id": _DEFAULT_MODEL, "object": "model", "created": 1_700_000_000, "owned_by": "loopback"}
        return Reply(body={"object": "list", "data": [model]})
    return _json_error(404, "no such route at the loopback provider")

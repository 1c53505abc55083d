"""What an agent asks of its client, answered once each: by the host, in time, or by what stands for it (R-EVI-3, R-CON-8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from pydantic import JsonValue

from kandev_routing_sdk.acp import messages
from kandev_routing_sdk.acp.peer import Message
from kandev_routing_sdk.spec.acp import Frame, as_object, as_text
from kandev_routing_sdk.spec.adapter import LaunchPlan
from kandev_routing_sdk.spec.client import (
    PERMISSION,
    READ_FILE,
    TERMINAL_REQUESTS,
    WRITE_FILE,
    Asker,
    FileRead,
    FileWrite,
    HostSide,
    PermissionHandler,
    PermissionOption,
    PermissionRequest,
    TerminalRequest,
)
from kandev_routing_sdk.telemetry import fields, get_logger, problem_fields

_log = get_logger(__name__)

_MAX_OPEN: Final = 64
"""Requests of one agent that a host is asked at once; more are answered for it."""
_MAX_OPTIONS: Final = 32
_MAX_TEXT: Final = 1_000_000
"""Characters of a file in one answer: an agent reads a line of that length."""

Reply = Callable[[Message, JsonValue, JsonValue], bool]
"""Takes the request, and a result or else an error."""


class _TooLong(Exception):
    """The text does not fit into one answer."""


class Asked:
    """The requests of one agent process. Nothing in here is waited for: an answer that does not come holds nobody up."""

    def __init__(self, plan: LaunchPlan, host: HostSide, reply: Reply) -> None:
        self._wanted: Final = plan.acp.permission
        self._host: Final = host
        self._reply: Final = reply
        self._open: dict[asyncio.Task[None], Message] = {}
        self._in_turn = False
        self._over = False

    def begin(self) -> None:
        """The prompt's turn begins: from now on there is something to ask the host about."""
        self._in_turn = True

    def end(self) -> None:
        """The turn is over, or to be: who still waits is told so, and nobody is asked any more."""
        self._over = True
        waiting, self._open = self._open, {}
        for task, message in waiting.items():
            self._reply(message, *self._unanswered(message))
            task.cancel()

    def take(self, message: Message) -> None:
        """Answer a request, at once or when the host has."""
        method, asker = message["method"], self._host.asker
        if self._over and self._in_turn:
            self._reply(message, *self._unanswered(message))
            return
        if method == PERMISSION:
            if self._host.permissions is None or asker is None or not self._in_turn:
                self._reply(message, self._default(message), None)
                return
            answer = self._permission(message, asker, self._host.permissions)
        elif (work := self._work(as_text(method), as_object(message.get("params")), asker)) is None:
            self._reply(message, None, {"code": messages.METHOD_NOT_FOUND, "message": "Method not found"})
            return
        else:
            answer = self._done(message, work)
        if self._over or len(self._open) >= _MAX_OPEN:
            answer.close()
            self._reply(message, *self._unanswered(message))
            return
        task = asyncio.create_task(answer, name="client request")
        self._open[task] = message
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        message = self._open.pop(task, None)
        if (
            message is not None and not task.cancelling()
        ):  # cancelled from within: what the host waited for was given up
            self._reply(message, *self._unanswered(message))
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem  # a defect of ours: what a host raises is answered before

    def _unanswered(self, message: Message) -> tuple[JsonValue, JsonValue]:
        """What is said instead of an answer. After the turn nothing is allowed any more, whatever the profile says."""
        if message["method"] != PERMISSION:
            return None, {"code": messages.INTERNAL_ERROR, "message": "The client gives no answer"}
        return ({"outcome": {"outcome": "cancelled"}} if self._over else self._default(message)), None

    def _default(self, message: Message) -> JsonValue:
        return messages.permission_answer(as_object(message.get("params")).get("options"), self._wanted)

    # Permissions --------------------------------------------------------------------------------------------------------

    async def _permission(self, message: Message, asker: Asker, handler: PermissionHandler) -> None:
        params = as_object(message.get("params"))
        options = _options(params.get("options"))
        known = {self._text(option.option_id): option.option_id for option in options}
        chosen: object = None
        with anyio.move_on_after(self._host.offers.permission_s):
            try:
                chosen = await handler(self._request(asker, as_object(params.get("toolCall")), options))
            except Exception as problem:  # noqa: BLE001  # a host's own code: the profile's default answers for it
                _log.warning(
                    "a host's answer to a permission failed; the profile's default answers",
                    extra=problem_fields(problem, session_id=asker.session_id),
                )
        result: JsonValue = self._default(message)
        if isinstance(chosen, str) and chosen in known:
            result = {"outcome": {"outcome": "selected", "optionId": known[chosen]}}
        elif chosen is not None:
            _log.warning(
                "a host answered what was not offered; the profile's default answers",
                extra=fields(session_id=asker.session_id),
            )
        self._answer(message, result, None)

    def _request(self, asker: Asker, call: Frame, options: tuple[PermissionOption, ...]) -> PermissionRequest:
        named = ("toolCallId", "title", "kind")
        details = self._host.clean({name: value for name, value in call.items() if name not in named})
        tool_id, title, kind = (self._text(as_text(call.get(name))) for name in named)
        return PermissionRequest(
            asker=asker,
            tool_id=tool_id,
            title=title,
            kind=kind,
            options=tuple(PermissionOption(*map(self._text, (o.option_id, o.name, o.kind))) for o in options),
            details=details if isinstance(details, dict) else {},
        )

    def _text(self, text: str) -> str:
        cleaned = self._host.clean(text)
        return cleaned if isinstance(cleaned, str) else ""

    # Files and terminals ------------------------------------------------------------------------------------------------

    def _work(self, method: str, params: Frame, asker: Asker | None) -> Callable[[], Awaitable[JsonValue]] | None:
        """Return what there is to do; None for what is not offered."""
        offers, path = self._host.offers, as_text(params.get("path"))
        if asker is None:
            return None
        if method == READ_FILE and (read := offers.read_text_file) is not None:
            line, limit = _number(params.get("line")), _number(params.get("limit"))

            async def content() -> JsonValue:
                with anyio.fail_after(offers.file_s):
                    text = await read(FileRead(asker, path, line, limit))
                if len(text) > _MAX_TEXT:
                    raise _TooLong
                return {"content": text}

            return content
        if method == WRITE_FILE and (write := offers.write_text_file) is not None:

            async def written() -> JsonValue:
                with anyio.fail_after(offers.file_s):
                    await write(FileWrite(asker, path, as_text(params.get("content"))))
                return {}

            return written
        if method in TERMINAL_REQUESTS and (terminal := offers.terminal) is not None:

            async def ran() -> JsonValue:
                return dict(await terminal(TerminalRequest(asker, method, params)))

            return ran
        return None

    async def _done(self, message: Message, work: Callable[[], Awaitable[JsonValue]]) -> None:
        try:
            result, error = await work(), None
        except _TooLong:
            text = "The file is too long for one answer; ask for fewer lines, with line and limit"
            result, error = None, _refusal(messages.INVALID_PARAMS, text)
        except FileNotFoundError:
            result, error = None, _refusal(messages.NOT_FOUND, "Resource not found")
        except PermissionError:
            result, error = None, _refusal(messages.INVALID_PARAMS, "The client does not allow that")
        except Exception as problem:  # noqa: BLE001  # a host's own code; what it says is not the agent's to know
            _log.warning("a host could not do what its agent asked", extra=problem_fields(problem))
            result, error = None, _refusal(messages.INTERNAL_ERROR, "The client could not do that")
        self._answer(message, result, error)

    def _answer(self, message: Message, result: JsonValue, error: JsonValue) -> None:
        """Answer, unless that was done for it meanwhile."""
        task = asyncio.current_task()
        if task is not None and self._open.pop(task, None) is not None and not self._reply(message, result, error):
            # too much for an agent that does not read, or that asks for too much at once
            self._reply(message, None, _refusal(messages.INTERNAL_ERROR, "The client could not send its answer"))


def _refusal(code: int, message: str) -> JsonValue:
    return {"code": code, "message": message}


def _options(value: JsonValue | None) -> tuple[PermissionOption, ...]:
    found = [as_object(item) for item in value[:_MAX_OPTIONS]] if isinstance(value, list) else []
    texts = ((as_text(o.get("optionId")), as_text(o.get("name")), as_text(o.get("kind"))) for o in found)
    return tuple(PermissionOption(*text) for text in texts if text[0])


def _number(value: JsonValue | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

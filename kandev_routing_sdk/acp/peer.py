"""JSON-RPC over lines, for one agent that may say anything. Framing and matching only: no I/O, no meaning."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.acp.messages import Call

Message = dict[str, JsonValue]

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_message(text: str) -> Message | None:
    """Return the JSON object of a line; None when it is none."""
    value: JsonValue
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and _SURROGATE.search(text):
        # half a character is no text: no encoder downstream takes it
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value if isinstance(value, dict) else None


@dataclass(slots=True)
class Pending:
    """A request of ours that waits for its answer."""

    method: str
    answer: asyncio.Future[Message | None]


class Peer:
    """Numbers our requests and finds what answers them. ``send`` takes a line and whether it may be dropped."""

    def __init__(self, send: Callable[[bytes, bool], bool]) -> None:
        self._send = send
        self._pending: dict[int, Pending] = {}
        self._number = 0
        self.closed: bool = False

    def request(self, call: Call) -> asyncio.Future[Message | None]:
        """Send a request. The future holds the whole response, or None when there will be none; it never raises."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        if self.closed:
            answer.set_result(None)
            return answer
        self._number += 1
        self._pending[self._number] = Pending(call.method, answer)
        self._write({"id": self._number, "method": call.method, "params": call.params})
        return answer

    def notify(self, method: str, params: Message) -> None:
        """Send a notification."""
        if not self.closed:
            self._write({"method": method, "params": params})

    def reply(self, request: Message, *, result: JsonValue = None, error: JsonValue = None) -> bool:
        """Answer a request of the agent's; False when the agent does not read, or its request has no usable id."""
        number = request.get("id")
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            return False
        body: Message = {"error": error} if error is not None else {"result": result}
        return self._write({"id": number, **body}, droppable=True)

    def answered(self, message: Message) -> Pending | None:
        """Return the request that ``message`` answers, once; None when it answers none."""
        number = message.get("id")
        if "method" in message or isinstance(number, bool) or not isinstance(number, int):
            return None
        return self._pending.pop(number, None)

    def waits_for(self, method: str) -> bool:
        """Whether a request of this method is unanswered."""
        return any(p.method == method for p in self._pending.values())

    def close(self) -> None:
        """There will be no more answers."""
        self.closed = True
        while self._pending:
            _, pending = self._pending.popitem()
            if not pending.answer.done():
                pending.answer.set_result(None)

    def _write(self, message: Message, *, droppable: bool = False) -> bool:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        return self._send(line.encode("ascii") + b"\n", droppable)

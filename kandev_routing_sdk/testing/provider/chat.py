"""OpenAI Chat Completions: answers, tool calls and errors."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from kandev_routing_sdk.testing.provider.messages import Ask, Fault, JsonObject, Reply, SseEvent, Wire
from kandev_routing_sdk.testing.provider.responses import openai_error, openai_fault

_DONE = SseEvent(None, "[DONE]")
_SHELL_TOOLS = ("bash", "shell")


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18}


def _head(ask: Ask, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-loopback{ask.sequence:012d}",
        "object": kind,
        "created": int(ask.now.timestamp()),
        "model": ask.model,
    }


def _whole(ask: Ask, message: JsonObject, finish: str) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Reply(body={**_head(ask, "chat.completion"), "choices": [choice], "usage": _usage()})


def _chunk(ask: Ask, delta: JsonObject, finish: str | None = None) -> SseEvent:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return SseEvent(None, {**_head(ask, "chat.completion.chunk"), "choices": [choice]})


def _ending(ask: Ask, finish: str) -> tuple[SseEvent, ...]:
    """Return the end of a stream: why it ended, what it cost, and the mark that nothing follows."""
    usage = SseEvent(None, {**_head(ask, "chat.completion.chunk"), "choices": [], "usage": _usage()})
    return (_chunk(ask, {}, finish), usage, _DONE)


class ChatDialect:
    """``POST …/chat/completions``, streamed or not."""

    wire: ClassVar[Wire] = Wire.CHAT

    def answer(self, ask: Ask, text: str, *, truncated: bool = False) -> Reply:
        """Return ``text`` as the whole answer."""
        finish = "length" if truncated else "stop"
        if ask.stream:
            return Reply(events=self.begun(ask, (text,)) + _ending(ask, finish))
        return _whole(ask, {"content": text}, finish)

    def tool_call(self, ask: Ask, command: str) -> Reply | None:
        """Return a call of the client's shell tool."""
        name = next((known for known in _SHELL_TOOLS if known in ask.tools), None)
        if name is None:
            return None
        arguments = json.dumps({"command": command, "description": "Run the command of the scenario"})
        call = {
            "id": f"call_loopback{ask.sequence:012d}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        if not ask.stream:
            return _whole(ask, {"content": None, "tool_calls": [call]}, "tool_calls")
        delta = {"role": "assistant", "content": None, "tool_calls": [{"index": 0, **call}]}
        return Reply(events=(_chunk(ask, delta), *_ending(ask, "tool_calls")))

    def begun(self, ask: Ask, chunks: tuple[str, ...]) -> tuple[SseEvent, ...]:
        """Return a message that has begun; without chunks, only the speaker's role."""
        role = _chunk(ask, {"role": "assistant", "content": ""})
        return (role, *(_chunk(ask, {"content": chunk}) for chunk in chunks))

    def fault(self, ask: Ask, fault: Fault) -> Reply:
        """Return the error with the headers this API sends along."""
        return openai_fault(ask, fault)

    def fault_event(self, ask: Ask, fault: Fault) -> SseEvent:
        """Return the error object in place of a chunk."""
        return SseEvent(None, openai_error(ask, fault))

"""Anthropic Messages: answers, tool calls and errors."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from kandev_routing_sdk.testing.provider.messages import Ask, Fault, JsonObject, Reply, SseEvent, Wire

_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 529})
_SHELL_TOOLS = ("Bash", "bash")


def _usage(output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": 12,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }


def _message(ask: Ask, content: list[dict[str, Any]], stop_reason: str | None, output_tokens: int) -> dict[str, Any]:
    return {
        "id": f"msg_01Loopback{ask.sequence:012d}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _usage(output_tokens),
    }


def _event(kind: str, **fields: Any) -> SseEvent:  # noqa: ANN401  # JSON fields
    return SseEvent(kind, {"type": kind, **fields})


def _start(ask: Ask) -> SseEvent:
    return _event("message_start", message=_message(ask, [], None, 1))


def _stop(reason: str) -> tuple[SseEvent, ...]:
    return (
        _event("content_block_stop", index=0),
        _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 6}),
        _event("message_stop"),
    )


class AnthropicDialect:
    """``POST …/v1/messages``, streamed or not."""

    wire: ClassVar[Wire] = Wire.ANTHROPIC

    def answer(self, ask: Ask, text: str, *, truncated: bool = False) -> Reply:
        """Return ``text`` as the whole answer."""
        reason = "max_tokens" if truncated else "end_turn"
        if ask.stream:
            return Reply(events=self.begun(ask, (text,)) + _stop(reason))
        return Reply(body=_message(ask, [{"type": "text", "text": text}], reason, 6))

    def tool_call(self, ask: Ask, command: str) -> Reply | None:
        """Return a ``tool_use`` block for the client's Bash tool."""
        name = next((known for known in _SHELL_TOOLS if known in ask.tools), None)
        if name is None:
            return None
        block = {"type": "tool_use", "id": f"toolu_01Loopback{ask.sequence:012d}", "name": name}
        arguments = {"command": command, "description": "Run the command of the scenario"}
        if not ask.stream:
            return Reply(body=_message(ask, [{**block, "input": arguments}], "tool_use", 6))
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return Reply(
            events=(
                _start(ask),
                _event("content_block_start", index=0, content_block={**block, "input": {}}),
                _event("content_block_delta", index=0, delta=delta),
                *_stop("tool_use"),
            )
        )

    def begun(self, ask: Ask, chunks: tuple[str, ...]) -> tuple[SseEvent, ...]:
        """Return a text block that has begun; without chunks, only the message's start."""
        if not chunks:
            return (_start(ask),)
        return (
            _start(ask),
            _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            _event("ping"),
            *(_event("content_block_delta", index=0, delta={"type": "text_delta", "text": chunk}) for chunk in chunks),
        )

    def fault(self, ask: Ask, fault: Fault) -> Reply:
        """Return the error with the headers this API sends along."""
        headers = {
            "request-id": _request_id(ask),
            "x-should-retry": "true" if fault.status in _RETRYABLE else "false",
            **(fault.hint(ask) if fault.hint else {}),
        }
        return Reply(status=fault.status, headers=headers, body=_error(ask, fault), failing=True)

    def fault_event(self, ask: Ask, fault: Fault) -> SseEvent:
        """Return the ``error`` event."""
        return SseEvent("error", _error(ask, fault))


def _request_id(ask: Ask) -> str:
    return f"req_011Loopback{ask.sequence:012d}"


def _error(ask: Ask, fault: Fault) -> JsonObject:
    kind, message = fault.anthropic
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": _request_id(ask)}

"""OpenAI Responses: answers, tool calls and errors."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from kandev_routing_sdk.testing.provider.messages import Ask, Fault, JsonObject, Reply, SseEvent, Wire


def _response(
    ask: Ask, status: str, output: list[JsonObject] | None = None, *, error: JsonObject | None = None
) -> dict[str, Any]:
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 18,
    }
    return {
        "id": f"resp_loopback{ask.sequence:012d}",
        "object": "response",
        "created_at": int(ask.now.timestamp()),
        "status": status,
        "error": error,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": ask.model,
        "output": output or [],
        "parallel_tool_calls": True,
        "tools": [],
        "metadata": {},
        "usage": usage if output else None,
    }


def _message_id(ask: Ask) -> str:
    return f"msg_loopback{ask.sequence:012d}"


def _message(ask: Ask, text: str, status: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": _message_id(ask),
        "status": status,
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _numbered(*payloads: JsonObject) -> tuple[SseEvent, ...]:
    """Name each event after its type and give it the running number this protocol carries."""
    return tuple(
        SseEvent(payload["type"], {**payload, "sequence_number": number}) for number, payload in enumerate(payloads)
    )


def _created(ask: Ask) -> JsonObject:
    return {"type": "response.created", "response": _response(ask, "in_progress")}


def _text_head(ask: Ask, chunks: tuple[str, ...]) -> list[JsonObject]:
    place = {"item_id": _message_id(ask), "output_index": 0, "content_index": 0}
    item = {**_message(ask, "", "in_progress"), "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    return [
        _created(ask),
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": chunk} for chunk in chunks),
    ]


def openai_error(ask: Ask, fault: Fault) -> JsonObject:
    """Return an error's body, which is the same in both of this vendor's protocols."""
    return {"error": {**fault.openai, **(fault.extra(ask) if fault.extra else {})}}


def openai_fault(ask: Ask, fault: Fault) -> Reply:
    """Return an HTTP error with this vendor's headers."""
    headers = {"x-request-id": f"req_loopback{ask.sequence:012d}", **(fault.hint(ask) if fault.hint else {})}
    return Reply(status=fault.status, headers=headers, body=openai_error(ask, fault), failing=True)


class ResponsesDialect:
    """``POST …/responses``, streamed or not."""

    wire: ClassVar[Wire] = Wire.RESPONSES

    def answer(self, ask: Ask, text: str, *, truncated: bool = False) -> Reply:
        """Return ``text`` as the whole answer."""
        status = "incomplete" if truncated else "completed"
        item = _message(ask, text, status)
        whole = _response(ask, status, [item])
        if not ask.stream:
            return Reply(body=whole)
        place = {"item_id": _message_id(ask), "output_index": 0, "content_index": 0}
        return Reply(
            events=_numbered(
                *_text_head(ask, (text,)),
                {"type": "response.output_text.done", **place, "text": text},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": f"response.{status}", "response": whole},
            )
        )

    def tool_call(self, ask: Ask, command: str) -> Reply | None:
        """Return a call of the shell-like tool that the client offers."""
        item = _shell_item(ask, command)
        if item is None:
            return None
        whole = _response(ask, "completed", [item])
        if not ask.stream:
            return Reply(body=whole)
        return Reply(
            events=_numbered(
                _created(ask),
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {**item, "status": "in_progress"},
                },
                *_argument_events(item),
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": whole},
            )
        )

    def begun(self, ask: Ask, chunks: tuple[str, ...]) -> tuple[SseEvent, ...]:
        """Return a message that has begun; without chunks, only the response's start."""
        return _numbered(*(_text_head(ask, chunks) if chunks else [_created(ask)]))

    def fault(self, ask: Ask, fault: Fault) -> Reply:
        """Return the error with the headers this API sends along."""
        return openai_fault(ask, fault)

    def fault_event(self, ask: Ask, fault: Fault) -> SseEvent:
        """Return ``response.failed`` carrying the error's code and message."""
        error = {
            "code": fault.openai.get("code") or fault.openai.get("type"),
            "message": fault.openai.get("message"),
        }
        payload = {"type": "response.failed", "response": _response(ask, "failed", error=error)}
        return SseEvent("response.failed", payload)


def _shell_item(ask: Ask, command: str) -> dict[str, Any] | None:
    """Return the output item that calls the first known shell tool on offer."""
    call_id = f"call_loopback{ask.sequence:012d}"
    shell = ["bash", "-lc", command]
    known: tuple[tuple[str, JsonObject], ...] = (
        ("shell_command", {"command": command}),
        ("exec_command", {"cmd": command}),
        ("shell", {"command": shell}),
        ("container.exec", {"command": shell}),
    )
    for name, arguments in known:
        if name in ask.tools:
            return {
                "type": "function_call",
                "id": f"fc_loopback{ask.sequence:012d}",
                "call_id": call_id,
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
    if "exec" in ask.tools:  # Codex's code mode: a custom tool whose input is JavaScript
        script = f"const r = await tools.exec_command({{cmd: {json.dumps(command)}}}); text(r.output);"
        return {
            "type": "custom_tool_call",
            "id": f"ctc_loopback{ask.sequence:012d}",
            "call_id": call_id,
            "name": "exec",
            "input": script,
            "status": "completed",
        }
    return None


def _argument_events(item: JsonObject) -> list[JsonObject]:
    """Return the streamed arguments of a function call; a custom tool's input comes with its item."""
    if item["type"] != "function_call":
        return []
    place = {"item_id": item["id"], "output_index": 0}
    return [
        {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]},
        {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]},
    ]

"""Frames as claude-agent-acp sends them."""

from __future__ import annotations

from typing import Any

from kandev_routing_sdk.spec import AcpFrame, JsonValue

RUNTIME = "7476c59b-e1e6-409b-9197-8359a833fce5"
MODEL = "msg_01Fake0000000000000000001"
REFUSED = "API Error: 529 Overloaded. Try again in a moment."


def update(kind: str, **fields: Any) -> AcpFrame:
    return AcpFrame({"method": "session/update", "params": {"update": {"sessionUpdate": kind, **fields}}})


def chunk(text: str, message_id: str | None = RUNTIME, **fields: Any) -> AcpFrame:
    named = {} if message_id is None else {"messageId": message_id}
    return update("agent_message_chunk", content={"type": "text", "text": text}, **named, **fields)


def usage(used: int = 13, **meta: Any) -> AcpFrame:
    return update("usage_update", used=used, size=200000, _meta=meta)


def tool() -> AcpFrame:
    return update("tool_call", toolCallId="t", title="Terminal", status="pending")


def event(**message: Any) -> AcpFrame:
    """An event of the inner Claude, passed on."""
    return AcpFrame({"method": "_claude/sdkMessage", "params": {"message": message}})


def notice(text: str, message_id: str = RUNTIME, **labels: Any) -> AcpFrame:
    said = {"id": message_id, "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return event(type="assistant", message=said, parent_tool_use_id=None, is_api_error_message=True, **labels)


def result(text: str = "", *, tokens: int = 0, **fields: Any) -> AcpFrame:
    spent = {"input_tokens": tokens, "output_tokens": tokens}
    return event(
        **{"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": spent, **fields}
    )


def retry(status: int | None, attempt: int = 1) -> AcpFrame:
    return event(
        type="system", subtype="api_retry", attempt=attempt, max_retries=3, retry_delay_ms=500, error_status=status
    )


def error(message: str, kind: str | None = None, code: int = -32603, request: str = "session/prompt") -> AcpFrame:
    said: dict[str, JsonValue] = {"code": code, "message": message}
    if kind is not None:
        said["data"] = {"errorKind": kind}
    return AcpFrame({"id": 3, "error": said}, request=request)


def refused(text: str = REFUSED, kind: str = "server_error") -> AcpFrame:
    return error(f"Internal error: {text}", kind)


def answer(reason: str = "end_turn", *, tokens: int = 6, **fields: Any) -> AcpFrame:
    spent: dict[str, JsonValue] = {"inputTokens": tokens, "outputTokens": tokens}
    return AcpFrame({"id": 3, "result": {"stopReason": reason, "usage": spent, **fields}}, request="session/prompt")


def typed(category: str, title: str, severity: str = "error") -> dict[str, Any]:
    failure = {"category": category, "severity": severity, "title": title, "actions": []}
    return {"_meta": {"jetbrains": {"air": {"version": 1, "sessionFailure": failure}}}}

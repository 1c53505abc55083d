"""Frames as Codex's ACP agents send them."""

from __future__ import annotations

from typing import Any

from kandev_routing_codex.acp import NAMING_AGENT, CodexAcpExtractor
from kandev_routing_sdk.evidence.turn import TurnReport
from kandev_routing_sdk.spec import AcpFrame
from tests.adapters._replay import WHEN
from tests.adapters._turns import Turn

WARNING = (
    "Model metadata for `m` not found. Defaulting to fallback metadata; this can degrade performance and cause issues."
)
ANSWER = {"stopReason": "end_turn", "usage": None}


def initialized(name: str = NAMING_AGENT) -> AcpFrame:
    return AcpFrame({"id": 1, "result": {"protocolVersion": 1, "agentInfo": {"name": name}}}, request="initialize")


def update(kind: str, **fields: Any) -> AcpFrame:
    return AcpFrame(
        {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}}
    )


def chunk(text: str, message_id: str | None = None) -> AcpFrame:
    named = {} if message_id is None else {"messageId": message_id}
    return update("agent_message_chunk", content={"type": "text", "text": text}, **named)


def info(**meta: Any) -> AcpFrame:
    return update("session_info_update", _meta=meta)


def status(kind: str) -> AcpFrame:
    return info(codex={"threadStatus": {"type": kind}})


def retry(message: str, cause: str = "", kind: Any = "other", **more: Any) -> AcpFrame:
    error = {"message": message, "additionalDetails": cause or None, "codexErrorInfo": kind, "willRetry": True, **more}
    return info(codex={"error": error})


def typed(
    title: str, severity: str = "error", category: str = "service", actions: tuple[str, ...] = ()
) -> dict[str, Any]:
    failure = {"category": category, "severity": severity, "title": title, "actions": [*actions]}
    return {"jetbrains": {"air": {"version": 1, "sessionFailure": failure}}}


def answer(reason: str = "end_turn", **fields: Any) -> AcpFrame:
    return AcpFrame({"id": 3, "result": {"stopReason": reason, **fields}}, request="session/prompt")


def refused(
    code: int = -32603, message: str = "Internal error", data: Any = None, request: str = "session/prompt"
) -> AcpFrame:
    return AcpFrame({"id": 3, "error": {"code": code, "message": message, "data": data}}, request=request)


def tool(state: str = "in_progress") -> AcpFrame:
    return update("tool_call", toolCallId="t", title="echo", status=state)


def codex_acp() -> Turn:
    return Turn(CodexAcpExtractor()).feed(initialized())


def older_agent() -> Turn:
    """The adapter of the same name that names no message."""
    return Turn(CodexAcpExtractor()).feed(initialized("codex-acp"))


def reported(turn: Turn) -> TurnReport:
    return turn.record.report(WHEN)


def repeatable(turn: Turn) -> bool:
    """Whether the effect gate could let it pass: nothing came back, and nothing can have been missed."""
    effects = turn.record.effects
    return effects.complete and not effects.any_activity


def facts(report: TurnReport) -> list[dict[str, Any]]:
    """The structure of every signal that has some."""
    return [signal.data for signal in report.evidence.signals if isinstance(signal.data, dict)]

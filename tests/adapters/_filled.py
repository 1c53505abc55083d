"""Turns that went well, filled with other words: what a model says, thinks, plans and asks for, and what its tools print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.adapters._replay import recording

Record = dict[str, Any]
_PASSED_ON: Final = Path(__file__).parent / "claude" / "passed_on" / "success.json"
_SAID: Final = "Hello from the fake provider."
_CONTENT: Final = {_SAID, "echo tool-ran >> effect.txt", "(Bash completed with no output)", "(no output)"}
"""What the recorded models and tools said."""


def filled(record: Record, words: str) -> Record:
    """Return the turn with ``words`` for everything that its model and its tools said, and with more of both."""
    record = _replaced(record, words)
    if record["mode"] == "acp":
        return {**record, "frames": list(_frames(record, words))}
    lines: list[Any] = []
    for at, line in record["stdout_lines"]:
        changed = json.dumps(_replaced(json.loads(line), words))
        more = [[at, json.dumps(event)] for event in CONTENT[record["cli"]](words)]
        ends = any(mark in line for mark in ('"type":"result"', '"turn.completed"', '"step_finish"'))
        lines += [*more, [at, changed]] if ends and len(record["stdout_lines"]) > 1 else [[at, changed]]
    return {**record, "stdout_lines": lines}


def _replaced(value: Any, words: str) -> Any:
    if isinstance(value, dict):
        return {k: _replaced(v, words) for k, v in value.items()}
    if isinstance(value, list):
        return [_replaced(v, words) for v in value]
    return words if isinstance(value, str) and value in _CONTENT else value


def _frames(record: Record, words: str) -> Iterator[Any]:
    """The conversation with more updates right behind the prompt and right before its end."""
    session = next(f[2]["result"]["sessionId"] for f in record["frames"] if "sessionId" in f[2].get("result", {}))
    prompt = next(f[2]["id"] for f in record["frames"] if f[2].get("method") == "session/prompt")
    for at, direction, message in record["frames"]:
        ends = direction == "in" and message.get("id") == prompt and "result" in message
        more = [
            [at, "in", {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": u}}]
            for u in acp_content(words)
        ]
        yield from more if ends else ()
        yield [at, direction, message]
        yield from more if message.get("method") == "session/prompt" else ()


def acp_content(words: str) -> list[dict[str, Any]]:
    """Updates of an ACP turn that hold what somebody said."""
    block = {"type": "text", "text": words}
    tool = {"toolCallId": "call_filled", "title": words, "rawInput": {"command": words}}
    return [
        {"sessionUpdate": "user_message_chunk", "content": block},
        {"sessionUpdate": "agent_thought_chunk", "content": block},
        {"sessionUpdate": "plan", "entries": [{"content": words, "priority": "high", "status": "pending"}]},
        {"sessionUpdate": "tool_call", **tool, "kind": "execute", "status": "in_progress"},
        {
            "sessionUpdate": "tool_call_update",
            **tool,
            "status": "failed",
            "content": [{"type": "content", "content": block}],
            "rawOutput": {"output": words, "error": words, "exit_code": 1},
        },
        {"sessionUpdate": "agent_message_chunk", "messageId": "msg_filled", "content": block},
    ]


def _claude(words: str) -> list[dict[str, Any]]:
    def said(role: str, *content: dict[str, Any]) -> dict[str, Any]:
        model = {"id": "msg_filled", "type": "message", "model": "claude-sonnet-4-5"} if role == "assistant" else {}
        return {"type": role, "message": {**model, "role": role, "content": list(content)}, "parent_tool_use_id": None}

    result = {"type": "tool_result", "tool_use_id": "toolu_filled", "content": words, "is_error": True}
    return [
        said("assistant", {"type": "thinking", "thinking": words, "signature": "s"}),
        said("assistant", {"type": "tool_use", "id": "toolu_filled", "name": "Bash", "input": {"command": words}}),
        {**said("user", result), "tool_use_result": {"stdout": words, "stderr": words, "interrupted": False}},
        said("user", {**result, "content": [{"type": "text", "text": words}]}),
        said("user", {"type": "text", "text": words}),
        said("assistant", {"type": "text", "text": words}),
    ]


def _codex(words: str) -> list[dict[str, Any]]:
    def item(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": "item.completed", "item": {"id": "item_filled", "type": kind, **fields}}

    return [
        item("reasoning", text=words),
        item("command_execution", command=words, aggregated_output=words, exit_code=1, status="failed"),
        item("mcp_tool_call", server="x", tool="y", status="failed", error={"message": words}),
        item("web_search", query=words),
        item("todo_list", items=[{"text": words, "completed": False}]),
        item("agent_message", text=words),
    ]


def _opencode(words: str) -> list[dict[str, Any]]:
    def part(kind: str, **fields: Any) -> dict[str, Any]:
        of = {"id": "prt_filled", "messageID": "msg_filled", "sessionID": "ses_filled"}
        return {"type": kind, "sessionID": "ses_filled", "part": {**of, "type": kind.replace("_use", ""), **fields}}

    def tool(status: str, **state: Any) -> dict[str, Any]:
        state = {"status": status, "input": {"command": words}, "title": words, **state}
        return part("tool_use", callID="call_filled", tool="bash", state=state)

    return [
        part("reasoning", text=words),
        tool("completed", output=words, metadata={"output": words, "exit": 1}),
        tool("error", error=words),
        part("text", text=words),
    ]


CONTENT: Final[Mapping[str, Callable[[str], list[dict[str, Any]]]]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}


def _opencode_acp() -> Record:
    """No conversation of OpenCode's that ended well was recorded: the one whose tool ran, with an answer for its failure."""
    record = recording("opencode/acp/tool_then_529.json")
    *before, (at, _, failure) = record["frames"]
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "msg_1", "content": {"type": "text", "text": _SAID}}
    params = {"sessionId": before[-1][2]["params"]["sessionId"], "update": chunk}
    answer = {"stopReason": "end_turn", "usage": {"inputTokens": 12, "outputTokens": 6, "totalTokens": 18}}
    frames = [
        *before,
        [at, "in", {"jsonrpc": "2.0", "method": "session/update", "params": params}],
        [at, "in", {"jsonrpc": "2.0", "id": failure["id"], "result": answer}],
    ]
    return {**record, "frames": frames}


def good_turns() -> dict[str, Record]:
    """A turn that went well for each way in which an agent can tell of one."""
    names = (
        "claude/headless/success.json",
        "claude/headless/success@json.json",
        "claude/headless/success@partial.json",
        "claude/headless/success_tool.json",
        "claude-agent-acp/acp/success.json",
        "codex/headless/success_tool.json",
        "codex-acp/acp/success.json",
        "codex-acp/acp/success_tool.json",
        "opencode/headless/success.json",
    )
    passed_on: Record = json.loads(_PASSED_ON.read_text("utf-8"))
    return {n: recording(n) for n in names} | {"passed on": passed_on, "opencode acp": _opencode_acp()}

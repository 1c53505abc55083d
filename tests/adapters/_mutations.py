"""What varies between two runs of the same CLI in the same trouble, applied to recordings.

A *harmless* mutation leaves what the run amounts to as it is. A *tainting* one adds a sign that something may have happened, so
that the attempt must never be repeated by itself.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Record = dict[str, Any]
Event = dict[str, Any]
Mutation = Callable[[Record], Record]

_SESSION: Final = "00000000-0000-4000-8000-00000000beef"
_LOCAL: Final = frozenset({"system", "thread.started", "turn.started", "error"})
_OPTIONAL: Final = (
    "uuid", "timestamp", "request_id", "duration_ms", "duration_api_ms", "total_cost_usd", "modelUsage", "num_turns",
    "fast_mode_state", "subagent_stats", "permission_denials", "queued_turn_count", "result_index", "safety_stops",
    "model_usage_since_last_result", "api_error_params", "context_management", "diagnostics", "stop_details", "container",
    "parent_tool_use_id", "retry_delay_ms", "cached_input_tokens", "reasoning_output_tokens",
)  # fmt: skip


def events_of(record: Record) -> list[Event]:
    """The standard output's lines that are events."""
    parsed = (_parsed(line) for _, line in record["stdout_lines"])
    return [event for event in parsed if event is not None]


def _parsed(line: str) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _said(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def each_event(change: Callable[[Event], Event]) -> Mutation:
    """Change every event."""

    def mutate(record: Record) -> Record:
        lines = []
        for at, line in record["stdout_lines"]:
            event = _parsed(line)
            lines.append([at, line if event is None else _said(change(event))])
        return {**record, "stdout_lines": lines}

    return mutate


def each_text(*replacements: tuple[str, str]) -> Mutation:
    """Replace words wherever they stand."""

    def changed(lines: list[Any]) -> list[Any]:
        out = []
        for at, line in lines:
            words = line
            for old, new in replacements:
                words = words.replace(old, new)
            out.append([at, words])
        return out

    return lambda record: {
        **record,
        "stdout_lines": changed(record["stdout_lines"]),
        "stderr_lines": changed(record["stderr_lines"]),
    }


def _mapped(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if isinstance(value, dict):
        return change({name: _mapped(inner, change) for name, inner in value.items()})
    return [_mapped(inner, change) for inner in value] if isinstance(value, list) else value


def _without(names: tuple[str, ...]) -> Mutation:
    return each_event(lambda e: _mapped(e, lambda d: {k: v for k, v in d.items() if k not in names}))


def _extra(value: dict[str, Any]) -> dict[str, Any]:
    return {"_future": {"limit": 429, "note": "usage limit reached", "list": [1, None]}, **value, "x_since_v9": True}


def _crlf(record: Record) -> Record:
    return {
        **record,
        "stdout_lines": [[at, line + "\r"] for at, line in record["stdout_lines"]],
        "stderr_lines": [[at, line + "\r"] for at, line in record["stderr_lines"]],
    }


def _stderr_at(at: float) -> Mutation:
    return lambda record: {**record, "stderr_lines": [[at, line] for _, line in record["stderr_lines"]]}


def _noise(record: Record) -> Record:
    noise = [
        "(node:4711) [DEP0040] DeprecationWarning: The `punycode` module is deprecated.",
        "tests/test_limits.py::test_429_rate_limit PASSED",
        "MCP server 'github' failed: 401 Unauthorized",
        "[hook] Stop hook finished in 500 ms",
        "src/limits.rs:429:13: warning: unused variable: `usage_limit_reached`",
        "",
        "x" * 9000,
    ]
    return {
        **record,
        "stderr_lines": [[-1, n] for n in noise] + record["stderr_lines"] + [[10**6, n] for n in noise],
    }


def _blank_lines(record: Record) -> Record:
    lines = [pair for at, line in record["stdout_lines"] for pair in ([at, ""], [at, line], [at, "   "])]
    return {**record, "stdout_lines": lines}


def _other_ids(event: Event) -> Event:
    names = ("session_id", "thread_id")
    return {name: _SESSION if name in names else value for name, value in event.items()}


def _more_retries(record: Record) -> Record:
    """Each retry that is shown happened more often."""
    lines = []
    for at, line in record["stdout_lines"]:
        event = _parsed(line) or {}
        lines.append([at, line])
        if event.get("subtype") == "api_retry":
            lines += [[at, _said({**event, "attempt": n, "max_retries": 10})] for n in range(2, 6)]
        elif str(event.get("message", "")).startswith("Reconnecting... 1/5 "):
            lines += [[at, line.replace("... 1/5", f"... {n}/12")] for n in range(2, 9)]
    return {**record, "stdout_lines": lines}


def _harmless_events(record: Record) -> Record:
    """Events that healthy turns carry too."""
    if record["cli"] == "claude":
        more: list[Event] = [
            {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "resetsAt": 1796440782,
             "rateLimitType": "seven_day", "utilization": 0.91}},
            {"type": "keep_alive"},
            {"type": "system", "subtype": "status", "status": None},
            {"type": "system", "subtype": "hook_started", "hook_name": "SessionStart:startup", "hook_event": "SessionStart"},
            {"type": "user", "message": {"role": "user", "content": "Say hello."}, "parent_tool_use_id": None, "isReplay": True},
            {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "Say hello."}]}, "isReplay": True},
            {"type": "system", "subtype": "hook_response", "hook_event": "StopFailure", "exit_code": 0},
        ]  # fmt: skip
    else:
        more = [
            {"type": "item.completed", "item": {"id": "item_90", "type": "error",
             "message": "`config.toml` has the unknown key `rate_limit`; it is ignored."}},
        ]  # fmt: skip
    if not any(event.get("subtype") == "init" or event.get("type") == "thread.started" for event in events_of(record)):
        return record
    first = record["stdout_lines"][:1]
    return {**record, "stdout_lines": first + [[first[0][0], _said(e)] for e in more] + record["stdout_lines"][1:]}


HARMLESS: Final[Mapping[str, Mutation]] = {
    "crlf": _crlf,
    "unknown fields": each_event(lambda e: _mapped(e, _extra)),
    "other order of fields": each_event(lambda e: _mapped(e, lambda d: dict(reversed(d.items())))),
    "optional fields missing": _without(_OPTIONAL),
    "no session": _without(("session_id", "thread_id")),
    "other session": each_event(_other_ids),
    "stderr first": _stderr_at(-1.0),
    "stderr last": _stderr_at(10.0**6),
    "noise on stderr": _noise,
    "blank lines": _blank_lines,
    "more retries": _more_retries,
    "events of healthy turns": _harmless_events,
    "other models": each_text(
        ("claude-sonnet-4-5", "claude-opus-5-20270101"), ("fake-model-1", "gpt-6.1-codex-max"), ("gpt-5-codex", "o9")
    ),
    "other hosts": each_text(
        ("http://127.0.0.1:<PORT>", "https://llm.example.co.uk:8443/gw"), ("127.0.0.1:<PORT>", "llm.example.co.uk")
    ),
    "vendor's host": each_text(("http://127.0.0.1:<PORT>", "https://api.openai.com"), ("127.0.0.1:<PORT>", "x.test")),
    "other request ids": each_text(
        ("req_fake0001", "0199-500-429-529-401"), ("req_011Fake0000000000000001", "req_429")
    ),
    "straight apostrophes": each_text(("’", "'")),
    "curly apostrophes": each_text(("You've", "You’ve"), ("We're", "We’re"), ("model's", "model’s")),
    "other plans": each_text(
        ("Upgrade to Pro (https://chatgpt.com/explore/pro), visit", "Visit"),
        ("30,000 input tokens per minute", "2,000,000 output tokens per minute"),
    ),
    "escaped": lambda record: {
        **record,
        "stdout_lines": [
            [at, line if (e := _parsed(line)) is None else json.dumps(e)] for at, line in record["stdout_lines"]
        ],
    },
}


# Taints ---------------------------------------------------------------------------------------------------------------


def _end(record: Record) -> int:
    """Where what ends the turn begins: the first event that tells of the failure, or the last line."""
    for index, (_, line) in enumerate(record["stdout_lines"]):
        event = _parsed(line) or {}
        message = event.get("message")
        synthetic = isinstance(message, dict) and message.get("model") == "<synthetic>"
        last = "error" if record["cli"] == "opencode" else "turn.failed"
        if synthetic or event.get("type") in {"result", last}:
            return index
    return len(record["stdout_lines"])


def before_the_end(*events: Event | str) -> Mutation:
    """Insert events or raw lines before the failure."""

    def mutate(record: Record) -> Record:
        lines, end = copy.copy(record["stdout_lines"]), _end(record)
        at = lines[end - 1][0] if end else 0.0
        lines[end:end] = [[at, event if isinstance(event, str) else _said(event)] for event in events]
        return {**record, "stdout_lines": lines}

    return mutate


def _claude(*content: Event, parent: str | None = None, model: str | None = "claude-sonnet-4-5") -> Event:
    message: Event = {"id": "msg_01", "type": "message", "role": "assistant", "content": list(content)}
    return {
        "type": "assistant",
        "message": message if model is None else {**message, "model": model},
        "parent_tool_use_id": parent,
    }


def _stream(parent: str | None = None, **inner: Any) -> Event:
    return {"type": "stream_event", "event": inner, "parent_tool_use_id": parent, "session_id": _SESSION}


def _delta(**delta: Any) -> Event:
    return _stream(type="content_block_delta", index=0, delta=delta)


def _item(kind: str, stage: str = "completed", **fields: Any) -> Event:
    return {"type": f"item.{stage}", "item": {"id": "item_7", "type": kind, **fields}}


def _user(content: Any, **fields: Any) -> Event:
    return {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None, **fields}


def _hook(moment: str, subtype: str = "hook_started") -> Mutation:
    return before_the_end({"type": "system", "subtype": subtype, "hook_name": f"{moment}:x", "hook_event": moment})


def _result_with(**fields: Any) -> Mutation:
    """The last word says more; a ``usage`` is added to what is there."""

    def change(event: Event) -> Event:
        if event.get("type") != "result":
            return event
        used = {**event.get("usage", {}), **fields.get("usage", {})}
        return {**event, **fields, "usage": used}

    return each_event(change)


def _part(kind: str, **fields: Any) -> Event:
    """An event of OpenCode: its name is that of its part, but for a tool's."""
    name = "tool_use" if kind == "tool" else kind.replace("-", "_")
    return {"type": name, "sessionID": "ses_1", "part": {"id": "prt_1", "type": kind, **fields}}


def _log(*lines: str) -> Mutation:
    """Lines on standard error, after all that is there."""
    return lambda record: {**record, "stderr_lines": [*record["stderr_lines"], *([10.0**6, line] for line in lines)]}


_MODEL_USAGE: Final = {
    "claude-sonnet-4-5": {"inputTokens": 0, "outputTokens": 50, "costUSD": 0, "maxOutputTokens": 32000}
}
_USE: Final = {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"file_path": "a"}}
_RESULT: Final = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}

TAINTS: Final[Mapping[str, Mapping[str, Mutation]]] = {
    "claude": {
        "text": before_the_end(_claude({"type": "text", "text": "Working on it."})),
        "text without a model": before_the_end(_claude({"type": "text", "text": "Working."}, model=None)),
        "text that quotes a limit": before_the_end(_claude({"type": "text", "text": "You've hit your weekly limit"})),
        "thinking": before_the_end(_claude({"type": "thinking", "thinking": "Hm.", "signature": "s"})),
        "empty thinking": before_the_end(_claude({"type": "thinking", "thinking": "", "signature": "s"})),
        "redacted thinking": before_the_end(_claude({"type": "redacted_thinking", "data": "…"})),
        "tool": before_the_end(_claude(_USE)),
        "tool and result": before_the_end(
            _claude(_USE), {"type": "user", "message": {"role": "user", "content": [_RESULT]}, "parent_tool_use_id": None}
        ),
        "server tool": before_the_end(_claude({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}})),
        "MCP tool": before_the_end(_claude({**_USE, "name": "mcp__jira__create_issue"})),
        "result only": before_the_end({"type": "user", "message": {"role": "user", "content": [_RESULT]}}),
        "subagent's text": before_the_end(_claude({"type": "text", "text": "Sub."}, parent="toolu_9")),
        "subagent's tool": before_the_end(_claude(_USE, parent="toolu_9")),
        "subagent's stream": before_the_end(_stream("toolu_9", type="message_start", message={"model": "claude-haiku"})),
        "a response began": before_the_end(_stream(type="message_start", message={"model": "claude-sonnet-4-5"})),
        "text in pieces": before_the_end(_delta(type="text_delta", text="Wor")),
        "thinking in pieces": before_the_end(_delta(type="thinking_delta", thinking="H")),
        "tool in pieces": before_the_end(_stream(type="content_block_start", index=0, content_block={**_USE, "input": {}})),
        "unknown block": before_the_end(_claude({"type": "hologram", "data": "…"})),
        "unknown delta": before_the_end(_delta(type="hologram_delta", data="…")),
        "unknown event": before_the_end({"type": "agent_worked", "files": 3}),
        "a line that is no event": before_the_end("Wrote 3 files."),
        "half an event": before_the_end('{"type":"assistant","message":{"model":"claude-son'),
        "a list": before_the_end("[1,2]"),
        "a tool's result in words": before_the_end(_user("ok")),
        "a tool's result beside": before_the_end(_user([], tool_use_result={"stdout": "x"})),
        "an MCP tool's result": before_the_end(_user([{"type": "mcp_tool_result", "tool_use_id": "t", "content": "x"}])),
        "words given to the model": before_the_end(_user([{"type": "text", "text": "Output token limit hit. Resume."}])),
        "words given to the model, replayed": before_the_end(_user("Go on.", isReplay=True, isSynthetic=True)),
        "a command's output, replayed": before_the_end(_user("<local-command-stdout>x</local-command-stdout>", isReplay=True)),
        "a subagent's prompt": before_the_end(_user([{"type": "text", "text": "Find it."}], parent_tool_use_id="toolu_1")),
        "a message of another shape": before_the_end({"type": "user", "message": "ok"}),
        "a hook before a tool": _hook("PreToolUse"),
        "a hook after a tool": _hook("PostToolUse", "hook_response"),
        "a hook of leave": _hook("PermissionRequest"),
        "a hook after an answer": _hook("Stop"),
        "a hook after a subagent": _hook("SubagentStop"),
        "a hook that got the prompt": _hook("UserPromptSubmit"),
        "a hook of a newer Claude": _hook("FileChanged"),
        "a hook without a name": before_the_end({"type": "system", "subtype": "hook_started"}),
        "a compaction": before_the_end({"type": "system", "subtype": "compact_boundary"}),
        "a model that declined": before_the_end({"type": "system", "subtype": "model_fallback", "trigger": "refusal"}),
        "a task": before_the_end({"type": "system", "subtype": "task_started", "task_id": "b1"}),
        "a suggestion": before_the_end({"type": "prompt_suggestion", "suggestion": "run the tests"}),
        "a tool in place of an answer": before_the_end(_claude(_USE, model="<synthetic>")),
        "a remark in place of an answer": before_the_end(_claude({"type": "text", "text": "Wrote it."}, model="<synthetic>")),
        "a subagent's failure": before_the_end(_claude({"type": "text", "text": "x"}, model="<synthetic>", parent="toolu_9")),
        "a retry of a request that broke off in its stream": before_the_end(
            {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "error_status": 529, "error": "unknown"}
        ),
        "a tool that was denied": _result_with(permission_denials=[{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {}}]),
        "tokens by model": _result_with(modelUsage=_MODEL_USAGE),
        "tokens by model since": _result_with(model_usage_since_last_result=_MODEL_USAGE),
        "money": _result_with(total_cost_usd=0.0001),
        "turns": _result_with(num_turns=2),
        "a server's tool": _result_with(usage={"server_tool_use": {"web_search_requests": 1}}),
        "thought tokens": _result_with(usage={"output_tokens_details": {"thinking_tokens": 3}}),
        "tokens of one step": _result_with(usage={"iterations": [{"type": "message", "output_tokens": 3}]}),
        "messages that were begun": _result_with(begun_message_ids=["msg_01"]),
        "a first piece": _result_with(ttft_stream_ms=812),
        "a subagent's run": _result_with(subagent_stats={"spawned": 1}),
        "no usage": each_event(lambda e: {name: value for name, value in e.items() if name != "usage"}),
    },
    "codex": {
        "text": before_the_end(_item("agent_message", text="Working on it.")),
        "text that was begun": before_the_end(_item("agent_message", "started", text="Wor")),
        "text that quotes a limit": before_the_end(_item("agent_message", text="You've hit your usage limit.")),
        "thinking": before_the_end(_item("reasoning", text="**Planning**")),
        "thinking that was begun": before_the_end(_item("reasoning", "started", text="")),
        "plan": before_the_end(_item("todo_list", items=[{"text": "a", "completed": False}])),
        "command": before_the_end(
            _item("command_execution", "started", command="rm x", status="in_progress"),
            _item("command_execution", command="rm x", exit_code=0, status="completed"),
        ),
        "command that was begun": before_the_end(_item("command_execution", "started", command="rm x", status="in_progress")),
        "command that was declined": before_the_end(_item("command_execution", command="rm x", status="declined")),
        "edit": before_the_end(_item("file_change", changes=[{"path": "a", "kind": "add"}], status="completed")),
        "MCP tool": before_the_end(_item("mcp_tool_call", "started", server="jira", tool="create_issue", status="in_progress")),
        "search": before_the_end(_item("web_search", query="429 too many requests")),
        "subagent": before_the_end(_item("collab_tool_call", "started", tool="spawn_agent")),
        "unknown item": before_the_end(_item("hologram", data="…")),
        "item without a type": before_the_end({"type": "item.completed", "item": {"id": "item_7"}}),
        "no item": before_the_end({"type": "item.completed"}),
        "unknown event": before_the_end({"type": "turn.diff", "diff": "+x"}),
        "a line that is no event": before_the_end("Wrote 3 files."),
        "half an event": before_the_end('{"type":"item.completed","item":{"type":"agent_mes'),
        "a broken stream in a sentence of its own": before_the_end(
            {"type": "error", "message": "stream disconnected before completion: idle timeout waiting for SSE"}
        ),
        "a broken stream as older Codex tells it": before_the_end(
            {"type": "error", "message": "stream error: stream disconnected before completion; retrying 1/5 in 200ms…"}
        ),
        "an error in words that nobody knows": before_the_end({"type": "error", "message": "Something else went wrong."}),
        "an error without words": before_the_end({"type": "error"}),
        "a retry without a cause": before_the_end({"type": "error", "message": "Reconnecting... 1/5"}),
        "a known beginning with another end": before_the_end(
            {"type": "error", "message": "exceeded retry limit, last status: 429 (stream disconnected mid-way)"}
        ),
        "a remark of a broken stream": before_the_end(
            _item("error", message="Falling back from WebSockets to HTTPS transport. stream closed before response.completed")
        ),
        "a tool in the log": _log("2026-11-30T09:57:08Z  INFO codex_core::stream_events_utils: ToolCall: exec_command id=1"),
        "a tool in the log of another module": _log("2026-11-30T09:57:08Z  INFO codex_core::exec: ToolCall: shell"),
        "a command in the log": _log('exec bash -lc "rm -rf x" in /w succeeded in 3ms:'),
        "a retry after a broken stream": before_the_end(
            {"type": "error", "message": "Reconnecting... 2/5 (stream disconnected before completion: stream closed before response.completed)"}
        ),
    },
    "opencode": {
        "a step": before_the_end(_part("step-start")),
        "a step that ended": before_the_end(_part("step-finish", reason="tool-calls", tokens={"input": 10, "output": 5})),
        "a step that broke off": before_the_end(_part("step-finish", reason="unknown", tokens={})),
        "text": before_the_end(_part("text", text="Working on it.")),
        "text that quotes a limit": before_the_end(_part("text", text="You've hit your usage limit.")),
        "thinking": before_the_end(_part("reasoning", text="Hm.")),
        "tool": before_the_end(_part("tool", tool="bash", callID="c1", state={"status": "completed"})),
        "tool that failed": before_the_end(_part("tool", tool="bash", callID="c1", state={"status": "error"})),
        "unknown event": before_the_end({"type": "hologram", "sessionID": "ses_1"}),
        "a line that is no event": before_the_end("| Bash  rm x"),
        "half an event": before_the_end('{"type":"text","part":{"type":"te'),
        "a tool that nobody gave leave for": _log("! permission requested: bash (rm -rf x); auto-rejecting"),
        "the same in colours": _log("\x1b[93m\x1b[1m!\x1b[0m permission requested: external_directory (/etc/*); auto-rejecting"),
        "leave in other words": _log("Permission requested"),
    },
}  # fmt: skip

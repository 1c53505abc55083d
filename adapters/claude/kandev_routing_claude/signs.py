"""Signs that a turn had begun its work, wherever Claude says it (R-SAFE-1, R-SAFE-7, R-EVI-3).

What is not known to be harmless is a sign: one too many costs a repetition, one too few does the work twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kandev_routing_claude.failure import Event, as_dict, as_dicts, as_int, as_list, as_str
from kandev_routing_sdk.spec import JsonValue, TurnRecord

TOOL_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Blocks in which the model calls a tool."""
_TOOL_RESULT: Final = "tool_result"
_RESULT_FIELDS: Final = ("tool_use_result", "toolUseResult", "tool_result_meta", "sourceToolAssistantUUID")
"""What stands beside a message that gives a tool's result back to the model."""
_PROMPT_BLOCKS: Final = frozenset({"text", "image", "document"})
_COMMAND: Final = re.compile(r"<(?:local-command|bash)-")
"""What a command printed that Claude ran for the prompt itself, such as ``!`` in a slash command."""

_QUIET_HOOKS: Final = frozenset({"Setup", "SessionStart", "SessionEnd", "StopFailure"})
"""Hooks that run without the prompt's having been worked on. ``UserPromptSubmit`` is none of them: the request is not sent yet, but
the command has got the prompt and may have acted on it. ``Stop`` and ``SubagentStop`` follow an answer, most others a tool."""
_HOOK_EVENTS: Final = frozenset({"hook_started", "hook_progress", "hook_response"})
_QUIET_EVENTS: Final = frozenset({"status", "informational"})
_FALLBACK: Final = "model_fallback"
_REFUSED_REQUEST: Final = re.compile(r"(?i)overload|capacity|rate.?limit|unavailable|not.?found|\b(?:429|503|529)\b")
"""Why another model is asked although this one has not answered; one that declined has."""

_SPENT: Final = re.compile(r"(?i)(?:tokens|requests|cost(?:_?usd)?)\Z")
_LIMITS: Final = frozenset({"maxOutputTokens", "max_output_tokens"})
_FIRST_WORDS: Final = ("ttft_ms", "ttft_stream_ms", "first_content_frame_ms")
"""How long the first piece of a response took; a turn without a response has none of them."""
_MAX_DEPTH: Final = 6


def is_quiet(event: Event) -> bool:
    """Whether an event of the ``system`` tells of no work: a compaction is a response, a task or a hook of a tool is work."""
    subtype = as_str(event.get("subtype"))
    if subtype in _HOOK_EVENTS:
        moment = as_str(event.get("hook_event")) or as_str(event.get("hook_name")) or ""
        return moment.partition(":")[0] in _QUIET_HOOKS
    if subtype == _FALLBACK:
        why = as_str(event.get("trigger")) or as_str(event.get("reason")) or ""
        return never_answered(why)
    return subtype in _QUIET_EVENTS


def never_answered(why: str) -> bool:
    """Whether another model is asked because this one's request was refused, not because it declined."""
    return _REFUSED_REQUEST.search(why) is not None


def note_user(event: Event, turn: TurnRecord) -> bool:
    """Mark what a ``user`` event proves; return whether a tool was at work.

    Claude says the prompt again only when asked to, as a replay. All else is what it gave the model by itself: a tool's result in
    whatever shape, or words that follow an answer.
    """
    message = as_dict(event.get("message"))
    results = [block for block in as_dicts(message.get("content")) if _is_result(block)]
    for block in results:
        turn.tool_result(as_str(block.get("tool_use_id")) or "", ok=block.get("is_error") is not True)
    worked = bool(results)
    if not worked and any(event.get(name) is not None for name in _RESULT_FIELDS):
        turn.tool_result("")
        worked = True
    if (parent := event.get("parent_tool_use_id")) is not None:
        turn.tool_call(as_str(parent) or "", "subagent")
        worked = True
    if not worked and not _is_echo(event, message.get("content")):
        turn.acknowledged()
        turn.incomplete()
    return worked


def note_blocks(event: Event, turn: TurnRecord) -> None:
    """Mark what is no text in a message of the runtime: it was the model's after all."""
    message = as_dict(event.get("message"))
    for block in as_dicts(message.get("content")):
        kind = as_str(block.get("type")) or ""
        if kind in TOOL_USES:
            turn.tool_call(as_str(block.get("id")) or "", as_str(block.get("name")) or kind)
        elif _is_result(block):
            turn.tool_result(as_str(block.get("tool_use_id")) or "")
        elif kind != "text":
            turn.incomplete()
    if has_spent(message.get("usage")):
        turn.incomplete()


def note_denials(event: Event, turn: TurnRecord) -> None:
    """Say which tools nobody gave leave for: the model had called them."""
    denials = as_dicts(event.get("permission_denials"))
    denied = {as_str(entry.get("tool_name")) or "a tool": as_str(entry.get("tool_use_id")) or "" for entry in denials}
    if not denied:
        return
    for name, tool_id in denied.items():
        if not turn.effects.tool_call:
            turn.tool_call(tool_id, name)
    turn.notice(f"permission denied: {', '.join(sorted(denied))}")


def result_tells_of_work(event: Event, *, alone: bool, resumed: bool = False) -> bool:
    """Whether a ``result`` tells that something was answered, also one whose ``usage`` is all zero.

    Args:
        event: the ``result``.
        alone: whether nothing but the prompt's own requests is paid for in it. Over ACP a title is asked for beside them.
        resumed: whether the session went on from an earlier turn, whose money its sums hold as well.
    """
    if (as_int(event.get("num_turns")) or 0) > 1 or as_list(event.get("begun_message_ids")):
        return True
    if any(_is_positive(event.get(name)) for name in _FIRST_WORDS) or has_spent(event.get("usage")):
        return True
    if _is_positive(as_dict(event.get("subagent_stats")).get("spawned")):
        return True
    paid: tuple[str, ...] = ("total_cost_usd", "modelUsage", "model_usage_since_last_result")
    if resumed and isinstance(event.get("model_usage_since_last_result"), dict):
        paid = paid[-1:]  # an older Claude does not tell this turn's apart, and then the sums count
    return alone and has_spent({name: event.get(name) for name in paid})


def has_spent(usage: JsonValue) -> bool:
    """Whether any count of tokens, requests of a server's tool, or money is positive, however deep it stands."""
    return any(_is_positive(number) for number in _counts(usage, "", 0))


def _counts(value: JsonValue, name: str, depth: int) -> Iterator[JsonValue]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _counts(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _counts(inner, name, depth + 1)
    elif name not in _LIMITS and _SPENT.search(name):
        yield value


def _is_result(block: Event) -> bool:
    return (as_str(block.get("type")) or "").endswith(_TOOL_RESULT)


def _is_echo(event: Event, content: JsonValue) -> bool:
    """Whether a message is the prompt, said again."""
    if event.get("isReplay") is not True or event.get("isSynthetic") is True:
        return False
    if isinstance(content, str):
        return _COMMAND.search(content) is None
    blocks = as_dicts(content)
    texts = [as_str(block.get("text")) or "" for block in blocks]
    plain = bool(blocks) and all(block.get("type") in _PROMPT_BLOCKS for block in blocks)
    return plain and not any(_COMMAND.search(text) for text in texts)


def _is_positive(number: JsonValue) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and number > 0

"""Signs that work had begun, one by one (R-SAFE-1, R-SAFE-7, R-EVI-3): none may be missed, and healthy starts bear none."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_claude.acp_extractor import ClaudeAcpExtractor
from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_claude.signs import has_spent
from kandev_routing_sdk.evidence.updates import ToolCall
from tests.adapters._turns import Turn
from tests.adapters.claude import _frames as acp

Event = dict[str, Any]

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-sonnet-4-5"}
WORDS = "API Error: 529 Overloaded."
LABELS: Event = {"error": "server_error", "api_error_status": 529}
NOTHING = {"input_tokens": 0, "output_tokens": 0, "server_tool_use": {"web_search_requests": 0}}


def user(content: Any, **fields: Any) -> Event:
    return {"type": "user", "message": {"role": "user", "content": content}, **fields}


def system(subtype: str, **fields: Any) -> Event:
    return {"type": "system", "subtype": subtype, **fields}


def synthetic(*content: Event, **fields: Any) -> Event:
    return {"type": "assistant", "message": {"model": "<synthetic>", "content": [*content]}, **fields}


def failed(**fields: Any) -> Event:
    return {
        "type": "result", "subtype": "success", "is_error": True, "result": WORDS, "usage": NOTHING, "num_turns": 1,
        "total_cost_usd": 0, "modelUsage": {}, "permission_denials": [], **LABELS, **fields,
    }  # fmt: skip


def repeatable(turn: Turn) -> bool:
    """Whether the effect gate could let it pass: nothing came back, and nothing can have been missed."""
    effects = turn.record.effects
    return effects.complete and not effects.any_activity


def headless(*events: Event) -> Turn:
    turn = Turn(ClaudeExtractor()).feed(INIT, *events)
    turn.exit(1)
    return turn


QUIET = {
    "nothing": [],
    "a hook at the start": [system("hook_started", hook_name="SessionStart:startup", hook_event="SessionStart")],
    "its end, named only": [system("hook_response", hook_name="SessionStart:resume")],
    "a hook after a failure": [system("hook_response", hook_event="StopFailure")],
    "the prompt again": [user("Say hello.", isReplay=True)],
    "the prompt with a picture": [user([{"type": "image"}, {"type": "text", "text": "What is it?"}], isReplay=True)],
    "a model that was overloaded": [system("model_fallback", trigger="overloaded")],
    "a status": [system("status", status="requesting")],
    "the failure without its labels": [synthetic({"type": "text", "text": WORDS})],
    "a sentence of a failure": [synthetic({"type": "text", "text": "Error: it failed"})],
}


@pytest.mark.parametrize("what", QUIET)
def test_what_healthy_starts_say_keeps_a_refused_request_repeatable(what: str) -> None:
    assert repeatable(headless(*QUIET[what], failed()))


@pytest.mark.parametrize(
    "content",
    [
        "ok",
        "",
        [],
        None,
        [{"type": "text", "text": "Output token limit hit. Resume."}],
        [{"type": "mcp_tool_result", "content": "x"}],
        [{"type": "tool_result"}],
        [{"type": "hologram"}],
    ],
)
@pytest.mark.parametrize(
    "beside", [{}, {"tool_use_result": {"stdout": ""}}, {"parent_tool_use_id": "toolu_1"}, {"isSynthetic": True}]
)
def test_what_the_model_was_given_follows_an_answer(content: Any, beside: Event) -> None:
    assert not repeatable(headless(user(content, **beside), failed()))


@pytest.mark.parametrize(
    "fields",
    [{"tool_use_result": "x"}, {"parent_tool_use_id": "toolu_1"}, {"isSynthetic": True}, {"isReplay": 1}],
)
def test_a_replay_is_the_prompt_only_if_nothing_else_is_said_of_it(fields: Event) -> None:
    assert not repeatable(headless(user("Say hello.", **{"isReplay": True, **fields}), failed()))


@pytest.mark.parametrize("words", ["<local-command-stdout>x", "a <bash-stdout>x</bash-stdout>"])
def test_a_command_that_claude_ran_for_the_prompt_is_work(words: str) -> None:
    assert not repeatable(headless(user(words, isReplay=True), failed()))
    assert not repeatable(headless(user([{"type": "text", "text": words}], isReplay=True), failed()))


@pytest.mark.parametrize(
    "moment",
    ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "Stop", "SubagentStart", "SubagentStop",
     "UserPromptSubmit", "PreCompact", "Notification", "FileChanged", ""],
)  # fmt: skip
@pytest.mark.parametrize("subtype", ["hook_started", "hook_progress", "hook_response"])
def test_a_hook_that_had_the_prompt_or_followed_an_answer_leaves_doubt(moment: str, subtype: str) -> None:
    assert not repeatable(headless(system(subtype, hook_event=moment), failed()))
    assert not repeatable(headless(system(subtype, hook_name=f"{moment}:Bash"), failed()))


@pytest.mark.parametrize(
    "event",
    [system("compact_boundary"), system("model_fallback"), system("model_fallback", trigger="refusal"), system("task_started"),
     system("levitation"), system(""), {"type": "system"}, {"type": "prompt_suggestion"}],
)  # fmt: skip
def test_what_is_not_known_to_be_harmless_leaves_doubt(event: Event) -> None:
    assert not repeatable(headless(event, failed()))
    assert not repeatable(headless(failed(), event))


def test_a_tool_in_the_runtimes_own_message_was_the_models() -> None:
    turn = headless(synthetic({"type": "tool_use", "id": "t", "name": "Bash"}, is_api_error_message=True), failed())
    assert (True, [ToolCall("t", "Bash")]) == (turn.record.effects.tool_call, turn.of(ToolCall))


@pytest.mark.parametrize(
    "event",
    [
        synthetic({"type": "text", "text": "Wrote three files."}),
        synthetic({"type": "server_tool_result"}),
        synthetic({"type": "hologram"}),
        synthetic({"type": "text", "text": WORDS}, parent_tool_use_id="toolu_1", **LABELS),
        {"type": "assistant", "message": {"model": "<synthetic>", "content": [], "usage": {"output_tokens": 1}}},
    ],
)
def test_a_message_in_place_of_an_answer_may_tell_of_work(event: Event) -> None:
    assert not repeatable(headless(event, failed()))


SPENT: dict[str, Event] = {
    "denied": {"permission_denials": [{"tool_name": "Bash"}]},
    "denied without a name": {"permission_denials": [{}]},
    "turns": {"num_turns": 2},
    "money": {"total_cost_usd": 0.00001},
    "tokens by model": {"modelUsage": {"m": {"inputTokens": 0, "outputTokens": 1}}},
    "money by model": {"modelUsage": {"m": {"costUSD": 0.1}}},
    "since the last": {"model_usage_since_last_result": {"m": {"cacheReadInputTokens": 1}}},
    "a server's tool": {"usage": {**NOTHING, "server_tool_use": {"web_fetch_requests": 1}}},
    "a cache": {"usage": {**NOTHING, "cache_creation": {"ephemeral_5m_input_tokens": 9}}},
    "thought": {"usage": {**NOTHING, "output_tokens_details": {"thinking_tokens": 1}}},
    "a step": {"usage": {**NOTHING, "iterations": [{"output_tokens": 1}]}},
    "begun": {"begun_message_ids": ["msg_01"]},
    "a first token": {"ttft_ms": 3},
    "a first frame": {"first_content_frame_ms": 3.5},
    "a subagent": {"subagent_stats": {"spawned": 1}},
    "no usage": {"usage": None},
}
BESIDE = {"money", "tokens by model", "money by model", "since the last", "no usage"}
"""Over ACP a title is asked for beside the prompt, and paid for in the same result; there frames tell of the rest."""


@pytest.mark.parametrize("what", [what for what in SPENT if what != "no usage"])
def test_a_result_that_tells_of_an_answer_leaves_doubt(what: str) -> None:
    """R-SAFE-7: with ``--output-format=json`` the result is all that comes."""
    assert not repeatable(headless(failed(**SPENT[what])))
    alone = Turn(ClaudeExtractor()).feed(failed(**SPENT[what]))
    alone.exit(1)
    assert not repeatable(alone)


EARLIER: Event = {
    "total_cost_usd": 0.000168,
    "modelUsage": {"m": {"inputTokens": 24, "outputTokens": 12, "costUSD": 0.000168}},
}
"""What the turns before have spent: Claude tells it again in every result of the session."""


@pytest.mark.parametrize(
    ("expected", "fields"),
    [
        (True, {"model_usage_since_last_result": {}}),
        (False, {"model_usage_since_last_result": {"m": {"outputTokens": 1}}}),
        (False, {"model_usage_since_last_result": {}, "usage": {**NOTHING, "output_tokens": 1}}),
        (False, {}),  # an older Claude does not tell this turn's apart
    ],
)
def test_what_earlier_turns_have_spent_is_no_work_of_this_one(expected: bool, fields: Event) -> None:
    turn = Turn(ClaudeExtractor(resumed=True)).feed(INIT, failed(**EARLIER, **fields))
    turn.exit(1)
    assert expected is repeatable(turn)


def test_a_denied_tool_is_called_once() -> None:
    use = {"type": "assistant", "message": {"model": "m", "content": [{"type": "tool_use", "id": "t", "name": "Bash"}]}}
    denied = failed(permission_denials=[{"tool_name": "Bash", "tool_use_id": "t"}])
    assert [ToolCall("t", "Bash")] == headless(use, denied).of(ToolCall)
    assert [ToolCall("t", "Bash")] == headless(denied).of(ToolCall)


@pytest.mark.parametrize(
    ("usage", "spent"),
    [
        ({"m": {"contextWindow": 200000, "maxOutputTokens": 32000, "costUSD": 0, "outputTokens": 0}}, False),
        ({"output_tokens": True, "input_tokens": "7", "x": 5}, False),
        ([[{"input_tokens": 1}]], True),
        ({"output_tokens": -1}, False),
        (None, False),
    ],
)
def test_only_what_was_used_counts_as_spent(usage: Any, spent: bool) -> None:
    assert spent is has_spent(usage)


IN_STREAM = synthetic(
    {"type": "text", "text": "API Error: Overloaded"}, is_api_error_message=True, error="unknown", api_error_status=529
)
CLEAN = synthetic({"type": "text", "text": WORDS}, is_api_error_message=True, **LABELS)


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([CLEAN, CLEAN], True),
        ([IN_STREAM, CLEAN], False),
        ([system("api_retry", attempt=1, error_status=529, error="overloaded"), CLEAN], True),
        ([system("api_retry", attempt=1, error_status=529, error="unknown"), CLEAN], False),
        ([system("api_retry", attempt=1, error_status=None, error="unknown"), CLEAN], False),
    ],
)
def test_each_request_counts_however_clean_the_last_one_ended(events: list[Event], left: bool) -> None:
    assert left is repeatable(headless(*events, failed()))


# The same, passed on over ACP -----------------------------------------------------------------------------------------


def over_acp(*events: Event, **fields: Any) -> Turn:
    notice = acp.notice(acp.REFUSED, **LABELS)
    passed = [acp.event(**event) for event in events]
    words = {name: value for name, value in failed(**fields).items() if name not in {"type", "result"}}
    return Turn(ClaudeAcpExtractor()).feed(
        *passed, notice, acp.event(type="result", result=acp.REFUSED, **words), acp.refused()
    )


@pytest.mark.parametrize("what", QUIET)
def test_over_acp_healthy_starts_stay_repeatable(what: str) -> None:
    events = [event for event in QUIET[what] if event["type"] != "assistant"]
    assert repeatable(over_acp(INIT, *events))


@pytest.mark.parametrize(
    "event",
    [
        user("ok"),
        user([{"type": "mcp_tool_result"}]),
        user([], tool_use_result="x"),
        system("hook_started", hook_event="Stop"),
        system("compact_boundary"),
        {"type": "stream_event", "event": {"type": "ping"}},
        synthetic({"type": "tool_use", "id": "t", "name": "Bash"}),
    ],
)
def test_over_acp_a_sign_that_is_passed_on_leaves_doubt(event: Event) -> None:
    assert not repeatable(over_acp(event))


@pytest.mark.parametrize("what", [what for what in SPENT if what not in BESIDE])
def test_over_acp_a_result_that_tells_of_an_answer_leaves_doubt(what: str) -> None:
    assert not repeatable(over_acp(**SPENT[what]))


@pytest.mark.parametrize("what", ["money", "tokens by model"])
def test_over_acp_a_title_is_no_answer(what: str) -> None:
    """R-EVI-4: a background request proves nothing of the prompt's."""
    assert repeatable(over_acp(**SPENT[what]))


@pytest.mark.parametrize(("why", "left"), [("opus declined", False), ("opus is overloaded", True)])
def test_over_acp_a_model_that_declined_had_answered(why: str, left: bool) -> None:
    turn = Turn(ClaudeAcpExtractor()).feed(acp.chunk(f"**Model fallback:** {why}", None))
    turn.feed(acp.notice(acp.REFUSED, **LABELS), acp.refused())
    assert left is repeatable(turn)

"""Sessions whose agents break the protocol: what was late, double or foreign is nobody's turn (R-SAFE-1, R-SAFE-6, R-ENG-9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kandev_routing_sdk import Router
from kandev_routing_sdk.process.group import live_processes
from kandev_routing_sdk.telemetry import Totals
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.testing.scripted.bodies import quota_limited
from kandev_routing_sdk.types import AttemptOutcome
from tests.routes._world import answers
from tests.sessions._home import Home

MANY = 100_000
QUIET = {"quiet_period_s": 0.3}


@pytest.fixture
def acp_home(lite_home: Home) -> Home:
    """Agents that speak ACP, on SQLite: for what is decided before anything is written."""
    lite_home.transport = "acp"
    return lite_home


@pytest.fixture
def either_acp_home(home: Home) -> Home:
    """The same on either engine: for frames that come while a turn or a switch is written, which the store's fence keeps out."""
    home.transport = "acp"
    return home


def line(**fields: Any) -> str:
    """A message of the agent's."""
    return json.dumps({"jsonrpc": "2.0", **fields})


def update(session: str | None = None, **fields: Any) -> str:
    """An update, of another session if one is named."""
    params = {"update": fields, **({"sessionId": session} if session else {})}
    return line(method="session/update", params=params)


def failed_and_then(*late: str) -> ScriptBuilder:
    """Report a limit, and go on talking."""
    steps = answers().garbage(line(id=3, error=dict(quota_limited(3600))))
    for one in late:
        steps.garbage(one)
    return steps.hang()


LATE_SAFE = [
    line(id=3, error={"code": -32603, "message": "once more"}),
    line(id=3, result={"stopReason": "end_turn"}),
    line(id=2, result={"sessionId": "other"}),
    update(sessionUpdate="available_commands_update", availableCommands=[{"name": "late"}]),
    update("other", sessionUpdate="available_commands_update", availableCommands=[{"name": "foreign"}]),
]
LATE_EFFECTS = [
    update(sessionUpdate="tool_call", toolCallId="late"),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "late"}),
    update(sessionUpdate="teleport"),
    update("other", sessionUpdate="tool_call", toolCallId="foreign"),
]


def test_late_and_double_frames_of_a_left_agent_are_nobodys(either_acp_home: Home) -> None:
    """The switch is made as if they had never come, and the successor's turn knows nothing of them (R-ENG-9, R-CON-8)."""
    home, totals = either_acp_home, Totals()
    home.agent("fable", failed_and_then(*LATE_SAFE), options={"quiet_period_s": 1.0})
    home.agent("codex", answers().say("codex's"), options=QUIET)

    async def work(router: Router) -> None:
        router._engine.telemetry.add_sink(totals)
        await router.run_worker(until_idle=True, poll_s=0.01)

    begun = home.begin()
    home.async_with(work)
    seen = home.see(begun.session_id)

    counted = {
        labels: n for (metric, labels), n in totals.read().items() if metric.name == "routing_stale_dropped_total"
    }
    assert {(("what", "frame"),): 4} == counted, "two more answers, one to nothing, and one of another session"
    first, second = home.rows(seen.session_id)
    assert ("active", "codex", 2) == (seen.state, seen.execution_profile_id, seen.generation)
    assert (AttemptOutcome.FAILED, AttemptOutcome.SUCCESS) == (first.outcome, second.outcome)
    assert "quota_limited" == (first.classification.code if first.classification else None)
    assert seen.capabilities is not None
    assert [] == seen.capabilities["commands"]
    assert [] == [p for p in live_processes() if p.group in {first.process_group, second.process_group}]


@pytest.mark.parametrize("late", LATE_EFFECTS, ids=["tool", "output", "unknown", "foreign tool"])
def test_what_may_be_work_after_a_failure_keeps_the_successor_away(acp_home: Home, late: str) -> None:
    """A person decides, for the request may be half done (R-SAFE-1, R-SAFE-6)."""
    home = acp_home
    home.agent("fable", failed_and_then(late), options=QUIET)
    home.agent("codex", answers().say("never"), options=QUIET)

    seen = home.run()

    assert ("action_required", "fable", 0) == (seen.state, seen.execution_profile_id, home.agents["codex"].starts)
    assert "retry_now" in seen.actions


@pytest.mark.parametrize(
    "steps",
    [
        answers().say("all").garbage(line(id=3, result={"stopReason": "end_turn"})).garbage(LATE_EFFECTS[0]).hang(),
        answers().say("all").garbage(line(id=3, result={"stopReason": "end_turn"})).garbage(LATE_EFFECTS[2]).hang(),
    ],
    ids=["tool", "unknown"],
)
def test_updates_after_end_turn_change_no_answer(either_acp_home: Home, steps: ScriptBuilder) -> None:
    """It was answered; that answer stands, and the session takes its next message."""
    home = either_acp_home
    home.agent("fable", steps, answers().say("next"), options=QUIET)
    home.agent("codex", answers().say("never"), options=QUIET)

    seen = home.run()
    assert "active" == seen.state
    home.say(seen.session_id)
    home.work()

    after = home.see(seen.session_id)
    assert ("active", 1, 0) == (after.state, after.generation, home.agents["codex"].starts)
    assert [AttemptOutcome.SUCCESS] * 2 == [row.outcome for row in home.rows(seen.session_id)]


def test_an_agent_that_is_deaf_does_not_hold_its_session(acp_home: Home) -> None:
    """It closed its standard input before the prompt: whether that was read nobody knows, so a person is asked (R-SAFE-1)."""
    home = acp_home
    home.agent("fable", answers().say("never"), options=QUIET).set(reads=2)
    home.agent("codex", answers().say("never"), options=QUIET)

    seen = home.run()

    assert ("action_required", "fable", 0) == (seen.state, seen.execution_profile_id, home.agents["codex"].starts)
    (row,) = home.rows(seen.session_id)
    assert (AttemptOutcome.FAILED, []) == (row.outcome, home.agents["fable"].prompts)


def test_a_turn_of_100000_updates_is_heard_whole_and_kept_in_few_rows(acp_home: Home) -> None:
    """In seconds: its text is joined, whatever it came in (R-CON-6)."""
    home = acp_home
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "x"}}
    home.agent("fable", answers().update(chunk, times=MANY).say("!", message_id="m"), options=QUIET)

    seen = home.run()

    assert "active" == seen.state
    output = [e.params for e in home.store.events(session_id=seen.session_id, limit=10_000) if "text" in e.params]
    assert "x" * MANY + "!" == "".join(str(p["text"]) for p in output if p.get("type") == "text")
    assert MANY // 100 > len(output)
    (row,) = home.rows(seen.session_id)
    assert row.effects is not None
    assert (AttemptOutcome.SUCCESS, True) == (row.outcome, row.effects.complete)

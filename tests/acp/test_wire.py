"""No line of standard output stops the conversation (R-EVI-3)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.acp.messages import prompt
from kandev_routing_sdk.acp.wire import Wire
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import AgentUpdate, CapabilitiesUpdate
from kandev_routing_sdk.process.feed import TurnFeed
from kandev_routing_sdk.process.limits import DEFAULT_LIMITS
from kandev_routing_sdk.process.lines import Line
from kandev_routing_sdk.spec.acp import StandardAcpExtractor
from kandev_routing_sdk.spec.adapter import LaunchPlan
from kandev_routing_sdk.spec.client import NOBODY, Asker, HostSide, PermissionRequest
from kandev_routing_sdk.spec.client_files import local_files
from kandev_routing_sdk.types import Transport
from tests.acp.test_extractor import JSON
from tests.process._drive import PlainCleaner

PLAN = LaunchPlan(transport=Transport.ACP, argv=("a",), environ={}, cwd=Path(), descriptor=None, provider_id=None)
METHODS = st.sampled_from(["session/update", "session/request_permission", "fs/read_text_file", "_x/y", ""]) | JSON
PARAMS = st.fixed_dictionaries(
    {},
    optional={"sessionId": st.sampled_from(["s", "other"]) | JSON, "update": JSON, "toolCall": JSON, "options": JSON},
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from([1, 2, "1"]) | JSON,
        "method": METHODS,
        "params": PARAMS | JSON,
        "result": JSON,
        "error": JSON,
    },
)
LINES = st.builds(Line, MESSAGES.map(json.dumps) | JSON.map(json.dumps) | st.text(max_size=30), st.booleans())


async def converse(lines: list[Line], host: HostSide = NOBODY) -> tuple[Wire, TurnRecord]:
    turn = TurnRecord(TurnContext(family="x"), PlainCleaner(), lambda _: None)
    wire = Wire(PLAN, TurnFeed(StandardAcpExtractor(), turn, None, DEFAULT_LIMITS), DEFAULT_LIMITS, host)
    wire.session_id = "s"
    wire.turn_to(TurnFeed(StandardAcpExtractor(), turn, None, DEFAULT_LIMITS))
    turn.sent()
    answer = wire.peer.request(prompt("s", "Hi"))
    for line in lines:
        await wire.on_stdout(line)
    wire.close()
    await answer
    return wire, turn


@settings(max_examples=300)
@given(st.lists(LINES, max_size=6))
def test_whatever_comes_nothing_raises(lines: list[Line]) -> None:
    wire, turn = asyncio.run(converse(lines))
    assert not wire.feed.broken.is_set()
    assert len(lines) == wire.lines
    assert turn.effects is not None


@settings(max_examples=40)
@given(st.lists(LINES, max_size=6))
def test_whatever_is_asked_of_a_host_nothing_raises(lines: list[Line]) -> None:
    """And nobody waits for it."""

    async def talk() -> tuple[TurnRecord, list[asyncio.Task[Any]]]:
        async def decide(request: PermissionRequest) -> str | None:
            return request.options[0].option_id if request.options else None

        host = HostSide(Asker("s", 1, "p", Path("/nowhere")), decide, local_files(write=True))
        _, turn = await converse(lines, host)
        await asyncio.sleep(0.01)
        return turn, [task for task in asyncio.all_tasks() if task.get_name() == "client request" and not task.done()]

    turn, left = asyncio.run(talk())
    assert ([], True) == (left, turn.effects is not None)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["sessionUpdate", "x"]),
            st.text(max_size=5) | st.lists(st.integers(), max_size=1),
            max_size=2,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_what_another_session_says_is_counted_and_never_safe(updates: list[dict[str, Any]]) -> None:
    """R-EVI-4; R-SAFE-1: the process is the attempt's own, whatever it calls its session."""
    message = [{"method": "session/update", "params": {"sessionId": "other", "update": update}} for update in updates]
    wire, turn = asyncio.run(converse([Line(json.dumps(m), truncated=False) for m in message]))
    assert (len(updates), False) == (wire.stale, turn.effects.complete)


async def test_what_is_offered_between_the_session_and_its_prompt_is_told_with_the_turn() -> None:
    """R-CON-7: agents list their commands right after they opened a session."""
    told: list[AgentUpdate] = []
    turn = TurnRecord(TurnContext(family="x"), PlainCleaner(), told.append)
    feed = TurnFeed(StandardAcpExtractor(), turn, None, DEFAULT_LIMITS)
    wire = Wire(PLAN, feed, DEFAULT_LIMITS)
    wire.session_id = "s"
    assert [] == wire.opened().get("commands", [])
    update = {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "go"}]}
    message = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
    await wire.on_stdout(Line(json.dumps(message), truncated=False))
    assert [] == told

    wire.turn_to(feed)

    assert [CapabilitiesUpdate({"commands": [{"name": "go"}]})] == told


async def test_a_past_that_comes_late_is_not_taken_for_the_turns() -> None:
    """R-CON-2: until the prompt is sent, what the agent of a loaded session tells is the past."""
    turn = TurnRecord(TurnContext(family="x"), PlainCleaner(), lambda _: None)
    feed = TurnFeed(StandardAcpExtractor(), turn, None, DEFAULT_LIMITS)
    wire = Wire(PLAN, feed, DEFAULT_LIMITS)
    wire.session_id, wire.replays = "s", True
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
    said = Line(
        json.dumps({"method": "session/update", "params": {"sessionId": "s", "update": chunk}}), truncated=False
    )
    await wire.on_stdout(said)
    before = turn.effects.output
    wire.turn_to(feed)
    await wire.on_stdout(said)
    assert (False, True) == (before, turn.effects.output)

"""Agents that break the protocol, each handled within bounds: nothing of it is taken for an answer or for another turn's."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.acp import AcpDownstream
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import ToolCall
from kandev_routing_sdk.spec.acp import StandardAcpExtractor
from kandev_routing_sdk.spec.adapter import AcpFrame
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.acp.test_downstream import acp, reasons
from tests.process._drive import QUICK, Driven, PlainCleaner

MANY = 100_000
PATIENT = replace(QUICK, quiet_max_s=20)


def update(**fields: Any) -> str:
    """An update of the session under way."""
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"update": fields}})


def chunk(text: str) -> dict[str, Any]:
    """A piece of the answer."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": "msg_1", "content": content}


def answer(**result: Any) -> str:
    """An answer to the prompt, which is the third request of this client."""
    return json.dumps({"jsonrpc": "2.0", "id": 3, "result": result})


def stale(driven: Driven) -> int:
    """How many frames were dropped and counted."""
    assert isinstance(driven.downstream, AcpDownstream)
    return driven.downstream.stale_frames


# --- after the end ---


async def test_an_update_after_end_turn_is_shown_and_changes_no_outcome(tmp_path: Path) -> None:
    """R-SAFE-6: within the quiet period it is still this turn's."""
    steps = (
        ScriptBuilder().say("all").garbage(answer(stopReason="end_turn")).sleep(0.1).garbage(update(**chunk(" done")))
    )
    driven = acp(ScriptedAgent(tmp_path / "a", steps.hang()), options={"quiet_period_s": 1.0}, limits=PATIENT)
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "end_turn", "all done") == (report.outcome, report.stop_reason, report.text)
    assert "all done" == driven.shown


async def test_an_effect_after_end_turn_is_marked(tmp_path: Path) -> None:
    """R-SAFE-6."""
    late = update(sessionUpdate="tool_call_update", toolCallId="late", status="completed")
    steps = ScriptBuilder().say("all").garbage(answer(stopReason="end_turn")).sleep(0.1).garbage(late).hang()
    report = await acp(ScriptedAgent(tmp_path / "a", steps), options={"quiet_period_s": 1.0}, limits=PATIENT).run()
    assert (AttemptOutcome.SUCCESS, True) == (report.outcome, report.effects.tool_effect)


async def test_output_after_an_empty_end_turn_makes_it_no_empty_answer(tmp_path: Path) -> None:
    """R-CON-7: what is an empty answer is judged when it is quiet."""
    steps = ScriptBuilder().garbage(answer(stopReason="end_turn")).sleep(0.1).garbage(update(**chunk("late"))).hang()
    report = await acp(ScriptedAgent(tmp_path / "a", steps), options={"quiet_period_s": 1.0}, limits=PATIENT).run()
    assert (AttemptOutcome.SUCCESS, "late", True) == (report.outcome, report.text, report.effects.output)


@pytest.mark.parametrize(
    "second",
    [
        answer(stopReason="refusal"),
        '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Overloaded"}}',
        '{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}',
    ],
    ids=["another end", "an error", "of nothing"],
)
async def test_a_second_answer_is_dropped_and_counted(tmp_path: Path, second: str) -> None:
    """R-ENG-9: the first answer to the prompt is the answer."""
    steps = ScriptBuilder().say("all").garbage(answer(stopReason="end_turn")).garbage(second).hang()
    driven = acp(ScriptedAgent(tmp_path / "a", steps))
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "end_turn", 1) == (report.outcome, report.stop_reason, stale(driven))


async def test_an_agent_that_never_gets_quiet_is_not_waited_for(tmp_path: Path) -> None:
    """R-SAFE-6: the quiet period is bounded, and what was cut off by that bound was not seen whole."""
    steps = ScriptBuilder().say("all").garbage(answer(stopReason="end_turn"))
    for _ in range(200):
        steps.garbage(update(sessionUpdate="usage_update", used=1)).sleep(0.02)
    driven = acp(ScriptedAgent(tmp_path / "a", steps.hang()))
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "all", False) == (report.outcome, report.text, report.effects.complete)


# --- closed pipes ---


async def test_an_agent_that_closed_its_input_is_not_waited_for(tmp_path: Path) -> None:
    """A prompt that cannot be delivered is never answered; whether it was read nobody knows (R-SAFE-1)."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("never"))
    agent.set(reads=2)
    driven = acp(agent)
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.SENT, []) == (report.outcome, report.effects.delivery, agent.prompts)
    assert "input_closed" in reasons(driven)
    assert driven.nobody_left


async def test_an_agent_that_closes_its_input_in_the_handshake(tmp_path: Path) -> None:
    """The session cannot be asked for: nothing was sent (R-SAFE-1)."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("never"))
    agent.set(reads=1)
    driven = acp(agent)
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.NOT_SENT) == (report.outcome, report.effects.delivery)
    assert "input_closed" in reasons(driven)
    assert driven.nobody_left


async def test_an_agent_that_has_read_its_prompt_may_close_its_input(tmp_path: Path) -> None:
    """What is on its way to us is still heard."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().sleep(0.3).say("all"))
    agent.set(reads=3)
    driven = acp(agent)
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "all", True) == (report.outcome, report.text, report.effects.complete)


async def test_an_agent_that_closed_its_output_and_lives_on_is_ended(tmp_path: Path) -> None:
    """R-CON-11: it can say nothing any more, and ignores what it is asked to do."""
    steps = ScriptBuilder().ignore_signals().say("Half").close_stdout().hang(deaf=True)
    agent = ScriptedAgent(tmp_path / "a", steps)
    agent.set(ignore_eof=True)
    driven = acp(agent)
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "agent_exited", "Half") == (report.outcome, report.stop_reason, report.text)
    assert driven.nobody_left


# --- bytes ---


async def test_bytes_that_are_no_text_stay_in_their_message(tmp_path: Path) -> None:
    """A message of another encoding is read as far as it can be."""
    line = update(**chunk("a@b")).encode().replace(b"@", b"\xff\xfe\xc3")
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().raw_bytes(line).say("!")))
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "a\ufffd\ufffd\ufffdb!") == (report.outcome, report.text)


@pytest.mark.parametrize("line", [b"\xff\xfe\x00{\x00", b"\x80" * 100_000, bytes(range(11, 256))])
async def test_bytes_that_are_no_message_may_have_been_an_effect(tmp_path: Path, line: bytes) -> None:
    """R-SAFE-1."""
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().raw_bytes(line).fail_overloaded()))
    report = await driven.run()
    assert (AttemptOutcome.FAILED, False) == (report.outcome, report.effects.complete)
    assert report.evidence.model_dump_json()


# --- floods ---


FLOODS: dict[str, dict[str, Any]] = {
    "answer": chunk("xy"),
    "tools": {"sessionUpdate": "tool_call", "title": "t" * 100},
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_turn_of_100000_updates_is_kept_in_bounds(flood: str) -> None:
    """R-SAFE-1, R-CON-11: what is remembered of a turn does not grow with what its agent says, beyond its answer."""
    seen = [0]

    def emit(_: object) -> None:
        seen[0] += 1

    turn, extractor = TurnRecord(TurnContext(family="x"), PlainCleaner(), emit), StandardAcpExtractor()
    before = sys.getallocatedblocks()
    for number in range(MANY):
        one = json.loads(
            json.dumps({"toolCallId": f"{number}-{'i' * 100}", **FLOODS[flood]})
        )  # as it comes: anew each time
        extractor.receive(AcpFrame({"method": "session/update", "params": {"update": one}}), turn)
    assert MANY // 2 > sys.getallocatedblocks() - before, "less than one block for every second update"
    assert MANY == seen[0]


async def test_many_tools_are_each_shown_once(tmp_path: Path) -> None:
    """As far as any agent goes."""
    steps = ScriptBuilder()
    for number in range(300):
        for status in ("pending", "in_progress", "completed"):
            kind = "tool_call" if status == "pending" else "tool_call_update"
            steps.update({"sessionUpdate": kind, "toolCallId": f"c{number}", "title": "t", "status": status})
    driven = acp(ScriptedAgent(tmp_path / "a", steps))
    await driven.run()
    assert 300 == sum(isinstance(u, ToolCall) for u in driven.updates)

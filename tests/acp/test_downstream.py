"""The ACP driver against well-behaved and hostile agents (R-EVI-3, R-SAFE-6, R-CON-11)."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.acp import AcpDownstream
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import neutral_sources
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.evidence.updates import CapabilitiesUpdate, ToolCall
from kandev_routing_sdk.process.group import read_stat
from kandev_routing_sdk.spec.adapter import AcpFrame, AgentEvent
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from kandev_routing_sdk.testing.scripted.adapter import ScriptedAcpExtractor
from kandev_routing_sdk.types import AttemptOutcome, Channel, Delivery, Phase
from tests.process._drive import QUICK, SECRET, Driven, drive, make_plan


@pytest.fixture(autouse=True)
def _silent_loggers(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing of what an agent does is logged as an error, by anybody."""
    yield
    assert [] == [r for r in caplog.records if r.levelno >= logging.WARNING]


def acp(
    agent: ScriptedAgent, *, env: dict[str, str] | None = None, drives: Any = AcpDownstream, **fields: Any
) -> Driven:
    extra = {k: fields.pop(k) for k in ("extractor", "limits", "on_spawn", "on_first_sign") if k in fields}
    return drive(make_plan(agent, env=env, **fields), drives=drives, **extra)


def reasons(driven: Driven) -> list[object]:
    return [
        s.data.get("violation")
        for s in driven.report().evidence.signals
        if isinstance(s.data, dict) and "violation" in s.data
    ]


async def test_an_answer_comes_back_with_its_effects_and_capabilities(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().think("hm").say("Hel").say("lo").tool(line="ran").usage(8, 3))
    agent.set(models=["m1", "m2"], modes=["plan", "edit"])
    driven = acp(agent, model="m2", mode="edit")
    report = await driven.run("Greet.")
    assert (AttemptOutcome.SUCCESS, "end_turn", "Hello") == (report.outcome, report.stop_reason, report.text)
    assert all([report.effects.thinking, report.effects.tool_effect, report.effects.complete])
    assert report.usage is not None
    assert (8, 3) == (report.usage.input_tokens, report.usage.output_tokens)
    assert driven.ready is not None
    assert driven.ready.native_session_id == report.native_session_id == agent.prompts[0].native_session_id
    assert ("m2", "edit") == (driven.ready.capabilities["current_model"], driven.ready.capabilities["current_mode"])
    assert ["initialize", "session/new", "session/set_mode", "session/set_model", "session/prompt"] == [
        e["method"] for e in agent.log if e["event"] == "request"
    ]
    assert [Delivery.ACKNOWLEDGED] == driven.signs
    assert driven.nobody_left


async def test_a_failure_keeps_its_structure_and_no_effect(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().fail_rate_limited(30))
    driven = acp(agent)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.ACKNOWLEDGED) == (report.outcome, report.effects.delivery)
    assert (True, False) == (report.effects.complete, report.effects.any_activity)
    (signal,) = report.evidence.signals
    assert (Channel.ACP_ERROR, -32603, 429) == (signal.channel, signal.code, signal.http_status)
    assert {"retry-after": "30"} == signal.headers
    assert Phase.PROMPT_SEND is signal.phase


@pytest.mark.parametrize("reason", ["refusal", "cancelled", "dreaming", ""])
async def test_only_known_good_stop_reasons_are_a_success(tmp_path: Path, reason: str) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x").stop(reason))
    assert AttemptOutcome.FAILED is (await acp(agent).run()).outcome


@pytest.mark.parametrize("moment", ["initialize", "session"])
async def test_an_error_in_the_handshake_sent_nothing(tmp_path: Path, moment: str) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))
    agent.at(moment, ScriptBuilder().fail_auth())
    driven = acp(agent)
    report = await driven.run()
    assert driven.ready is None
    assert (AttemptOutcome.FAILED, Delivery.NOT_SENT) == (report.outcome, report.effects.delivery)
    assert (-32000, 401) == (report.evidence.signals[0].code, report.evidence.http_status)
    assert {"initialize": Phase.PROCESS_START, "session": Phase.SESSION_INIT}[moment] is report.evidence.signals[
        0
    ].phase
    assert [] == agent.prompts


async def test_an_agent_that_exits_before_initialize(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("start", ScriptBuilder().stderr("no config").exit(3))
    driven = acp(agent)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, 3, Phase.PROCESS_START) == (
        report.outcome,
        report.evidence.exit_code,
        report.evidence.phase,
    )
    assert [Channel.STDERR, Channel.EXIT] == [s.channel for s in report.evidence.signals]
    assert (Delivery.NOT_SENT, True) == (report.effects.delivery, driven.nobody_left)


async def test_a_missing_executable_sent_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    driven = drive(replace(make_plan(agent), argv=(str(tmp_path / "none"),)), drives=AcpDownstream)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.NOT_SENT, []) == (report.outcome, report.effects.delivery, driven.groups)


async def test_an_agent_that_never_answers_and_a_caller_that_gives_up(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("start", ScriptBuilder().ignore_signals().child(own_session=True).hang(deaf=True))
    driven = acp(agent)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.downstream.start, driven.turn)
            while not agent.children:  # noqa: ASYNC110  # the agent is another process
                await anyio.sleep(0.02)
            scope.cancel()
    assert scope.cancelled_caught
    assert driven.nobody_left
    assert Delivery.NOT_SENT is driven.report().effects.delivery
    (child,) = agent.children
    left = read_stat(child)
    assert left is None or not left.alive


async def test_the_handshake_is_bounded(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("initialize", ScriptBuilder().hang())
    driven = acp(agent, limits=replace(QUICK, handshake_s=1.5))
    report = await driven.run()
    assert (AttemptOutcome.FAILED, "handshake_timeout") == (report.outcome, report.stop_reason)
    assert driven.nobody_left


@pytest.mark.parametrize("end", [ScriptBuilder().exit(9), ScriptBuilder().die()])
async def test_an_agent_that_goes_in_mid_turn(tmp_path: Path, end: ScriptBuilder) -> None:
    steps = ScriptBuilder().say("Half")
    steps.steps += end.steps
    driven = acp(ScriptedAgent(tmp_path / "a", steps))
    report = await driven.run()
    assert (AttemptOutcome.FAILED, "agent_exited", "Half") == (report.outcome, report.stop_reason, report.text)
    assert (9, None) == (report.evidence.exit_code, None) or "SIGKILL" == report.evidence.exit_signal
    assert Channel.EXIT in {s.channel for s in report.evidence.signals}


async def test_an_agent_that_died_before_the_prompt_was_sent_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))
    driven = acp(agent)
    assert await driven.downstream.start(driven.turn) is not None
    import os
    import signal

    os.kill(driven.groups[0], signal.SIGKILL)
    assert isinstance(driven.downstream, AcpDownstream)
    assert driven.downstream._wire is not None
    with anyio.fail_after(20):
        await driven.downstream._wire.settled.wait()
    await driven.downstream.prompt("x", driven.turn)
    await driven.downstream.stop()
    report = driven.report()
    assert (AttemptOutcome.FAILED, Delivery.NOT_SENT) == (report.outcome, report.effects.delivery)
    assert "SIGKILL" == report.evidence.exit_signal


async def test_banners_are_tolerated_before_the_prompt(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("hi"))
    agent.at(
        "start",
        ScriptBuilder()
        .garbage("Welcome!", times=20)
        .garbage("[1,2]")
        .garbage("null")
        .garbage("{}")
        .garbage("[" * 5000),
    )
    driven = acp(agent)
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, True) == (report.outcome, report.effects.complete)
    assert "not_json_rpc" in reasons(driven)


@pytest.mark.parametrize(
    "line", ["not json", "[1,2]", '"text"', "{}", '{"jsonrpc":"2.0","id":null}', "\x00\xff", "[" * 100_000]
)
async def test_garbage_in_the_turn_makes_observation_incomplete(tmp_path: Path, line: str) -> None:
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage(line).say("hi")))
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "hi", False) == (report.outcome, report.text, report.effects.complete)


async def test_a_banner_is_never_failure_evidence(tmp_path: Path) -> None:
    """R-EVI-6: whoever wrote it, it was not the runtime by its protocol."""
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage("usage limit reached").fail_puzzling()))
    report = await driven.run()
    assert not any("usage limit" in (s.text or "") for s in report.evidence.signals if s.channel.is_runtime)


async def test_endless_garbage_ends_the_agent(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("start", ScriptBuilder().garbage(times=5000).hang(deaf=True))
    driven = acp(agent)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, "protocol_violation") == (report.outcome, report.stop_reason)
    assert driven.nobody_left


async def test_a_long_line_costs_no_memory_and_no_crash(tmp_path: Path) -> None:
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().long_line(50_000_000).hang(deaf=True)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with anyio.fail_after(30):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, False) == (report.outcome, report.effects.complete)
    assert "line_too_long" in reasons(driven)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


async def test_a_long_update_does_not_end_the_turn(tmp_path: Path) -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawOutput": "x" * 2_000_000}
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().update(update).say("hi")))
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, False) == (report.outcome, report.effects.complete)


UNKNOWN = [
    {"sessionUpdate": "teleport", "to": "moon"},
    {"sessionUpdate": 7},
    {"no": "kind"},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": ""}},
    {"sessionUpdate": "agent_message_chunk", "content": ["\ud800"]},
]


@pytest.mark.parametrize("update", UNKNOWN)
async def test_an_unknown_update_may_have_been_an_effect(tmp_path: Path, update: dict[str, Any]) -> None:
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().update(update).fail_overloaded()))
    report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.ACKNOWLEDGED, False) == (
        report.outcome,
        report.effects.delivery,
        report.effects.complete,
    )


async def test_a_tool_call_without_a_title_is_an_effect(tmp_path: Path) -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "c1"}
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().update(update).fail_overloaded()))
    report = await driven.run()
    assert report.effects.tool_call
    assert ToolCall("c1", "") in driven.updates


async def test_neutral_updates_leave_the_turn_safe(tmp_path: Path) -> None:
    kinds = [
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    ]
    steps = ScriptBuilder()
    for kind in kinds:
        steps.update({"sessionUpdate": kind})
    report = await acp(ScriptedAgent(tmp_path / "a", steps.fail_overloaded())).run()
    assert (False, True) == (report.effects.any_activity, report.effects.complete)


async def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    driven = acp(
        ScriptedAgent(
            tmp_path / "a", ScriptBuilder().say("a\ud800b").say("😀").fail_with(1, "x\udc00", {"k": "\ud801"})
        )
    )
    report = await driven.run()
    assert "a?b😀" == report.text
    assert report.evidence.model_dump_json()


async def test_a_great_many_updates(tmp_path: Path) -> None:
    driven = acp(
        ScriptedAgent(
            tmp_path / "a", ScriptBuilder().update({"sessionUpdate": "usage_update", "used": 1}, times=50_000).say("hi")
        )
    )
    with anyio.fail_after(60):
        report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "hi", True) == (report.outcome, report.text, report.effects.complete)


async def test_a_stderr_flood_does_not_block(tmp_path: Path) -> None:
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().stderr("line {n} " + "x" * 200, times=50_000).say("hi")))
    with anyio.fail_after(60):
        report = await driven.run()
    assert "hi" == report.text
    assert 50_000 == report.evidence.dropped + sum(s.channel is Channel.STDERR for s in report.evidence.signals)


@pytest.mark.parametrize("own_session", [True, False])
async def test_children_left_behind_are_ended(tmp_path: Path, own_session: bool) -> None:
    steps = ScriptBuilder().child(keep_pipes=True, own_session=own_session).say("x").exit(0)
    agent = ScriptedAgent(tmp_path / "a", steps)
    driven = acp(agent)
    with anyio.fail_after(20):
        report = await driven.run()
    assert AttemptOutcome.FAILED is report.outcome
    assert driven.nobody_left
    assert not any(stat.alive for pid in agent.children if (stat := read_stat(pid)) is not None)


async def test_cancel_is_passed_on_and_answered(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x").hang())
    driven = acp(agent, limits=replace(QUICK, cancel_grace_s=20))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driven.run)
        await driven.first_sign()
        await driven.downstream.cancel()
    report = driven.report()
    assert (AttemptOutcome.CANCELLED, "x") == (report.outcome, report.text)
    assert "cancel" in {e["event"] for e in agent.log}
    assert [{"stopReason": "cancelled"}] == [signal.data for signal in report.evidence.signals]


async def test_cancel_ends_an_agent_that_does_not_listen(tmp_path: Path) -> None:
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().ignore_signals().say("x").hang(deaf=True)))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.run)
            await driven.first_sign()
            await driven.downstream.cancel()
    assert AttemptOutcome.CANCELLED is driven.report().outcome
    assert driven.nobody_left


async def test_an_empty_end_after_a_cancel_is_a_cancel(tmp_path: Path) -> None:
    """Recorded with OpenCode while it retries."""
    steps = ScriptBuilder().update({"sessionUpdate": "session_info_update"}).sleep(1, deaf=True).stop("end_turn")
    driven = acp(ScriptedAgent(tmp_path / "a", steps), limits=replace(QUICK, cancel_grace_s=20))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driven.run)
        await driven.first_sign()
        await driven.downstream.cancel()
    assert (AttemptOutcome.CANCELLED, "cancelled") == (driven.report().outcome, driven.report().stop_reason)


async def test_an_answer_that_comes_in_spite_of_a_cancel_stays_one(tmp_path: Path) -> None:
    driven = acp(
        ScriptedAgent(tmp_path / "a", ScriptBuilder().say("all").sleep(1, deaf=True)),
        limits=replace(QUICK, cancel_grace_s=20),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driven.run)
        await driven.first_sign()
        await driven.downstream.cancel()
    assert (AttemptOutcome.SUCCESS, "all") == (driven.report().outcome, driven.report().text)


async def test_cancel_during_the_handshake(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("initialize", ScriptBuilder().hang(deaf=True))
    driven = acp(agent)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.run)
            while not driven.groups:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            await anyio.sleep(0.2)
            await driven.downstream.cancel()
    assert (AttemptOutcome.CANCELLED, True) == (driven.report().outcome, driven.nobody_left)


@pytest.mark.parametrize(("default", "expected", "effects"), [("allow", "yes", ["ran"]), ("reject", "no", [])])
async def test_permissions_are_answered_as_the_profile_says(
    tmp_path: Path, default: str, expected: str, effects: list[str]
) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().tool(line="ran", ask=True).say("done"))
    report = await acp(agent, permissions={"default": default}).run()
    assert [expected] == [e["outcome"]["optionId"] for e in agent.log if e["event"] == "permission"]
    assert effects == agent.effects
    assert report.effects.tool_call


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "teleport"])
async def test_what_we_do_not_offer_is_refused(tmp_path: Path, method: str) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().request(method, {"path": "/etc/passwd"}).say("hm"))
    report = await acp(agent).run()
    assert [-32601] == [e["answer"]["error"]["code"] for e in agent.log if e["event"] == "answer"]
    assert "hm" == report.text
    assert report.effects.tool_call or not report.effects.complete  # what it asked for might have been an effect


async def test_frames_of_another_session_authorise_nothing_and_may_be_effects(tmp_path: Path) -> None:
    """R-EVI-4: they are counted and no evidence; R-SAFE-1: what acts in the attempt's own process was not seen whole."""
    line = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"tool_call","toolCallId":"x"}}}'
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage(line).fail_overloaded()))
    report = await driven.run()
    assert isinstance(driven.downstream, AcpDownstream)
    assert (1, False, False) == (driven.downstream.stale_frames, report.effects.tool_call, report.effects.complete)


async def test_what_another_session_says_of_itself_is_no_effect(tmp_path: Path) -> None:
    """R-EVI-4."""
    line = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"available_commands_update"}}}'
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage(line).fail_overloaded()))
    report = await driven.run()
    assert isinstance(driven.downstream, AcpDownstream)
    assert (1, True) == (driven.downstream.stale_frames, report.effects.complete)


async def test_an_effect_after_the_response_is_still_marked(tmp_path: Path) -> None:
    """R-SAFE-6: the quiet period."""
    late = '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"late"}}}'
    answer = '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Overloaded"}}'
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage(answer).sleep(0.1).garbage(late).hang())
    driven = acp(agent, options={"quiet_period_s": 1.5}, limits=replace(QUICK, quiet_max_s=20))
    report = await driven.run()
    assert (AttemptOutcome.FAILED, True) == (report.outcome, report.effects.tool_call)


async def test_a_greeting_is_no_sign_that_the_prompt_arrived(tmp_path: Path) -> None:
    """R-SAFE-3: what comes before the prompt does not make its delivery known."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().exit(0))
    agent.at(
        "session",
        ScriptBuilder().update({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "x"}]}),
    )
    driven = acp(agent)
    report = await driven.run()
    assert (Delivery.SENT, []) == (report.effects.delivery, driven.signs)


async def test_an_update_of_the_session_is_no_sign_that_the_prompt_arrived(tmp_path: Path) -> None:
    """R-SAFE-3: a slow agent lists its commands right after a prompt that it has not read."""
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    report = await acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().update(commands).exit(1))).run()
    assert (Delivery.SENT, True) == (report.effects.delivery, report.effects.complete)


async def test_an_agent_that_acts_before_its_prompt_is_not_safe(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().fail_overloaded())
    agent.at("session", ScriptBuilder().tool(line="early"))
    report = await acp(agent).run()
    assert (["early"], False) == (agent.effects, report.effects.complete)


async def test_commands_that_come_later_replace_the_known_ones(tmp_path: Path) -> None:
    """R-CON-7."""
    commands = {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "go", "description": "x" * 1000}],
    }
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().update(commands).say("hi")))
    await driven.run()
    (update,) = [u for u in driven.updates if isinstance(u, CapabilitiesUpdate)]
    assert [{"name": "go", "description": "x" * 200}] == update.capabilities["commands"]


async def test_a_session_is_continued_without_its_past(tmp_path: Path) -> None:
    """R-CON-2: a load replays the past; it is neither output nor an effect of this turn."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("new"))
    agent.at("load", ScriptBuilder().say("old").tool(line="old", effect=False).think("old"))
    plan = replace(make_plan(agent), resumed=True)
    driven = drive(plan, drives=partial(AcpDownstream, resume_session_id="native-1"))
    report = await driven.run()
    assert (AttemptOutcome.SUCCESS, "new", "native-1") == (report.outcome, report.text, report.native_session_id)
    assert (False, True) == (report.effects.tool_call, report.effects.complete)
    assert ["native-1"] == [p.native_session_id for p in agent.prompts]


async def test_an_agent_that_offers_no_way_back_makes_a_new_session_and_that_is_said(tmp_path: Path) -> None:
    """R-CON-2: whoever asked adds what it has to be told."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("new"))
    agent.set(load_session=False)
    driven = drive(replace(make_plan(agent), resumed=True), drives=partial(AcpDownstream, resume_session_id="native-1"))
    report = await driven.run()
    assert driven.ready is not None
    assert (True, "new") == (driven.ready.fresh, report.text)
    assert ["native-1"] != [p.native_session_id for p in agent.prompts]


async def test_another_protocol_version_is_refused(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("new"))
    agent.set(protocol_version=2)
    driven = acp(agent)
    report = await driven.run()
    assert ("protocol_version", []) == (report.stop_reason, agent.prompts)


async def test_an_extractor_that_raises_fails_the_turn_and_nothing_else(tmp_path: Path) -> None:
    """R-PLG-2."""

    class Wrong:
        def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
            if isinstance(event, AcpFrame) and event.request is None:
                raise KeyError(SECRET)

    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x").hang(deaf=True)), extractor=Wrong())
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "adapter_error", False) == (
        report.outcome,
        report.stop_reason,
        report.effects.complete,
    )
    assert SECRET not in report.evidence.model_dump_json()
    assert driven.nobody_left


@pytest.mark.parametrize("callback", ["on_spawn", "on_first_sign"])
async def test_what_the_host_raises_ends_the_agent_and_is_raised(tmp_path: Path, callback: str) -> None:
    """A fenced owner (the store refuses its mark) leaves no agent running (R-ENG-8)."""

    async def fenced(*given: object) -> None:
        groups.extend(g for g in given if isinstance(g, int))
        raise PermissionError("fenced")

    groups: list[int] = []
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x").hang(deaf=True)), **{callback: fenced})  # type: ignore[arg-type]  # one keyword, not known to mypy
    with anyio.fail_after(20), pytest.raises(PermissionError, match="fenced"):
        await driven.run()
    driven.groups.extend(groups)
    assert driven.nobody_left


async def test_a_cancelled_scope_in_mid_turn_leaves_nobody(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        tmp_path / "a", ScriptBuilder().ignore_signals().child(own_session=True).say("x").hang(deaf=True)
    )
    driven = acp(agent)
    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.run)
            await driven.first_sign()
            scope.cancel()
    assert driven.nobody_left
    assert not any(stat.alive for pid in agent.children if (stat := read_stat(pid)) is not None)


@pytest.mark.parametrize("moment", ["start", "prompt"])
async def test_other_cancellations_than_anyios_leave_nobody(tmp_path: Path, moment: str) -> None:
    """``asyncio.timeout`` and ``Task.cancel()`` pierce every shield."""
    hang = ScriptBuilder().ignore_signals().child(own_session=True).say("x").hang(deaf=True)
    agent = ScriptedAgent(tmp_path / "a", hang)
    if moment == "start":
        agent.at("initialize", hang)
    driven = acp(agent)
    task = asyncio.create_task(driven.run())
    while not agent.children:  # noqa: ASYNC110  # the agent is another process
        await anyio.sleep(0.02)
    for _ in range(4):
        task.cancel()
        await anyio.sleep(0.1)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert driven.nobody_left
    assert not any(stat.alive for pid in agent.children if (stat := read_stat(pid)) is not None)
    await anyio.sleep(0.05)
    assert [] == [t for t in asyncio.all_tasks() if t.get_name().startswith("agent ")]


async def test_a_secret_is_cleaned_from_frames_and_standard_error(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().leak("SCRIPTED_API_KEY").fail_with(1, f"bad key {SECRET}"))
    report = await acp(agent, env={"SCRIPTED_API_KEY": SECRET}).run()
    assert "[secret]" in report.evidence.model_dump_json()
    assert SECRET not in report.evidence.model_dump_json()


class Abandons(ScriptedAcpExtractor):
    """Gives its agent up at the first thought."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        super().receive(event, turn)
        if turn.effects.thinking:
            turn.abandoned("reconnecting")


async def test_an_agent_that_will_never_end_its_turn_is_ended_at_once(tmp_path: Path) -> None:
    """R-CON-9."""
    driven = acp(ScriptedAgent(tmp_path / "a", ScriptBuilder().think("hm").hang()), extractor=Abandons())
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "reconnecting") == (report.outcome, report.stop_reason)
    assert driven.nobody_left


async def test_a_silent_agent_is_ended_when_its_plan_says_so(tmp_path: Path) -> None:
    """It may be at work, so nothing automatic may follow: the delivery stays ambiguous (R-SAFE-1, R-CON-9)."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().hang())
    driven = drive(replace(make_plan(agent), first_sign_s=1.0), drives=AcpDownstream)
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "silence", Delivery.SENT) == (
        report.outcome,
        report.stop_reason,
        report.effects.delivery,
    )
    assert ["silence"] == reasons(driven)
    assert driven.nobody_left


@pytest.mark.parametrize(
    ("fields", "setting", "code"),
    [
        ({"model": "m9"}, "model", "model_unavailable"),
        ({"mode": "yolo"}, "mode", "provider_not_configured"),
        ({"options": {"effort": "x"}}, "options", "provider_not_configured"),
    ],
)
async def test_a_setting_that_is_refused_is_named(
    fields: dict[str, Any], setting: str, code: str, tmp_path: Path
) -> None:
    """The agent's own words may say little; nothing was sent, so the next candidate may have the prompt (R-CLS-2)."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("never"))
    agent.at("set", ScriptBuilder().fail_with(-32602, "Invalid params"))
    driven = acp(agent, **fields)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.NOT_SENT) == (report.outcome, report.effects.delivery)
    assert {"setting": setting} == report.evidence.signals[-1].data
    found = Catalogue.load(neutral_sources()).classify(report.evidence)
    assert (code, None) == (found.code, found.automatic_refusal(report.effects))

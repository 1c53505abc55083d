"""The headless driver against well-behaved and hostile agents (R-EVI-3, R-CON-11)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.evidence.collector import Decisive
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.process import child as child_module
from kandev_routing_sdk.process import spawn as spawn_module
from kandev_routing_sdk.process.group import read_stat
from kandev_routing_sdk.process.lines import Line
from kandev_routing_sdk.spec.adapter import AgentEvent, Exited, LaunchPlan, StderrLine, StdoutLine
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from kandev_routing_sdk.testing.scripted.adapter import ScriptedHeadlessExtractor
from kandev_routing_sdk.types import AttemptOutcome, Channel, Delivery
from tests.process._drive import QUICK, SECRET, drive, make_plan


def headless(agent: ScriptedAgent, **fields: object) -> LaunchPlan:
    return make_plan(agent, transport="headless", **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _silent_root_logger(caplog: pytest.LogCaptureFixture) -> object:
    """Nothing of what an agent does reaches the root logger as an error."""
    yield
    assert [] == [r for r in caplog.records if r.levelno >= logging.ERROR]


async def test_an_answer_comes_back_with_its_effects(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().think("hm").say("Hello").tool(line="ran").usage(8, 3))
    driven = drive(headless(agent))
    report = await driven.run("Greet.")
    assert (AttemptOutcome.SUCCESS, "end_turn", "Hello") == (report.outcome, report.stop_reason, report.text)
    assert (True, True, True, True, True) == (
        report.effects.output,
        report.effects.thinking,
        report.effects.tool_call,
        report.effects.tool_effect,
        report.effects.complete,
    )
    assert ["Greet."] == [p.prompt for p in agent.prompts]
    assert ["ran"] == agent.effects
    assert [Delivery.ACKNOWLEDGED] == driven.signs
    assert driven.nobody_left


async def test_the_environment_is_the_plans_and_the_marker(tmp_path: Path) -> None:
    """R-ENG-8: children carry the attempt id."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))
    await drive(headless(agent, env={"ONLY": "1"})).run()
    env = set(agent.prompts[0].env)
    assert {"ONLY", "PATH", "KANDEV_ROUTING_ATTEMPT"} <= env
    assert "HOME" not in env


async def test_a_reported_failure_keeps_its_structure(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().fail_overloaded())
    report = await drive(headless(agent)).run()
    assert AttemptOutcome.FAILED is report.outcome
    assert 529 == report.evidence.http_status
    assert 1 == report.evidence.exit_code
    structured = report.evidence.signals[0]
    assert isinstance(structured.data, dict)
    assert {"type": "overloaded_error", "message": "Overloaded"} == structured.data["error"]
    assert (False, False, True) == (report.effects.output, report.effects.tool_call, report.effects.complete)


async def test_a_failed_spawn_sent_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    plan = headless(agent)
    gone = LaunchPlan(**{f: getattr(plan, f) for f in plan.__slots__} | {"argv": (str(tmp_path / "none"),)})
    driven = drive(gone)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, Delivery.NOT_SENT) == (report.outcome, report.effects.delivery)
    assert [(Channel.EXIT, {"spawn_error": "executable_not_found"})] == [
        (s.channel, s.data) for s in report.evidence.signals
    ]
    assert [] == driven.groups


@pytest.mark.parametrize(("steps", "code", "signal"), [("exit", 3, None), ("die", None, "SIGKILL")])
async def test_an_agent_that_goes_in_mid_turn_is_a_failure_with_its_exit(
    tmp_path: Path, steps: str, code: int | None, signal: str | None
) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("Half").do(steps, **({"code": code} if code else {})))
    report = await drive(headless(agent)).run()
    assert (AttemptOutcome.FAILED, code, signal) == (
        report.outcome,
        report.evidence.exit_code,
        report.evidence.exit_signal,
    )
    assert Channel.EXIT in {s.channel for s in report.evidence.signals}


async def test_a_prompt_larger_than_every_pipe_does_not_block_the_drain(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("ok"))
    agent.at("start", ScriptBuilder().stderr("noise " * 20, times=5000))
    text = "é" * 2_000_000
    with anyio.fail_after(30):
        report = await drive(headless(agent)).run(text)
    assert AttemptOutcome.SUCCESS is report.outcome
    assert text == agent.prompts[0].prompt


async def test_an_agent_that_does_not_read_its_prompt(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("start", ScriptBuilder().exit(7))
    report = await drive(headless(agent)).run("x" * 1_000_000)
    assert (AttemptOutcome.FAILED, 7) == (report.outcome, report.evidence.exit_code)


async def test_a_stderr_flood_is_read_bounded_and_counted(tmp_path: Path) -> None:
    """R-EVI-2: every line reaches the extractor, what is kept of them is bounded, the rest is counted."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().stderr("line {n}", times=200_000).fail_quota())
    seen: list[str] = []

    class Spy:
        def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
            if isinstance(event, StderrLine):
                seen.append(event.text)
                turn.signal(Signal(channel=Channel.STDERR, text=event.text))

    with anyio.fail_after(60):
        evidence = (await drive(headless(agent), extractor=Spy()).run()).evidence
    assert [f"line {n}" for n in range(200_000)] == seen
    kept = [s.text for s in evidence.signals if s.channel is Channel.STDERR]
    assert ("line 199999", 200_000) == (kept[-1], len(kept) + evidence.dropped)


async def test_the_rest_of_a_long_line_of_standard_error_is_read(tmp_path: Path) -> None:
    """R-EVI-2: what decides may stand behind a mebibyte of anything; R-EVI-5: a cut hides no secret."""
    line = f"{'x ' * 100_000}usage limit reached {'y ' * 100_000}{SECRET} {'z ' * 100_000}"
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().stderr(line).fail_quota())
    driven = drive(headless(agent), extractor=Listens(), limits=replace(QUICK, line_bytes=100_000))
    driven.turn._collector._decides = lambda s: Decisive("r") if "usage limit" in (s.text or "") else None
    kept = [s.text or "" for s in (await driven.run()).evidence.signals]
    assert (True, False) == (any("usage limit reached" in t for t in kept), any("FAKEfake" in t for t in kept))


class Listens:
    """Keeps standard error."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        if isinstance(event, StderrLine):
            turn.signal(Signal(channel=Channel.STDERR, text=event.text))


async def test_a_long_line_is_cut_and_makes_observation_incomplete(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().long_line(50_000_000).say("after"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = await drive(headless(agent)).run()
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert "after" == report.text
    assert report.effects.complete is False
    assert grown_kib < 20 * 1024


async def test_more_than_the_total_bound_ends_the_agent(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage("y" * 1000, times=10_000).say("never"))
    limits = type(QUICK)(**{f: getattr(QUICK, f) for f in QUICK.__slots__} | {"total_bytes": 100_000})
    driven = drive(headless(agent), limits=limits)
    report = await driven.run()
    assert (AttemptOutcome.FAILED, False) == (report.outcome, report.effects.complete)
    assert driven.nobody_left


async def test_garbage_makes_observation_incomplete(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage().garbage("[1,2]").say("hi"))
    report = await drive(headless(agent)).run()
    assert (AttemptOutcome.SUCCESS, False) == (report.outcome, report.effects.complete)


@pytest.mark.parametrize("keep_pipes", [True, False])
@pytest.mark.parametrize("own_session", [True, False])
async def test_children_left_behind_are_ended(tmp_path: Path, keep_pipes: bool, own_session: bool) -> None:
    """A child that ignores SIGTERM, holds the pipes or has its own session does not outlive its agent (R-CON-11)."""
    agent = ScriptedAgent(
        tmp_path / "a", ScriptBuilder().child(keep_pipes=keep_pipes, own_session=own_session).say("done")
    )
    driven = drive(headless(agent))
    with anyio.fail_after(20):
        report = await driven.run()
    assert AttemptOutcome.SUCCESS is report.outcome
    assert driven.nobody_left
    (child,) = agent.children
    left = read_stat(child)
    assert left is None or not left.alive


@pytest.mark.parametrize("clean_env", [True, False])
async def test_a_tool_in_its_own_session_ends_with_a_killed_agent(tmp_path: Path, clean_env: bool) -> None:
    """Claude Code's tools do; without the marker they are found as descendants (R-CON-11)."""
    agent = ScriptedAgent(
        tmp_path / "a",
        ScriptBuilder().ignore_signals().child(own_session=True, clean_env=clean_env).say("x").hang(deaf=True),
    )
    driven = drive(headless(agent))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.run)
            await driven.first_sign()
            await driven.downstream.stop()
    (child,) = agent.children
    left = read_stat(child)
    assert left is None or not left.alive


async def test_cancel_ends_an_agent_that_ignores_everything(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().ignore_signals().child().say("x").hang(deaf=True))
    driven = drive(headless(agent))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.run)
            await driven.first_sign()
            await driven.downstream.cancel()
    assert AttemptOutcome.CANCELLED is driven.report().outcome
    assert driven.nobody_left
    assert driven.report().evidence.exit_signal is None  # we ended it: no evidence of anything


async def test_a_cancelled_scope_leaves_nobody(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        tmp_path / "a", ScriptBuilder().ignore_signals().child(keep_pipes=True).say("x").hang(deaf=True)
    )
    driven = drive(headless(agent))
    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.downstream.prompt, "x", driven.turn)
            await driven.first_sign()
            scope.cancel()
    assert driven.nobody_left


async def test_other_cancellations_than_anyios_leave_nobody(tmp_path: Path) -> None:
    """``asyncio.timeout`` and ``Task.cancel()`` pierce every shield."""
    agent = ScriptedAgent(
        tmp_path / "a", ScriptBuilder().ignore_signals().child(own_session=True).say("x").hang(deaf=True)
    )
    driven = drive(headless(agent))
    task = asyncio.create_task(driven.downstream.prompt("x", driven.turn))
    await driven.first_sign()
    for _ in range(4):
        task.cancel()
        await anyio.sleep(0.1)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert driven.nobody_left
    assert not any(stat.alive for pid in agent.children if (stat := read_stat(pid)) is not None)


def test_a_loop_that_closes_in_the_middle_of_an_end_leaves_nobody(tmp_path: Path) -> None:
    """R-CON-11: a second Ctrl-C, or a host whose main task returns, cancels the ending itself."""
    agent = ScriptedAgent(
        tmp_path / "a", ScriptBuilder().ignore_signals().child(own_session=True).say("x").hang(deaf=True)
    )
    driven = drive(headless(agent))

    async def main() -> None:
        task = asyncio.create_task(driven.downstream.prompt("x", driven.turn))
        await driven.first_sign()
        task.cancel()
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert agent.children
    assert driven.nobody_left
    assert not any(stat.alive for pid in agent.children if (stat := read_stat(pid)) is not None)


async def test_a_spawn_that_is_cancelled_leaves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    spawn = spawn_module._popen

    def slow(*how: Any) -> subprocess.Popen[bytes]:
        started.append(spawn(*how))
        time.sleep(0.3)
        return started[0]

    monkeypatch.setattr(spawn_module, "_popen", slow)
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().hang(deaf=True))
    driven = drive(headless(agent))
    task = asyncio.create_task(driven.downstream.prompt("x", driven.turn))
    while not started:  # noqa: ASYNC110  # started in a thread: there is no event to wait for
        await anyio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert -9 == started[0].returncode
    assert Delivery.NOT_SENT is driven.turn.effects.delivery


async def test_a_machine_that_is_short_of_something_is_no_fault_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-CIR-1: too many open files here must not close a profile until a person comes."""

    def short(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", short)
    driven = drive(headless(ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))))
    await driven.run()
    assert [(Channel.EXIT, {"shortage": "launch"})] == [(s.channel, s.data) for s in driven.report().evidence.signals]
    assert Delivery.NOT_SENT is driven.turn.effects.delivery


async def test_output_that_is_only_not_read_yet_was_not_lost(tmp_path: Path) -> None:
    """R-EVI-3: on a busy machine reading takes longer than the grace; with nobody left to say more, nothing is unseen."""
    heard: list[str] = []

    async def slowly(line: Line) -> None:
        await anyio.sleep(0.3)
        heard.append(line.text)

    child = await child_module.Child.spawn(
        [sys.executable, "-S", "-c", "print('one'); print('two')"],
        environ={},
        cwd=tmp_path,
        attempt_id="a",
        clock=SystemClock(),
        on_stdout=slowly,
        on_stderr=slowly,
        limits=replace(QUICK, pipe_grace_s=0.1),
    )
    await child.wait_quiet()
    await child.stop()
    assert (["one", "two"], False) == (heard, child.interrupted_drain)


async def test_cancel_before_the_prompt_starts_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))
    driven = drive(headless(agent))
    await driven.downstream.cancel()
    report = await driven.run()
    assert (AttemptOutcome.CANCELLED, Delivery.NOT_SENT, 0) == (report.outcome, report.effects.delivery, agent.starts)


async def test_an_agent_that_says_it_ended_but_stays_is_ended(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        tmp_path / "a", ScriptBuilder().garbage('{"type":"end","stop_reason":"end_turn"}').hang(deaf=True)
    )
    driven = drive(headless(agent))
    with anyio.fail_after(20):
        report = await driven.run()
    assert AttemptOutcome.SUCCESS is report.outcome
    assert driven.nobody_left


async def test_an_agent_that_is_cancelled_unasked_failed(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().stop("cancelled"))
    report = await drive(headless(agent)).run()
    assert AttemptOutcome.FAILED is report.outcome


async def test_an_extractor_that_raises_fails_the_turn_and_nothing_else(tmp_path: Path) -> None:
    """R-PLG-2."""

    class Wrong:
        def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
            raise KeyError(SECRET)

    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x").hang(deaf=True))
    driven = drive(headless(agent), extractor=Wrong())
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "adapter_error", False) == (
        report.outcome,
        report.stop_reason,
        report.effects.complete,
    )
    assert SECRET not in report.evidence.model_dump_json()
    assert driven.nobody_left


async def test_a_secret_on_standard_error_is_cleaned(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().leak("SCRIPTED_API_KEY").fail_auth())
    report = await drive(headless(agent, env={"SCRIPTED_API_KEY": SECRET})).run()
    assert "[secret]" in report.evidence.model_dump_json()
    assert SECRET not in report.evidence.model_dump_json()


@pytest.mark.parametrize("callback", ["on_spawn", "on_first_sign"])
async def test_what_the_host_raises_ends_the_agent_and_is_raised(tmp_path: Path, callback: str) -> None:
    """A fenced owner (the store refuses its mark) leaves no agent running (R-ENG-8)."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x").hang(deaf=True))
    groups: list[int] = []

    async def fenced(*given: object) -> None:
        groups.extend(g for g in given if isinstance(g, int))
        raise PermissionError("fenced")

    driven = drive(headless(agent), **{callback: fenced})  # type: ignore[arg-type]  # one keyword, not known to mypy
    with anyio.fail_after(20), pytest.raises(PermissionError, match="fenced"):
        await driven.run()
    driven.groups.extend(groups)
    assert driven.nobody_left
    assert driven.turn.effects.complete is (callback == "on_spawn")


async def test_on_spawn_is_told_the_group_before_the_prompt_leaves(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))
    told: list[tuple[int, bool, Delivery]] = []

    async def on_spawn(group: int, at: datetime) -> None:
        told.append((group, at.tzinfo is not None, driven.turn.effects.delivery))

    driven = drive(headless(agent), on_spawn=on_spawn)
    await driven.run()
    assert [(True, Delivery.NOT_SENT)] == [(aware, delivery) for _, aware, delivery in told]
    assert [told[0][0]] == [p.pid for p in agent.prompts]


async def test_an_agent_is_ended_by_who_has_no_file_left_to_look_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-CON-11; that nobody of it is left is not claimed then."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().ignore_signals().say("x").hang(deaf=True))
    driven = drive(headless(agent), limits=replace(QUICK, kill_grace_s=0.3))

    def short(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.downstream.prompt, "x", driven.turn)
            await driven.first_sign()
            with monkeypatch.context() as patch:
                patch.setattr(os, "listdir", short)
                await driven.downstream.stop()
    assert driven.nobody_left
    assert not driven.downstream.reaped
    assert not driven.report().effects.complete


async def test_stop_is_idempotent_and_survives_cancellation(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().ignore_signals().say("x").hang(deaf=True))
    driven = drive(headless(agent))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.downstream.prompt, "x", driven.turn)
            await driven.first_sign()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await driven.downstream.stop()
            assert driven.nobody_left
            with contextlib.suppress(ProcessLookupError):
                await driven.downstream.stop()


class Abandons(ScriptedHeadlessExtractor):
    """Gives its agent up at the first line."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        super().receive(event, turn)
        if isinstance(event, StdoutLine):
            turn.abandoned("reconnecting")


async def test_an_agent_that_will_never_end_its_turn_is_ended_at_once(tmp_path: Path) -> None:
    """R-CON-9: not after the time that one gets which is done."""
    steps = ScriptBuilder().ignore_signals("SIGTERM").think("hm").hang(deaf=True)
    agent = ScriptedAgent(tmp_path / "a", steps)
    slow = replace(QUICK, linger_s=60, eof_grace_s=60, term_grace_s=60)
    driven = drive(headless(agent), extractor=Abandons(), limits=slow)
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "reconnecting", False) == (
        report.outcome,
        report.stop_reason,
        report.effects.complete,
    )
    assert driven.nobody_left


async def test_a_silent_agent_is_ended_when_its_plan_says_so(tmp_path: Path) -> None:
    """It may be at work, so nothing automatic may follow: the delivery stays ambiguous (R-SAFE-1, R-CON-9)."""
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().hang())
    plan = replace(headless(agent), first_sign_s=1.5)
    driven = drive(plan)
    with anyio.fail_after(20):
        report = await driven.run()
    assert (AttemptOutcome.FAILED, "silence", Delivery.SENT) == (
        report.outcome,
        report.stop_reason,
        report.effects.delivery,
    )
    assert ["silence"] == [s.data.get("violation") for s in report.evidence.signals if isinstance(s.data, dict)]
    assert driven.nobody_left


class LastWords(ScriptedHeadlessExtractor):
    """Its agent blames the provider when it is ended."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        super().receive(event, turn)
        if isinstance(event, Exited):
            turn.acknowledged()
            turn.failed("error")


async def test_what_an_agent_says_while_it_is_ended_changes_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().hang())
    driven = drive(replace(headless(agent), first_sign_s=1.0), extractor=LastWords())
    report = await driven.run()
    assert ("silence", False) == (report.stop_reason, report.effects.complete)


async def test_an_agent_that_has_given_a_sign_may_take_its_time(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().think("hm").sleep(7).say("done"))
    report = await drive(replace(headless(agent), first_sign_s=6)).run()  # a start takes seconds on a busy machine
    assert (AttemptOutcome.SUCCESS, "done") == (report.outcome, report.text)

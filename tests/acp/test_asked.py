"""What an agent asks of its client, and who answers (R-EVI-3, R-SAFE-1)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from kandev_routing_sdk.acp import AcpDownstream
from kandev_routing_sdk.spec.client import (
    Asker,
    ClientCapabilities,
    FileRead,
    FileWrite,
    HostSide,
    PermissionHandler,
    PermissionRequest,
    TerminalRequest,
)
from kandev_routing_sdk.spec.client_files import local_files, read_file, write_file
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from kandev_routing_sdk.types import AttemptOutcome
from tests.process._drive import SECRET, Driven, PlainCleaner, drive, make_plan

ASKS = ScriptBuilder().tool(line="ran", ask=True).say("done")


def driven_with(
    agent: ScriptedAgent,
    permissions: PermissionHandler | None = None,
    offers: ClientCapabilities | None = None,
    *,
    default: str = "reject",
) -> Driven:
    def clean(value: JsonValue) -> JsonValue:
        return PlainCleaner().text(value) if isinstance(value, str) else value

    asker = Asker("s-1", 3, "fable", agent.folder)
    host = HostSide(asker, permissions, offers or ClientCapabilities(), clean)
    plan = make_plan(agent, permissions={"default": default}, options={"quiet_period_s": 0.02})
    return drive(plan, drives=partial(AcpDownstream, host=host))


def outcomes(agent: ScriptedAgent) -> list[Any]:
    return [e["outcome"].get("optionId", e["outcome"].get("outcome")) for e in agent.log if e["event"] == "permission"]


def answers_to(agent: ScriptedAgent) -> list[Any]:
    found = [e["answer"] for e in agent.log if e["event"] == "answer"]
    return [a["result"] if "result" in a else a["error"]["code"] for a in found]


# --- permissions ---


@pytest.mark.parametrize(("chosen", "ran"), [("yes", ["ran"]), ("no", [])])
async def test_the_host_decides_what_a_tool_may_do(tmp_path: Path, chosen: str, ran: list[str]) -> None:
    """It sees whose agent asks and what is offered; the profile's default is not asked."""
    seen: list[PermissionRequest] = []

    async def decide(request: PermissionRequest) -> str | None:
        seen.append(request)
        return chosen

    title = f"Write {SECRET}"
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().tool(title, line="ran", ask=True).say("done"))
    report = await driven_with(agent, decide, default="reject" if chosen == "yes" else "allow").run()
    assert (AttemptOutcome.SUCCESS, ran, [chosen]) == (report.outcome, agent.effects, outcomes(agent))
    (request,) = seen
    assert ("s-1", 3, "fable") == (request.asker.session_id, request.asker.generation, request.asker.profile_id)
    assert [("yes", "allow_once"), ("no", "reject_once")] == [(o.option_id, o.kind) for o in request.options]
    assert "Write [secret]" == request.title, "what leaves the router is masked"
    assert report.effects.tool_call


async def raises(request: PermissionRequest) -> str | None:
    raise RuntimeError("a bug of the host's")


async def is_given_up(request: PermissionRequest) -> str | None:
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()  # the person closed the question
    await waiting
    return "yes"


async def says_nothing(request: PermissionRequest) -> str | None:
    return None


async def makes_one_up(request: PermissionRequest) -> str | None:
    return "always"


@pytest.mark.parametrize(
    ("handler", "default", "answer"),
    [
        (None, "allow", "yes"),
        (None, "reject", "no"),
        (raises, "allow", "yes"),
        (is_given_up, "allow", "yes"),
        (is_given_up, "reject", "no"),
        (says_nothing, "reject", "no"),
        (makes_one_up, "reject", "no"),
    ],
)
async def test_the_profile_answers_where_the_host_does_not(
    tmp_path: Path, handler: Any, default: str, answer: str
) -> None:
    agent = ScriptedAgent(tmp_path / "a", ASKS)
    report = await driven_with(agent, handler, default=default).run()
    assert (AttemptOutcome.SUCCESS, [answer]) == (report.outcome, outcomes(agent))


async def test_the_profile_answers_when_the_host_takes_too_long(tmp_path: Path) -> None:
    async def sleeps(request: PermissionRequest) -> str | None:
        await anyio.sleep(60)
        return "yes"

    agent = ScriptedAgent(tmp_path / "a", ASKS)
    with anyio.fail_after(20):
        report = await driven_with(agent, sleeps, ClientCapabilities(permission_s=0.05)).run()
    assert (AttemptOutcome.SUCCESS, ["no"]) == (report.outcome, outcomes(agent))


async def test_a_request_that_is_never_answered_holds_up_no_cancel(tmp_path: Path) -> None:
    """The agent is told that its request was cancelled, and nothing is allowed any more."""
    asked = anyio.Event()

    async def never(request: PermissionRequest) -> str | None:
        asked.set()
        await anyio.sleep_forever()
        return "yes"

    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().tool(line="ran", ask=True).sleep(30))
    driven = driven_with(agent, never, default="allow")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driven.run)
            await asked.wait()
            await driven.downstream.cancel()
    assert (["cancelled"], []) == (outcomes(agent), agent.effects)
    assert AttemptOutcome.CANCELLED is driven.report().outcome


async def test_a_turn_that_ends_meanwhile_does_not_wait_for_the_host(tmp_path: Path) -> None:
    """The agent did not wait either."""
    cancelled: list[str] = []

    async def never(request: PermissionRequest) -> str | None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(request.tool_id)
        return "yes"

    params = {"toolCall": {"toolCallId": "t1"}, "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}
    line = '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":' + json.dumps(params) + "}"
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage(line).sleep(0.3).say("done"))
    with anyio.fail_after(20):
        report = await driven_with(agent, never, default="allow").run()
    assert (AttemptOutcome.SUCCESS, True) == (report.outcome, report.effects.tool_call)
    assert ["t1"] == cancelled


async def test_a_flood_of_requests_is_answered_without_the_host(tmp_path: Path) -> None:
    """So many tasks would be too many; each request gets its answer."""
    asked = 0

    async def never(request: PermissionRequest) -> str | None:
        nonlocal asked
        asked += 1
        await anyio.sleep_forever()
        return None

    line = '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"options":[]}}'
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().garbage(line, times=2000).say("done"))
    with anyio.fail_after(20):
        report = await driven_with(agent, never).run()
    assert (AttemptOutcome.SUCCESS, True) == (report.outcome, 0 < asked <= 64)


# --- files and terminals ---


READ = ("fs/read_text_file", {"path": "notes.txt"})
WRITE = ("fs/write_text_file", {"path": "notes.txt", "content": "new"})
RUN = ("terminal/create", {"command": "true"})


def asking(*requests: tuple[str, dict[str, Any]]) -> ScriptBuilder:
    steps = ScriptBuilder()
    for method, params in requests:
        steps.request(method, params)
    return steps.say("done")


async def test_what_is_not_offered_is_refused_and_marks_the_turn(tmp_path: Path) -> None:
    """R-SAFE-1: an agent that asks for a write is at work, whatever it is told."""
    agent = ScriptedAgent(tmp_path / "a", asking(READ, WRITE, RUN))
    report = await driven_with(agent).run()
    assert (AttemptOutcome.SUCCESS, [-32601] * 3) == (report.outcome, answers_to(agent))
    assert (True, True) == (report.effects.tool_call, report.effects.tool_effect)


@pytest.mark.parametrize(("request_", "effect"), [(READ, False), (WRITE, True), (RUN, True)])
async def test_a_read_is_activity_and_a_write_is_an_effect(
    tmp_path: Path, request_: tuple[str, dict[str, Any]], effect: bool
) -> None:
    agent = ScriptedAgent(tmp_path / "a", asking(request_))
    report = await driven_with(agent, offers=local_files(write=True)).run()
    assert (True, effect, True) == (report.effects.tool_call, report.effects.tool_effect, report.effects.complete)


async def test_the_host_serves_what_it_offers(tmp_path: Path) -> None:
    """And the agent is told so before."""
    commands: list[str] = []

    async def terminal(request: TerminalRequest) -> Mapping[str, JsonValue]:
        commands.append(request.method)
        return {"terminalId": "t-1"}

    agent = ScriptedAgent(tmp_path / "a", asking(WRITE, READ, RUN))
    await driven_with(agent, offers=replace(local_files(write=True), terminal=terminal)).run()
    (begun,) = [e for e in agent.log if e["event"] == "request" and e["method"] == "initialize"]
    offered = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    assert offered == begun["params"]["clientCapabilities"]
    assert ([{}, {"content": "new"}, {"terminalId": "t-1"}], ["terminal/create"]) == (answers_to(agent), commands)
    assert "new" == (agent.folder / "notes.txt").read_text()


async def test_what_a_host_raises_is_told_as_an_error_and_nothing_more(tmp_path: Path) -> None:
    async def read(request: FileRead) -> str:
        raise RuntimeError(f"a bug {SECRET}")

    agent = ScriptedAgent(tmp_path / "a", asking(READ, ("fs/read_text_file", {})))
    report = await driven_with(agent, offers=ClientCapabilities(read_text_file=read)).run()
    assert (AttemptOutcome.SUCCESS, [-32603] * 2) == (report.outcome, answers_to(agent))
    assert not any(SECRET in str(e) for e in agent.log)


WRONG = {"raises": "a host's answer to a permission failed", "an option": "a host answered what was not offered"}


@pytest.mark.parametrize("answer", WRONG)
async def test_a_host_hears_that_its_answer_did_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: str
) -> None:
    """The default answers for it; nothing of what it raised is repeated (R-OBS-1)."""

    async def ask(request: PermissionRequest) -> str | None:
        if answer == "raises":
            raise RuntimeError(f"a bug {SECRET}")
        return request.options[0]  # type: ignore[return-value]  # the mistake

    agent = ScriptedAgent(tmp_path / "a", ASKS)
    await driven_with(agent, ask).run()
    (record,) = caplog.records
    assert f"{WRONG[answer]}; the profile's default answers" == record.message
    assert "s-1" == record.__dict__["session_id"]
    assert SECRET not in str(record.__dict__)
    assert ["no"] == outcomes(agent)


async def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def read(request: FileRead) -> str:
        return "x" * 1_000_001

    agent = ScriptedAgent(tmp_path / "a", asking(READ))
    await driven_with(agent, offers=ClientCapabilities(read_text_file=read)).run()
    assert [-32602] == answers_to(agent)


# --- the files below a folder ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text("secret")
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / "out").symlink_to(tmp_path)
    (work / "out.txt").symlink_to(tmp_path / "outside.txt")
    os.mkfifo(work / "pipe")
    return work


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [(None, None, "one\ntwo\nthree\n"), (2, None, "two\nthree\n"), (2, 1, "two\n"), (9, 1, ""), (0, 1, "one\n")],
)
async def test_lines_are_read_as_asked_for(folder: Path, line: int | None, limit: int | None, text: str) -> None:
    asker = Asker("s", 1, "p", folder)
    assert text == await read_file(FileRead(asker, str(folder / "a.txt"), line, limit))


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/hosts", "out/outside.txt", "out.txt", "pipe", "."])
async def test_nothing_outside_of_the_folder_is_read_or_written(folder: Path, path: str) -> None:
    asker = Asker("s", 1, "p", folder)
    with anyio.fail_after(10):
        with pytest.raises(OSError, match=r"not|directory|No such"):
            await read_file(FileRead(asker, path))
        with pytest.raises(OSError, match=r"not|directory|No such"):
            await write_file(FileWrite(asker, path, "x"))
    assert "secret" == (folder.parent / "outside.txt").read_text()


async def test_a_file_is_replaced_whole(folder: Path) -> None:
    asker = Asker("s", 1, "p", folder)
    await write_file(FileWrite(asker, "a.txt", "é"))
    await write_file(FileWrite(asker, "new.txt", "x"))
    assert ("é", "x") == ((folder / "a.txt").read_text(), (folder / "new.txt").read_text())
    with pytest.raises(FileNotFoundError):
        await read_file(FileRead(asker, "none.txt"))

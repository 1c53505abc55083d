"""What the campaign's workers do: sessions whose agents succeed, fail, wait, are left, are stopped; as data for other processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from tests.sessions._shell import ShellAgent

Op = tuple[str, *tuple[Any, ...]]
"""What a worker does next; see :mod:`tests.sessions._worker`."""

WORK: Op = ("work",)


def answers() -> ScriptBuilder:
    """A script of one answer, to be filled."""
    return ScriptBuilder()


def _wait(seconds: int) -> Mapping[str, Any]:
    return {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": seconds}}}


_RETRY: Mapping[str, Any] = {"transient": {"retry": {"enabled": True, "max_retries": 3, "initial_interval_seconds": 5}}}


@dataclass(frozen=True)
class Agent:
    """A candidate: its answers to its first, second, … prompt (the last one to every further), and its policy."""

    name: str
    answers: tuple[ScriptBuilder, ...]
    policy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Program:
    """One session's life, as an undisturbed worker leads it."""

    name: str
    agents: tuple[Agent, ...]
    ops: tuple[Op, ...] = (WORK,)
    """After the start."""
    transport: str = "headless"
    since: int = 1
    """The first commit at which the campaign kills: those before are another program's as well."""
    least: int = 0
    """How many kills there are at commits, at least."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of every agent's profile."""
    probe: Mapping[str, Any] | None = None
    """What a cheap probe of every agent hears."""


def _fable(*scripts: ScriptBuilder, policy: Mapping[str, Any] | None = None) -> Agent:
    return Agent("fable", scripts, policy)


_SOL = Agent("sol", (answers().tool(line="ran").say("done"),))

_QUIET = {"quiet_period_s": 0.02}

PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program("success", (_fable(answers().think("hm").say("done")),), least=14),
        Program("handover", (_fable(answers().fail_quota(3600)), _SOL), since=6, least=14),
        Program(
            "handover-acp",
            (_fable(answers().fail_quota(3600)), _SOL),
            transport="acp",
            options=_QUIET,
            since=3,
            least=20,
        ),
        Program(
            "reset",
            (_fable(answers().fail_quota(60), answers().say("done"), policy=_wait(300)), _SOL),
            (WORK, ("later", 70), WORK),
            since=7,
            least=16,
        ),
        Program(
            "retries",
            (_fable(answers().fail_overloaded(), answers().say("done"), policy=_RETRY),),
            (WORK, ("later", 8), WORK),
            since=7,
            least=16,
        ),
        Program(
            "effects",
            (
                _fable(answers().tool(line="ran").say("half").fail_overloaded(), answers().say("done"), policy=_RETRY),
                _SOL,
            ),
            (WORK, ("act", "skip_now"), WORK),
            since=7,
            least=18,
        ),
        Program(
            "prompts",
            (_fable(answers().tool(line="ran").say("one"), answers().say("two")),),
            (WORK, ("prompt",), WORK),
            since=7,
            least=18,
        ),
        Program(
            "waiting",
            (_fable(answers().fail_quota(60), answers().say("done")),),
            (WORK, ("later", 70), WORK),
            since=7,
            least=16,
        ),
        Program(
            "stop",
            (
                _fable(
                    answers().say("begun").do("child", own_session=True, seconds=60).sleep(1, deaf=True).say("done")
                ),
                _SOL,
            ),
            (("work", "stop"),),
            since=4,
            least=8,
        ),
        Program(
            "reroute",
            (_fable(answers().say("done").sleep(0.1)), _SOL),
            (("work", "drop"), ("prompt",), WORK),
            since=7,
            least=22,
        ),
    )
}
"""The campaign's."""

MIXED: Sequence[str] = ("success", "handover", "handover-acp", "reset", "retries", "effects", "waiting")
"""Those that several sessions of one worker can lead side by side."""


def build(folder: Path, url: str, programs: Sequence[Program]) -> Path:
    """Write what a worker needs to lead these sessions, each in agents of its own; return the file."""
    profiles: dict[str, Any] = {}
    for program in programs:
        candidates = []
        for agent in program.agents:
            name = f"{program.name}-{agent.name}"
            scripted = _agent(folder / name, program, agent)
            options = {"account": name, "provider_id": f"{name}-provider", **program.options}
            profiles[name] = scripted.profile(transport=program.transport, options=options)
            candidates.append({"profile": name, **({"policy": agent.policy} if agent.policy else {})})
        profiles[program.name] = {"kind": "dynamic", "name": program.name, "candidates": candidates}
    path = folder / "world.json"
    path.write_text(json.dumps({"url": url, "folder": str(folder), "profiles": profiles}), "utf-8")
    return path


def _agent(folder: Path, program: Program, agent: Agent) -> ShellAgent | ScriptedAgent:
    if program.transport == "headless":
        return ShellAgent(folder, *agent.answers, probe=program.probe)
    return ScriptedAgent(folder, *agent.answers)

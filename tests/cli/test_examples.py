"""The examples run as they are written, against agents that follow a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.settings import load_settings
from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

EXAMPLES = Path(__file__).parents[2] / "examples"

_AGENT = """
import json, sys
prompt = sys.stdin.read()
if "{word}" in prompt:
    print(json.dumps({{"type": "fail", "status": 429, "message": "The tank is empty, refill in 2 hours"}}))
    sys.exit(1)
print(json.dumps({{"type": "say", "text": prompt.upper()}}))
print(json.dumps({{"type": "end"}}))
"""


def _run(world: World, example: str, *arguments: str) -> Ran:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    ran = subprocess.run(
        command, check=False, cwd=world.folder, env=world.environ(), capture_output=True, encoding="utf-8", timeout=120
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def test_route_once(world: World) -> None:
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.agent("sol", ScriptBuilder().say("Because of the air."))
    world.dynamic("fable", "sol")
    world.configure()
    ran = _run(world, "route_once.py", "frontier", "Why is the sky blue?")
    assert (0, "Because of the air.\n", "(sol, attempt 2)\n") == (ran.code, ran.out, ran.err)
    failed = _run(world, "route_once.py", "fable", "Why?")
    assert (1, "") == (failed.code, failed.out), failed
    assert failed.err.startswith("call_waiting: ")


def test_route_once_is_ten_lines() -> None:
    lines = (EXAMPLES / "route_once.py").read_text("utf-8").splitlines()
    assert 10 >= len([line for line in lines[1:] if line.strip()])


HOSTED = {
    "answers": (ScriptBuilder().say("It is."), "It is. (sol)"),
    "is limited": (ScriptBuilder().fail_quota(7200), "nobody can answer before "),
    "worked, then failed": (ScriptBuilder().tool("Write").fail_overloaded(), "please look at it: "),
    "has no room": (ScriptBuilder().fail_context(), "it cannot be done: "),
}


@pytest.mark.parametrize("case", HOSTED)
def test_a_host_reacts_to_each_ending(world: World, case: str) -> None:
    steps, part = HOSTED[case]
    world.agent("sol", steps)
    world.dynamic("sol")
    world.configure()
    ran = _run(world, "host.py", "frontier", "Is it so?")
    assert 0 == ran.code, ran
    assert ran.out.startswith(part), ran
    assert "  asking sol\n" in ran.err


def test_a_host_says_what_keeps_it_from_starting(world: World) -> None:
    ran = _run(world, "host.py", "frontier", "x")
    assert 1 == ran.code
    assert ran.err.startswith("config_not_found: no kandev-routing.toml")


def test_the_configuration_loads() -> None:
    settings = load_settings(environ={}, cwd=EXAMPLES, config=str(EXAMPLES / "kandev-routing.toml"))
    assert settings.dynamic_agent_routing
    assert {"fable", "sol", "frontier"} == set(settings.profiles)


def test_the_adapter_drives_its_agent(world: World) -> None:
    """One file is enough (R-PLG-1): launch, answer, its own rule, shared health."""
    text = (EXAMPLES / "adapter_minimal.py").read_text("utf-8")
    world.install("adapter_minimal", text)
    agent = world.folder / "agent.py"
    agent.write_text(_AGENT.format(word="limit"), "utf-8")
    world.profiles["mini"] = {"family": "minimal", "command": [sys.executable, str(agent)]}
    world.dynamic("mini")
    world.configure()
    ran = world.run("run", "frontier", "loud")
    assert (0, "LOUD\n") == (ran.code, ran.out), ran
    limited = world.run("run", "frontier", "limit", "--json")
    assert (75, "minimal.quota.1") == (
        limited.code,
        limited.document["attempts"][0]["classification"]["classifier_rule"],
    ), limited
    assert 69 == world.run("guard", "frontier").code


def test_the_adapters_rules_hold_their_fixtures(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    import importlib

    module = importlib.import_module("adapter_minimal")
    sources = [RuleSource(name=r.name, text=r.text) for r in module.MinimalAdapter().rules()]
    assert Catalogue.load([*neutral_sources(), *sources], verify=True).rules

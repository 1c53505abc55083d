"""The examples run as they are written, against agents that follow a script."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk import AnswerMismatch
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.errors import ConfigError, ProfileNotFound, UsageError
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


def _run(world: World, example: str, *arguments: str, stdin: str = "") -> Ran:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    ran = subprocess.run(
        command,
        input=stdin,
        check=False,
        cwd=world.folder,
        env=world.environ(),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def _module(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """An example, imported."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module(name)


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


def test_a_fleet_of_fifty_calls_over_two_accounts(world: World) -> None:
    """One account reaches its limit on the way; every prompt is answered once, and the account is left alone from then on."""
    work = world.agent(
        "work", *[ScriptBuilder().say("Done.")] * 10, ScriptBuilder().fail_quota(7200), transport="headless"
    )
    home = world.agent("home", ScriptBuilder().say("Done."), transport="headless")
    world.dynamic("work", "home")
    world.configure()
    asked = [f"Task {n}" for n in range(50)]
    ran = _run(world, "fleet.py", "frontier", stdin="\n".join(asked))
    assert 0 == ran.code, ran
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted(asked) == sorted(line["prompt"] for line in lines)
    assert {"work": 10, "home": 40} == Counter(line["by"] for line in lines)
    assert 40 == len(home.prompts)
    assert 10 < len(work.prompts) <= 10 + 8, "those that were on their way, and no other"
    first, *rest = ran.err.splitlines()
    assert first.startswith("50 of 50 answered, "), ran
    assert ["  40 by home", "  10 by work"] == rest[:2]
    assert rest[2].startswith("  work is asked again at "), ran


def test_a_chat_has_one_author_and_looks_the_same_after_a_restart(world: World) -> None:
    """Agents change in the middle of it, a person decides once, and three processes show one conversation (R-CON-1, R-CON-6)."""
    world.agent("fable", ScriptBuilder().say("Hello, ").say("what is it?"), ScriptBuilder().fail_quota(7200))
    sol = world.agent(
        "sol",
        ScriptBuilder().tool("Write", line="one").say("I go on."),
        ScriptBuilder().tool("Write", line="two").fail_overloaded(),
        ScriptBuilder().say("Better now."),
    )
    world.dynamic("fable", "sol")
    world.configure()
    first = _run(world, "chat.py", "frontier", stdin="Hello\nGo on\n\nAnd now?")
    assert 0 == first.code, first
    assert [
        "you: Hello",
        "frontier: Hello, what is it?",
        "  (fable)",
        "you: Go on",
        "  fable stops here (quota_limited), another agent goes on",
        "  [Write]",
        "frontier: I go on.",
        "  (sol)",
        "you: And now?",
        "  [Write]",
        "  frontier needs you (provider_overloaded): /retry_now /skip_now /cancel_wait /stop",
    ] == [line for line in first.out.splitlines() if line]
    *_, session = first.err.split()
    second = _run(world, "chat.py", "--session", session, stdin="/dance\n/retry_now\n")
    shown = second.out.replace("  not done: there is no action 'dance'", "")
    assert shown.startswith(first.out), second
    assert ["frontier: Better now.", "  (sol)"] == second.out.splitlines()[-2:]
    assert 3 == len(sol.prompts)
    third = _run(world, "chat.py", "--session", session)
    assert first.out + "frontier: Better now.\n  (sol)\n" == third.out


@pytest.mark.usefixtures("quick", "here")
def test_a_chat_says_what_keeps_it_from_starting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.configure()
    chat = _module(monkeypatch, "chat")
    with pytest.raises(ProfileNotFound):
        asyncio.run(chat.main("nobody", None))
    with pytest.raises(UsageError, match="there is no session 'nothing'"):
        asyncio.run(chat.main("", "nothing"))


ENDINGS = {
    "is limited": (ScriptBuilder().fail_quota(7200), "every account is used up; send it again at "),
    "worked, then failed": (ScriptBuilder().tool("Write").fail_overloaded(), "look at what was done: "),
    "has no room": (ScriptBuilder().fail_context(), "call_failed: "),
}


@pytest.mark.usefixtures("quick", "here")
@pytest.mark.parametrize("case", ENDINGS)
def test_a_fleet_says_what_is_left_and_why(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    steps, part = ENDINGS[case]
    world.agent("sol", steps)
    world.dynamic("sol")
    world.configure()
    fleet = _module(monkeypatch, "fleet")
    assert 1 == asyncio.run(fleet.main("frontier", ["Is it so?"]))
    out, err = capfd.readouterr()
    (line,) = [json.loads(line) for line in out.splitlines()]
    assert ("Is it so?", None) == (line["prompt"], line["answer"])
    assert line["problem"].startswith(part), out
    assert err.startswith("0 of 1 answered"), err


@pytest.mark.usefixtures("quick", "here")
def test_a_fleet_says_what_keeps_it_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"no kandev-routing.toml"):
        asyncio.run(_module(monkeypatch, "fleet").main("frontier", ["x"]))


REVIEW = {"summary": "Good.", "findings": [{"line": 7, "severity": "low", "what": "A typo."}]}


def test_structured_output_is_asked_for_again_until_it_fits(world: World) -> None:
    wrong = {"summary": "Good.", "findings": [{"line": 0, "severity": "low", "what": "A typo."}]}
    agent = world.agent(
        "sol",
        ScriptBuilder().say("It looks good."),
        ScriptBuilder().say(json.dumps(wrong)),
        ScriptBuilder().say(f"Here it is:\n```json\n{json.dumps(REVIEW)}\n```"),
    )
    world.configure()
    (world.folder / "poem.txt").write_text("Rosse are red", "utf-8")
    ran = _run(world, "structured.py", "sol", "poem.txt")
    assert (0, "Good.\npoem.txt:7: low: A typo.\n") == (ran.code, ran.out), ran
    assert "sol: answer.findings.0.line: Input should be greater than or equal to 1" in ran.err.splitlines()
    last = agent.prompts[-1].prompt
    assert last.startswith("Review this file, and change nothing.\n\nRosse are red")
    assert "answer.findings.0.line: Input should be" in last, "it is told what was wrong"
    assert json.dumps(wrong) in last


@pytest.mark.usefixtures("quick", "here")
def test_structured_output_gives_up_plainly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = world.agent("sol", ScriptBuilder().say("It looks good."))
    world.configure()
    (world.folder / "poem.txt").write_text("Rosse are red", "utf-8")
    structured = _module(monkeypatch, "structured")
    with pytest.raises(AnswerMismatch, match=r"the answer of 'sol' has not the shape .*holds no JSON"):
        structured.main("sol", Path("poem.txt"))
    assert 3 == len(agent.prompts)


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
    adapter = _module(monkeypatch, "adapter_minimal")
    sources = [RuleSource(name=r.name, text=r.text) for r in adapter.MinimalAdapter().rules()]
    assert Catalogue.load([*neutral_sources(), *sources], verify=True).rules

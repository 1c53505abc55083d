"""A secret put everywhere comes out nowhere (R-EVI-5, design §6, 8)."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from kandev_routing_sdk import CallFailed, Router, load_settings
from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

LITERAL = "zq71-literal-canary-Ab3"
REFERENCE = "zq72-reference-canary-Cd4"
ARGUMENT = "zq73-argument-canary-Ef5"
STDERR = "sk-ant-api03-zq74StderrCanaryGh6" + "x" * 40
FRAME = "ghp_zq75FrameCanaryIj7" + "y" * 24
CANARIES = (LITERAL, REFERENCE, ARGUMENT, STDERR, FRAME)
ALL = " ".join(CANARIES)


def _leaky(*, works_first: bool) -> ScriptBuilder:
    """Say every secret in every way there is, then fail."""
    steps = ScriptBuilder().stderr(f"debug: {ALL}", times=3).leak("WORK_TOKEN").leak("LITERAL_KEY")
    steps.update({"sessionUpdate": "session_info_update", "title": ALL, "_meta": {"token": ALL, ALL: 1}})
    if works_first:
        # what nobody understands may have been work: only the last candidate may say it
        steps.update({"sessionUpdate": f"unknown {LITERAL}", "x": ALL}).garbage(f"no message: {ALL}")
        steps.say(f"I use {LITERAL} and {ARGUMENT}").tool(f"curl -H {REFERENCE} {FRAME}", line="effect")
    return steps.fail_with(
        -32603, f"API Error: 529 Overloaded {ALL}", {"status": 529, "body": {"key": ALL, "detail": ALL}}
    )


def _fields() -> dict[str, Any]:
    return {
        "env": {"LITERAL_KEY": LITERAL, "PLAIN": "C.UTF-8", "WORK_TOKEN": {"secret": "env:ZQ_TOKEN"}},
        "args": ["--api-key", ARGUMENT, f"--auth-token={ARGUMENT}"],
    }


@pytest.fixture
def leaky(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("ZQ_TOKEN", REFERENCE)
    world.agent("fable", _leaky(works_first=False), **_fields())
    world.agent("sol", _leaky(works_first=True), **_fields())
    world.dynamic("fable", "sol")
    world.configure()
    return world


def _held_by(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [canary for canary in CANARIES if canary.encode() in data]


def _check(world: World, *texts: str) -> None:
    assert [] == [found for text in texts for found in _held_by(text)]
    assert {} == {name: found for name, data in world.files().items() if (found := _held_by(data))}


def test_no_output_of_the_command_line_and_no_byte_of_the_state_holds_one(
    leaky: World, here: Callable[..., Ran]
) -> None:
    """Rows, events, logs, documents, the error line: at the most talkative setting."""
    ran = here("run", "frontier", "hi", "--json", "--debug")
    assert 79 == ran.code, ran
    assert ["fable", "sol"] == [a["execution_profile_id"] for a in ran.document["attempts"]]
    _check(leaky, ran.out, ran.err)
    for arguments in (
        ["run", "frontier", "--dry-run"], ["run", "frontier", "--dry-run", "--json"], ["explain", "frontier", "--json"],
        ["guard", "frontier"], ["circuits", "--json"], ["calls", "--json"], ["doctor", "--json"], ["run", "sol", "hi"],
    ):  # fmt: skip
        shown = here(*arguments)
        _check(leaky, shown.out, shown.err)


def test_no_successor_is_told_one(leaky: World, here: Callable[..., Ran]) -> None:
    """The continuation that the next candidate gets holds what failed, and none of its secrets."""
    here("run", "frontier", "hi", "-q")
    (prompt,) = leaky.agents["sol"].prompts
    assert "hi" in prompt.prompt
    assert [] == _held_by(prompt.prompt)


def test_no_exception_and_no_event_holds_one(
    leaky: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For hosts: text, repr and traceback of what is raised; every event; every log record."""
    monkeypatch.syspath_prepend(leaky.plugins)
    caplog.set_level("DEBUG")
    settings = load_settings(environ=leaky.environ(), cwd=leaky.folder)
    told: list[object] = []
    with Router.open(settings=settings, environ=leaky.environ({"ZQ_TOKEN": REFERENCE})) as router:
        with pytest.raises(CallFailed) as failed:
            router.route_once("frontier", "hi", on_progress=told.append, cwd=leaky.folder)
        events = router._engine.store.events()
        attempts = [a for s in router._engine.store.sessions() for a in router._engine.store.attempts(s.session_id)]
    assert events
    assert attempts
    raised = failed.value
    shown = [str(raised), repr(raised), repr(raised.result), "".join(traceback.format_exception(raised))]
    shown += [repr(e) for e in events] + [repr(a) for a in attempts] + [repr(settings), repr(router)]
    shown += [record.getMessage() for record in caplog.records] + [repr(t) for t in told]
    shown.append(json.dumps([e.params for e in events]))
    _check(leaky, *shown)


def test_a_secret_that_is_missing_is_named_by_its_reference(
    leaky: World, here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZQ_TOKEN")
    ran = here("run", "frontier", "hi")
    assert 69 == ran.code, ran
    assert "env:ZQ_TOKEN" in ran.error

"""``run``: the document, the streams, the signals (R-CLI-1, R-CLI-3, config-format)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World, is_alive, wait_for

pytestmark = pytest.mark.usefixtures("quick")

RESULT_KEYS = [
    "schema_version", "call_id", "outcome", "exit_code", "text", "stop_reason", "logical_profile_id", "execution_profile_id",
    "family", "provider_id", "model", "usage", "deadline", "duration_s", "attempts", "reason", "rejected",
]  # fmt: skip
ATTEMPT_KEYS = [
    "ordinal", "generation", "execution_profile_id", "outcome", "automatic", "inner_retries", "effects", "classification", "decision",
]  # fmt: skip
EFFECT_KEYS = ["delivery", "output", "thinking", "tool_call", "tool_effect", "complete"]
CLASSIFICATION_KEYS = [
    "code",
    "class",
    "confidence",
    "scope",
    "classifier_rule",
    "retry_after_s",
    "reset_at",
    "safe_excerpt",
]
DECISION_KEYS = ["kind", "because", "deadline"]


@pytest.fixture
def failover(world: World) -> World:
    world.agent("fable", ScriptBuilder().fail_quota(7200), name="Fable", model="opus")
    world.agent("sol", ScriptBuilder().think("hm").say("Hello ").say("there.").usage(812, 64), name="Sol", model="gpt")
    world.dynamic("fable", "sol")
    world.configure()
    return world


def test_the_document_has_exactly_the_published_shape(failover: World) -> None:
    """R-UTL-2: who answered, who did not and why, in the shape of config-format."""
    ran = failover.run("run", "frontier", "Say hello", "--json")
    assert 0 == ran.code, ran
    document = ran.document
    assert RESULT_KEYS == list(document)
    assert (1, "success", 0, "Hello there.", "end_turn") == tuple(
        document[k] for k in ("schema_version", "outcome", "exit_code", "text", "stop_reason")
    )
    assert document["call_id"].startswith("utility:")
    assert ("frontier", "sol", "scripted", "sol-provider", "gpt") == tuple(
        document[k] for k in ("logical_profile_id", "execution_profile_id", "family", "provider_id", "model")
    )
    assert {"input_tokens": 812, "output_tokens": 64} == document["usage"]
    assert document["deadline"] is None
    first, second = document["attempts"]
    assert ATTEMPT_KEYS == list(first) == list(second)
    assert EFFECT_KEYS == list(first["effects"]) == list(second["effects"])
    assert CLASSIFICATION_KEYS == list(first["classification"])
    assert DECISION_KEYS == list(first["decision"])
    assert ("failed", True, "quota_limited", "hard", "skip") == (
        first["outcome"],
        first["automatic"],
        first["classification"]["code"],
        first["classification"]["class"],
        first["decision"]["kind"],
    )
    assert ["wait_for_reset: disabled", "retry: disabled"] == first["decision"]["because"]
    assert first["classification"]["reset_at"].endswith("Z")
    assert ("success", None, None) == (second["outcome"], second["classification"], second["decision"])


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(failover: World) -> None:
    """R-CLI-1: candidate, cause, until when, decision; no word of the answer; attribution last."""
    ran = failover.run("run", "frontier", "Say hello")
    assert (0, "Hello there.\n") == (ran.code, ran.out), ran
    assert "Hello" not in ran.err
    assert "attempt 1: Fable (fable-provider, opus)" in ran.err
    assert "Fable failed: quota_limited (hard), until " in ran.err
    assert "decision: next candidate [wait_for_reset: disabled; retry: disabled]" in ran.err
    assert "attempt 2: Sol (sol-provider, gpt)" in ran.err
    last = ran.err.splitlines()[-1]
    assert "answered by Sol (scripted, sol-provider, gpt); attempt 2; 1 other failed: Fable quota_limited" == last
    assert "\x1b" not in ran.out + ran.err


def test_quiet_leaves_only_the_answer(failover: World, here: Callable[..., Ran]) -> None:
    ran = here("run", "frontier", "Say hello", "--quiet")
    assert (0, "Hello there.\n", "") == (ran.code, ran.out, ran.err)


@pytest.mark.parametrize("how", ["argument", "dash", "pipe", "file"])
def test_the_prompt_may_come_from_anywhere(world: World, here: Callable[..., Ran], how: str) -> None:
    agent = world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    prompt = "Zähle bis drei.\nZweite Zeile"
    path = world.folder / "prompt.md"
    path.write_text(prompt, "utf-8")
    arguments = {"argument": [prompt], "dash": ["-"], "pipe": [], "file": ["--prompt-file", str(path)]}[how]
    ran = here("run", "sol", *arguments, stdin=prompt if how in {"dash", "pipe"} else "")
    assert 0 == ran.code, ran
    assert [prompt] == [p.prompt for p in agent.prompts]


def test_a_prompt_that_starts_with_a_dash_is_possible(world: World, here: Callable[..., Ran]) -> None:
    agent = world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    ran = here("run", "sol", "--", "--config is broken, fix it")
    assert 0 == ran.code, ran
    assert ["--config is broken, fix it"] == [p.prompt for p in agent.prompts]


def test_agents_work_in_the_folder_that_is_named(world: World, here: Callable[..., Ran]) -> None:
    agent = world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    (world.folder / "below").mkdir()
    ran = here("run", "sol", "hi", "--cwd", "below")
    assert 0 == ran.code, ran
    assert str(world.folder / "below") == agent.prompts[0].cwd


def test_a_policy_wait_is_told_and_used(world: World, here: Callable[..., Ran]) -> None:
    """R-POL-3: same candidate again after a second; R-CLI-1: it is told while it runs."""
    world.agent("sol", ScriptBuilder().fail_overloaded(), ScriptBuilder().say("now"), name="Sol")
    retry = {"enabled": True, "max_retries": 2, "initial_interval_seconds": 1}
    world.dynamic({"profile": "sol", "policy": {"transient": {"retry": retry}}})
    world.configure()
    ran = here("run", "frontier", "hi")
    assert (0, "now\n") == (ran.code, ran.out), ran
    assert "decision: same candidate again (retry 1 of 2) at " in ran.err
    assert " for Sol, then retry 1 of 2" in ran.err


# Failing -----------------------------------------------------------------------------------------------------------------


def test_nobody_can_now_but_somebody_will(world: World, here: Callable[..., Ran]) -> None:
    """R-CLI-3: 75 with the earliest deadline printed."""
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.agent("sol", ScriptBuilder().fail_quota(3600))
    world.dynamic("fable", "sol")
    world.configure()
    ran = here("run", "frontier", "hi", "--json")
    assert 75 == ran.code, ran
    document = ran.document
    assert RESULT_KEYS == list(document)
    assert ("waiting", 75, "") == (document["outcome"], document["exit_code"], document["text"])
    assert document["attempts"][1]["classification"]["reset_at"] == document["deadline"]
    assert "try again at " in ran.error


def test_after_a_tool_nothing_is_repeated(world: World, here: Callable[..., Ran]) -> None:
    """R-SAFE-1: a failure after work stops for a person: 79, one process, one effect; the other candidate is not asked."""
    fable = world.agent("fable", ScriptBuilder().say("Half an ans").tool("Write file").fail_overloaded())
    sol = world.agent("sol", ScriptBuilder().say("never"))
    world.dynamic("fable", "sol")
    world.configure()
    ran = here("run", "frontier", "hi", "--json")
    assert (79, "action_required", "Half an ans") == (ran.code, ran.document["outcome"], ran.document["text"]), ran
    assert "uses a tool: Write file" in ran.err
    assert "Half an ans" not in ran.err
    assert (1, 0) == (len(fable.effects), len(sol.prompts))


def test_a_task_that_cannot_be_done_fails_with_1(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().fail_context())
    world.configure()
    ran = here("run", "sol", "hi", "--json")
    assert (1, "failed", 1) == (ran.code, ran.document["outcome"], ran.document["exit_code"]), ran


def test_a_timeout_is_124(world: World, here: Callable[..., Ran]) -> None:
    """R-CLI-3; the agent is gone afterwards and no circuit is charged."""
    agent = world.agent("sol", ScriptBuilder().hang())
    world.configure()
    ran = here("run", "sol", "hi", "--timeout", "4", "--json")
    assert (124, "timed_out", 124) == (ran.code, ran.document["outcome"], ran.document["exit_code"]), ran
    assert [False] == [is_alive(p.pid) for p in agent.prompts]
    assert [] == here("circuits", "--json").document["circuits"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_the_agents_first_and_the_document_is_still_printed(
    world: World, here: Callable[..., Ran], number: int, code: int
) -> None:
    """R-CLI-3, R-CON-11: a cancel is no failure, charges no circuit, leaves no process."""
    agent = world.agent("sol", ScriptBuilder().child(own_session=True).hang(deaf=True))
    world.configure()
    process = world.start("run", "sol", "hi", "--json")
    wait_for(lambda: bool(agent.prompts and agent.children))
    process.send_signal(number)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    document = json.loads(out)
    assert (code, "cancelled", code) == (process.returncode, document["outcome"], document["exit_code"]), err
    assert [False, False] == [is_alive(agent.prompts[0].pid), is_alive(agent.children[0])]
    assert [] == here("circuits", "--json").document["circuits"]


def test_a_reader_that_has_enough_is_no_fault(failover: World) -> None:
    process = failover.start("run", "frontier", "hi")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert 141 == process.wait(60), err
    assert "Traceback" not in err
    assert "Exception" not in err


# Dry run -----------------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_who_and_how_and_does_nothing(world: World, here: Callable[..., Ran]) -> None:
    """R-CLI-1: explain plus masked argv; nothing is started, no byte is written."""
    agent = world.agent("sol", ScriptBuilder().say("ok"), args=["--api-key", "zq81-argument-canary"])
    world.dynamic("sol")
    world.configure()
    ran = here("run", "frontier", "--dry-run")
    assert 0 == ran.code, ran
    assert "sol would be started as: " in ran.out
    assert "kandev_routing_sdk.testing.scripted" in ran.out
    assert "zq81-argument-canary" not in ran.out + ran.err
    assert 0 == agent.starts
    assert {} == world.files()
    document = here("run", "frontier", "hi", "--dry-run", "--json").document
    assert ("sol", "--api-key") == (document["chosen_profile_id"], document["argv"]["sol"][-2])


def test_the_console_script_is_the_same_program(world: World) -> None:
    import sys

    script = Path(sys.executable).parent / "kandev-routing"
    ran = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, env=world.environ())
    assert ran.stdout.startswith("kandev-routing ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_anything_was_started_is_told_too(
    failover: World, here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    """R-CLI-3: the same codes, whatever the command was doing."""

    def slow(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)

    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # whoever starts the tests in the background has it ignored
    try:
        monkeypatch.setattr("kandev_routing_sdk.settings.load_settings", slow)
        ran = here("run", "frontier", "hi", "--json")
        assert (code, "cancelled", code) == (ran.code, ran.document["error"]["code"], ran.document["exit_code"])
        assert "interrupted" == here("explain", "frontier").error
        assert usual is signal.getsignal(number)
    finally:
        signal.signal(number, before)


def test_a_signal_ends_a_policy_wait(world: World) -> None:
    world.agent("sol", ScriptBuilder().fail_overloaded())
    retry = {"enabled": True, "max_retries": 2, "initial_interval_seconds": 600}
    world.dynamic({"profile": "sol", "policy": {"transient": {"retry": retry}}})
    world.configure()
    process = world.start("run", "frontier", "hi", "--json")
    assert process.stderr is not None
    line = ""
    while "waiting" not in line:
        line = process.stderr.readline()
        assert line
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    document = json.loads(out)
    assert (143, "cancelled", 143) == (process.returncode, document["outcome"], document["exit_code"]), err
    assert ["provider_overloaded"] == [a["classification"]["code"] for a in document["attempts"]]

"""``circuits`` and ``calls``: what is remembered, and how a person changes it (R-CIR-7, R-UTL-4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kandev_routing_sdk.cli.output import table
from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

pytestmark = pytest.mark.usefixtures("quick")


def test_a_limit_is_remembered_shown_and_reset(world: World, here: Callable[..., Ran]) -> None:
    fable = world.agent("fable", ScriptBuilder().fail_quota(7200), ScriptBuilder().say("again"))
    world.dynamic("fable")
    world.configure()
    assert "no circuit has ever opened\n" == here("circuits").out
    assert 75 == here("run", "frontier", "hi", "-q").code
    (circuit,) = here("circuits", "--json").document["circuits"]
    assert ("account", "open", "quota_limited", 1, False) == tuple(
        circuit[k] for k in ("scope", "state", "code", "failures", "action_required")
    )
    assert "probe_token" not in circuit
    listed = here("circuits").out.splitlines()
    assert [circuit["key"], "account", "open", "quota_limited"] == listed[1].split("\t")[:4]
    assert 75 == here("run", "frontier", "hi", "-q").code
    assert 1 == len(fable.prompts)
    ran = here("circuits", "reset", circuit["key"])
    assert (0, f"{circuit['key']}: closed\n") == (ran.code, ran.out), ran
    assert (0, "again\n") == ((again := here("run", "frontier", "hi", "-q")).code, again.out)


def test_a_retry_makes_it_due_and_closes_nothing_unseen(world: World, here: Callable[..., Ran]) -> None:
    world.agent("fable", ScriptBuilder().fail_auth(), ScriptBuilder().say("logged in"))
    world.dynamic("fable")
    world.configure()
    assert 79 == here("run", "frontier", "hi", "-q").code
    (circuit,) = here("circuits", "--json").document["circuits"]
    assert circuit["action_required"]
    assert "a person has to act" in here("circuits").out
    changed = here("circuits", "retry", circuit["key"], "--json").document["circuit"]
    assert ("open", False) == (changed["state"], changed["action_required"])
    assert (0, "logged in\n") == ((ran := here("run", "frontier", "hi", "-q")).code, ran.out), ran
    assert ["closed"] == [c["state"] for c in here("circuits", "--json").document["circuits"]]


def test_calls_are_listed_newest_first_without_prompt_or_answer(world: World, here: Callable[..., Ran]) -> None:
    world.agent("fable", ScriptBuilder().say("zq-answer").usage(5, 7), ScriptBuilder().fail_context())
    world.configure()
    assert "there is no call yet\n" == here("calls").out
    assert 0 == here("run", "fable", "zq-prompt", "-q").code
    assert 1 == here("run", "fable", "zq-prompt", "-q").code
    newest, oldest = here("calls", "--json").document["calls"]
    assert ("failed", 1, "context_exhausted") == (newest["outcome"], newest["exit_code"], newest["code"])
    assert ("success", 0, "fable", 5, 7) == tuple(
        oldest[k] for k in ("outcome", "exit_code", "execution_profile_id", "input_tokens", "output_tokens")
    )
    assert [newest["call_id"]] == [c["call_id"] for c in here("calls", "--limit", "1", "--json").document["calls"]]
    assert oldest == here("calls", "show", oldest["call_id"], "--json").document["call"]
    assert "outcome: success" in here("calls", "show", oldest["call_id"]).out
    assert 3 == len(here("calls").out.splitlines())
    assert not [name for name, data in world.files().items() if b"zq-answer" in data or b"zq-prompt" in data]


def test_who_has_to_act_is_told_what_to_do_and_how_the_router_learns_of_it(
    world: World, here: Callable[..., Ran]
) -> None:
    """R-CIR-7: after the login a dynamic profile needs an explicit retry; a concrete one is asked anyway (R-CIR-8)."""
    world.agent("fable", ScriptBuilder().fail_auth(), ScriptBuilder().fail_auth())
    world.dynamic("fable")
    world.configure()
    for _ in range(2):  # the first call finds out; the second asks nobody
        ran = here("run", "frontier", "hi", "-q")
        assert 79 == ran.code
        assert "kandev-routing circuits retry KEY lets the next call try again" in ran.error
        assert "in this round" not in ran.error
    ran = here("run", "fable", "hi", "-q")
    assert (79, False) == (ran.code, "circuits retry" in ran.error)
    assert "Sign in again with the agent's own login command, or replace the key" in ran.error


def test_a_retry_that_changes_nothing_says_so(world: World, here: Callable[..., Ran]) -> None:
    """R-CIR-7: an explicit retry is for what waits for a person; a limit with a time keeps it."""
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.dynamic("fable")
    world.configure()
    assert 75 == here("run", "frontier", "hi", "-q").code
    (before,) = here("circuits", "--json").document["circuits"]
    ran = here("circuits", "retry", before["key"])
    assert 0 == ran.code, ran
    assert "nothing was changed" in ran.err
    assert [before] == here("circuits", "--json").document["circuits"]


def test_the_beginning_of_a_key_will_do(world: World, here: Callable[..., Ran]) -> None:
    """A key is longer than a line of a terminal."""
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.dynamic("fable")
    world.configure()
    assert 75 == here("run", "frontier", "hi", "-q").code
    (before,) = here("circuits", "--json").document["circuits"]
    assert 2 == here("circuits", "reset", f"{before['key']}0").code
    assert 2 == here("circuits", "reset", "").code
    assert "closed" == here("circuits", "reset", before["key"][:20], "--json").document["circuit"]["state"]


def test_a_beginning_of_several_keys_is_refused(world: World, here: Callable[..., Ran]) -> None:
    for name in ("fable", "sol"):
        world.agent(name, ScriptBuilder().fail_quota(7200))
        world.profiles[name]["options"] = {"provider_id": "north", "account": name}
    world.dynamic("fable", "sol")
    world.configure()
    assert 75 == here("run", "frontier", "hi", "-q").code
    ran = here("circuits", "reset", "account:north")
    assert 2 == ran.code, ran
    assert "2 circuits have a key that begins with 'account:north'; give more of it" in ran.error
    assert ["open", "open"] == [c["state"] for c in here("circuits", "--json").document["circuits"]]


def test_on_a_narrow_terminal_what_names_a_row_is_whole(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is shown must be enough for the next command."""
    monkeypatch.setattr("kandev_routing_sdk.cli.output.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    call, key = f"utility:{'0' * 28}", f"account:north:v1:{'1' * 64}"
    table(("name", "profile", "cause"), [(call, "x" * 40, "y" * 40), (key, "x" * 40, "y" * 40)])
    starts = [line.split(" ")[0] for line in capfd.readouterr().out.splitlines()[1:]]
    assert call in starts
    assert key in "".join(starts)


def test_on_a_narrow_terminal_every_column_is_left_some_room(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kandev_routing_sdk.cli.output.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    table(("name", "profile", "until"), [(f"session:{'0' * 28}", "frontier, with " + "fable " * 9, "16:29:43 UTC")])
    assert "16:29:43" in capfd.readouterr().out


def test_a_past_call_says_what_its_attempts_met(world: World, here: Callable[..., Ran]) -> None:
    """Afterwards a person can still see why the first candidate failed."""
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.agent("sol", ScriptBuilder().say("done"))
    world.dynamic("fable", "sol")
    world.configure()
    assert 0 == here("run", "frontier", "hi", "-q").code
    (call,) = here("calls", "--json").document["calls"]
    shown = here("calls", "show", call["call_id"], "--json").document["history"]
    assert [("fable", "failed", "quota_limited", "skip"), ("sol", "success", None, None)] == [
        (a["execution_profile_id"], a["outcome"], a["code"], a["decision"]) for a in shown
    ]
    lines = here("calls", "show", call["call_id"]).out
    assert "attempt 1: fable failed: quota_limited" in lines
    assert "attempt 2: sol success" in lines

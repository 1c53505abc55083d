"""``action``: what a person does, fenced by what the person saw (R-ENG-7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

pytestmark = pytest.mark.usefixtures("quick")

WAIT = {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 7200}}}


@pytest.fixture
def waiting(world: World, here: Callable[..., Ran]) -> str:
    """A session that waits an hour for Fable's reset; Sol is free."""
    return wait_for_a_reset(world, here)


def wait_for_a_reset(world: World, here: Callable[..., Ran]) -> str:
    world.agent("fable", ScriptBuilder().fail_quota(3600), ScriptBuilder().say("Fable's answer"))
    world.agent("sol", ScriptBuilder().say("Sol's answer"))
    world.dynamic({"profile": "fable", "policy": WAIT}, "sol")
    world.configure()
    ran = here("sessions", "start", "frontier", "hi", "--here", "--json")
    assert 75 == ran.code, ran
    session: str = ran.document["session"]["session_id"]
    return session


def snapshot(here: Callable[..., Ran], session: str) -> Any:
    return here("sessions", "show", session, "--json").document["session"]


@pytest.mark.parametrize(
    ("action", "state", "answers"),
    [
        ("retry_now", "active", "Fable's answer"),
        ("skip_now", "active", "Sol's answer"),
        ("cancel_wait", "action_required", None),
        ("stop", "stopped", None),
    ],
)
def test_an_action_is_carried_out_and_says_what_the_session_is_now(
    waiting: str, here: Callable[..., Ran], action: str, state: str, answers: str | None
) -> None:
    ran = here("action", waiting, action, "--generation", "1", "--here", "--json")
    document = ran.document
    assert (state, answers) == (document["session"]["state"], document["text"]), ran
    assert document["exit_code"] == ran.code == (79 if state == "action_required" else 0)
    assert document["session"] == snapshot(here, waiting)


@pytest.mark.parametrize("action", ["resume", "start_fresh"])
def test_a_concrete_profile_has_actions_of_its_own(world: World, here: Callable[..., Ran], action: str) -> None:
    """R-POL-7."""
    world.agent("sol", ScriptBuilder().fail_auth(), ScriptBuilder().say("signed in"))
    world.configure()
    ran = here("sessions", "start", "sol", "hi", "--here", "--json")
    session = ran.document["session"]["session_id"]
    assert 79 == ran.code
    assert ["resume", "start_fresh", "cancel_wait", "stop"] == ran.document["session"]["actions"]
    assert f"kandev-routing action {session} {action} --generation 1" in here("sessions", "show", session).out
    why = here("sessions", "show", session, "--why").out
    for line in ("policy +a concrete profile's: .*its person's", "used +0 retries of 5", "again +the same answer"):
        assert re.search(f"^ *{line}$", why, re.MULTILINE), why
    assert 0 == here("circuits", "retry", "--profile", "sol").code
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    assert re.search("^news +what failed may work again", here("sessions", "show", session).out, re.MULTILINE)

    document = here("action", session, action, "--generation", "1", "--here", "--json").document

    assert ("active", "signed in") == (document["session"]["state"], document["text"])


def test_without_here_a_worker_goes_on(world: World, here: Callable[..., Ran], database_url: str) -> None:
    """On both engines."""
    world.url = database_url
    session = wait_for_a_reset(world, here)
    ran = here("action", session, "skip_now", "--generation", "1")
    assert 0 == ran.code, ran
    assert ran.out.startswith(f"session    {session}\n")
    assert "switching" in ran.out
    assert 0 == len(world.agents["sol"].prompts)
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    assert ("active", 2) == tuple(snapshot(here, session)[k] for k in ("state", "generation"))
    assert 1 == len(world.agents["sol"].prompts)


def test_a_stale_generation_shows_the_snapshot_and_changes_nothing(
    world: World, here: Callable[..., Ran], database_url: str
) -> None:
    """R-ENG-7, R-CLI-3: exit 80 with the authoritative snapshot, on both engines."""
    world.url = database_url
    session = wait_for_a_reset(world, here)
    before = snapshot(here, session)
    ran = here("action", session, "skip_now", "--generation", "7", "--json")
    assert (80, 80, "stale_generation", before) == (
        ran.code,
        ran.document["exit_code"],
        ran.document["error"]["code"],
        ran.document["session"],
    )
    text = here("action", session, "skip_now", "--generation", "7")
    assert 80 == text.code
    assert f"action {session} skip_now --generation 1" in text.out
    assert "the route is at generation 1, not 7" in text.error
    assert before == snapshot(here, session)
    assert 0 == world.agents["sol"].starts


def test_a_revision_is_held_to_as_well(waiting: str, here: Callable[..., Ran]) -> None:
    """Those who want no race with a timer either name what they saw exactly."""
    seen = snapshot(here, waiting)["revision"]
    stale = here("action", waiting, "cancel_wait", "--generation", "1", "--revision", str(seen - 1), "--json")
    assert (80, "stale_revision", seen) == (
        stale.code,
        stale.document["error"]["code"],
        stale.document["session"]["revision"],
    )
    assert 0 == here("action", waiting, "cancel_wait", "--generation", "1", "--revision", str(seen)).code


def test_what_is_not_offered_is_refused_and_says_what_is(waiting: str, here: Callable[..., Ran]) -> None:
    assert 0 == here("action", waiting, "skip_now", "--generation", "1", "--here", "-q").code
    before = snapshot(here, waiting)
    assert ("active", ["stop"]) == (before["state"], before["actions"])
    ran = here("action", waiting, "cancel_wait", "--generation", "2", "--json")
    assert (80, "illegal_transition", before) == (
        ran.code,
        ran.document["error"]["code"],
        ran.document["session"],
    )
    assert "a session that is active takes no cancel_wait; what can be done is stop" == ran.document["error"]["message"]
    assert 0 == here("action", waiting, "stop", "--generation", "2").code
    over = here("action", waiting, "retry_now", "--generation", "2")
    assert (80, True) == (over.code, over.out.startswith("session "))
    assert "a session that is stopped takes no retry_now; nothing can be done now" == over.error


def test_while_a_turn_is_on_its_way_nothing_is_done(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("ok"))
    world.dynamic("sol")
    world.configure()
    session = here("sessions", "start", "frontier", "hi").out.strip()
    ran = here("action", session, "retry_now", "--generation", "0", "--json")
    assert (80, "turn_in_progress", "selecting") == (
        ran.code,
        ran.document["error"]["code"],
        ran.document["session"]["state"],
    )


def test_an_id_is_carried_out_once(world: World, here: Callable[..., Ran], database_url: str) -> None:
    """R-ENG-7: a repeated id gets what it got, however late it comes; on both engines."""
    world.url = database_url
    session = wait_for_a_reset(world, here)
    arguments = ("action", session, "skip_now", "--generation", "1", "--id", "mine", "--json")
    assert ("switching", 0) == ((first := here(*arguments)).document["session"]["state"], first.code)
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    again = here(*arguments)
    assert ("active", 2, 0) == (again.document["session"]["state"], again.document["session"]["generation"], again.code)
    assert 1 == len(world.agents["sol"].prompts)
    other = here("action", session, "stop", "--generation", "2", "--id", "mine")
    assert 2 == other.code
    assert "'mine' was used for another action already; take a fresh one" in other.error


def test_who_is_not_let_to_a_resource_is_told_and_nothing_is_done(world: World, here: Callable[..., Ran]) -> None:
    """R-CIR-8, R-ENG-6: two sessions wait for one account, and the lease is one's; not even a person starts a second probe."""
    world.agent("fable", ScriptBuilder().sleep(1.0).fail_quota(3600))
    world.dynamic({"profile": "fable", "policy": WAIT})
    world.configure()
    both = [here("sessions", "start", "frontier", "hi", "-q").out.strip() for _ in range(2)]
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    assert ["waiting_for_reset"] * 2 == [snapshot(here, session)["state"] for session in both]
    refused, let = sorted(
        (here("action", session, "retry_now", "--generation", "1", "--json") for session in both), key=lambda r: -r.code
    )
    assert (80, "not_admitted", "waiting_for_reset") == (
        refused.code,
        refused.document["error"]["code"],
        refused.document["session"]["state"],
    )
    assert re.fullmatch(
        r"another session has the next try of a resource that this agent needs until .+ UTC \(in .+\); nothing was changed: "
        "try again then, or take skip_now",
        refused.document["error"]["message"],
    )
    assert (0, "retrying") == (let.code, let.document["session"]["state"])


def test_with_dynamic_routing_off_only_the_end_is_left(world: World, waiting: str, here: Callable[..., Ran]) -> None:
    """R-RES-4."""
    world.configure(enabled=False)
    ran = here("action", waiting, "retry_now", "--generation", "1")
    assert 78 == ran.code
    assert "dynamic_agent_routing = true" in ran.error
    assert 0 == here("sessions", "stop", waiting).code


WRONG = {
    "action": (
        ["retry"],
        "there is no action 'retry'; actions are retry_now, resume, start_fresh, skip_now, cancel_wait, stop",
    ),
    "no action": ([], "Missing argument 'ACTION'"),
    "generation": (["stop", "--generation", "-1"], "--generation"),
    "a word": (["stop", "--generation", "last"], "--generation"),
    "revision": (["stop", "--generation", "1", "--revision", "-1"], "--revision"),
    "no generation": (["stop", "--revision", "1"], "Missing option '--generation'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence_with_the_way_out(world: World, here: Callable[..., Ran], case: str) -> None:
    world.agent("sol", ScriptBuilder().say("never"))
    world.configure()
    arguments, part = WRONG[case]
    if arguments and not any(a.startswith("--") for a in arguments):
        arguments = [*arguments, "--generation", "1"]
    ran = here("action", "session:x", *arguments)
    assert (2, "") == (ran.code, ran.out), ran
    assert part in ran.error


def test_an_action_on_nothing_says_where_sessions_are(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("never"))
    world.configure()
    ran = here("action", "session:x", "stop", "--generation", "1", "--json")
    assert (2, "usage") == (ran.code, ran.document["error"]["code"])
    assert "kandev-routing sessions lists them" in ran.document["error"]["message"]

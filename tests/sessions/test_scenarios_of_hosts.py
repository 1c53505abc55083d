"""The user's scenarios of chats that outlive their agents and their host: each test's docstring is one of them, or says what it adds."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.errors import DynamicRoutingDisabled
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.route.continuation import OPENING
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.testing import ScriptedAgent
from tests.routes._world import answers
from tests.sessions._home import Home

QUIET = {"quiet_period_s": 0.05}


@pytest.fixture
def chat(home: Home) -> Home:
    """``frontier`` is fable, then codex. Fable answers once and has then used up its allowance; both speak ACP."""
    home.transport = "acp"
    first = answers().tool("Write notes.txt", line="notes").say("Written.")
    fable = home.agent("fable", first, answers().fail_quota(3600), options=QUIET, model="f-1")
    fable.set(models=["f-1", "f-2"], modes=["plan", "edit"])
    codex = home.agent("codex", answers().say("Continued."), answers().say("Again."), options=QUIET, model="c-1")
    codex.set(models=["c-1"])
    return home


def switched(home: Home) -> Snapshot:
    """A chat of two turns: fable's, and codex's after fable's limit."""
    begun = home.run("write notes")
    home.say(begun.session_id, "go on")
    home.work()
    return home.see(begun.session_id)


def events(home: Home, seen: Snapshot) -> list[EventRecord]:
    """The whole past of the session."""
    return home.store.events(session_id=seen.session_id)


def opened(agent: ScriptedAgent) -> list[tuple[str, str | None]]:
    """How each of its processes opened a session, and which it was asked for."""
    ways = {"session/new", "session/load", "session/resume"}
    requests = [e for e in agent.log if e["event"] == "request" and e["method"] in ways]
    return [(e["method"], e["params"].get("sessionId")) for e in requests]


def badge(event: EventRecord) -> tuple[int, Any, Any, Any]:
    """What stands beside a turn: its generation, who ran it, and on which provider and model."""
    params = event.params
    return event.generation, params["profile_id"], params["provider_id"], params["model_id"]


def of(found: list[EventRecord], *kinds: EventKind) -> list[EventRecord]:
    """Those of some kinds."""
    return [event for event in found if event.kind in kinds]


# --- sessions ---


def test_a_quota_failure_changes_the_agent_and_not_the_chat(chat: Home) -> None:
    """GIVEN a Kanban task assigned to a dynamic Frontier profile with Fable then Codex, WHEN Fable reports a high-confidence quota
    failure, THEN the same task tab shows a route-change row, starts a fresh Codex ACP session with a continuation package, and
    replaces the model/options/commands controls.
    """
    seen = switched(chat)
    past = events(chat, seen)

    assert ("frontier", "codex", "active", 2) == (
        seen.logical_profile_id,
        seen.execution_profile_id,
        seen.state,
        seen.generation,
    )
    (changing,) = of(past, EventKind.ROUTE_CHANGING)
    assert ("fable", "provider_failure") == (changing.params["prior_profile_id"], changing.reason)
    failed = chat.rows(seen.session_id)[1].classification
    assert failed is not None
    assert "quota_limited" == failed.code
    assert [("session/new", None)] == opened(chat.agents["codex"])
    (prompt,) = chat.agents["codex"].prompts
    assert prompt.prompt.startswith("go on")
    assert OPENING in prompt.prompt
    assert seen.capabilities is not None
    assert ("c-1", []) == (seen.capabilities["current_model"], seen.capabilities["modes"])


# --- reload ---


def test_a_reload_shows_the_same_chat(chat: Home) -> None:
    """GIVEN a Dynamic Frontier chat switches from Fable to Codex, WHEN the user reloads it, THEN the tab and message authors still show
    Dynamic Frontier, each assistant turn shows its original provider/model badge, the durable switch row remains in sequence, and
    controls describe Codex.
    """
    seen = switched(chat)
    past = events(chat, seen)

    started = of(past, EventKind.TURN_STARTED)
    assert [
        (1, "fable", "fable-provider", "f-1"),
        (1, "fable", "fable-provider", "f-1"),
        (2, "codex", "codex-provider", "c-1"),
    ] == [badge(event) for event in started]
    (changing,) = of(past, EventKind.ROUTE_CHANGING)
    assert started[1].sequence < changing.sequence < started[2].sequence

    # edits of today change nothing of what was
    chat.profiles["fable"]["model"] = "f-2"
    chat.profiles["fable"]["name"] = "Another name"
    read = chat.async_with(_by_pages(seen.session_id))
    assert past == read
    again = chat.see(seen.session_id)
    assert ("frontier", seen.capabilities) == (again.logical_profile_id, again.capabilities)


def _by_pages(session_id: str) -> Any:
    async def read(router: Any) -> list[EventRecord]:
        found: list[EventRecord] = []
        while page := router.events(session_id=session_id, after=found[-1].sequence if found else 0, limit=3):
            found += page
        return found

    return read


def test_a_restart_goes_on_with_the_native_session_of_whoever_is_active(chat: Home) -> None:
    """GIVEN the backend restarts with a dynamic session active, WHEN runtime reconciliation completes, THEN the same Kandev session tab
    returns and the backend resumes only the provider-native session owned by the persisted concrete profile.
    """
    seen = switched(chat)  # each verb of this home is a process of its own: this was two restarts
    first, second = chat.agents["fable"].prompts
    assert first.native_session_id == second.native_session_id
    assert [("session/new", None), ("session/load", first.native_session_id)] == opened(chat.agents["fable"])

    chat.say(seen.session_id, "and once more")
    chat.work()

    after = chat.see(seen.session_id)
    assert (seen.session_id, "codex", "active") == (after.session_id, after.execution_profile_id, after.state)
    mine = chat.agents["codex"].prompts[0].native_session_id
    assert [("session/new", None), ("session/load", mine)] == opened(chat.agents["codex"])
    assert first.native_session_id != mine
    assert 2 == chat.agents["fable"].starts, "no selection was made again"


# --- flag ---


def test_flag_off_a_concrete_identity_launches_and_a_dynamic_one_says_why_not(chat: Home) -> None:
    """GIVEN Office is enabled and dynamic routing is disabled, WHEN one Office identity selects a concrete profile and another selects a
    dynamic profile, THEN the concrete identity can launch and the dynamic identity enters an actionable feature-disabled state.
    """
    begun = chat.begin("write notes")
    chat.enabled = False

    concrete = chat.run(profile="fable")  # its worker finds the dynamic one, too
    dynamic = chat.see(begun.session_id)

    assert ("active", "fable") == (concrete.state, concrete.execution_profile_id)
    assert ("action_required", "dynamic_routing_disabled") == (dynamic.state, dynamic.reason)
    assert 1 == chat.agents["fable"].starts
    with pytest.raises(DynamicRoutingDisabled):
        chat.begin("another")
    assert {"fable", "codex", "frontier"} == set(chat.settings.profiles)


# --- one id ---


@pytest.mark.parametrize(("profile", "generation"), [("fable", 1), ("frontier", 1)])
def test_a_caller_gives_one_id_of_either_kind(chat: Home, profile: str, generation: int) -> None:
    """GIVEN a task, workflow, Office agent, or utility caller selects a dynamic profile ID, WHEN it starts execution, THEN the caller
    uses its normal profile path and the shared resolver starts the conductor without requiring a concrete execution profile from that
    caller.
    """
    seen = chat.run(profile=profile)
    assert (profile, "fable", generation) == (seen.logical_profile_id, seen.execution_profile_id, seen.generation)

"""What a session's agent offers and asks for, per generation (R-CON-7), and whom a turn is attributed to (R-CON-5)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk import PermissionRequest
from kandev_routing_sdk.conductor.voice import Voice
from kandev_routing_sdk.events import EventKind
from kandev_routing_sdk.evidence.updates import AgentUpdate, CapabilitiesUpdate, TextDelta
from kandev_routing_sdk.route.snapshot import Snapshot
from tests.routes._world import answers
from tests.sessions._home import Home

QUIET = {"quiet_period_s": 0.05}


@pytest.fixture
def acp_home(lite_home: Home) -> Home:
    """Agents that speak ACP and are soon quiet."""
    lite_home.transport = "acp"
    return lite_home


def offered(seen: Snapshot) -> dict[str, Any]:
    assert seen.capabilities is not None
    return dict(seen.capabilities)


def told(home: Home, seen: Snapshot, kind: EventKind) -> list[tuple[int, dict[str, Any]]]:
    """Generation and parameters of the session's events of a kind."""
    return [(e.generation, e.params) for e in home.store.events(session_id=seen.session_id) if e.kind is kind]


def commands(*names: str) -> dict[str, Any]:
    return {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": name} for name in names]}


def test_capabilities_are_replaced_and_never_merged(acp_home: Home) -> None:
    """GIVEN a route changes to another concrete agent, WHEN it becomes active, THEN models, modes, options and commands are those of
    the new agent, and nothing of the old one is left.
    """
    home = acp_home
    options = [{"id": "effort", "name": "Effort", "type": "select", "currentValue": "low", "options": []}]
    fable = home.agent("fable", answers().say("first"), answers().fail_quota(3600), options=QUIET)
    fable.set(models=["f-1", "f-2"], modes=["plan", "edit"], options=options)
    fable.at("session", answers().update(commands("go")))
    codex = home.agent("codex", answers().say("second"), options=QUIET)
    codex.set(models=["c-1"])

    seen = home.run()
    first = offered(home.see(seen.session_id))
    home.say(seen.session_id)
    home.work()
    second = offered(home.see(seen.session_id))

    assert ("f-1", 2, 1, 1) == (
        first["current_model"],
        len(first["modes"]),
        len(first["options"]),
        len(first["commands"]),
    )
    assert ("c-1", [], [], []) == (second["current_model"], second["modes"], second["options"], second["commands"])
    assert set(first) == set(second)
    assert [1, 1, 2] == [generation for generation, _ in told(home, seen, EventKind.CAPABILITIES_REPLACED)]
    assert second == home.see(seen.session_id).to_json()["capabilities"]


def test_what_an_agent_comes_to_offer_in_its_turn_is_kept(acp_home: Home) -> None:
    """Each word replaces the one before, in an event of its own and before the turn's end. A failed turn's counts as well."""
    home = acp_home
    agent = home.agent("fable", answers().update(commands("go", "stop")).update(commands("halt")).fail_puzzling())
    agent.set(models=["f-1"], modes=["plan", "edit"])

    seen = home.run()

    found = [params["capabilities"] for _, params in told(home, seen, EventKind.CAPABILITIES_REPLACED)]
    assert ([], [{"name": "halt"}]) == (found[0]["commands"], found[-1]["commands"])
    assert {"f-1"} == {capabilities["current_model"] for capabilities in found}
    kinds = home.kinds(seen.session_id)
    assert kinds[-3:] == ["session.capabilities_replaced", "session.turn_failed", "session.route_waiting"]


def test_what_a_late_agent_says_changes_nothing_and_is_counted() -> None:
    """A frame of an agent whose turn is settled is of no turn (R-EVI-4, R-ENG-9)."""
    heard: list[AgentUpdate] = []
    voice = Voice(heard.append)
    voice(CapabilitiesUpdate({"models": ["m-1"]}))
    voice.close()
    voice(CapabilitiesUpdate({"models": ["m-2"]}))
    voice(TextDelta("late"))
    assert ([CapabilitiesUpdate({"models": ["m-1"]})], 2) == (heard, voice.late)


def test_an_agent_that_does_not_get_ready_has_nothing_to_offer(acp_home: Home) -> None:
    """Capability discovery failing: the route does not become active, and no control of an earlier agent stays usable."""
    home = acp_home
    home.agent("fable", answers().say("first"), answers().fail_quota(3600), options=QUIET)
    codex = home.agent("codex", answers().say("never"), options=QUIET, model="c-9")
    codex.at("set", answers().fail_with(-32602, "Invalid params"))

    seen = home.run()
    home.say(seen.session_id)
    home.work()

    after = home.see(seen.session_id)
    assert ("codex", False) == (after.execution_profile_id, after.state == "active")
    assert (None, []) == (after.capabilities, codex.prompts)
    assert [1, 1] == [generation for generation, _ in told(home, seen, EventKind.ROUTE_CHANGED)]


def test_a_session_that_cannot_be_opened_for_an_unknown_reason_is_a_persons(acp_home: Home) -> None:
    """R-CON-7: the route does not become active, and its reason says what is missing."""
    home = acp_home
    home.agent("fable", answers().say("never"), options=QUIET).at("session", answers().fail_puzzling())
    home.agent("codex", answers().say("never"), options=QUIET)
    seen = home.run()
    assert ("action_required", "capability_failure", None) == (seen.state, seen.reason, seen.capabilities)
    assert [] == told(home, seen, EventKind.ROUTE_CHANGED)


def test_a_turn_stays_attributed_to_whoever_ran_it(acp_home: Home) -> None:
    """GIVEN a turn failed with partial output, WHEN its profile is edited later, THEN the turn keeps the execution profile, the labels
    and the generation that it started with.
    """
    home = acp_home
    home.agent("fable", answers().say("half").fail_puzzling(), answers().say("whole"), options=QUIET, model="m-1")
    home.agents["fable"].set(models=["m-1", "m-2"])
    seen = home.run()
    started, rows = told(home, seen, EventKind.TURN_STARTED), home.rows(seen.session_id)
    attribution = {"profile_id": "fable", "provider_id": "fable-provider", "model_id": "m-1", "profile": "fable"}
    (generation, params) = started[0]
    assert (1, attribution) == (generation, {name: params[name] for name in attribution})
    assert rows[0].attempt_id == params["attempt_id"] == told(home, seen, EventKind.TURN_FAILED)[0][1]["attempt_id"]

    edited = {**home.profiles["fable"], "name": "Renamed", "model": "m-2"}
    home.profiles["fable"] = {**edited, "options": {**edited["options"], "provider_id": "elsewhere"}}
    home.act(home.see(seen.session_id), "retry_now")
    home.work()

    after = home.rows(seen.session_id)
    assert (started, rows) == (told(home, seen, EventKind.TURN_STARTED)[:1], after[:1])
    assert ("m-1", "fable-provider", 1) == (after[0].model_id, after[0].provider_id, after[0].generation)
    (generation, params) = told(home, seen, EventKind.TURN_STARTED)[1]
    assert (2, "Renamed", "m-2", "elsewhere") == (
        generation,
        params["profile"],
        params["model_id"],
        params["provider_id"],
    )


def test_a_host_answers_what_its_sessions_agents_ask_leave_for(acp_home: Home) -> None:
    """And is told for which session, generation and profile; without it the profile's default answers."""
    home = acp_home
    asks = answers().tool(line="ran", ask=True).say("done")
    agent = home.agent("fable", asks, asks, options=QUIET, permissions={"default": "reject"})
    asked: list[PermissionRequest] = []

    async def decide(request: PermissionRequest) -> str | None:
        asked.append(request)
        return "yes"

    begun = home.begin()
    home.async_with(lambda router: router.run_worker(until_idle=True, poll_s=0.01), permissions=decide)
    home.say(begun.session_id)
    home.work()

    assert ["ran"] == agent.effects, "the second time nobody but the profile was there"
    (request,) = asked
    assert (begun.session_id, 1, "fable") == (
        request.asker.session_id,
        request.asker.generation,
        request.asker.profile_id,
    )
    assert home.folder == request.asker.cwd

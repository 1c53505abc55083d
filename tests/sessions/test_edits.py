"""People edit a dynamic profile while its sessions run and wait: the turn is left alone, the next decision is not (R-ENG-4, R-PRO-8)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.errors import ProfileUnusable, TurnInProgress
from kandev_routing_sdk.profile_store import LayeredProfiles, Profiles
from kandev_routing_sdk.profiles import ProfileInUse
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.types import AttemptOutcome
from tests.sessions._home import retries, waits
from tests.sessions._played import Agent, profiles_table
from tests.sessions._scenes import (
    CONCRETE,
    act,
    ask,
    begin,
    got,
    look,
    process_with,
    rested,
    rows,
    see,
    shelve,
    stored,
    where,
)
from tests.sessions._town import Process, Town

POLICY = retries(2)


def running(town: Town, play: str = "answer") -> tuple[Process, Snapshot, Agent]:
    """A session of ``frontier`` whose fable is at its turn."""
    shelve(town, frontier=["fable", "sol"])
    town.stage.plays["fable"] = [f"slow:{play}", "answer"]
    host = town.process()
    seen = begin(town, host)
    town.look(host)
    (agent,) = town.stage.live(seen.session_id)
    return host, seen, agent


def ends(town: Town, agent: Agent) -> None:
    """The agent does what it was about to do."""
    agent.go.set()
    town.settle()


def pending(town: Town, of: Snapshot) -> list[object]:
    """What was told of a switch that is to come."""
    events = town.store.events(session_id=of.session_id)
    return [event.params["pending"] for event in events if event.kind == "session.route_pending"]


def without(town: Town, how: str) -> None:
    """fable is removed from ``frontier``, disabled in it, or disabled altogether."""
    if how == "altogether":
        table = profiles_table(CONCRETE, {"frontier": [{"profile": "sol"}, {"profile": "fable"}]})
        table["fable"]["enabled"] = False
        town.shelf.put(table)
    else:
        shelve(town, frontier=["sol", *([{"profile": "fable", "enabled": False}] if how == "disabled" else [])])


# --- versions ---


def test_edit_while_running_another_order_counts_at_the_next_decision(town: Town) -> None:
    """GIVEN a session works on Fable, WHEN its dynamic profile is reordered, THEN it stays there until a route decision is due."""
    _, seen, agent = running(town)
    shelve(town, frontier=["sol", "fable"])
    ends(town, agent)
    assert ("active", 1, "fable") == where(see(town, seen))
    ask(town, town.process(), seen)
    look(town)
    assert ("active", 1, "fable") == where(see(town, seen)), "a healthy session is not moved"


def test_edit_while_running_another_policy_judges_the_failure(town: Town) -> None:
    """Judging a failure is a decision: it takes the profile as it is then, and says which version that was."""
    host, seen, agent = running(town, "overloaded")
    shelve(town, frontier=[{"profile": "fable", "policy": retries(2)}, "sol"])
    ends(town, agent)
    assert ("retry_wait", 1, 2) == (see(town, seen).state, see(town, seen).ordinal, see(town, seen).maximum)
    shelve(town, frontier=["fable", "sol"])
    act(town, host, see(town, seen), "skip_now", here=True)
    after = town.store.load(seen.session_id)
    assert after is not None
    assert (2, "sol", town.shelf.version) == (after.generation, after.execution_profile_id, after.profile_version)


# --- the candidate at work ---


@pytest.mark.parametrize("how", ["removed", "disabled"])
def test_reroute_of_a_removed_candidate_when_its_turn_finishes(town: Town, how: str) -> None:
    """GIVEN the active Fable candidate is removed or disabled, WHEN the current turn finishes, THEN the session reroutes at that safe
    boundary; it says so before (``reroute_pending``), and no action gets between.
    """
    host, seen, agent = running(town)
    without(town, how)
    town.beat(host)
    now = see(town, seen)
    assert ("reroute_pending", True, "fable", [True]) == (
        now.state,
        now.turn_running,
        now.execution_profile_id,
        pending(town, seen),
    )
    for action in ("stop", "skip_now", "cancel_wait"):
        with pytest.raises(TurnInProgress):
            act(town, host, now, action)

    ends(town, agent)

    assert ("active", 2, "sol") == where(see(town, seen))
    assert [AttemptOutcome.SUCCESS] == [r.outcome for r in rows(town, seen) if r.execution_profile_id == "fable"]
    ask(town, host, seen, "next", here=True)
    assert (["fable", "sol"], "next\n\n--- Continuation note") == (got(town), town.stage.sent[-1].text[:27])


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "noticed too late"])
def test_reroute_is_taken_back_when_the_candidate_is_there_again(town: Town, noticed: bool) -> None:
    """Before the turn has settled: it stays."""
    host, seen, agent = running(town)
    without(town, "disabled")
    town.beat(host)
    shelve(town, frontier=["sol", "fable"])
    if noticed:
        town.beat(host)
        assert ("active", [True, False]) == (see(town, seen).state, pending(town, seen))
    ends(town, agent)
    assert ("active", 1, "fable") == where(see(town, seen))
    assert [True, False] == pending(town, seen)


@pytest.mark.parametrize(
    ("play", "state"),
    [
        ("overloaded", "active"),
        ("quota", "active"),
        ("tool_then_overloaded", "action_required"),
        ("puzzling", "action_required"),
    ],
)
def test_reroute_after_a_failure_ignores_the_policy_and_not_the_effects(town: Town, play: str, state: str) -> None:
    """The prompt is carried on where provably nothing happened; after effects a person acts (R-SAFE-1)."""
    host, seen, agent = running(town, play)
    shelve(town, frontier=[{"profile": "fable", "enabled": False, "policy": {**retries(3), **waits(7200)}}, "sol"])
    town.beat(host)
    ends(town, agent)
    after = see(town, seen)
    assert (state, "sol" if state == "active" else "fable") == (after.state, after.execution_profile_id)
    assert (["fable", "sol"] if state == "active" else ["fable"]) == got(town)


def test_a_store_that_fails_while_a_turn_is_watched_ends_no_turn(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked again, and at the turn's end."""
    host, seen, agent = running(town)
    get = town.shelf.get

    def broken(profile_id: str) -> Any:
        raise OSError(profile_id)

    monkeypatch.setattr(town.shelf, "get", broken)
    town.beat(host)
    assert agent.live
    monkeypatch.setattr(town.shelf, "get", get)
    ends(town, agent)
    assert ("active", 1, "fable") == where(see(town, seen))


@pytest.mark.parametrize("how", ["altogether", "unfit"])
@pytest.mark.parametrize("state", ["retry_wait", "active"])
def test_a_profile_that_may_be_no_candidate_any_more_is_left(town: Town, state: str, how: str) -> None:
    """Whoever disables a profile means every route over it; the message goes on (R-PRO-8: stale candidates become ineligible).
    Nor does one stay that changes providers by itself now (R-PRO-3).
    """
    shelve(town, frontier=[{"profile": "fable", "policy": POLICY}, "sol"])
    town.stage.plays["fable"] = ["overloaded" if state == "retry_wait" else "answer"]
    seen = rested(town, town.process())
    assert state == seen.state
    if how == "unfit":
        fable = town.shelf.profiles["fable"]
        town.shelf.profiles["fable"] = fable.model_copy(update={"auto_fallback": True})
    else:
        without(town, how)
    if state == "active":
        ask(town, town.process(), seen)
    look(town, after_s=5)
    assert (("active", 2, "sol"), ["fable", "sol"]) == (where(see(town, seen)), got(town))


# --- the selected profile itself ---


def take_away(town: Town, how: str) -> None:
    """``frontier`` is disabled or deleted."""
    routes = {"frontier": [{"profile": "fable"}, {"profile": "sol"}]}
    table = profiles_table(CONCRETE, {} if how == "missing" else routes)
    if how == "disabled":
        table["frontier"]["enabled"] = False
    town.shelf.put(table)


@pytest.mark.parametrize("how", ["missing", "disabled"])
def test_a_selected_profile_that_is_gone_fails_closed_at_the_next_decision(town: Town, how: str) -> None:
    """The turn ends as it would have; then nobody is chosen, for a reason that is a word, and nothing takes the profile's place (R-RES-3)."""
    host, seen, agent = running(town)
    take_away(town, how)
    town.beat(host)
    assert see(town, seen).turn_running
    ends(town, agent)

    after = see(town, seen)
    assert ("action_required", "no_eligible_candidate", 1) == (after.state, after.reason, after.generation)
    assert [("frontier", how)] == [(c["profile_id"], c["reason"]) for c in after.candidates]
    (told,) = [e for e in town.store.events(session_id=seen.session_id) if e.kind == "session.route_waiting"]
    assert (how, ["fable"]) == (told.params["profile_problem"], got(town))
    ask(town, host, seen, "and then", here=True)
    still = see(town, seen)
    assert ("action_required", "no_eligible_candidate", True) == (still.state, still.reason, still.has_prompt)

    shelve(town, frontier=["fable", "sol"])
    look(town, afresh=True)
    look(town)
    assert ("active", "fable") == (see(town, seen).state, see(town, seen).execution_profile_id), "as R-ENG-6 has it"
    assert all(decision.same for decision in host.router.sessions.why(seen.session_id))


@pytest.mark.parametrize("profile", ["frontier", "fable"])
def test_a_selected_profile_of_another_scope_fails_closed(town: Town, profile: str) -> None:
    """One that was moved there, at the next decision; and none can be selected (R-RES-3)."""
    shelve(town, frontier=["fable", "sol"])
    host = process_with(town, host_scope="north")
    seen = rested(town, host, profile)
    assert "active" == seen.state
    town.shelf.profiles[profile] = town.shelf.profiles[profile].model_copy(update={"scope": "south"})
    ask(town, host, seen, here=True)
    after = see(town, seen)
    assert ("action_required", "no_eligible_candidate", [(profile, "cross_scope")], ["fable"]) == (
        after.state,
        after.reason,
        [(c["profile_id"], c["reason"]) for c in after.candidates],
        got(town),
    )
    with pytest.raises(ProfileUnusable):
        begin(town, host, profile)


@pytest.mark.parametrize("how", ["missing", "disabled"])
@pytest.mark.parametrize("action", ["retry_now", "skip_now", "due"])
def test_a_wait_of_a_profile_that_is_gone_fails_closed(town: Town, how: str, action: str) -> None:
    """By a timer and by a person."""
    shelve(town, frontier=[{"profile": "fable", "policy": POLICY}, "sol"])
    town.stage.plays["fable"] = ["overloaded"]
    host = town.process()
    seen = rested(town, host)
    take_away(town, how)
    if action == "due":
        look(town, after_s=5)
    else:
        act(town, host, seen, action, here=True)
    after = see(town, seen)
    assert ("action_required", [("frontier", how)]) == (
        after.state,
        [(c["profile_id"], c["reason"]) for c in after.candidates],
    )
    assert ["fable"] == got(town)


# --- profiles in the store ---


def test_edits_of_stored_profiles_count_for_sessions_that_run_and_wait(town: Town) -> None:
    """What one process writes counts at the next decision of another; who deletes what is used confirms it (R-PRO-6, R-PRO-8, R-ENG-4)."""
    town.shelf.put({})
    host = process_with(town, profiles=LayeredProfiles(town.shelf, town.store))
    kept = Profiles(host.engine, town.shelf, "the shelf")
    for name in ("fable", "sol"):
        kept.create({"id": name, "family": "played"})
    listed = [{"profile_id": "fable"}, {"profile_id": "sol"}]
    entry = kept.create({"id": "frontier", "kind": "dynamic", "candidates": listed})
    town.stage.plays["fable"] = ["slow:answer"]
    seen = begin(town, host)
    town.look(host)
    (agent,) = town.stage.live(seen.session_id)

    kept.update({**entry.document(), "candidates": listed[1:]}, expected_version=entry.version)
    town.beat(host)
    assert "reroute_pending" == see(town, seen).state
    ends(town, agent)
    assert ("active", 2, "sol") == where(see(town, seen))
    assert 2 == stored(town, seen).profile_version

    with pytest.raises(ProfileInUse):
        kept.delete("frontier")
    kept.delete("frontier", confirm=True)
    ask(town, host, seen, here=True)
    after = see(town, seen)
    assert ("action_required", [("frontier", "missing")]) == (
        after.state,
        [(c["profile_id"], c["reason"]) for c in after.candidates],
    )

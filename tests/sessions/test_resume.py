"""Whose native session is gone on with, and what becomes of one that is lost (R-CON-2, R-CON-5)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kandev_routing_sdk import Router, Totals
from kandev_routing_sdk.conductor.native import NativeSession, native_of
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.route.continuation import OPENING
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.testing import ScriptedAgent
from kandev_routing_sdk.testing.clock import START
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark
from tests.routes._world import answers
from tests.sessions._home import Home, retries, waits
from tests.sessions._played import PlayedAdapter
from tests.sessions._scenes import ask, got, look, rested, see, shelve, stored
from tests.sessions._town import Town
from tests.store._values import attempt as attempt_row


@pytest.fixture
def acp_home(lite_home: Home) -> Home:
    """Agents that speak ACP and are soon quiet."""
    lite_home.transport = "acp"
    return lite_home


QUIET = {"quiet_period_s": 0.05}


def opened(agent: ScriptedAgent) -> list[tuple[str, str | None]]:
    """How each of the agent's processes opened its session, and which."""
    return [
        (entry["method"], entry["params"].get("sessionId"))
        for entry in agent.log
        if entry["event"] == "request" and entry["method"] in {"session/new", "session/load", "session/resume"}
    ]


def noted(agent: ScriptedAgent) -> list[bool]:
    """Whether each prompt brought a note of what was before."""
    return [OPENING in sent.prompt for sent in agent.prompts]


def events(home: Home, session_id: str, kind: EventKind) -> list[EventRecord]:
    return [event for event in home.store.events(session_id=session_id) if event.kind is kind]


def events_of(town: Town, seen: Snapshot) -> list[EventRecord]:
    return town.store.events(session_id=seen.session_id)


def resumed(home: Home, session_id: str) -> list[Any]:
    return [event.params["resumed"] for event in events(home, session_id, EventKind.ROUTE_CHANGED)]


def said(home: Home, session_id: str, text: str = "and then") -> None:
    """A further turn, by a worker."""
    home.say(session_id, text)
    home.work()


@pytest.mark.parametrize("way", ["load", "resume"])
def test_same_profile_loads_its_own_session(acp_home: Home, way: str) -> None:
    """A restarted agent goes on where it was, in the way that it offers; what a load replays is the past, and no output."""
    home = acp_home
    past = answers().say("old").tool(line="old", effect=False)
    agent = home.agent("fable", answers().say("first"), answers().say("second"), options=QUIET)
    agent.set(resume_session=way == "resume")
    agent.at("load", past)

    seen = home.run()
    said(home, seen.session_id)

    native = agent.prompts[0].native_session_id
    assert [("session/new", None), (f"session/{way}", native)] == opened(agent)
    assert [native, native] == [sent.native_session_id for sent in agent.prompts]
    assert ["do it", "and then"] == [sent.prompt for sent in agent.prompts]
    assert [False, True] == resumed(home, seen.session_id)
    assert [False, False] == [row.effects.tool_call for row in home.rows(seen.session_id) if row.effects is not None]
    assert [1, 1] == [row.generation for row in home.rows(seen.session_id)]


def test_no_token_across_profiles(acp_home: Home) -> None:
    """Another profile always gets a native session of its own, and goes on with that one (invariant 7)."""
    home = acp_home
    fable = home.agent("fable", answers().say("first"), answers().fail_quota(3600), options=QUIET)
    codex = home.agent("codex", answers().say("second"), options=QUIET)

    seen = home.run()
    said(home, seen.session_id)
    said(home, seen.session_id)

    own = codex.prompts[0].native_session_id
    assert [("session/new", None), ("session/load", fable.prompts[0].native_session_id)] == opened(fable)
    assert [("session/new", None), ("session/load", own)] == opened(codex)
    assert [True, False] == noted(codex)
    assert [False, True, False, True] == resumed(home, seen.session_id)
    assert ["fable", "fable", "codex", "codex"] == home.by(seen.session_id)


def test_a_failed_resume_gets_one_fresh_session(acp_home: Home) -> None:
    """On the same generation, in the same attempt, with a note of what was before; no budget is used. What the first process said of
    another session is counted, and once (R-ENG-9).
    """
    home, totals = acp_home, Totals()
    agent = home.agent("fable", answers().say("first"), answers().say("second"), policy=retries(1), options=QUIET)
    foreign = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "other", "update": {}}}
    agent.at("load", answers().garbage(json.dumps(foreign)).fail_with(-32602, "no such session"))

    async def work(router: Router) -> None:
        router.telemetry.add_sink(totals)
        await router.run_worker(until_idle=True, poll_s=0.01)

    seen = home.run()
    home.say(seen.session_id)
    home.async_with(work)

    assert ["session/new", "session/load", "session/new"] == [method for method, _ in opened(agent)]
    assert (2, [False, True]) == (len(agent.prompts), noted(agent))
    assert [AttemptOutcome.SUCCESS] * 2 == [row.outcome for row in home.rows(seen.session_id)]
    assert [1, 1] == [row.generation for row in home.rows(seen.session_id)]
    assert [False, False] == resumed(home, seen.session_id)
    route = home.store.load(seen.session_id)
    assert route is not None
    assert (agent.prompts[1].native_session_id, "fable") == (route.native_session_id, route.native_profile_id)
    stale = [count for (metric, _), count in totals.read().items() if metric.name == "routing_stale_dropped_total"]
    assert [1] == stale


def test_a_fresh_session_that_fails_too_is_a_failure_like_any_other(acp_home: Home) -> None:
    """One fresh session, not two."""
    home = acp_home
    agent = home.agent("fable", answers().say("first"), options=QUIET)
    seen = home.run()
    agent.at("load", answers().fail_with(-32602, "no such session"))
    agent.at("session", answers().fail_overloaded())
    other = home.agent("codex", answers().say("second"), options=QUIET)

    said(home, seen.session_id)

    assert ["session/new", "session/load", "session/new"] == [method for method, _ in opened(agent)]
    assert ["fable", "fable", "codex"] == home.by(seen.session_id)
    assert (1, [True]) == (len(agent.prompts), noted(other))


def test_an_agent_without_a_way_back_gets_one_fresh_session(acp_home: Home) -> None:
    """Nothing has to fail for that: it is known before anything is asked, and no second process is started."""
    home = acp_home
    agent = home.agent("fable", answers().say("first"), answers().say("second"), options=QUIET)
    agent.set(load_session=False)

    seen = home.run()
    said(home, seen.session_id)

    assert [("session/new", None)] * 2 == opened(agent)
    assert (2, [False, True]) == (agent.starts, noted(agent))
    assert [False, False] == resumed(home, seen.session_id)


def test_a_retry_of_the_same_candidate_goes_on_with_its_session(acp_home: Home) -> None:
    """Nothing had happened, so nothing is repeated; what was said before is still known."""
    home = acp_home
    turns = (answers().say("first"), answers().fail_overloaded(), answers().say("second"))
    agent = home.agent("fable", *turns, policy=retries(1), options=QUIET)

    seen = home.run()
    said(home, seen.session_id)
    home.work(after_s=10)

    native = agent.prompts[0].native_session_id
    assert [("session/new", None), ("session/load", native), ("session/load", native)] == opened(agent)
    assert [False, False, False] == noted(agent)


def test_what_a_headless_agent_did_not_find_is_not_asked_for_again(town: Town) -> None:
    """Its session is opened with its prompt, so a person is asked; the next try is a fresh one (R-SAFE-3)."""
    town.stage.plays["fable"] = ["answer", "puzzling", "answer"]
    host = town.process()
    seen = rested(town, host)
    kept = stored(town, seen).native_session_id

    ask(town, host, seen)
    town.look(host)

    assert (True, None) == (kept is not None, stored(town, seen).native_session_id)
    assert "action_required" == see(town, seen).state


@pytest.mark.parametrize(
    ("profile_id", "family", "given"),
    [("fable", "claude", "n-1"), ("codex", "claude", None), ("fable", "codex", None)],
    ids=["its own", "another profile", "another agent under the same name"],
)
def test_a_token_is_handed_to_its_owner_only(profile_id: str, family: str, given: str | None) -> None:
    """Invariant 7."""
    profile = ConcreteProfile(id=profile_id, name="x", family=family)
    assert given == NativeSession("n-1", "fable", "claude").for_profile(profile)


SENT = replace(attempt_row(), family="claude", mark=DispatchMark.DELIVERED)


def a_route(**fields: Any) -> Route:
    native = {"native_session_id": "n-1", "native_profile_id": "fable"}
    times = {"created_at": START, "updated_at": START}
    return Route(**{"session_id": "s", "logical_profile_id": "fable", "generation": 2, **native, **times, **fields})


@pytest.mark.parametrize(
    ("route", "attempt", "found"),
    [
        ({}, {}, True),
        ({"kind": "utility"}, {}, False),
        ({"native_session_id": None}, {}, False),
        ({}, {"owner_id": "there/owner:1"}, False),
        ({}, {"owner_id": None}, True),
    ],
    ids=["a session", "a call", "none known", "of another machine", "of nobody any more"],
)
def test_which_session_is_gone_on_with(route: dict[str, Any], attempt: dict[str, Any], found: bool) -> None:
    """What an agent kept, it kept on its machine."""
    row = replace(SENT, generation=2, **{"owner_id": "here/owner:1", **attempt})
    native = native_of(a_route(**route), [row], "here")
    assert (NativeSession("n-1", "fable", "claude", answered=False) if found else None) == native
    assert native_of(a_route(**route), [], "here") is None


@pytest.mark.parametrize(
    "never",
    [
        {"mark": DispatchMark.CLAIMED},
        {"mark": DispatchMark.SETTLED, "outcome": AttemptOutcome.LOST, "effects": NOTHING_SENT},
        {"mark": DispatchMark.SETTLED, "outcome": AttemptOutcome.FAILED, "effects": NOTHING_SENT},
    ],
    ids=["claimed", "lost unsent", "failed unsent"],
)
def test_an_attempt_that_never_had_its_prompt_does_not_make_the_session_its_own(never: dict[str, Any]) -> None:
    """Invariant 7: its profile may be another family's since, and its machine another one than the session's (R-CON-2)."""
    made = replace(SENT, generation=2, owner_id="here/owner:1")
    edited = replace(attempt_row(), family="codex", generation=2, owner_id=None, **never)
    assert NativeSession("n-1", "fable", "claude", answered=False) == native_of(a_route(), [made, edited], "here")
    assert native_of(a_route(), [made, edited], "there") is None
    assert native_of(a_route(), [edited], "here") is None


def test_a_session_counts_as_answered_by_its_own_generation() -> None:
    """Another generation's agent answered in another session."""
    row = replace(SENT, owner_id=None, outcome=AttemptOutcome.SUCCESS)
    found = [native_of(a_route(generation=g), [replace(row, generation=2)], "here") for g in (2, 3)]
    assert [True, False] == [native is not None and native.answered for native in found]


def test_a_headless_agent_goes_on_only_with_a_session_that_it_answered_in(town: Town) -> None:
    """One that failed before its first answer may have kept nothing, and could not say so before it has the prompt (R-SAFE-3)."""
    shelve(town, frontier=[{"profile": "fable", "policy": retries(3)}])
    town.stage.plays["fable"] = ["overloaded", "answer", "overloaded", "answer"]
    host = town.process()
    seen = rested(town, host)
    look(town, after_s=10)
    ask(town, host, seen)
    town.look(host)
    look(town, after_s=10)
    resumes = [event.params["resumed"] for event in events_of(town, seen) if event.kind is EventKind.ROUTE_CHANGED]
    assert (["fable"] * 4, [False, False, True, True]) == (got(town), resumes)


def test_a_guarantee_holds_for_the_very_session_only(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """After output the same session is gone on with by itself where the adapter promises it, and no other (R-SAFE-2)."""
    monkeypatch.setattr(PlayedAdapter, "resume_guarantee", True)
    shelve(town, frontier=[{"profile": "fable", "policy": waits(3600)}])
    town.stage.plays["fable"] = ["answer", "text_then_quota", "answer"]
    host = town.process()
    seen = rested(town, host)
    ask(town, host, seen)
    town.look(host)
    assert "waiting_for_reset" == see(town, seen).state
    plan = PlayedAdapter.plan
    monkeypatch.setattr(PlayedAdapter, "plan", lambda self, request: replace(plan(self, request), resumed=False))

    look(town, after_s=1000)

    assert ("action_required", "unsafe_effects") == (see(town, seen).state, see(town, seen).reason)
    assert ["fable", "fable"] == got(town)

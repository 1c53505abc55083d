"""The scenarios that dynamic routing was asked for with, each under its own name, on both engines, by real workers and agents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kandev_routing_sdk import Router
from kandev_routing_sdk.errors import DynamicRoutingDisabled, StaleGeneration
from kandev_routing_sdk.testing import FakeClock
from kandev_routing_sdk.testing.clock import START
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Scope
from tests.routes._world import answers
from tests.sessions._home import LONGEST_SPREAD_S, Home, retries, waits

SIX_HOURS = 6 * 3600


# --- quota ---


def test_quota_opens_for_the_profile_that_shares_the_binding(home: Home) -> None:
    """GIVEN two tasks use profiles with the same proven Fable credential binding, WHEN one opens its quota circuit, THEN the second
    skips Fable without making a failing launch.
    """
    shared = {"account": "work", "provider_id": "fable-provider"}
    home.agent("fable", answers().fail_quota(3600), options=shared)
    home.agent("fable_too", answers().say("never"), options=shared)
    home.agent("codex", answers().say("done"))
    home.dynamic("second", "fable_too", "codex")

    first = home.run()
    second = home.run(profile="second")

    assert ["fable", "codex"] == home.by(first.session_id)
    assert ["codex"] == home.by(second.session_id)
    assert {"fable": 1, "fable_too": 0, "codex": 2} == home.starts()
    assert ["circuit_open", "chosen"] == [c["reason"] for c in second.candidates]
    assert "account" == second.candidates[0]["scope"]


@pytest.mark.parametrize("unproven", [False, True], ids=["different", "unknown"])
def test_quota_does_not_open_for_a_binding_that_is_different_or_unknown(home: Home, unproven: bool) -> None:
    """GIVEN another profile uses a different or unknown Fable credential binding, WHEN its resource key is evaluated, THEN the first
    binding's quota circuit does not disable it.
    """
    provider = "fable-provider"
    home.agent("fable", answers().fail_quota(3600), options={"account": "work", "provider_id": provider})
    mine = {"account": "home", "provider_id": provider, "unproven": unproven}
    home.agent("fable_mine", answers().say("mine"), options=mine)
    home.dynamic("second", "fable_mine", "fable")

    home.run()
    second = home.run(profile="second")

    assert ["fable_mine"] == home.by(second.session_id)
    assert "active" == second.state
    assert [Scope.ACCOUNT] == [c.key.scope for c in home.circuits() if c.state is not CircuitState.CLOSED]


def test_quota_of_an_unknown_binding_opens_for_its_own_profile_only(home: Home) -> None:
    """The other way round: what cannot be proven to be shared is nobody else's (R-CIR-1, R-CIR-3)."""
    same = {"account": "work", "provider_id": "fable-provider"}
    home.agent("fable", answers().fail_quota(3600), options={**same, "unproven": True})
    home.agent("fable_too", answers().say("done"), options=same)

    seen = home.run()

    assert ["fable", "fable_too"] == home.by(seen.session_id)
    assert ["profile:fable"] == [c.key.key for c in home.circuits() if c.state is not CircuitState.CLOSED]


def test_one_probe_after_the_quota_is_due(home: Home) -> None:
    """GIVEN an open route reaches its retry time while many tasks are waiting, WHEN recovery begins, THEN one half-open probe runs and
    the other tasks do not stampede the provider.
    """
    home.agent("fable", answers().fail_quota(60), answers().fail_quota(120), answers().say("done"))
    waiting = [home.run(f"task {n}").session_id for n in range(5)]
    assert ["waiting"] * 5 == [home.see(s).state for s in waiting]
    assert 1 == home.agents["fable"].starts

    home.work(after_s=60 + LONGEST_SPREAD_S)
    assert 2 == home.agents["fable"].starts, "one probe, and it failed: nobody follows"
    assert ["waiting"] * 5 == [home.see(s).state for s in waiting]

    home.work(after_s=120 + LONGEST_SPREAD_S)
    home.work(
        after_s=60 + 2 * LONGEST_SPREAD_S
    )  # those who came while the probe ran come again when its lease would have ended
    assert ["active"] * 5 == [home.see(s).state for s in waiting]
    assert 2 + 5 == home.agents["fable"].starts
    assert all(prompts == 1 for prompts in _prompts_of(home, "fable", waiting)), "nobody's prompt was answered twice"


def _prompts_of(home: Home, agent: str, sessions: list[str]) -> list[int]:
    answered = [r for s in sessions for r in home.rows(s) if r.outcome is AttemptOutcome.SUCCESS]
    assert all(r.execution_profile_id == agent for r in answered)
    return [sum(1 for r in answered if r.session_id == s) for s in sessions]


# --- staying ---


def test_a_recovered_earlier_candidate_does_not_move_a_healthy_session(home: Home) -> None:
    """GIVEN an earlier candidate recovers while a task is healthy on fallback, WHEN the circuit closes, THEN that task stays on fallback
    and future route selections use the configured candidate order.
    """
    home.agent("fable", answers().fail_quota(60), answers().say("fable again"))
    home.agent("codex", answers().say("codex"))
    healthy = home.run()
    assert "codex" == healthy.execution_profile_id

    home.work(after_s=61)
    later = home.run("something else")
    assert ("active", "fable") == (later.state, later.execution_profile_id), "a new selection is made in order"
    assert [CircuitState.CLOSED] == [c.state for c in home.circuits()]

    stays = home.see(healthy.session_id)
    assert (healthy.revision, "codex") == (stays.revision, stays.execution_profile_id)
    home.say(healthy.session_id, "the next message")
    home.work()
    assert ["fable", "codex", "codex"] == home.by(healthy.session_id)
    assert 1 + 1 == home.see(healthy.session_id).generation


def test_an_edit_applies_at_the_next_route_decision(home: Home) -> None:
    """GIVEN a healthy session on Fable, WHEN its dynamic profile is reordered or receives an error-action edit, THEN it stays on Fable
    until the next route decision and that decision uses the new profile version.
    """
    home.agent("fable", answers().say("one"), answers().say("two"), answers().fail_quota(3600))
    home.agent("codex", answers().say("codex"))
    home.agent("luna", answers().say("luna"))
    seen = home.run()

    home.candidates = [{"profile": "luna"}, {"profile": "codex"}, {"profile": "fable"}]
    home.say(seen.session_id)
    home.work()
    assert ["fable", "fable"] == home.by(seen.session_id)

    home.say(seen.session_id)
    home.work()
    assert ["fable", "fable", "fable", "luna"] == home.by(seen.session_id), "the order of the edited profile"


@pytest.mark.parametrize("how", ["disabled", "removed"])
def test_a_removed_candidate_is_left_when_its_turn_finishes(home: Home, how: str) -> None:
    """GIVEN the active Fable candidate is removed or disabled, WHEN the current turn finishes, THEN the session reroutes at that safe
    boundary even when no provider error occurred.
    """
    home.agent("fable", answers().say("one"))
    home.agent("codex", answers().say("two"))
    seen = home.run()
    assert "fable" == seen.execution_profile_id

    gone = {"profile": "fable", "enabled": False}
    home.candidates = [*([gone] if how == "disabled" else []), {"profile": "codex"}]
    home.say(seen.session_id, "next")
    home.work()

    after = home.see(seen.session_id)
    assert ("active", "codex") == (after.state, after.execution_profile_id)
    assert [1, 1] == list(home.prompts().values())
    assert home.agents["codex"].prompts[0].prompt.startswith("next\n\n--- Continuation note")


# --- generations ---


def test_generation_7_and_8(home: Home) -> None:
    """GIVEN a waiting route at generation 7, WHEN the user sends Skip now for generation 7, THEN Kandev excludes the current candidate
    for one decision and returns the resulting authoritative route snapshot.

    GIVEN a route has advanced to generation 8, WHEN a delayed Retry now for generation 7 arrives, THEN Kandev rejects it and returns
    generation 8 without changing route state.
    """
    for n in range(1, 7):
        home.agent(f"c{n}", answers().fail_auth())
    home.agent("c7", answers().fail_quota(60), answers().say("never"), policy=waits(300))
    home.agent("c8", answers().say("eight"))
    seen = home.run()
    assert (7, "waiting_for_reset", "c7") == (seen.generation, seen.state, seen.execution_profile_id)

    after = home.act(seen, "skip_now", expected_generation=7, here=True)

    assert home.see(seen.session_id) == after
    assert (8, "active", "c8") == (after.generation, after.state, after.execution_profile_id)
    assert [] == [c for c in home.circuits() if c.probe_token is not None], "the lease of its retry went back"

    starts = home.starts()
    with pytest.raises(StaleGeneration) as refused:
        home.act(seen, "retry_now", expected_generation=7)
    assert (7, 8) == (refused.value.expected, refused.value.current)
    assert after == home.see(seen.session_id)
    home.work(after_s=120)
    assert starts == home.starts()
    assert after == home.see(seen.session_id)


# --- waits ---


@pytest.mark.parametrize("then", ["skip", "stop"])
def test_waits_of_5_10_and_20_seconds(home: Home, then: str) -> None:
    """GIVEN a transient policy allows three retries starting at five seconds, WHEN the candidate keeps returning an effect-safe capacity
    error, THEN the route persists 5, 10, and 20 second waits before applying its configured skip or stop outcome.
    """
    home.agent("fable", answers().fail_overloaded(), policy=retries(3, then=then))
    home.agent("codex", answers().say("done"))
    seen = home.run()
    waited = []
    for ordinal in (1, 2, 3):
        assert ("retry_wait", ordinal, 3, then) == (seen.state, seen.ordinal, seen.maximum, seen.pending_outcome)
        assert seen.deadline is not None
        waited.append((seen.deadline - home.clock.now()).total_seconds())
        home.work(after_s=waited[-1] - 1)
        assert ordinal == home.agents["fable"].starts, "not a second early"
        home.work(after_s=1)
        seen = home.see(seen.session_id)

    assert [5.0, 10.0, 20.0] == waited
    assert 4 == home.agents["fable"].starts
    if then == "skip":
        assert ("active", "codex", 2) == (seen.state, seen.execution_profile_id, seen.generation)
    else:
        assert ("action_required", "recovery_exhausted", 1) == (seen.state, seen.reason, seen.generation)
        assert 0 == home.agents["codex"].starts


def test_reset_in_one_minute(home: Home) -> None:
    """GIVEN a hard quota error includes a trusted reset in one minute, WHEN the policy permits reset waits up to five minutes, THEN the
    route waits durably and retries the same candidate after the reset.
    """
    home.agent("fable", answers().fail_quota(60), answers().say("after the reset"), policy=waits(300))
    home.agent("codex", answers().say("never"))

    seen = home.run()
    assert ("waiting_for_reset", START + timedelta(minutes=1)) == (seen.state, seen.deadline)
    home.work(after_s=59)
    assert {"fable": 1, "codex": 0} == home.starts()

    home.work(after_s=1)
    after = home.see(seen.session_id)
    assert ("active", "fable", 1) == (after.state, after.execution_profile_id, after.generation)
    assert ["fable", "fable"] == home.by(seen.session_id)


def test_reset_in_six_hours(home: Home) -> None:
    """A reset beyond the policy's five minutes is neither waited for nor shortened (R-POL-3): the next candidate does it at once, and
    the account stays shut for six hours, unless it is noticed before (R-CIR-6).
    """
    home.agent("fable", answers().fail_quota(SIX_HOURS), answers().say("back"), policy=waits(300))
    home.agent("codex", answers().say("done"))

    seen = home.run()
    assert ("active", "codex", 2) == (seen.state, seen.execution_profile_id, seen.generation)
    (circuit,) = home.circuits()
    assert (CircuitState.OPEN, START + timedelta(hours=6)) == (circuit.state, circuit.deadline)

    home.fake.advance(SIX_HOURS - 1)
    assert "codex" == home.run("before").execution_profile_id
    home.fake.advance(1)
    assert "fable" == home.run("after").execution_profile_id


def test_only_a_reset_in_six_hours(home: Home) -> None:
    """With nobody else the session waits for it, in the database, for six hours (R-ENG-6)."""
    home.agent("fable", answers().fail_quota(SIX_HOURS), answers().say("back"), policy=waits(300))

    seen = home.run()
    due = START + timedelta(hours=6)
    assert "waiting" == seen.state
    assert seen.deadline is not None
    assert due <= seen.deadline <= due + timedelta(seconds=LONGEST_SPREAD_S)
    home.work(after_s=SIX_HOURS - 60)
    assert 1 == home.agents["fable"].starts

    home.work(after_s=60 + LONGEST_SPREAD_S)
    assert ("active", "back") == (home.see(seen.session_id).state, "back")
    assert 2 == home.agents["fable"].starts


# --- three candidates ---


def test_three_candidates_two_fail(home: Home) -> None:
    """GIVEN three eligible candidates, WHEN the first two fail before any result, THEN the third receives the persisted continuation and
    becomes the selected execution profile.
    """
    home.agent("fable", answers().fail_quota(3600))
    home.agent("codex", answers().fail_auth())
    home.agent("luna", answers().say("done"))

    seen = home.run("the request")

    assert ("active", "luna", 3) == (seen.state, seen.execution_profile_id, seen.generation)
    assert ["fable", "codex", "luna"] == home.by(seen.session_id)
    (got,) = home.agents["luna"].prompts
    assert got.prompt.startswith("the request\n\n--- Continuation note")
    assert "Why the agent changed: auth_required" in got.prompt
    switches = [kind for kind in home.kinds(seen.session_id) if kind.startswith("session.route_chang")]
    assert ["changed", "changing"] * 2 + ["changed"] == [kind.removeprefix("session.route_") for kind in switches]


def test_no_replacement_after_a_tool_call(home: Home) -> None:
    """GIVEN a failed provider emitted a tool call, WHEN its lifecycle error arrives, THEN no replacement provider is launched and the
    route exposes a recovery action.
    """
    home.agent("fable", answers().tool(line="once").fail_quota(60), policy=waits(300))
    home.agent("codex", answers().say("never"))

    seen = home.run()

    assert ("action_required", "unsafe_effects", True) == (seen.state, seen.reason, seen.potentially_effectful)
    assert {"retry_now", "skip_now"} <= set(seen.actions)
    home.work(after_s=3600)
    assert {"fable": 1, "codex": 0} == home.starts()
    assert ["once"] == home.agents["fable"].effects


@pytest.mark.parametrize("action", ["retry_now", "skip_now"])
def test_one_request_performs_the_handoff(home: Home, action: str) -> None:
    """GIVEN a waiting route, WHEN Retry or Try next is submitted, THEN one request performs the complete handoff and a launch failure
    returns an actionable non-starting state.
    """
    home.agent("fable", answers().fail_quota(60), policy=waits(300))
    home.agent("codex", answers().fail_auth())
    seen = home.run()
    assert "waiting_for_reset" == seen.state

    after = home.act(seen, action, here=True)

    # The same candidate waited for its reset once already; then the other one is asked, and nobody is left.
    assert ("waiting", "no_eligible_candidate") == (after.state, after.reason)
    assert after.actions
    assert after.deadline is not None
    asked = {"retry_now": ["fable", "fable", "codex"], "skip_now": ["fable", "codex"]}[action]
    assert asked == home.by(seen.session_id)


# --- a concrete profile ---


def test_a_concrete_profile_is_tried_again_shown_and_resumed(home: Home) -> None:
    """GIVEN a session of Fable itself, WHEN it is overloaded, THEN the same profile is tried again at an announced moment; WHEN it then says
    that it is signed out, THEN a person is asked, is told when that may be over, and goes on with it (R-POL-7).
    """
    home.agent("fable", answers().fail_overloaded(), answers().fail_auth(), answers().say("signed in"))
    home.agent("codex", answers().say("never"))
    seen = home.run(profile="fable")
    assert ("retry_wait", 1, 5) == (seen.state, seen.ordinal, seen.maximum)

    home.work(after_s=6)
    shown = home.see(seen.session_id)
    assert ("action_required", "auth_required", False) == (shown.state, shown.code, shown.may_be_back)
    assert ("resume", "start_fresh") == shown.actions[:2]
    home.async_with(_signed_in)
    home.work(after_s=3600)
    assert home.see(seen.session_id).may_be_back
    assert {"fable": 2, "codex": 0} == home.starts()

    after = home.act(shown, "resume", here=True)
    assert ("active", "fable", 2) == (after.state, after.execution_profile_id, after.generation)
    assert ["fable"] * 3 == home.by(seen.session_id)


async def _signed_in(router: Router) -> list[str]:
    return router.credentials_changed(["fable"])


# --- the flag ---


def test_flag_off_and_on_again(home: Home) -> None:
    """Flag off: persisted dynamic sessions go to ``action_required`` with that reason, nothing of theirs runs, and concrete profiles are
    untouched. On again, reconciliation resumes each where it was (R-RES-4).
    """
    home.agent("fable", answers().fail_overloaded(), answers().say("done"), policy=retries(3))
    home.agent("codex", answers().say("concrete"))
    waiting = home.run()
    assert "retry_wait" == waiting.state
    idle = home.async_with(lambda r: r.sessions.start("codex", "hello", cwd=home.folder, here=True))
    assert "active" == idle.state

    home.enabled = False
    home.work(after_s=60)
    off = home.see(waiting.session_id)
    assert ("action_required", "dynamic_routing_disabled") == (off.state, off.reason)
    assert (1, ("stop",)) == (home.agents["fable"].starts, tuple(a for a in off.actions if a != "cancel_wait"))
    refusals: list[Callable[[], object]] = [
        lambda: home.say(waiting.session_id),
        lambda: home.act(off, "retry_now"),
        lambda: home.begin("another"),
    ]
    for refused in refusals:
        with pytest.raises(DynamicRoutingDisabled):
            refused()
    assert off == home.see(waiting.session_id)
    home.say(idle.session_id, "still here")
    home.work()
    assert 2 == home.agents["codex"].starts

    home.enabled = True
    home.work()
    home.work()
    on = home.see(waiting.session_id)
    assert ("active", "fable", 1) == (on.state, on.execution_profile_id, on.generation)
    assert 2 == home.agents["fable"].starts


def test_a_clock_that_is_set_back_fires_nothing_twice(home: Home) -> None:
    """Stored deadlines are absolute; a backwards jump never fires early, nor twice (R-DUR-5)."""
    home.agent("fable", answers().fail_overloaded(), policy=retries(3))
    seen = home.run()
    assert isinstance(home.clock, FakeClock)
    home.work(after_s=5)
    assert 2 == home.agents["fable"].starts

    home.clock.set(START)
    home.work()
    assert 2 == home.agents["fable"].starts
    deadline = home.see(seen.session_id).deadline
    assert deadline == START + timedelta(seconds=5 + 10)
    home.clock.set(deadline)
    home.work()
    assert 3 == home.agents["fable"].starts

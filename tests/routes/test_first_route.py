"""One prompt, the first agent that can (R-ENG, R-UTL): every line of the story, on real subprocesses."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kandev_routing_sdk import CallActionRequired, CallFailed, CallWaiting
from kandev_routing_sdk.events import EventKind
from kandev_routing_sdk.results import AttemptEnded, AttemptStarted, CallOutcome, CandidateSkipped, Waiting
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import FakeClock
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Code, DispatchMark
from tests.routes._world import RETRY, WAIT, World, answers


def test_the_first_agent_answers_and_nobody_else_is_asked(either_world: World) -> None:
    """R-ENG-2: candidates are walked in order."""
    either_world.agent("fable", answers().say("forty-").say("two").usage(12, 3))
    either_world.agent("sol", answers().say("never"))
    result = either_world.call("what is it?")
    assert (CallOutcome.SUCCESS, 0, "forty-two") == (result.outcome, result.exit_code, result.text)
    assert ("frontier", "fable", "scripted", "fable-provider") == (
        result.logical_profile_id,
        result.execution_profile_id,
        result.family,
        result.provider_id,
    )
    assert result.usage is not None
    assert (12, 3) == (result.usage.input_tokens, result.usage.output_tokens)
    assert {"fable": 1, "sol": 0} == either_world.prompts()
    assert "what is it?" == either_world.agents["fable"].prompts[0].prompt


def test_a_plan_limit_hands_over_and_the_next_call_knows(either_world: World) -> None:
    """R-CIR-2, R-CIR-5: a limited account is skipped by everybody until its reset."""
    either_world.agent("fable", answers().fail_quota(3600))
    either_world.agent("sol", answers().say("done"))
    first = either_world.call()
    assert ("sol", "done") == (first.execution_profile_id, first.text)
    failed, answered = first.attempts
    assert failed.classification is not None
    assert failed.decision is not None
    assert (Code.QUOTA_LIMITED, "skip", True) == (failed.classification.code, failed.decision.kind, failed.automatic)
    assert (AttemptOutcome.SUCCESS, None, False) == (answered.outcome, answered.decision, answered.automatic)

    second = either_world.call()
    assert {"fable": 1, "sol": 2} == either_world.prompts()
    (rejected,) = second.rejected
    assert ("fable", "circuit_open") == (rejected.profile_id, rejected.reason)
    assert rejected.until == first.attempts[0].classification.due_at(either_world.clock.now())  # type: ignore[union-attr]
    assert [rejected] == [p.rejected for p in either_world.of(CandidateSkipped)][-1:]


def test_an_overload_is_retried_on_the_same_candidate(world: World) -> None:
    """R-POL-3: waits of 5 and 10 seconds, inside the call, and the budget is not the next candidate's."""
    world.agent("fable", answers().fail_overloaded(), answers().fail_overloaded(), answers().say("back"), policy=RETRY)
    world.agent("sol", answers().say("never"))
    result = world.call()
    assert ("fable", "back", 3) == (result.execution_profile_id, result.text, len(result.attempts))
    assert isinstance(world.clock, FakeClock)
    assert [5.0, 10.0] == pytest.approx(world.clock.sleeps, abs=0.01)
    assert [1, 1, 1] == [a.generation for a in result.attempts], "a retry is no new choice"
    assert [(1, 3), (2, 3)] == [(w.ordinal, w.maximum) for w in world.of(Waiting)]
    assert [False, True, True] == [s.is_probe for s in world.of(AttemptStarted)], (
        "the owner's retry is the circuit's probe"
    )
    with world.router() as router:
        assert {CircuitState.CLOSED} == {c.state for c in router.circuits()}


def test_the_retry_budget_ends_and_the_next_candidate_is_taken(world: World) -> None:
    """Waits of 5, 10 and 20 s, then the exhausted outcome."""
    world.agent("fable", answers().fail_overloaded(), policy=RETRY)
    world.agent("sol", answers().say("done"))
    result = world.call(timeout=120)
    assert ("sol", 5) == (result.execution_profile_id, len(result.attempts))
    assert isinstance(world.clock, FakeClock)
    assert [5.0, 10.0, 20.0] == pytest.approx(world.clock.sleeps, abs=0.01)
    assert {"fable": 4, "sol": 1} == world.prompts()


def test_a_near_reset_is_waited_for(world: World) -> None:
    """A trusted reset in one minute, a policy of five: the same candidate after the reset, once."""
    world.agent("fable", answers().fail_quota(60), answers().say("back"), policy=WAIT)
    world.agent("sol", answers().say("never"))
    result = world.call(timeout=600)
    assert ("fable", "back") == (result.execution_profile_id, result.text)
    assert isinstance(world.clock, FakeClock)
    assert [60.0] == pytest.approx(world.clock.sleeps, abs=1)


def test_a_far_reset_is_neither_waited_for_nor_shortened(world: World) -> None:
    """A reset in six hours, a policy of five minutes."""
    world.agent("fable", answers().fail_quota(6 * 3600), policy=WAIT)
    world.agent("sol", answers().say("done"))
    result = world.call()
    assert "sol" == result.execution_profile_id
    decision = result.attempts[0].decision
    assert decision is not None
    assert "wait_for_reset: reset is beyond max_wait_seconds" in decision.because


def test_three_candidates_two_fail(world: World) -> None:
    """R-ENG-5: the failure of one successor does not strand the next."""
    world.agent("fable", answers().fail_quota(3600))
    world.agent("sol", answers().fail_auth())
    world.agent("luna", answers().say("done"))
    assert "luna" == world.call().execution_profile_id
    assert {"fable": 1, "sol": 1, "luna": 1} == world.prompts()


def test_both_limited_says_when_the_first_is_back(world: World) -> None:
    """R-ENG-6, R-CLI-3: exit 75 and the earliest reset."""
    world.agent("fable", answers().fail_quota(7200))
    world.agent("sol", answers().fail_quota(3600))
    with pytest.raises(CallWaiting) as caught:
        world.call()
    result = caught.value.result
    assert (CallOutcome.WAITING, 75) == (result.outcome, result.exit_code)
    assert result.deadline is not None
    assert timedelta(seconds=3600) == pytest.approx(result.deadline - world.clock.now(), abs=timedelta(seconds=5))
    with pytest.raises(CallWaiting) as again:
        world.call()
    assert again.value.result.deadline == result.deadline
    assert {"fable": 1, "sol": 1} == world.prompts(), "nobody was asked again"


def test_a_wait_beyond_the_timeout_is_told_at_once(world: World) -> None:
    """R-UTL-1: policy waits are bounded by the call's timeout."""
    world.agent("fable", answers().fail_quota(120), policy=WAIT)
    with pytest.raises(CallWaiting) as caught:
        world.call(timeout=30)
    assert isinstance(world.clock, FakeClock)
    assert [] == world.clock.sleeps
    assert caught.value.result.deadline is not None


@pytest.mark.parametrize("before", ["tool", "say", "think"])
def test_nothing_is_repeated_after_possible_work(either_world: World, before: str) -> None:
    """R-SAFE-1: output, thinking or a tool, then an overload: no retry, no second agent, exit 79, the tool ran once."""
    script = {"tool": answers().tool(line="ran"), "say": answers().say("part of it"), "think": answers().think("hm")}[
        before
    ]
    either_world.agent("fable", script.fail_overloaded(), policy=RETRY)
    either_world.agent("sol", answers().say("never"))
    with pytest.raises(CallActionRequired) as caught:
        either_world.call()
    result = caught.value.result
    assert 79 == result.exit_code
    assert {"fable": 1, "sol": 0} == either_world.prompts()
    assert (["ran"] if before == "tool" else []) == either_world.agents["fable"].effects
    assert ("part of it" if before == "say" else "") == result.text, "partial output is attached (R-UTL-3)"
    (attempt,) = result.attempts
    assert attempt.classification is not None
    assert (Code.PROVIDER_OVERLOADED, False) == (attempt.classification.code, attempt.automatic)
    with either_world.router() as router:
        assert [CircuitState.OPEN] == [c.state for c in router.circuits()], (
            "health does not ask whether repeating is safe"
        )


def test_an_unknown_failure_is_for_a_person(world: World) -> None:
    """R-CLS-2: unclassified never authorises anything."""
    world.agent("fable", answers().fail_puzzling(), policy=RETRY)
    world.agent("sol", answers().say("never"))
    with pytest.raises(CallActionRequired):
        world.call()
    assert {"fable": 1, "sol": 0} == world.prompts()
    with world.router() as router:
        assert [] == router.circuits()


def test_an_empty_answer_is_no_answer(either_world: World) -> None:
    """R-CON-7."""
    either_world.agent("fable", answers().stop("end_turn"))
    either_world.agent("sol", answers().say("never"))
    with pytest.raises(CallActionRequired) as caught:
        either_world.call()
    assert "empty_answer" == caught.value.result.reason
    assert {"fable": 1, "sol": 0} == either_world.prompts()


def test_context_exhausted_is_final(world: World) -> None:
    """R-CLI-3: nothing to retry or act on is exit 1."""
    world.agent("fable", answers().fail_context())
    with pytest.raises(CallFailed) as caught:
        world.call()
    assert (1, CallOutcome.FAILED) == (caught.value.result.exit_code, caught.value.result.outcome)


def test_the_successor_gets_the_request_first_then_a_note(world: World) -> None:
    """R-CON-4: and nothing of its predecessor's session."""
    world.agent("fable", answers().fail_quota(3600))
    sol = world.agent("sol", answers().say("done"))
    world.call("Rename the module.")
    (got,) = sol.prompts
    assert got.prompt.startswith("Rename the module.\n")
    assert "quota_limited" in got.prompt
    (first,) = world.agents["fable"].prompts
    assert first.native_session_id is None or first.native_session_id not in got.prompt


def test_what_was_decided_is_durable(world: World) -> None:
    """R-ENG-11, design §6: each generation has one decision; each attempt is settled with its evidence and its decision."""
    world.agent("fable", answers().fail_quota(3600))
    world.agent("sol", answers().say("done"))
    result = world.call()
    with open_store(world.url) as store:
        route = store.load(result.call_id)
        assert route is not None
        assert "stopped" == route.state
        assert [(1, "fable"), (2, "sol")] == [
            (s.generation, s.chosen_profile_id) for s in store.selections(result.call_id)
        ]
        attempts = store.attempts(result.call_id)
        assert [DispatchMark.SETTLED] * 2 == [a.mark for a in attempts]
        assert attempts[0].evidence is not None
        assert attempts[0].decision is not None
        assert attempts[0].process_group is not None
        kinds = [e.kind for e in store.events(session_id=result.call_id)]
        assert kinds.count(EventKind.ROUTE_CHANGING) == 1
        assert kinds.count(EventKind.ROUTE_CHANGED) == 2
        (call,) = store.calls()
        assert ("success", 0, "sol", 2) == (call.outcome, call.exit_code, call.execution_profile_id, call.attempts)


def test_two_profiles_of_one_account_share_its_limit(world: World) -> None:
    """The quota opens for the sharing profile and not for the unproven one."""
    shared = {"account": "work", "provider_id": "acme"}
    world.agent("fable", answers().fail_quota(3600), options={**shared, "model": "one"})
    world.agent("twin", answers().say("never"), options={**shared, "model": "another"})
    world.agent("unproven", answers().say("done"), options={**shared, "unproven": True})
    result = world.call()
    assert "unproven" == result.execution_profile_id
    assert {"fable": 1, "twin": 0, "unproven": 1} == world.prompts()
    assert ["fable", "unproven"] == [e.report.execution_profile_id for e in world.of(AttemptEnded)]


def test_model_capacity_leaves_other_models_alone(world: World) -> None:
    """R-CIR-1: one model at capacity does not block the account."""
    shared = {"account": "work", "provider_id": "acme"}
    capacity = answers().fail_with(
        -32603, "Selected model is at capacity. Please try a different model.", {"status": 503}
    )
    world.agent("big", capacity, options={**shared, "model": "big-1"})
    world.agent("small", answers().say("done"), options={**shared, "model": "small-1"})
    assert "small" == world.call().execution_profile_id

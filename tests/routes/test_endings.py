"""How a call ends when it is not answered: timeouts, cancels, lost agents, broken adapters. No process is left, no work repeated."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from kandev_routing_sdk import (
    CallActionRequired,
    CallCancelled,
    CallFailed,
    CallNoCandidate,
    CallTimedOut,
    CallWaiting,
)
from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.errors import DynamicRoutingDisabled, ProfileNotFound, ProfileUnusable, UsageError
from kandev_routing_sdk.evidence.updates import TextDelta
from kandev_routing_sdk.process import HeadlessDownstream
from kandev_routing_sdk.results import AgentSaid, CallOutcome, Waiting
from kandev_routing_sdk.spec import AgentEvent, Extractor, LaunchPlan, TurnRecord
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import ScriptedAdapter
from kandev_routing_sdk.types import AttemptOutcome, CircuitState
from tests._processes import group_members
from tests.routes._world import RETRY, WAIT, World, answers


def test_an_agent_that_never_answers_ends_with_the_timeout(either_world: World) -> None:
    """Exit 124; nothing came, so no circuit is charged, and nobody else is asked."""
    either_world.agent("fable", answers().hang(deaf=True))
    either_world.agent("sol", answers().say("never"))
    began = time.monotonic()
    with pytest.raises(CallTimedOut) as caught:
        either_world.call(timeout=3)
    assert time.monotonic() - began < 20
    result = caught.value.result
    assert (124, CallOutcome.TIMED_OUT) == (result.exit_code, result.outcome)
    assert [AttemptOutcome.SILENT] == [a.outcome for a in result.attempts]
    assert {"fable": 1, "sol": 0} == either_world.prompts()
    with either_world.router() as router:
        assert [] == router.circuits()
    (group,) = either_world.groups()
    assert [] == group_members(group)


def test_partial_output_of_a_timed_out_call_is_kept(world: World) -> None:
    """R-UTL-3."""
    world.agent("fable", answers().say("half of ").hang())
    with pytest.raises(CallTimedOut) as caught:
        world.call(timeout=3)
    assert "half of " == caught.value.result.text
    assert [AttemptOutcome.CANCELLED] == [a.outcome for a in caught.value.result.attempts]


def test_an_asked_for_cancel_ends_everything_and_charges_nobody(either_world: World) -> None:
    """R-CLI-3: a cancel is never a failure; R-CON-11: no process is left, not even a stubborn child."""
    either_world.agent("fable", answers().child().say("working").hang(deaf=True))

    async def main() -> CallCancelled:
        cancel = anyio.Event()

        def tell(progress: object) -> None:
            either_world.told.append(progress)  # type: ignore[arg-type]  # what the router tells
            if isinstance(progress, AgentSaid) and isinstance(progress.update, TextDelta):
                cancel.set()

        with either_world.router() as router, pytest.raises(CallCancelled) as caught:
            await router.route_once_async(
                "frontier", "go", timeout=60, on_progress=tell, cwd=either_world.folder, cancel=cancel
            )
        return caught.value

    error = anyio.run(main)
    assert (130, "working") == (error.result.exit_code, error.result.text)
    (group,) = either_world.groups()
    assert [] == group_members(group)
    with either_world.router() as router:
        assert [] == router.circuits()
        assert ["cancelled"] == [c.outcome for c in router.calls()]


def test_a_cancelled_task_leaves_no_agent_and_a_settled_record(world: World) -> None:
    """Cancellation from outside is passed on, after the agents were ended and the record was written."""
    world.agent("fable", answers().say("working").hang(deaf=True))

    async def main() -> None:
        with world.router() as router:
            async with anyio.create_task_group() as tasks:

                def tell(progress: object) -> None:
                    if isinstance(progress, AgentSaid) and isinstance(progress.update, TextDelta):
                        tasks.cancel_scope.cancel()

                await router.route_once_async("frontier", "go", on_progress=tell, cwd=world.folder)

    anyio.run(main)
    (group,) = world.groups()
    assert [] == group_members(group)
    with open_store(world.url) as store:
        (call,) = store.calls()
        assert "cancelled" == call.outcome
        route = store.load(call.session_id)
        assert route is not None
        assert "stopped" == route.state


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_an_agent_lost_in_mid_turn_is_for_a_person(either_world: World, end: str) -> None:
    """R-SAFE-3: what a dead agent did cannot be known; nothing is resent."""
    either_world.agent("fable", answers().exit(3) if end == "exit" else answers().die(), policy=RETRY)
    either_world.agent("sol", answers().say("never"))
    with pytest.raises(CallActionRequired):
        either_world.call()
    assert {"fable": 1, "sol": 0} == either_world.prompts()


def test_a_missing_executable_is_passed_over(world: World) -> None:
    """R-ENG-2: what cannot be launched is ineligible, with a reason, and starts nothing."""
    world.agent("fable", answers().say("never"), command=["no-such-agent"])
    world.agent("sol", answers().say("done"))
    result = world.call()
    assert "sol" == result.execution_profile_id
    assert ["not_launchable"] == [r.reason for r in result.rejected]


def test_nobody_launchable_is_exit_69(world: World) -> None:
    """R-CLI-3: and every candidate's reason is told."""
    world.agent("fable", command=["no-such-agent"])
    world.agent("sol", enabled=False)
    with pytest.raises(CallNoCandidate) as caught:
        world.call()
    assert 69 == caught.value.result.exit_code
    assert "fable" in str(caught.value)
    assert "disabled" in str(caught.value)


class _Explodes:
    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        raise ZeroDivisionError(event, turn)


class _BadExtractor(ScriptedAdapter):
    """Breaks on whatever its agent says."""

    family: ClassVar[str] = "scripted"

    def extractor(self, plan: LaunchPlan) -> Extractor:
        if plan.provider_id == "fable-provider":
            return _Explodes()
        return super().extractor(plan)


class _NoExtractor(ScriptedAdapter):
    """Gives no extractor for the first agent."""

    def extractor(self, plan: LaunchPlan) -> Extractor:
        if plan.provider_id == "fable-provider":
            raise LookupError("no extractor today")
        return super().extractor(plan)


def test_an_extractor_that_breaks_stops_for_a_person(world: World) -> None:
    """R-PLG-2, R-EVI-3: what it did not see may have happened."""
    world.agent("fable", answers().say("anything"), policy=RETRY)
    world.agent("sol", answers().say("never"))
    with pytest.raises(CallActionRequired):
        world.call(parts={"adapters": [_BadExtractor()]})
    assert {"fable": 1, "sol": 0} == world.prompts()


def test_an_adapter_that_breaks_before_the_launch_is_passed_over(world: World) -> None:
    """State machine: adapter exception → switching, candidate ineligible for the round."""
    world.agent("fable", answers().say("never"))
    world.agent("sol", answers().say("done"))
    assert "sol" == world.call(parts={"adapters": [_NoExtractor()]}).execution_profile_id
    assert {"fable": 0, "sol": 1} == world.prompts()


def test_a_concrete_profile_is_not_retried_and_not_blocked(world: World) -> None:
    """R-UTL-4, R-CIR-8: its failure opens a circuit, an open circuit does not keep it from being asked."""
    world.agent("fable", answers().fail_quota(3600), answers().say("back"))
    with pytest.raises(CallWaiting) as caught:
        world.call(profile="fable")
    assert caught.value.result.deadline is not None
    assert "back" == world.call(profile="fable").text
    assert {"fable": 2} == world.prompts()


def test_a_concrete_transient_failure_says_when_its_resource_is_back(world: World) -> None:
    """R-CLI-3: 75 with the circuit's deadline, though the policy has no retry."""
    world.agent("fable", answers().fail_overloaded())
    with pytest.raises(CallWaiting) as caught:
        world.call(profile="fable")
    assert caught.value.result.deadline is not None
    assert {"fable": 1} == world.prompts()


def test_refusals_start_nothing(world: World) -> None:
    """R-RES-3, R-RES-4, R-UTL-1."""
    world.agent("fable", answers().say("never"))
    world.profiles["off"] = world.agents["fable"].profile(enabled=False)
    for arguments, error in (
        ({"profile": "frontierr"}, ProfileNotFound),
        ({"profile": "off"}, ProfileUnusable),
        ({"prompt": "  "}, UsageError),
        ({"timeout": 0}, UsageError),
    ):
        with pytest.raises(error):
            world.call(**arguments)
    world.enabled = False
    with pytest.raises(DynamicRoutingDisabled):
        world.call()
    assert "frontier" in str(ProfileNotFound("x", ["frontier"]))
    assert {"fable": 0} == world.prompts()
    with world.router() as router:
        assert [] == router.calls()


def test_the_flag_leaves_concrete_profiles_alone(world: World) -> None:
    """R-RES-4."""
    world.agent("fable", answers().say("done"))
    world.enabled = False
    assert "done" == world.call(profile="fable").text


def test_route_once_in_a_running_loop_says_what_to_use(world: World) -> None:
    """One clear sentence, not a nested event loop."""
    world.agent("fable", answers().say("never"))

    async def main() -> None:
        world.call()

    with pytest.raises(UsageError, match="route_once_async"):
        anyio.run(main)


def test_every_error_pickles_and_says_one_sentence(world: World) -> None:
    """``args`` rebuild an error, so that it may cross processes."""
    import pickle  # only here

    world.agent("fable", answers().fail_puzzling())
    with pytest.raises(CallFailed) as caught:
        world.call()
    again = pickle.loads(pickle.dumps(caught.value))  # our own
    assert isinstance(again, CallFailed)
    assert (str(caught.value), caught.value.result) == (str(again), again.result)
    assert "\n" not in str(again)


def test_no_other_family_sees_a_familys_variables(world: World) -> None:
    """Neutral variables and one's own, nothing else of the host's environment."""
    world.agent("fable", answers().say("done"))
    world.environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-api03-nobody", "SCRIPTED_SOMETHING": "mine"}
    world.call()
    (prompt,) = world.agents["fable"].prompts
    assert "SCRIPTED_SOMETHING" in prompt.env
    assert "PATH" in prompt.env
    assert "ANTHROPIC_API_KEY" not in prompt.env


class _Unending(HeadlessDownstream):
    """Cannot prove that its agent is gone."""

    @property
    def reaped(self) -> bool:
        return False


def test_nobody_follows_an_agent_that_may_still_act(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-CON-8: a predecessor that cannot be proven gone is for a person, however clean its failure was."""
    monkeypatch.setattr("kandev_routing_sdk.conductor.attempt.HeadlessDownstream", _Unending)
    world.agent("fable", answers().fail_quota(3600), policy=RETRY)
    world.agent("sol", answers().say("never"))
    with pytest.raises(CallActionRequired):
        world.call()
    assert {"fable": 1, "sol": 0} == world.prompts()


def test_a_progress_callback_that_breaks_changes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged: neither a failed agent nor a failed call."""
    world.agent("fable", answers().say("done"))

    def tell(progress: object) -> None:
        raise LookupError(progress)

    with world.router() as router:
        assert "done" == router.route_once("frontier", "go", on_progress=tell, cwd=world.folder).text
    assert "the progress callback failed" in caplog.text


def test_a_wait_that_will_not_happen_gives_its_lease_back(world: World) -> None:
    """R-CIR-6: at the reset another process may probe at once; nobody waits for a lease whose owner is gone."""
    world.agent("fable", answers().fail_quota(120), policy=WAIT)
    with pytest.raises(CallWaiting):
        world.call(timeout=30)
    with world.router() as router:
        (circuit,) = router.circuits()
        assert (CircuitState.OPEN, None) == (circuit.state, circuit.probe_token)


def test_a_call_that_waits_for_its_policy_stays_its_owners(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-ENG-8: the heartbeat goes on through waits, so that no other process takes the call for a dead one's."""
    monkeypatch.setattr("kandev_routing_sdk.conductor.ledger.HEARTBEAT_S", 0.2)
    monkeypatch.setattr("kandev_routing_sdk.conductor.ledger.OWNER_LEASE_S", 1.0)
    world.clock = SystemClock()
    policy = {"transient": {"retry": {"enabled": True, "max_retries": 1, "initial_interval_seconds": 3}}}
    world.agent("fable", answers().fail_overloaded(), answers().say("back"), policy=policy)
    outcomes: list[str | None] = []

    def tell(progress: object) -> None:
        if isinstance(progress, Waiting):
            threading.Timer(2.0, look).start()

    def look() -> None:
        with world.router() as other:
            outcomes.extend(call.outcome for call in other.calls())

    with world.router() as router:
        assert "back" == router.route_once("frontier", "go", on_progress=tell, cwd=world.folder).text
    assert [None] == outcomes, "another process opened its router meanwhile and saw a running call"


def test_a_current_directory_that_is_gone_is_said(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-CLI-5."""
    world.agent("fable", answers().say("never"))
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    with world.router() as router:
        gone.rmdir()
        for ask in (lambda: router.route_once("frontier", "go"), lambda: router.explain("frontier")):
            with pytest.raises(UsageError, match="current directory"):
                ask()
    monkeypatch.chdir(tmp_path)
    assert {"fable": 0} == world.prompts()

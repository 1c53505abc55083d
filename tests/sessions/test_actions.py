"""What a person may do to a session, where, and what comes of it (R-ENG-6, R-ENG-7)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.errors import (
    IllegalTransition,
    NotAdmitted,
    RoutingError,
    StaleGeneration,
    StaleRevision,
    TurnInProgress,
    UsageError,
)
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.sessions.reading import snapshot
from kandev_routing_sdk.types import CircuitState
from tests.sessions._home import retries, waits
from tests.sessions._played import profiles_table
from tests.sessions._town import FOLDER, Process, Town

CONCRETE = {"fable": ("played", "fable", "acme"), "sol": ("played", "sol", "other")}


def scene(
    town: Town, *plays: str, policy: dict[str, Any] | None = None, alone: bool = False
) -> tuple[Process, Snapshot]:
    """A session of which a worker made what it could; fable plays ``plays``, sol answers (unless fable is ``alone``)."""
    first = {"profile": "fable", "policy": policy or {}}
    town.shelf.put(profiles_table(CONCRETE, {"frontier": [first] if alone else [first, {"profile": "sol"}]}))
    town.stage.plays["fable"] = list(plays)
    host = town.process()
    begun = town.do(host, host.router.sessions.start("frontier", "the request", cwd=FOLDER))
    town.look(host)
    return host, see(town, begun)


def see(town: Town, of: Snapshot) -> Snapshot:
    return snapshot(town.store, of.session_id)


def act(town: Town, host: Process, seen: Snapshot, action: str, **options: Any) -> Snapshot:
    asked = {"expected_generation": seen.generation, "here": True, **options}
    answer: Snapshot = town.do(host, host.router.sessions.act(seen.session_id, action, **asked))
    return answer


def got(town: Town) -> list[str]:
    return [sent.agent for sent in town.stage.sent]


WAITS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "retry_wait": (("overloaded", "answer"), retries(3)),
    "waiting_for_reset": (("near_quota", "answer"), waits(600)),
}


# --- each action where something is waited for ---


@pytest.mark.parametrize("state", WAITS)
def test_retry_now_asks_the_same_candidate_at_once(town: Town, state: str) -> None:
    """It takes the next retry slot, and does not open or close anything by itself."""
    plays, policy = WAITS[state]
    host, seen = scene(town, *plays, policy=policy)
    assert state == seen.state

    after = act(town, host, seen, "retry_now")

    assert ("active", "fable", 1) == (after.state, after.execution_profile_id, after.generation)
    assert ["fable", "fable"] == got(town)


def test_retry_now_takes_the_next_retry_slot(town: Town) -> None:
    """Two retries by policy: one by hand leaves one, then the exhausted outcome applies."""
    host, seen = scene(town, "overloaded", policy=retries(2, then="stop"))
    assert (1, 2) == (seen.ordinal, seen.maximum)
    seen = act(town, host, seen, "retry_now")
    assert ("action_required", "recovery_exhausted") == (seen.state, seen.reason)
    assert ["fable", "fable"] == got(town)


@pytest.mark.parametrize("state", WAITS)
def test_skip_now_goes_to_the_next(town: Town, state: str) -> None:
    """The prompt is carried to another candidate; the lease of the retry that will not come goes back."""
    plays, policy = WAITS[state]
    host, seen = scene(town, *plays, policy=policy)

    after = act(town, host, seen, "skip_now")

    assert ("active", "sol", 2) == (after.state, after.execution_profile_id, after.generation)
    assert ["fable", "sol"] == got(town)
    assert [] == [c.key.key for c in town.store.circuits() if c.probe_token is not None]


@pytest.mark.parametrize("state", [*WAITS, "waiting"])
def test_cancel_wait_leaves_it_to_the_person(town: Town, state: str) -> None:
    """Nothing is waited for any more, in no clock and by no circuit; doing it again changes nothing (idempotent)."""
    plays, policy = WAITS.get(state, (("near_quota", "answer"), {}))
    host, seen = scene(town, *plays, policy=policy, alone=state == "waiting")
    assert state == seen.state

    after = act(town, host, seen, "cancel_wait")
    assert ("action_required", "user_action", None) == (after.state, after.reason, after.deadline)
    town.clock.advance(24 * 3600)
    town.look(host)
    assert after == see(town, after)

    again = act(town, host, after, "cancel_wait")
    assert (after.state, after.reason, after.generation) == (again.state, again.reason, again.generation)
    assert ("active", "fable") == _where(act(town, host, again, "retry_now"))


def _where(seen: Snapshot) -> tuple[str, str | None]:
    return seen.state, seen.execution_profile_id


def test_retry_now_in_waiting_may_probe_early(town: Town) -> None:
    """Nobody is free before the reset; a person may try all the same (R-ENG-6)."""
    host, seen = scene(town, "quota", "answer", alone=True)
    assert "waiting" == seen.state

    after = act(town, host, seen, "retry_now")

    assert ("active", "fable") == _where(after)
    assert [CircuitState.CLOSED] == [c.state for c in town.store.circuits()]


@pytest.mark.parametrize("state", [*WAITS, "waiting", "action_required", "active"])
def test_stop_ends_it_for_good(town: Town, state: str) -> None:
    """From wherever its turn is settled; then it refuses all."""
    plays, policy = WAITS.get(
        state, ({"waiting": ("quota",), "action_required": ("puzzling",)}.get(state, ("answer",)), {})
    )
    host, seen = scene(town, *plays, policy=policy, alone=state == "waiting")
    assert state == seen.state

    after = act(town, host, seen, "stop")

    assert ("stopped", "user_action", ()) == (after.state, after.reason, after.actions)
    for action in ("retry_now", "skip_now", "cancel_wait", "stop"):
        with pytest.raises(IllegalTransition):
            act(town, host, after, action)
    with pytest.raises(RoutingError):
        town.do(host, host.router.sessions.prompt(after.session_id, "more"))
    town.clock.advance(24 * 3600)
    town.look(host)
    assert after == see(town, after)


# --- when it may not be ---


@pytest.mark.parametrize("action", ["retry_now", "skip_now", "cancel_wait", "stop"])
def test_nothing_during_a_turn(town: Town, action: str) -> None:
    """During an active turn: failed precondition, nothing changed. Nor before it was launched."""
    town.stage.plays["fable"] = ["slow:answer"]
    host = town.process()
    begun = town.do(host, host.router.sessions.start("frontier", "the request", cwd=FOLDER))
    for _ in range(2):
        seen = see(town, begun)
        with pytest.raises((TurnInProgress, IllegalTransition)):
            act(town, host, seen, action)
        assert seen == see(town, begun)
        town.look(host)
    assert see(town, begun).turn_running
    with pytest.raises(TurnInProgress):
        town.do(host, host.router.sessions.prompt(begun.session_id, "more"))


@pytest.mark.parametrize("action", ["retry_now", "skip_now", "cancel_wait", "stop"])
def test_a_stale_generation_changes_nothing(town: Town, action: str) -> None:
    """Fenced by what the person saw."""
    host, seen = scene(town, "auth", "answer")
    assert (2, "active") == (seen.generation, seen.state)
    with pytest.raises(StaleGeneration):
        act(town, host, seen, action, expected_generation=1)
    assert seen == see(town, seen)


def test_an_expected_revision_is_fenced_too(town: Town) -> None:
    """For those who want no race with a timer."""
    host, seen = scene(town, "overloaded", policy=retries(3))
    town.clock.advance(5)
    town.look(host)
    assert seen.generation == see(town, seen).generation
    with pytest.raises(StaleRevision):
        act(town, host, seen, "retry_now", expected_revision=seen.revision)
    act(town, host, see(town, seen), "retry_now", expected_revision=see(town, seen).revision)


def test_an_action_id_counts_once(town: Town) -> None:
    """A repeated id returns the first result, whatever became of the session since; another action needs another id."""
    host, seen = scene(town, "overloaded", "overloaded", "answer", policy=retries(3))
    first = act(town, host, seen, "retry_now", action_id="click")
    again = act(town, host, seen, "retry_now", action_id="click")
    assert first == again
    assert ["fable", "fable"] == got(town)
    with pytest.raises(UsageError, match="click"):
        act(town, host, seen, "skip_now", action_id="click")


def test_retry_now_is_refused_while_somebody_is_finding_out(town: Town) -> None:
    """A live probe lease of another session's is not taken from it; nothing changed."""
    host, seen = scene(town, "quota", "slow:answer", alone=True)
    other = town.do(host, host.router.sessions.start("frontier", "another", cwd=FOLDER))
    town.look(host)
    assert ["waiting", "waiting"] == [see(town, s).state for s in (seen, other)]
    town.do(host, host.router.sessions.act(other.session_id, "retry_now", expected_generation=0, here=True))
    assert see(town, other).turn_running

    try:
        after = act(town, host, seen, "retry_now")
    except NotAdmitted:
        after = see(town, seen)

    assert "waiting" == after.state
    assert 2 == len(town.stage.sent)


def test_an_unknown_session_or_action(town: Town) -> None:
    """One clear sentence each."""
    host, seen = scene(town, "answer")
    with pytest.raises(UsageError, match="session:nobody"):
        town.do(host, host.router.sessions.act("session:nobody", "stop", expected_generation=1))
    with pytest.raises(UsageError, match="dance"):
        act(town, host, seen, "dance")


# --- after effects ---


@pytest.mark.parametrize(("action", "whom"), [("retry_now", "fable"), ("skip_now", "sol"), ("prompt", "fable")])
@pytest.mark.parametrize("play", ["tool_then_overloaded", "text_then_quota", "lost", "puzzling"])
def test_only_a_person_goes_on_after_effects(town: Town, play: str, action: str, whom: str) -> None:
    """And whoever goes on is told that something may have happened (R-SAFE-4)."""
    host, seen = scene(town, play, "answer", policy={**retries(3), **waits(600)})
    assert "action_required" == seen.state
    town.clock.advance(24 * 3600)
    town.look(host)
    assert ["fable"] == got(town)

    if action == "prompt":
        town.do(host, host.router.sessions.prompt(seen.session_id, "look first", here=True))
    else:
        act(town, host, seen, action)

    last = town.stage.sent[-1]
    assert ("active", whom) == (see(town, seen).state, last.agent)
    told = "repeat nothing before you have verified" in last.text
    assert told == (play != "puzzling"), last.text


def test_a_launch_failure_leaves_something_to_do(town: Town) -> None:
    """``starting`` without a live launch owner cannot persist (R-ENG-7)."""
    host, seen = scene(town, "near_quota", "start_fails", policy=waits(600), alone=True)
    after = act(town, host, seen, "retry_now")
    assert after.state in {"waiting", "action_required"}
    assert {"retry_now", "stop"} <= set(after.actions)
    assert not after.turn_running


def test_a_person_renews_the_cap(town: Town) -> None:
    """Twenty attempts a turn, over all candidates; then a person may go on (R-ENG-5)."""
    both = [{"profile": name, "policy": retries(10)} for name in ("fable", "sol")]
    town.shelf.put(profiles_table(CONCRETE, {"frontier": both}))
    town.stage.plays = {"fable": ["overloaded"], "sol": [*["overloaded"] * 9, "answer"]}
    host = town.process()
    begun = town.do(host, host.router.sessions.start("frontier", "the request", cwd=FOLDER))
    while (seen := see(town, begun)).reason != "attempt_cap":
        town.look(host)
        town.clock.advance(6000)
    assert ("action_required", 20) == (seen.state, len(town.stage.sent))
    town.look(host)
    assert seen == see(town, begun)

    after = act(town, host, seen, "retry_now")

    assert ("active", "sol") == _where(after)
    assert 21 == len(town.stage.sent)

"""Finding out whether a resource is back: by a launch, by a cheap question, by hand (R-CIR-6, R-CIR-7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.ports import Admit, CircuitSucceeded, Claim
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.scheduler.probes import Prober
from kandev_routing_sdk.sessions.reading import snapshot
from kandev_routing_sdk.types import CircuitState
from tests.sessions._home import waits
from tests.sessions._played import profiles_table
from tests.sessions._town import FOLDER, Process, Town

SPREAD_S = 2.0
CONCRETE = {"fable": ("played", "fable", "acme"), "luna": ("asked", "luna", "moon")}


def waiting(
    town: Town, profile: str, play: str, *, sessions: int = 1, policy: dict[str, Any] | None = None
) -> list[str]:
    """Sessions of which one failed, and which wait for their only candidate now."""
    town.shelf.put(profiles_table(CONCRETE, {"frontier": [{"profile": profile, "policy": policy or {}}]}))
    town.stage.plays[profile] = [play, "answer"]
    host = town.process()
    begun = [town.do(host, host.router.sessions.start("frontier", f"task {n}", cwd=FOLDER)) for n in range(sessions)]
    for _ in begun:
        town.look(host, most=1)
    town.shut(host)
    assert 1 == len(town.stage.sent)
    return [one.session_id for one in begun]


def see(town: Town, session_id: str) -> Snapshot:
    return snapshot(town.store, session_id)


def states(town: Town, sessions: list[str]) -> list[str]:
    return [see(town, s).state for s in sessions]


def circuit(town: Town) -> Circuit:
    """The one that is open or was."""
    (found,) = town.store.circuits()
    return found


def look(town: Town, *, after_s: float = 0.0, most: int = 10) -> Process:
    town.clock.advance(after_s)
    host = town.process()
    town.look(host, most=most)
    return host


# --- a launch is the probe ---


def test_a_launch_is_the_probe(town: Town) -> None:
    """At the deadline one launch goes, under the circuit's lease; its answer closes, and everybody goes on."""
    sessions = waiting(town, "fable", "near_quota", sessions=4)
    assert ["waiting"] * 4 == states(town, sessions)
    assert 1 == len(town.stage.sent)

    town.stage.plays["fable"] = ["slow:answer", "answer"]
    look(town, after_s=60 + SPREAD_S)
    assert 2 == len(town.stage.sent), "one asks, the others wait for what it says"
    (prober,) = (a for s in sessions for a in town.stage.live(s))
    assert (CircuitState.HALF_OPEN, True) == (circuit(town).state, circuit(town).lease_is_live(town.clock.now()))

    prober.go.set()
    town.settle()
    assert CircuitState.CLOSED is circuit(town).state
    look(town)
    assert ["active"] * 4 == states(town, sessions), "at once, not at the end of the lease"
    assert 1 + 4 == len(town.stage.sent)


def test_a_launch_that_fails_again_extends(town: Town) -> None:
    """The next window is longer, nobody else tries meanwhile."""
    sessions = waiting(town, "fable", "network", sessions=3)
    first = circuit(town)
    assert first.backoff_s is not None
    town.stage.plays["fable"] = ["network"]

    look(town, after_s=first.backoff_s + SPREAD_S)

    second = circuit(town)
    assert (CircuitState.OPEN, 2) == (second.state, second.ladder_step)
    assert second.backoff_s is not None
    assert second.backoff_s > 300 * 0.74
    assert ["waiting"] * 3 == states(town, sessions)
    assert 2 == len(town.stage.sent)


def test_a_neutral_end_hands_the_lease_back(town: Town) -> None:
    """What says nothing of the provider neither closes nor extends (R-CIR-6)."""
    sessions = waiting(town, "fable", "near_quota", sessions=2)
    before = circuit(town)
    town.stage.plays["fable"] = ["puzzling", "answer"]

    look(town, after_s=60 + SPREAD_S, most=1)

    after = circuit(town)
    assert (CircuitState.OPEN, before.deadline, None) == (after.state, after.deadline, after.probe_token)
    assert "action_required" in states(town, sessions)
    look(town, after_s=60 + 2 * SPREAD_S)
    assert sorted(["action_required", "active"]) == sorted(states(town, sessions))


def test_a_crashed_probers_lease_expires(town: Town) -> None:
    """And then one more asks, not two (R-CIR-6)."""
    sessions = waiting(town, "fable", "near_quota", sessions=3)
    town.stage.plays["fable"] = ["slow:answer", "answer"]
    dies = look(town, after_s=60 + SPREAD_S, most=1)
    assert 2 == len(town.stage.sent)
    town.kill(dies)

    look(town, after_s=30)
    assert 2 == len(town.stage.sent), "it may still be alive"
    look(town, after_s=31 + SPREAD_S, most=1)
    look(town, after_s=61 + SPREAD_S)
    look(town, after_s=61 + SPREAD_S)
    assert {"active", "action_required"} == set(states(town, sessions))
    assert 1 == states(town, sessions).count("action_required"), "the one whose prober died"
    assert CircuitState.CLOSED is circuit(town).state


def test_a_late_result_of_an_older_lease_is_ignored(town: Town) -> None:
    """Fenced by the token."""
    waiting(town, "fable", "near_quota")
    town.clock.advance(61)
    key = circuit(town).key
    store, now = town.store, town.clock.now()
    assert (key,) == store.admit(Admit((key,), "old", "somebody", 30.0), now=now)
    town.clock.advance(31)
    assert (key,) == store.admit(Admit((key,), "new", "another", 30.0), now=town.clock.now())

    store.change_circuits([CircuitSucceeded(key, "old")], now=town.clock.now())
    assert (CircuitState.HALF_OPEN, "new") == (circuit(town).state, circuit(town).probe_token)
    store.change_circuits([CircuitSucceeded(key, "new")], now=town.clock.now())
    assert CircuitState.CLOSED is circuit(town).state


# --- somebody can be asked ---


def test_a_cheap_probe_closes_and_wakes(town: Town) -> None:
    """No session and no agent is started for the question; what waited goes on at the answer."""
    sessions = waiting(town, "luna", "near_quota", sessions=3)
    town.stage.probes["moon"] = "back"
    town.clock.advance(60)

    host = look(town, most=1)
    town.look(host, most=10)

    assert ["moon"] == town.stage.probed
    assert CircuitState.CLOSED is circuit(town).state
    town.look(host, most=10)
    assert ["active"] * 3 == states(town, sessions)
    assert 1 + 3 == len(town.stage.sent)


def test_a_cheap_probe_that_fails_extends(town: Town) -> None:
    """As a launch would, and nobody is launched."""
    sessions = waiting(town, "luna", "near_quota")
    town.stage.probes["moon"] = "quota"
    before = circuit(town)
    town.clock.advance(60)

    look(town)

    after = circuit(town)
    assert before.deadline is not None
    assert after.deadline is not None
    assert (CircuitState.OPEN, None) == (after.state, after.probe_token)
    assert after.deadline >= before.deadline + timedelta(seconds=900)
    look(town, after_s=SPREAD_S)
    assert ["waiting"] == states(town, sessions)
    assert 1 == len(town.stage.sent)


@pytest.mark.parametrize("answer", ["nothing", "bug", "puzzling"])
def test_a_cheap_probe_that_learns_nothing_changes_nothing(town: Town, answer: str) -> None:
    """Neither silence nor a bug of the adapter's is news; the next launch asks (R-PLG-2)."""
    waiting(town, "luna", "near_quota")
    town.stage.probes["moon"] = answer
    before = circuit(town)
    town.clock.advance(60)
    # its session is not there to be launched, before or after somebody asked
    now = town.clock.now()
    assert town.store.claim(Claim.RECOVERED, now=now, owner_id="another", until=now + timedelta(seconds=30), limit=1)

    look(town)

    after = circuit(town)
    assert ["moon"] == town.stage.probed
    assert (CircuitState.OPEN, before.deadline, before.failures) == (after.state, after.deadline, after.failures)
    assert after.probe_token is None
    for _ in range(5):  # a launch that comes while somebody asks comes again when that lease would have ended
        look(town, after_s=31 + SPREAD_S)
    assert 2 == len(town.stage.sent)


def test_two_hosts_ask_once(town: Town) -> None:
    """At the deadline exactly one worker gets the lease, over all processes."""
    waiting(town, "luna", "near_quota")
    town.stage.probes["moon"] = "back"
    town.clock.advance(60)
    hosts = [town.process() for _ in range(4)]
    town.race([(host, host.worker(most=1)) for host in hosts])
    assert ["moon"] == town.stage.probed


def test_two_hosts_that_saw_the_same_far_reset_ask_once(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second looks again: the other one has just been told (R-CIR-6: rarely)."""
    waiting(town, "luna", "far_quota")
    town.clock.advance(31 * 60)
    first, second, seen = town.process(), town.process(), town.store.circuits()
    assert 1 == town.do(first, Prober(first.engine).tick())
    monkeypatch.setattr(town.store, "circuits", lambda: seen)  # it had looked when the first one did
    assert 0 == town.do(second, Prober(second.engine).tick())
    assert ["moon"] == town.stage.probed


def test_a_far_reset_is_asked_about_early_and_rarely(town: Town) -> None:
    """Quota that came back early is noticed without a restart (R-CIR-6)."""
    (session_id,) = waiting(town, "luna", "far_quota")
    due = see(town, session_id).deadline
    assert due is not None
    look(town, after_s=29 * 60)
    assert [] == town.stage.probed
    look(town, after_s=60)
    assert ["moon"] == town.stage.probed
    look(town, after_s=29 * 60)
    assert ["moon"] == town.stage.probed, "rarely"
    assert due == see(town, session_id).deadline

    town.stage.probes["moon"] = "back"
    host = look(town, after_s=2 * 60)
    town.look(host, most=10)

    assert ["moon", "moon"] == town.stage.probed
    assert "active" == see(town, session_id).state
    assert town.clock.now() < due - timedelta(hours=4)


def test_a_far_reset_that_a_session_waits_for_is_asked_about_too(town: Town) -> None:
    """``waiting_for_reset``: circuit closed early → ``retrying``, the same candidate (state machine)."""
    (session_id,) = waiting(town, "luna", "far_quota", policy=waits(604_800))
    assert "waiting_for_reset" == see(town, session_id).state
    town.stage.probes["moon"] = "back"

    host = look(town, after_s=31 * 60)
    town.look(host, most=10)

    seen = see(town, session_id)
    assert ("active", 1, "luna") == (seen.state, seen.generation, seen.execution_profile_id)


def test_no_probes_while_the_flag_is_off(town: Town) -> None:
    """R-RES-4."""
    waiting(town, "luna", "near_quota")
    town.stage.probes["moon"] = "back"
    town.flag = False
    look(town, after_s=60)
    assert [] == town.stage.probed
    assert CircuitState.OPEN is circuit(town).state


def test_a_probe_that_hangs_has_learnt_nothing(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under 5 s, or it is no answer; the lease goes back."""
    monkeypatch.setattr("kandev_routing_sdk.scheduler.probes.TIMEOUT_S", 0.05)
    waiting(town, "luna", "near_quota")
    town.stage.probes["moon"] = "hangs"
    town.clock.advance(60)
    host = look(town)
    town.runner.run(asyncio.sleep(0.2))
    assert ["moon"] == town.stage.probed
    assert (CircuitState.OPEN, None) == (circuit(town).state, circuit(town).probe_token)
    assert town.has_ended(host)


# --- by hand ---


def test_credentials_changed_makes_due_and_closes_nothing_unseen(town: Town) -> None:
    """R-CIR-7: one probe finds out; then whoever waited goes on."""
    sessions = waiting(town, "fable", "auth", sessions=3)
    assert ["action_required"] * 3 == states(town, sessions)
    look(town, after_s=24 * 3600)
    assert ["action_required"] * 3 == states(town, sessions)
    town.stage.plays["fable"] = ["slow:answer", "answer"]

    host = town.process()
    due = host.router.credentials_changed(["fable"])

    assert [circuit(town).key.key] == due
    assert CircuitState.OPEN is circuit(town).state
    town.look(host, most=10)
    assert 2 == len(town.stage.sent), "one finds out"
    for session_id in sessions:
        for agent in town.stage.live(session_id):
            agent.go.set()
    town.settle()
    for _ in range(3):
        look(town, after_s=61 + SPREAD_S)
    assert ["active"] * 3 == states(town, sessions)


def test_credentials_that_are_still_wrong(town: Town) -> None:
    """The probe fails: a person again, without a loop."""
    sessions = waiting(town, "fable", "auth", sessions=2)
    town.stage.plays["fable"] = ["auth"]
    host = town.process()
    host.router.credentials_changed()
    for _ in range(4):
        look(town, after_s=61 + SPREAD_S)
    assert ["action_required"] * 2 == states(town, sessions)
    assert circuit(town).action_required
    assert 2 == len(town.stage.sent)


def test_a_manual_reset_closes_and_wakes(town: Town) -> None:
    """A person knows better; nobody waits for the deadline any more."""
    sessions = waiting(town, "fable", "far_quota", sessions=3)
    assert ["waiting"] * 3 == states(town, sessions)
    host = town.process()

    host.router.reset_circuit(circuit(town).key.key)
    town.look(host, most=10)

    assert ["active"] * 3 == states(town, sessions)
    assert 1 + 3 == len(town.stage.sent)


def test_a_manual_retry_lets_one_find_out(town: Town) -> None:
    """``circuits retry`` of one that waits for a person: due, not closed."""
    sessions = waiting(town, "fable", "auth", sessions=2)
    town.stage.plays["fable"] = ["answer"]
    host = town.process()
    host.router.retry_circuit(circuit(town).key.key)
    assert (CircuitState.OPEN, False) == (circuit(town).state, circuit(town).action_required)
    for _ in range(3):
        look(town, after_s=61 + SPREAD_S)
    assert ["active"] * 2 == states(town, sessions)

"""What sessions wait for, and who takes them when: kept while it counts, forgotten when it does not, and no session at every look.

A session that each look takes and moves nowhere costs each worker two commits a second, for ever (R-DUR-4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kandev_routing_sdk.ports import ProfileSource
from kandev_routing_sdk.profiles import Profile
from kandev_routing_sdk.route.snapshot import Snapshot
from tests.sessions._home import retries, waits
from tests.sessions._played import PlayedAdapter
from tests.sessions._scenes import act, begin, circuit, ends, got, look, process_with, rested, see, shelve, where
from tests.sessions._town import Process, Town, Write


def taken(town: Town) -> list[str]:
    """Grows with each session that anybody claims."""
    found: list[str] = []

    def watch(write: Write) -> None:
        if write.name == "claim":
            found.extend(route.session_id for route in write.result)

    town.watchers.append(watch)
    return found


# --- circuits ---


def test_what_is_free_already_is_waited_for_no_longer(town: Town) -> None:
    """Its account is back, its provider is not: it waits for the provider, and is left alone until then (R-CIR-8, R-DUR-4)."""
    shelve(town, frontier=[{"profile": "fable", "policy": waits(3600)}], second=["twin"])
    town.stage.plays |= {"fable": ["quota", "answer"], "twin": ["overloaded"]}
    host = town.process()
    seen = rested(town, host)
    rested(town, host, "second")
    host.router.reset_circuit(circuit(town, "account").key.key)

    look(town)
    refused = see(town, seen)
    assert "waiting_for_reset" == refused.state
    for _ in range(4):
        look(town)
    assert refused == see(town, seen)

    host.router.reset_circuit(circuit(town, "provider").key.key)
    look(town)
    assert ("active", 1, "fable") == where(see(town, seen))


@pytest.mark.parametrize("cancels", [False, True])
def test_cancelling_nothing_gives_up_nothing(town: Town, cancels: bool) -> None:
    """``action_required``: ``cancel_wait`` leaves it unchanged; it goes on when the login is mended (R-ENG-6, R-CIR-7)."""
    shelve(town, frontier=["fable"])
    town.stage.plays["fable"] = ["auth", "answer"]
    host = town.process()
    seen = rested(town, host)
    assert "action_required" == seen.state
    if cancels:
        act(town, host, seen, "cancel_wait")

    assert 1 == len(host.router.credentials_changed())
    look(town)

    assert "active" == see(town, seen).state


def test_who_was_tried_already_is_shown_with_what_ails_it(town: Town) -> None:
    """What stops it beside this round: whoever looks sees what to do about it (R-ENG-3)."""
    town.stage.plays |= {"fable": ["auth"], "sol": ["quota"]}
    seen = rested(town, town.process())
    assert "waiting" == seen.state
    shown = {c["profile_id"]: (str(c["detail"]), c["code"]) for c in seen.candidates}
    assert "tried in this round already; account resource: auth_required; a person" in shown["fable"][0]
    assert "tried in this round already; account resource: quota_limited; until" in shown["sol"][0]
    assert ("auth_required", "quota_limited") == (shown["fable"][1], shown["sol"][1])


# --- whose turn it is ---


def test_new_sessions_do_not_keep_due_ones_waiting(town: Town) -> None:
    """Each kind comes first in turn, however many there are of another (R-PRF-6)."""
    shelve(town, frontier=[{"profile": "fable", "policy": retries(3)}], second=["fable"], third=["sol"])
    town.stage.plays["fable"] = ["overloaded", "answer"]
    host = town.process()
    due = rested(town, host)
    free = rested(town, host, "second")
    assert ["retry_wait", "waiting"] == [due.state, free.state]
    for _ in range(6):
        begin(town, host, "third")
    town.clock.advance(6)

    worker = town.process()
    for _ in range(3):
        town.look(worker, most=1)

    assert "active" == see(town, due).state


@dataclass
class BrokenFor:
    """A host's profiles, one of which cannot be read."""

    profiles: ProfileSource
    broken: str

    def get(self, profile_id: str) -> Profile | None:
        if profile_id == self.broken:
            raise ConnectionError("the tenant's database is down")
        return self.profiles.get(profile_id)

    def all(self) -> Mapping[str, Profile]:
        return self.profiles.all()


def test_what_failed_is_not_tried_again_at_once(town: Town) -> None:
    """There or elsewhere, it would most likely fail again; half a minute later it may not (R-DUR-4)."""
    shelve(town, frontier=["fable"])
    seen = begin(town, town.process())

    found = taken(town)
    for _ in range(4):
        town.look(process_with(town, profiles=BrokenFor(town.shelf, "frontier")))
    assert [seen.session_id] == found
    assert [] == town.bugs

    look(town, after_s=31)
    assert "active" == see(town, seen).state


# --- folders of another machine ---


def in_a_folder(town: Town, host: Process, folder: Path) -> Snapshot:
    """A session that works in a folder which only ``host``'s machine has."""
    folder.mkdir()
    begun: Snapshot = town.do(host, host.router.sessions.start("frontier", "the request", cwd=folder))
    return begun


def test_a_session_is_left_to_the_machine_that_has_its_folder(town: Town, tmp_path: Path) -> None:
    """Another one's worker judges nobody by it, for a while (R-DUR-1: several hosts over one database)."""
    seen = in_a_folder(town, town.process("there"), tmp_path / "there")
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    found = taken(town)
    for _ in range(3):
        look(town, namespace="here")
    assert [seen.session_id] == found
    assert ("selecting", 0) == (see(town, seen).state, see(town, seen).generation)

    (tmp_path / "elsewhere").rename(tmp_path / "there")
    look(town, namespace="there", after_s=31)
    assert "active" == see(town, seen).state


def test_a_long_wait_is_left_to_the_machine_that_has_its_folder(town: Town, tmp_path: Path) -> None:
    """What counts is since when somebody might have come for it: since its deadline."""
    shelve(town, frontier=[{"profile": "fable", "policy": waits(3600)}])
    town.stage.plays["fable"] = ["quota", "answer"]
    host = town.process("there")
    seen = in_a_folder(town, host, tmp_path / "there")
    town.look(host)
    assert "waiting_for_reset" == see(town, seen).state
    (tmp_path / "there").rename(tmp_path / "elsewhere")

    look(town, namespace="here", after_s=902)
    assert "waiting_for_reset" == see(town, seen).state

    (tmp_path / "elsewhere").rename(tmp_path / "there")
    look(town, namespace="there", after_s=31)
    assert ("active", 1, "fable") == where(see(town, seen))


# --- until there is nothing to do ---


def test_a_worker_that_ends_when_idle_sees_what_its_own_probe_freed(town: Town) -> None:
    """A circuit that it closed in its last look has somebody waiting for it (R-CIR-6)."""
    shelve(town, frontier=["luna"])
    town.stage.plays["luna"] = ["far_quota", "answer"]
    host = town.process()
    seen = rested(town, host)
    town.stage.probes["moon"] = "back"
    town.clock.advance(31 * 60)

    town.begin(host, host.router.run_worker(until_idle=True, poll_s=0.01))

    assert ends(town, host)
    assert "active" == see(town, seen).state


def test_a_worker_that_ends_when_idle_sees_what_its_look_at_settings_freed(town: Town) -> None:
    """As above (R-ENG-6)."""
    shelve(town, frontier=["fable"])
    town.stage.plays["fable"] = ["quota"]
    host = town.process()
    seen = rested(town, host)
    shelve(town, frontier=["fable", "sol"])

    town.begin(host, host.router.run_worker(until_idle=True, poll_s=0.01))

    assert ends(town, host)
    assert ["fable", "sol"] == got(town)
    assert "active" == see(town, seen).state


# --- what no wait may do ---


def test_no_guarantee_of_resuming_counts_where_nothing_is_resumed(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """After output the same request is not sent to a fresh session by itself, whatever the adapter promises (R-SAFE-2)."""
    monkeypatch.setattr(PlayedAdapter, "resume_guarantee", True)
    shelve(town, frontier=[{"profile": "fable", "policy": waits(3600)}])
    town.stage.plays["fable"] = ["text_then_quota", "answer"]

    seen = rested(town, town.process())

    assert ("action_required", "unsafe_effects") == (seen.state, seen.reason)
    assert ["fable"] == got(town)

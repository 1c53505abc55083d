"""What nobody tells a worker: settings that changed while it runs, agents that nobody owns (R-ENG-4, R-ENG-6, R-CON-11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

import anyio
import pytest

from kandev_routing_sdk.conductor.choice import Chooser
from kandev_routing_sdk.errors import StoreUnavailable
from kandev_routing_sdk.profiles import Profile
from kandev_routing_sdk.records import Claim
from kandev_routing_sdk.route.past import SelectionInputs
from kandev_routing_sdk.scheduler import keeper as module
from kandev_routing_sdk.scheduler.keeper import Keeper
from tests.sessions._home import retries, waits
from tests.sessions._played import profiles_table
from tests.sessions._scenes import (
    CONCRETE,
    act,
    begin,
    ends,
    got,
    leased,
    look,
    process_with,
    rested,
    rows,
    see,
    shelve,
    where,
    without_agents,
)
from tests.sessions._town import Process, Town

WAITS: dict[str, tuple[str, dict[str, Any]]] = {
    "retry_wait": ("overloaded", retries(3, first_s=600)),
    "waiting_for_reset": ("near_quota", waits(600)),
    "waiting": ("quota", {}),
    "action_required": ("auth", {}),
}


def stuck(town: Town, state: str, profile: str = "frontier") -> tuple[Process, Any]:
    """A session in this state, fable being its only candidate."""
    play, policy = WAITS[state]
    shelve(town, frontier=[{"profile": "fable", "policy": policy}])
    town.stage.plays["fable"] = [play, "answer"]
    host = town.process()
    seen = rested(town, host, profile)
    assert state == seen.state
    return host, seen


def looked(town: Town, host: Process, keeper: Keeper) -> bool:
    moved: bool = town.do(host, keeper.catch_up())
    return moved


# --- settings that change while a worker runs ---


@pytest.mark.parametrize("state", ["waiting", "action_required"])
def test_a_running_worker_notices_a_new_candidate(town: Town, state: str) -> None:
    """Not only one that starts (state machine: profile or credential change → ``selecting``)."""
    host, _ = stuck(town, state)
    keeper = Keeper(host.engine)
    assert not looked(town, host, keeper)
    shelve(town, frontier=["fable", "sol"])

    assert looked(town, host, keeper)

    town.look(host)
    assert ["fable", "sol"] == got(town)


def test_a_running_worker_notices_another_login(town: Town) -> None:
    """An account that nobody knew yet is no circuit's: no circuit can tell that it is there (R-ENG-6, R-CIR-7)."""
    host, seen = stuck(town, "action_required")
    keeper = Keeper(host.engine)
    looked(town, host, keeper)
    another_login(town)

    assert looked(town, host, keeper)

    town.look(host)
    assert "active" == see(town, seen).state


@pytest.mark.parametrize("state", ["retry_wait", "waiting_for_reset"])
@pytest.mark.parametrize("how", ["removed", "disabled"])
def test_a_candidate_that_is_gone_is_waited_for_no_longer(town: Town, state: str, how: str) -> None:
    """→ ``switching``, at once, and the lease of its retry goes back (state machine, R-ENG-4, R-CIR-5)."""
    host, seen = stuck(town, state)
    keeper = Keeper(host.engine)
    looked(town, host, keeper)
    assert 1 == len(leased(town))
    left: list[str | dict[str, Any]] = [] if how == "removed" else [{"profile": "fable", "enabled": False}]
    shelve(town, frontier=[*left, "sol"])

    assert looked(town, host, keeper)

    assert [] == leased(town)
    town.look(host)
    assert ("active", 2, "sol") == where(see(town, seen))


@pytest.mark.parametrize("state", WAITS)
def test_who_cannot_start_a_candidate_leaves_its_sessions_alone(town: Town, state: str) -> None:
    """A worker without the adapter, the secret or the executable starts up beside those that have them (R-ENG-4)."""
    _, seen = stuck(town, state)
    other = without_agents(town)

    assert not looked(town, other, Keeper(other.engine))

    assert seen == see(town, seen)


def test_a_look_at_nothing_new_reads_no_session(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand may wait for a person (R-DUR-4)."""
    host, _ = stuck(town, "action_required")
    keeper = Keeper(host.engine)
    looked(town, host, keeper)

    def sessions(**_: Any) -> NoReturn:
        raise AssertionError("it reads sessions")

    monkeypatch.setattr(town.store, "sessions", sessions)
    assert not looked(town, host, keeper)


def another_login(town: Town) -> None:
    """fable signs in as somebody else."""
    table = {**CONCRETE, "fable": ("played", "another-account", "acme")}
    town.shelf.put(profiles_table(table, {"frontier": [{"profile": "fable"}]}))


def test_a_concrete_session_is_its_persons(town: Town) -> None:
    """Its failures are shown, and not tried again because of settings (R-POL-7)."""
    host, seen = stuck(town, "action_required", "fable")
    another_login(town)
    assert not looked(town, host, Keeper(host.engine))
    assert seen == see(town, seen)


def test_a_session_that_somebody_is_at_is_left_to_them(town: Town) -> None:
    """Whoever owns it sees the settings at its next decision (R-ENG-4, R-ENG-8)."""
    host, seen = stuck(town, "waiting")
    shelve(town, frontier=["sol"])
    town.clock.advance(1000)
    now = town.clock.now()
    town.store.claim(Claim.DUE, now=now, owner_id="here/another", until=now + timedelta(seconds=60), limit=1)
    theirs = see(town, seen)

    assert not looked(town, host, Keeper(host.engine))

    assert theirs == see(town, seen)


# --- what cannot be looked at ---


def test_one_session_that_cannot_be_looked_at_keeps_no_other_waiting(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with it, and at every start of a worker again (R-DUR-4)."""
    host, first = stuck(town, "waiting")
    second = begin(town, host)
    town.look(host)
    assert "waiting" == see(town, second).state
    shelve(town, frontier=["fable", "sol"])
    changed = Chooser.has_changed

    async def broken(self: Chooser) -> bool:
        if self._ledger.route.session_id == first.session_id:
            raise RuntimeError("a row that nobody can read")
        return await changed(self)

    monkeypatch.setattr(Chooser, "has_changed", broken)
    assert looked(town, host, Keeper(host.engine))

    town.look(host)
    assert ["waiting", "active"] == [see(town, s).state for s in (first, second)]


def test_a_walk_that_this_version_cannot_read_is_made_again(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version wrote it (R-ENG-11)."""
    host, seen = stuck(town, "waiting")
    shelve(town, frontier=["fable", "sol"])

    def unreadable(inputs: object) -> NoReturn:
        raise ValueError("an unknown field")

    with monkeypatch.context() as patch:
        patch.setattr(SelectionInputs, "from_json", unreadable)
        assert looked(town, host, Keeper(host.engine))

    town.look(host)
    assert "active" == see(town, seen).state


@pytest.mark.parametrize("problem", [StoreUnavailable("gone"), ConnectionError("the host's own database")])
def test_a_look_that_fails_is_made_again(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every minute, for as long as the worker runs (R-ENG-6)."""
    monkeypatch.setattr(module, "EVERY_S", 0.001)
    engine: Any = None
    keeper, stop = Keeper(engine), anyio.Event()
    looks: list[str] = []

    async def catch_up() -> bool:
        looks.append("settings")
        if len(looks) < 3:
            raise problem
        return False

    async def end_strays() -> None:
        looks.append("strays")
        stop.set()

    monkeypatch.setattr(keeper, "catch_up", catch_up)
    monkeypatch.setattr(keeper, "end_strays", end_strays)

    async def main() -> None:
        with anyio.fail_after(5):
            await keeper.keep(stop)

    anyio.run(main)
    assert ["settings"] * 3 + ["strays"] == looks


class Broken:
    """A host's profiles that cannot be read."""

    def get(self, profile_id: str) -> Profile | None:
        raise ConnectionError("the tenant's database is down")

    def all(self) -> Mapping[str, Profile]:
        raise ConnectionError("the tenants' database is down")


def test_profiles_that_cannot_be_read_are_not_the_end_of_a_worker(town: Town) -> None:
    """Neither its look at settings nor its look at circuits, nor a session of theirs (R-PLG-2)."""
    _, seen = stuck(town, "waiting")
    host = process_with(town, profiles=Broken())
    town.clock.advance(1000)

    async def some_while() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: host.router.run_worker(poll_s=0.01, stop=stop))
            await anyio.sleep(0.1)
            stop.set()

    town.begin(host, some_while())
    assert ends(town, host)
    assert [] == town.bugs
    look(town, after_s=60)
    assert "active" == see(town, seen).state


# --- agents that nobody owns any more ---


def test_agents_of_settled_attempts_are_ended(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their owner died here, and who took the session over on another machine could not end them (R-CON-11, R-CON-8)."""
    town.stage.plays["fable"] = ["slow:answer"]
    host = town.process("here")
    seen = begin(town, host)
    town.look(host)
    town.kill(host)
    strays = town.stage.live(seen.session_id)
    assert 1 == len(strays)
    running = begin(town, other := town.process("here"))
    town.look(other)
    town.clock.advance(30)
    town.beat(other)
    look(town, after_s=30, namespace="there")
    assert "ambiguous_dispatch" == see(town, seen).reason
    assert strays == town.stage.live(seen.session_id), "from there it cannot be seen"
    monkeypatch.setattr(module, "marked_attempts", lambda: {*town.stage.agents, "attempt:of-another-store"})
    monkeypatch.setattr(module, "reap_group", town.stage.reap)

    again = town.process("here")
    town.begin(again, Keeper(again.engine).end_strays())

    assert ends(town, again)
    assert [] == town.stage.live(seen.session_id)
    assert 1 == len(town.stage.live(running.session_id)), "whose turn runs is no stray"
    assert [None] == [row.outcome for row in rows(town, running)]


def test_an_orphan_is_ended_before_its_successor_starts(town: Town) -> None:
    """Also where no look at strays came first (R-CON-8, design §6, 2)."""
    town.stage.plays["fable"] = ["slow:answer", "answer"]
    host = town.process("here")
    seen = begin(town, host)
    town.look(host)
    town.kill(host)
    far = look(town, after_s=60, namespace="there")
    act(town, far, see(town, seen), "retry_now")
    assert 1 == len(town.stage.live(seen.session_id))
    beside: list[int] = []
    town.stage.at_launch = lambda agent: beside.append(len(town.stage.live(agent.session_id)))

    look(town, namespace="here")

    assert ["fable", "fable"] == got(town)
    assert [0] == beside

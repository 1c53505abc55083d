"""Utility calls and the installation key (R-UTL-4, R-CIR-3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from kandev_routing_sdk.binding import new_installation_key
from kandev_routing_sdk.errors import StaleRevision
from kandev_routing_sdk.ports import Interrupted
from kandev_routing_sdk.route.model import Reason, State
from kandev_routing_sdk.store import SqlStore, open_store
from tests.store._values import NOW, advance, attempt, call, create, route


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with open_store(database_url) as store:
        yield store


ENDED = call(
    execution_profile_id="sol",
    family="codex",
    provider_id="acme",
    model="m1",
    input_tokens=3_000_000_000,
    output_tokens=5,
    outcome="waiting",
    exit_code=75,
    code="quota_limited",
    attempts=2,
    deadline=NOW + timedelta(hours=1),
    ended_at=NOW + timedelta(seconds=3),
    summary={"rejected": [{"profile_id": "fable", "until": None}]},
)


def test_a_call_is_recorded_while_it_runs_and_when_it_ends(store: SqlStore) -> None:
    store.save_call(call())
    assert call() == store.call("c1")
    store.save_call(ENDED)
    assert ENDED == store.call("c1")
    assert store.call("c2") is None


def test_an_ended_call_never_changes(store: SqlStore) -> None:
    """R-UTL-4: later edits never relabel it."""
    store.save_call(ENDED)
    store.save_call(call())
    store.save_call(replace(ENDED, outcome="success", exit_code=0))
    assert [ENDED] == store.calls()


def test_calls_are_newest_first(store: SqlStore) -> None:
    for age in (2, 0, 1):
        store.save_call(call(f"c{age}", started_at=NOW - timedelta(seconds=age)))
    assert ["c0", "c1", "c2"] == [c.call_id for c in store.calls()]
    assert ["c0"] == [c.call_id for c in store.calls(limit=1)]


def test_calls_without_a_living_owner_are_interrupted(store: SqlStore) -> None:
    """After a crash the call is interrupted and its route stopped, never re-armed (R-UTL-4)."""
    lost = {"kind": "utility", "owner_id": "o1", "owner_until": NOW, "state": State.ACTIVE, "turn_running": True}
    store.commit(create("lost", after=route("lost", parked_prompt="secret", deadline=NOW, **lost)))
    store.commit(create("alive", after=route("alive", **lost | {"owner_until": NOW + timedelta(microseconds=1)})))
    store.commit(create("session", after=route("session", **lost | {"kind": "session"})))
    store.commit(create("done", after=route("done", **lost | {"state": State.STOPPED})))
    for number, session in enumerate(("lost", "alive", "session", "done")):
        store.save_call(call(f"c{number}", session_id=session))
    store.save_call(replace(ENDED, call_id="ended", session_id="lost"))
    others = {name: store.load(name) for name in ("alive", "session", "done")}

    store.commit(advance(store.load("lost") or route(), to={}, new_attempt=attempt(session_id="lost")))

    assert Interrupted(1, (attempt(session_id="lost"),)) == store.interrupt_calls(now=NOW)

    stopped = store.load("lost")
    assert stopped is not None
    assert (State.STOPPED, Reason.CALL_ENDED, 3) == (stopped.state, stopped.reason, stopped.revision)
    assert (None, None, None, False) == (
        stopped.owner_id,
        stopped.deadline,
        stopped.parked_prompt,
        stopped.turn_running,
    )
    assert replace(call("c0", session_id="lost"), outcome="interrupted", ended_at=NOW) == store.call("c0")
    assert "waiting" == (store.call("ended") or call()).outcome
    assert [None] * 3 == [(store.call(f"c{n}") or ENDED).outcome for n in (1, 2, 3)]
    assert others == {name: store.load(name) for name in others}
    assert 0 == store.interrupt_calls(now=NOW).calls


def test_an_owner_that_comes_back_late_finds_the_door_closed(store: SqlStore) -> None:
    mine = store.commit(create(after=route(kind="utility", owner_id="o1", owner_until=NOW))).route
    store.interrupt_calls(now=NOW)
    with pytest.raises(StaleRevision):
        store.commit(advance(mine))


def test_the_first_installation_key_stays(store: SqlStore) -> None:
    """R-CIR-3."""
    first, second = (new_installation_key(bytes([n]) * 32) for n in (0, 1))
    assert first == store.installation_key(first)
    assert first == store.installation_key(second)

"""Circuits in the store (R-CIR): changed only inside a transaction, admitted all or none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from kandev_routing_sdk.circuits import ArmedRetry, Circuit, ResourceKey, make_due, reset
from kandev_routing_sdk.errors import NotAdmitted
from kandev_routing_sdk.ports import Admit, CircuitHandedBack, CircuitSucceeded, CircuitTransition
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.types import CircuitState, Code, Scope
from tests.store._values import ACCOUNT, MODEL, NOW, PROFILE, advance, create, event, failure, route

RESET = NOW + timedelta(hours=1)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with open_store(database_url) as store:
        yield store


def admit(*keys: ResourceKey, token: str = "t1", lease_s: float = 60.0) -> Admit:
    return Admit(keys=keys, token=token, owner="o1", lease_s=lease_s)


def opened(store: SqlStore, *keys: ResourceKey, until: datetime = RESET) -> dict[str, Circuit]:
    """Open ``keys`` until ``until``."""
    store.change_circuits([failure(key, due_at=until) for key in keys], now=NOW)
    return dict(store.circuit_view(keys))


def test_a_failure_opens_in_the_transition_that_books_it(store: SqlStore) -> None:
    committed = store.commit(create(circuits=(failure(ACCOUNT, due_at=RESET),)))
    [circuit] = store.circuits()
    assert (CircuitState.OPEN, RESET, ACCOUNT) == (circuit.state, circuit.deadline, circuit.key)
    assert (CircuitTransition(None, circuit),) == committed.transitions
    assert {ACCOUNT.key: circuit} == store.circuit_view([MODEL, ACCOUNT, PROFILE])


def test_every_field_comes_back(store: SqlStore) -> None:
    key = ResourceKey("network:acme:here", Scope.PROVIDER, "acme", "m", "p", "here", version=3)
    arm = ArmedRetry(token="t", owner="o", due_at=NOW + timedelta(seconds=7), ttl=timedelta(seconds=9))
    [change] = store.change_circuits([failure(key, arm=arm)], now=NOW)
    before = change.after
    full = replace(
        before,
        key_version=2,
        ladder_step=4,
        backoff_s=0.1 + 0.2,
        action_required=True,
        last_success_at=NOW - timedelta(days=1),
        closed_at=NOW - timedelta(microseconds=1),
    )
    assert store.put_circuit(before, full)
    assert [full] == store.circuits()
    assert None not in {
        full.code,
        full.confidence,
        full.probe_token,
        full.probe_owner,
        full.probe_until,
        full.probe_since,
    }


def test_what_does_not_qualify_leaves_no_row(store: SqlStore) -> None:
    assert [] == store.change_circuits([failure(code=Code.TASK_ERROR)], now=NOW)
    assert [] == store.change_circuits([CircuitSucceeded(ACCOUNT, "t"), CircuitHandedBack(MODEL, "t")], now=NOW)
    assert [] == store.change_circuits([], now=NOW)
    assert [] == store.circuits()


def test_more_evidence_is_no_transition(store: SqlStore) -> None:
    opened(store, ACCOUNT)
    assert [] == store.change_circuits([failure(ACCOUNT, due_at=NOW + timedelta(minutes=1))], now=NOW)
    [circuit] = store.circuits()
    assert (2, RESET) == (circuit.failures, circuit.deadline)


def test_changes_apply_in_their_order(store: SqlStore) -> None:
    opened(store, ACCOUNT)
    store.commit(create(admit=admit(ACCOUNT), now=RESET))
    transitions = store.change_circuits(
        [CircuitSucceeded(ACCOUNT, "t1"), failure(ACCOUNT, due_at=RESET + timedelta(hours=2))], now=RESET
    )
    assert [(CircuitState.HALF_OPEN, CircuitState.OPEN)] == [
        (t.before and t.before.state, t.after.state) for t in transitions
    ]
    assert RESET + timedelta(hours=2) == store.circuits()[0].deadline


def test_closed_and_unknown_circuits_admit_without_a_lease(store: SqlStore) -> None:
    committed = store.commit(create(admit=admit(ACCOUNT, MODEL, PROFILE)))
    assert ((), ()) == (committed.leased, committed.transitions)
    assert [] == store.circuits()


def test_an_open_circuit_refuses_and_nothing_is_written(store: SqlStore) -> None:
    """R-CIR-8."""
    before = opened(store, ACCOUNT)
    with pytest.raises(NotAdmitted) as caught:
        store.commit(create(admit=admit(MODEL, ACCOUNT), events=(event(),), circuits=(failure(PROFILE),)))
    assert (ACCOUNT.key, RESET) == (caught.value.key, caught.value.until)
    assert store.load("s1") is None
    assert ([], list(before.values())) == (store.events(), store.circuits())


def test_leases_are_taken_all_or_none_in_key_order(store: SqlStore) -> None:
    """R-CIR-8: the first key is due, the second is not."""
    opened(store, ACCOUNT, until=NOW + timedelta(minutes=1))
    opened(store, MODEL, until=RESET)
    before = store.circuits()
    with pytest.raises(NotAdmitted):
        store.commit(create(admit=admit(MODEL, ACCOUNT), now=NOW + timedelta(minutes=2)))
    assert before == store.circuits()
    committed = store.commit(create(admit=admit(PROFILE, MODEL, ACCOUNT), now=RESET))
    assert (ACCOUNT, MODEL) == committed.leased
    assert [CircuitState.HALF_OPEN] * 2 == [t.after.state for t in committed.transitions]


def test_the_transition_s_own_failure_counts_before_its_admission(store: SqlStore) -> None:
    with pytest.raises(NotAdmitted):
        store.commit(create(circuits=(failure(ACCOUNT, due_at=RESET),), admit=admit(ACCOUNT)))
    assert [] == store.circuits()


def test_one_lease_at_a_time_and_it_expires(store: SqlStore) -> None:
    opened(store, ACCOUNT)
    first = store.commit(create("s1", admit=admit(ACCOUNT, token="t1", lease_s=30), now=RESET))
    assert (ACCOUNT,) == first.leased
    until = RESET + timedelta(seconds=30)
    with pytest.raises(NotAdmitted) as caught:
        store.commit(create("s2", admit=admit(ACCOUNT, token="t2"), now=until - timedelta(microseconds=1)))
    assert until == caught.value.until
    assert (ACCOUNT,) == store.commit(create("s2", admit=admit(ACCOUNT, token="t2"), now=until)).leased
    # The late result of the older lease is ignored (R-CIR-6).
    assert [] == store.change_circuits([CircuitSucceeded(ACCOUNT, "t1")], now=until)
    [change] = store.change_circuits([CircuitSucceeded(ACCOUNT, "t2")], now=until)
    assert CircuitState.CLOSED is change.after.state


def test_a_neutral_end_hands_the_lease_back(store: SqlStore) -> None:
    opened(store, ACCOUNT)
    route_ = store.commit(create(admit=admit(ACCOUNT), now=RESET)).route
    store.commit(advance(route_, circuits=(CircuitHandedBack(ACCOUNT, "t1"),), now=RESET))
    [circuit] = store.circuits()
    assert (CircuitState.OPEN, RESET, None) == (circuit.state, circuit.deadline, circuit.probe_token)


def test_a_person_s_change_is_compared_and_swapped(store: SqlStore) -> None:
    before = opened(store, ACCOUNT)[ACCOUNT.key]
    due = make_due(before, NOW)
    closed = reset(before, NOW)
    assert store.put_circuit(before, closed)
    assert not store.put_circuit(before, due)
    assert [closed] == store.circuits()
    with pytest.raises(ValueError, match="key"):
        store.put_circuit(closed, replace(closed, key=MODEL))


def test_a_missing_circuit_is_closed_to_a_person_too(store: SqlStore) -> None:
    closed = Circuit(key=ACCOUNT, updated_at=NOW)
    shut = replace(closed, state=CircuitState.OPEN, action_required=True)
    assert not store.put_circuit(shut, closed)
    assert store.put_circuit(closed, shut)
    assert [shut] == store.circuits()


def test_any_number_of_keys_is_looked_up(store: SqlStore) -> None:
    keys = [ResourceKey(f"profile:{n:03}", Scope.PROFILE, profile_id=str(n)) for n in range(70)]
    opened(store, *keys[::2])
    assert {k.key for k in keys[::2]} == set(store.circuit_view(keys))
    assert {keys[2].key} == set(store.circuit_view(keys[1:4] * 3))
    assert {} == store.circuit_view([])


def test_first_failures_at_the_same_moment_all_count(store: SqlStore) -> None:
    """R-CIR-5: the first one opens, later ones add evidence; none is lost, and crossing orders do not lock each other out."""
    both = [failure(ACCOUNT, due_at=RESET), failure(MODEL, due_at=RESET)]

    def fails(number: int) -> int:
        changes = both if number % 2 else both[::-1]
        return len(store.change_circuits(changes, now=NOW))

    with ThreadPoolExecutor(8) as pool:
        changed = list(pool.map(fails, range(24)))
    assert 2 == sum(changed)
    assert [24, 24] == [c.failures for c in store.circuits()]


def test_an_admission_can_belong_to_an_advance(store: SqlStore) -> None:
    opened(store, ACCOUNT)
    first = store.commit(create(after=route())).route
    with pytest.raises(NotAdmitted):
        store.commit(advance(first, admit=admit(ACCOUNT)))
    assert first == store.load("s1")

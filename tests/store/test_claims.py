"""Who may take which session, and who gets it when many want it (R-DUR-4, R-ENG-8)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kandev_routing_sdk.circuits import FailureFact, ResourceKey, make_due
from kandev_routing_sdk.errors import NotAdmitted, StaleRevision, StoreError
from kandev_routing_sdk.records import (
    ActionRecord,
    Admit,
    CircuitFailed,
    Claim,
    DecisionRecord,
    DecisionSort,
    Wait,
)
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.types import Code, Confidence, Scope
from tests.store._values import ACCOUNT, MODEL, NOW, advance, create, route

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with open_store(database_url) as store:
        yield store


def put(store: SqlStore, session_id: str, state: State, *, waits: tuple[Wait, ...] = (), **changes: Any) -> Route:
    after = route(session_id, state=state, **changes)
    return store.commit(create(session_id, after=after, waits_for=waits)).route


def claimed(store: SqlStore, why: Claim, at: datetime = NOW, limit: int = 10, owner: str = "me") -> list[str]:
    found = store.claim(why, now=at, owner_id=owner, until=at + MINUTE, limit=limit)
    return [r.session_id for r in found]


def opens(store: SqlStore, key: ResourceKey, code: Code, due: datetime | None = None) -> None:
    fact = FailureFact(code=code, confidence=Confidence.HIGH, due_at=due, exhausted=True)
    store.change_circuits([CircuitFailed(key, fact, 0.5)], now=NOW)


@pytest.mark.parametrize("why", [Claim.DUE, Claim.LOST, Claim.RECOVERED])
def test_what_cannot_be_read_is_told_and_stands_before_nobody(store: SqlStore, why: Claim, database_url: str) -> None:
    """R-DUR-4: written by another version, say; the others are taken at the next look, and it is told again later."""
    early, late = NOW - 2 * SECOND, NOW - SECOND
    for name, at in (("broken", early), ("sound", late)):
        match why:
            case Claim.DUE:
                put(store, name, State.WAITING, deadline=at)
            case Claim.LOST:
                put(store, name, State.STARTING, owner_id="dead", owner_until=at)
            case _:
                put(store, name, State.WAITING, waits=(Wait(ACCOUNT.key),))
    if why is Claim.RECOVERED:
        opens(store, ACCOUNT, Code.AUTH_REQUIRED)
        (circuit,) = store.circuits()
        assert store.put_circuit(circuit, make_due(circuit, NOW))
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE kr_session SET body = '{\"round\": \"later\"}' WHERE session_id = 'broken'"))
    engine.dispose()
    with pytest.raises(StoreError, match="holds a row that this version cannot read"):
        claimed(store, why)
    assert ["sound"] == claimed(store, why)
    assert [] == claimed(store, why)
    with pytest.raises(StoreError, match="cannot read"):
        claimed(store, Claim.LOST, NOW + MINUTE)


def test_what_is_due_is_taken_in_order_and_once(store: SqlStore) -> None:
    put(store, "late", State.WAITING, deadline=NOW - SECOND)
    put(store, "later", State.RETRY_WAIT, deadline=NOW - 3 * SECOND)
    put(store, "exact", State.WAITING_FOR_RESET, deadline=NOW)
    put(store, "not yet", State.WAITING, deadline=NOW + SECOND)
    put(store, "no wait", State.ACTION_REQUIRED, deadline=NOW - SECOND)
    put(store, "a call", State.RETRY_WAIT, kind="utility", deadline=NOW - SECOND)
    put(store, "owned", State.RETRY_WAIT, deadline=NOW - SECOND, owner_id="you", owner_until=NOW + SECOND)
    assert ["later", "late"] == claimed(store, Claim.DUE, limit=2)
    assert ["exact"] == claimed(store, Claim.DUE)
    assert [] == claimed(store, Claim.DUE)
    assert ["owned", "not yet"] == claimed(store, Claim.DUE, NOW + SECOND)


def test_whoever_had_it_before_can_commit_nothing(store: SqlStore) -> None:
    """A claim is a revision (design §2): two workers, a timer and a person, exactly one commits."""
    before = put(store, "s1", State.RETRY_WAIT, deadline=NOW)
    (mine,) = store.claim(Claim.DUE, now=NOW, owner_id="me", until=NOW + MINUTE, limit=1)
    assert (before.revision + 1, "me", NOW + MINUTE) == (mine.revision, mine.owner_id, mine.owner_until)
    assert mine == store.load("s1")
    with pytest.raises(StaleRevision):
        store.commit(advance(before, after=before.model_copy(update={"state": State.STOPPED}), now=NOW))
    store.commit(advance(mine, after=mine.model_copy(update={"state": State.RETRYING}), now=NOW))


def test_what_its_owner_lost_is_taken_whatever_its_state(store: SqlStore) -> None:
    """R-ENG-8: not before the lease ends, and never a call (it is interrupted); also one whose stop was not seen through."""
    for state in State:
        put(store, state.value, state, owner_id="you", owner_until=NOW)
    put(store, "live", State.ACTIVE, owner_id="you", owner_until=NOW + SECOND)
    put(store, "call", State.ACTIVE, kind="utility", owner_id="you", owner_until=NOW)
    put(store, "free", State.ACTIVE)
    put(store, "over", State.STOPPED)
    found = claimed(store, Claim.LOST, limit=100)
    assert sorted(s.value for s in State) == sorted(found)
    assert ["live"] == claimed(store, Claim.LOST, NOW + SECOND)


def test_a_closed_circuit_frees_who_waits_for_it(store: SqlStore) -> None:
    opens(store, ACCOUNT, Code.QUOTA_LIMITED, NOW + 60 * MINUTE)
    opens(store, MODEL, Code.MODEL_CAPACITY)
    wait = Wait(ACCOUNT.key)
    put(store, "s1", State.WAITING, deadline=NOW + 60 * MINUTE, waits=(wait, Wait(MODEL.key)))
    put(store, "s2", State.WAITING_FOR_RESET, deadline=NOW + 60 * MINUTE, waits=(Wait(ACCOUNT.key, until_closed=True),))
    put(store, "s3", State.WAITING, deadline=NOW + 60 * MINUTE)
    assert [] == claimed(store, Claim.RECOVERED)
    (account, _) = store.circuits()
    assert store.put_circuit(account, replace(account, state=account.state.CLOSED, deadline=None))
    assert {"s1", "s2"} == set(claimed(store, Claim.RECOVERED)), "each once, however many of its circuits closed"
    assert [] == claimed(store, Claim.RECOVERED), "they have an owner now"


def test_what_may_be_probed_frees_only_who_can_use_that(store: SqlStore) -> None:
    """R-CIR-7: a circuit that was made due; not while somebody probes it, and not for who needs it closed."""
    opens(store, ACCOUNT, Code.AUTH_REQUIRED)
    put(store, "asks", State.ACTION_REQUIRED, waits=(Wait(ACCOUNT.key),))
    put(store, "needs it closed", State.ACTION_REQUIRED, waits=(Wait(ACCOUNT.key, until_closed=True),))
    assert [] == claimed(store, Claim.RECOVERED)
    (circuit,) = store.circuits()
    assert store.put_circuit(circuit, make_due(circuit, NOW))
    assert (ACCOUNT,) == store.admit(Admit((ACCOUNT,), "probe", "you", 30), now=NOW)
    assert [] == claimed(store, Claim.RECOVERED), "somebody is finding out"
    assert ["asks"] == claimed(store, Claim.RECOVERED, NOW + MINUTE)


def test_however_many_circuits_close_at_once(store: SqlStore) -> None:
    """More than one statement asks for, closed and to be probed: everybody is found, and no more than wanted."""
    accounts = [ResourceKey(f"account:acme:v1:{n:064x}", Scope.ACCOUNT, provider_id="acme") for n in range(70)]
    for number, key in enumerate(accounts):
        opens(store, key, Code.AUTH_REQUIRED)
        put(store, f"s{number}", State.WAITING, deadline=NOW + 60 * MINUTE, waits=(Wait(key.key),))
    for number, circuit in enumerate(store.circuits()):
        due = make_due(circuit, NOW) if number % 2 else replace(circuit, state=circuit.state.CLOSED, deadline=None)
        assert store.put_circuit(circuit, due)
    first = claimed(store, Claim.RECOVERED, limit=50)
    second = claimed(store, Claim.RECOVERED, limit=50)
    assert (50, 20) == (len(first), len(second))
    assert {f"s{n}" for n in range(70)} == {*first, *second}


def test_leaving_ends_the_wait(store: SqlStore) -> None:
    opens(store, ACCOUNT, Code.QUOTA_LIMITED, NOW + MINUTE)
    before = put(store, "s1", State.WAITING, deadline=NOW + 60 * MINUTE, waits=(Wait(ACCOUNT.key),))
    again = before.model_copy(update={"deadline": NOW + 50 * MINUTE})
    again = store.commit(advance(before, after=again, now=NOW, waits_for=(Wait(MODEL.key),))).route
    assert [] == claimed(store, Claim.RECOVERED, NOW + MINUTE), "it waits for something else now"
    gone = again.model_copy(update={"state": State.SELECTING})
    gone = store.commit(advance(again, after=gone, now=NOW)).route
    back = gone.model_copy(update={"state": State.WAITING})
    store.commit(advance(gone, after=back, now=NOW))
    assert [] == claimed(store, Claim.RECOVERED, NOW + MINUTE)


def test_a_lease_is_given_up_by_its_owner_only(store: SqlStore) -> None:
    put(store, "s1", State.SELECTING, owner_id="me", owner_until=NOW + MINUTE)
    assert not store.release("s1", owner_id="you")
    assert store.release("s1", owner_id="me", at=NOW)
    assert ["s1"] == claimed(store, Claim.LOST, owner="you"), "it counts as lost at once"
    assert store.release("s1", owner_id="you")
    assert [] == claimed(store, Claim.LOST, NOW + 60 * MINUTE), "nobody's"
    assert not store.release("s1", owner_id="you")


def test_many_claim_at_once_and_none_gets_what_another_has(database_url: str) -> None:
    """R-PRF-6."""
    with open_store(database_url) as store:
        for i in range(40):
            put(store, f"s{i:02}", State.WAITING, deadline=NOW)

        def take(owner: int) -> list[str]:
            found: list[str] = []
            while got := claimed(store, Claim.DUE, limit=3, owner=f"w{owner}"):
                found += got
            return found

        with ThreadPoolExecutor(4) as threads:
            taken = [s for found in threads.map(take, range(4)) for s in found]
        assert [f"s{i:02}" for i in range(40)] == sorted(taken)


def test_leases_are_taken_early_only_for_a_person(store: SqlStore) -> None:
    """R-ENG-6: a deadline does not refuse a person, a live lease of somebody else does."""
    opens(store, ACCOUNT, Code.QUOTA_LIMITED, NOW + MINUTE)
    with pytest.raises(NotAdmitted):
        store.admit(Admit((ACCOUNT,), "t1", "me", 30), now=NOW)
    assert (ACCOUNT,) == store.admit(Admit((ACCOUNT,), "t1", "me", 30, early=True), now=NOW)
    with pytest.raises(NotAdmitted):
        store.admit(Admit((ACCOUNT,), "t2", "you", 30, early=True), now=NOW)


def test_decisions_and_actions_are_kept_with_the_revision_they_made(store: SqlStore) -> None:
    """R-ENG-7, R-ENG-11."""
    before = put(store, "s1", State.WAITING, deadline=NOW)
    decision = DecisionRecord(DecisionSort.SELECTION, {"now": "…", "n": [1, None]}, {"chosen": None})
    action = ActionRecord("id-1", "cancel_wait", 0)
    after = before.model_copy(update={"state": State.ACTION_REQUIRED, "reason": Reason.USER_ACTION})
    store.commit(advance(before, after=after, now=NOW + SECOND, decision=decision, action=action))
    assert [replace(decision, revision=2, at=NOW + SECOND)] == store.decisions("s1")
    assert replace(action, revision=2) == store.action("s1", "id-1")
    assert None is store.action("s1", "id-2")
    assert None is store.action("s2", "id-1")


def test_sessions_are_paged_newest_first(store: SqlStore) -> None:
    for i in range(7):
        put(store, f"s{i}", State.WAITING if i % 2 else State.ACTIVE, created_at=NOW + timedelta(seconds=i // 2))
    seen: list[str] = []
    last: Route | None = None
    while page := store.sessions(before=last, limit=2):
        last = page[-1]
        seen += [r.session_id for r in page]
    assert ["s6", "s5", "s4", "s3", "s2", "s1", "s0"] == seen
    assert ["s3", "s1"] == [
        r.session_id for r in store.sessions(states=[State.WAITING], before=store.load("s5"), limit=9)
    ]
    assert [] == store.sessions(states=[])

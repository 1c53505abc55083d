"""What the store does when others are in the way, or the server is gone (R-DUR-6)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from kandev_routing_sdk.errors import NotAdmitted, StoreError, StoreUnavailable
from kandev_routing_sdk.store import SqlStore, failures, open_store, routes
from kandev_routing_sdk.store.failures import Retry
from tests.store._values import NOW, advance, create, event


class CountingClock:
    """Waits without waiting."""

    def __init__(self) -> None:
        self.time, self.waits = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.time

    def block(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


def busy_sqlite() -> Exception:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY_SNAPSHOT, "SQLITE_BUSY_SNAPSHOT"
    return error


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


@pytest.fixture
def store(database_url: str, clock: CountingClock) -> Any:
    with open_store(database_url, clock=clock, timeout_s=5) as store:
        yield store


@pytest.fixture
def in_the_way(database_url: str) -> Callable[[], Exception]:
    return busy_sqlite if database_url.startswith("sqlite") else psycopg.errors.DeadlockDetected


def failing(monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], times: int) -> list[int]:
    """Let the last statement of a commit fail ``times`` times, after everything else was written."""
    real, calls = routes.add_events, list[int]()

    def add_events(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) <= times:
            raise error()
        return real(*arguments)

    monkeypatch.setattr(routes, "add_events", add_events)
    return calls


def test_a_transaction_in_whose_way_others_were_is_made_anew(
    store: SqlStore, clock: CountingClock, in_the_way: Callable[[], Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deadlock and serialisation failure on PostgreSQL, busy on SQLite: the whole transaction again, once it counts."""
    first = store.commit(create()).route
    calls = failing(monkeypatch, in_the_way, 3)
    committed = store.commit(advance(first, events=(event(),)))
    assert (4, 2) == (len(calls), committed.route.revision)
    assert list(committed.events) == store.events()
    assert len(clock.waits) <= 3


def test_the_retries_are_bounded_by_time(
    store: SqlStore, clock: CountingClock, in_the_way: Callable[[], Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.commit(create()).route
    failing(monkeypatch, in_the_way, 10_000)
    with pytest.raises(StoreUnavailable, match="locked"):
        store.commit(advance(first, events=(event(),)))
    assert 0 < clock.time < 5 + 1
    monkeypatch.undo()
    assert first == store.load("s1")
    assert 2 == store.commit(advance(first)).route.revision


def test_other_errors_are_typed_and_not_retried(
    store: SqlStore, clock: CountingClock, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver: type[Exception] = (
        sqlite3.DatabaseError if database_url.startswith("sqlite") else psycopg.errors.CheckViolation
    )
    calls = failing(monkeypatch, lambda: driver("canary"), 1)
    with pytest.raises(StoreError) as caught:
        store.commit(create(events=(event(),)))
    assert "canary" not in str(caught.value)
    assert (1, [], []) == (len(calls), clock.waits, store.sessions())


def test_a_bug_of_the_caller_rolls_back_too(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda: NotAdmitted("key", NOW), 1)
    with pytest.raises(NotAdmitted):
        store.commit(create(events=(event(),)))
    failing(monkeypatch, KeyError, 1)
    with pytest.raises(KeyError):
        store.commit(create(events=(event(),)))
    monkeypatch.undo()
    assert [] == store.sessions()


SQLSTATES = {
    "40001": (StoreUnavailable, Retry.SOON),
    "40P01": (StoreUnavailable, Retry.SOON),
    "55P03": (StoreUnavailable, Retry.SOON),
    "57014": (StoreUnavailable, Retry.SOON),
    "25P03": (StoreUnavailable, Retry.RECONNECT),
    "53200": (StoreUnavailable, Retry.NO),
    "58030": (StoreUnavailable, Retry.NO),
    "XX001": (StoreUnavailable, Retry.NO),
    "57P04": (StoreUnavailable, Retry.NO),
    "57P01": (StoreUnavailable, Retry.RECONNECT),
    "08006": (StoreUnavailable, Retry.RECONNECT),
    "53100": (StoreUnavailable, Retry.NO),
    "28P01": (StoreUnavailable, Retry.NO),
    "3D000": (StoreUnavailable, Retry.NO),
    "42P01": (StoreUnavailable, Retry.NO),
    "23505": (StoreError, Retry.NO),
}


@pytest.mark.parametrize("state", list(SQLSTATES))
def test_each_sqlstate_is_judged(state: str) -> None:
    error, retry = failures.from_postgresql(psycopg.errors.lookup(state)("canary"), "the database", lost=False)
    assert SQLSTATES[state] == (type(error), retry)
    assert str(error).startswith("the database ")
    assert "canary" not in str(error)

"""Faults at every step of every transaction that writes: the steps are counted as they happen, never listed by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

import psycopg

from kandev_routing_sdk.binding import new_installation_key
from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.errors import StoreError
from kandev_routing_sdk.records import (
    ActionRecord,
    Admit,
    CircuitHandedBack,
    Claim,
    DecisionRecord,
    DecisionSort,
    ProfileChange,
    Wait,
)
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.types import DispatchMark, Scope
from tests.store._values import NOW, advance, attempt, call, create, event, failure, made, route, selection, settled

MINUTE = timedelta(minutes=1)
TIMEOUT_S: Final = 10.0
Fault = Callable[[Any], None]
"""Is given the driver's connection before a step, and raises what the driver raises, or sees to it that the step will."""


class CountingClock:
    """Waits without waiting."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def block(self, seconds: float) -> None:
        self.time += seconds


class Tripwire:
    """Stands between a store and its driver: BEGIN, each statement and COMMIT of a transaction that writes are its steps."""

    def __init__(self, store: SqlStore) -> None:
        engine = store._database.engine
        self._connect = engine.raw_connection
        setattr(engine, "raw_connection", self._watched)  # noqa: B010  # an instance's method
        store._database.forget_connections()
        self._fault: Fault | None = None
        self._at = self._first = self._left = 0
        self.hits = 0
        self.begun = 0
        """How many transactions began since it was armed, or made."""

    def _watched(self) -> Any:
        return _Connection(self._connect(), self)

    @contextmanager
    def armed(self, fault: Fault, *, at: int, first: int = 1, times: int = 1_000_000) -> Iterator[None]:
        """Put ``fault`` before step ``at`` (from 1; -1 is COMMIT) of the transactions from the ``first`` on, so many times."""
        self._fault, self._at, self._first, self._left, self.hits, self.begun = fault, at, first, times, 0, 0
        try:
            yield
        finally:
            self._fault = None

    def begins(self) -> int:
        self.begun += 1
        return self.begun

    def step(self, connection: Any, transaction: int, step: int) -> None:
        if self._fault is not None and self._left > 0 and transaction >= self._first and step == self._at:
            self._left -= 1
            self.hits += 1
            self._fault(connection.driver_connection)


class _Connection:
    def __init__(self, connection: Any, wire: Tripwire) -> None:
        self._connection, self._wire = connection, wire
        self._transaction = self._steps = 0

    def cursor(self) -> Any:
        return _Cursor(self._connection.cursor(), self)

    def execute(self, statement: str | bytes) -> None:
        """Say that this comes next."""
        if statement[:5] in {"BEGIN", b"BEGIN"}:
            self._transaction, self._steps = self._wire.begins(), 0
        if self._transaction:
            self._steps += 1
            self._wire.step(self, self._transaction, self._steps)

    def commit(self) -> None:
        self.execute("COMMIT")
        self._wire.step(self, self._transaction, -1)
        self._connection.commit()
        self._transaction = 0

    def rollback(self) -> None:
        self._transaction = 0
        self._connection.rollback()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _Cursor:
    def __init__(self, cursor: Any, connection: _Connection) -> None:
        self._cursor, self._connection = cursor, connection

    def execute(self, statement: str | bytes, *arguments: Any) -> Any:
        self._connection.execute(statement)
        return self._cursor.execute(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


# --- what writes ---


class Write(NamedTuple):
    """One call that writes. Its ``number`` makes it independent of all others."""

    method: str
    act: Callable[[SqlStore, int], object]
    set_up: Callable[[SqlStore, int], object] = lambda store, number: None


def _key(number: int, name: str = "a") -> ResourceKey:
    return ResourceKey(f"account:acme:v1:{name}{number}", Scope.ACCOUNT, provider_id="acme")


def _opened(store: SqlStore, number: int, *names: str) -> None:
    store.change_circuits([failure(_key(number, name), due_at=NOW + MINUTE) for name in names], now=NOW)


def _begun(store: SqlStore, number: int, **changes: Any) -> None:
    _opened(store, number, "b", "c")
    after = route(f"s{number}", state=State.WAITING, **changes)
    store.commit(create(after=after, waits_for=(Wait(_key(number, "b").key),)))


def _running(store: SqlStore, number: int) -> None:
    _begun(store, number, owner_id="me", owner_until=NOW + MINUTE)
    store.commit(advance(_loaded(store, number), new_attempt=_attempt(number)))
    store.admit(Admit((_key(number, "b"),), f"t{number}", "me", 30), now=NOW + MINUTE)


def _interrupted(store: SqlStore, number: int) -> None:
    owned = {"kind": "utility", "owner_id": "you", "owner_until": NOW, "state": State.ACTIVE}
    store.commit(create(after=route(f"s{number}", **owned), new_attempt=_attempt(number)))
    store.save_call(call(f"c{number}", session_id=f"s{number}"))


def _loaded(store: SqlStore, number: int) -> Any:
    found = store.load(f"s{number}")
    assert found is not None
    return found


def _attempt(number: int, **changes: Any) -> Any:
    return attempt(f"a{number}", session_id=f"s{number}", **changes)


def _whole(store: SqlStore, number: int) -> object:
    """A commit with everything that one can hold."""
    step = advance(
        _loaded(store, number),
        to={"state": State.WAITING, "generation": 1},
        selection=selection(),
        new_attempt=_attempt(number),
        events=(event(number=number), event(number=-number)),
        circuits=(failure(_key(number, "a"), due_at=NOW + MINUTE), CircuitHandedBack(_key(number, "c"), "nobody")),
        admit=Admit((_key(number, "b"),), f"t{number}", "me", 30),
        decision=DecisionRecord(DecisionSort.SELECTION, {"n": number}, {"kind": "skip"}, attempt_id=f"a{number}"),
        action=ActionRecord(f"x{number}", "retry_now", 0),
        waits_for=(Wait(_key(number, "a").key), Wait(_key(number, "c").key)),
        now=NOW + MINUTE,
    )
    done = store.commit(step)
    return replace(done, events=tuple(replace(e, sequence=0) for e in done.events))


def _put(store: SqlStore, number: int) -> bool:
    key = _key(number, "b").key
    before = store.circuit_view([_key(number, "b")])[key]
    return store.put_circuit(before, replace(before, deadline=NOW, updated_at=NOW + MINUTE))


def _again(store: SqlStore, number: int) -> object:
    """More of the same failure: no transition to be told of, and yet something to be written."""
    return store.change_circuits([failure(_key(number, "b"), due_at=NOW + 2 * MINUTE)], now=NOW + MINUTE)


WRITES: Final = (
    Write("commit", lambda store, n: store.commit(create(f"s{n}", events=(event(),))).route),
    Write("commit", _whole, _begun),
    Write(
        "commit",
        lambda store, n: store.commit(advance(_loaded(store, n), update_attempt=settled(_attempt(n)))).route,
        _running,
    ),
    Write(
        "mark_attempt",
        lambda store, n: store.mark_attempt(_attempt(n, mark=DispatchMark.DISPATCHING, process_group=n)),
        _running,
    ),
    Write(
        "renew",
        lambda store, n: store.renew(
            f"s{n}", owner_id="me", until=NOW + 2 * MINUTE, lease_token=f"t{n}", now=NOW + MINUTE
        ),
        _running,
    ),
    Write(
        "claim",
        lambda store, n: store.claim(Claim.DUE, now=NOW, owner_id="me", until=NOW + MINUTE, limit=1),
        lambda store, n: _begun(store, n, deadline=NOW),
    ),
    Write("release", lambda store, n: store.release(f"s{n}", owner_id="me", at=NOW), _running),
    Write(
        "change_circuits",
        lambda store, n: store.change_circuits([failure(_key(n)), failure(_key(n, "b"))], now=NOW),
        lambda store, n: _opened(store, n, "b"),
    ),
    Write(
        "append_events",
        lambda store, n: [
            e.params
            for e in store.append_events(_loaded(store, n), owner_id="me", events=(event(n=n), event(n=-n)), now=NOW)
            or ()
        ],
        _running,
    ),
    Write("change_circuits", _again, lambda store, n: _opened(store, n, "b")),
    Write(
        "admit",
        lambda store, n: store.admit(Admit((_key(n, "b"), _key(n, "c")), "token", "me", 30), now=NOW + MINUTE),
        lambda store, n: _opened(store, n, "b", "c"),
    ),
    Write("put_circuit", _put, lambda store, n: _opened(store, n, "b")),
    Write("save_call", lambda store, n: store.save_call(call(f"c{n}", session_id=f"s{n}"))),
    Write(
        "save_call",
        lambda store, n: store.save_call(call(f"c{n}", outcome="success", exit_code=0, ended_at=NOW)),
        lambda store, n: store.save_call(call(f"c{n}")),
    ),
    Write("interrupt_calls", lambda store, n: store.interrupt_calls(now=NOW), _interrupted),
    Write("change_profiles", lambda store, n: store.change_profiles(lambda _: [made(f"p{n}")], now=NOW)),
    Write(
        "change_profiles",
        lambda store, n: store.change_profiles(
            lambda _: [made(f"p{n}", 1, name="Other"), ProfileChange(f"q{n}", 1, None), made(f"r{n}")], now=NOW
        ),
        lambda store, n: store.change_profiles(lambda _: [made(f"p{n}"), made(f"q{n}")], now=NOW),
    ),
    Write("installation_key", lambda store, n: store.installation_key(new_installation_key(b"k" * 32))),
)


def writing_methods() -> set[str]:
    """The store's methods that write, told from their code."""

    def names(code: Any) -> set[str]:
        inner = (names(constant) for constant in code.co_consts if hasattr(constant, "co_names"))
        return set(code.co_names).union(*inner)

    return {
        name
        for name, method in vars(SqlStore).items()
        if hasattr(method, "__code__") and {"_database", "write"} <= names(method.__code__)
    }


# --- what is there ---


class Tables:
    """Reads all of a database's tables by a connection that is not the store's."""

    def __init__(self, url: str) -> None:
        self._sqlite = url.startswith("sqlite")
        self._connection: Any
        if self._sqlite:
            self._connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'kr%' ORDER BY name"
        else:
            self._connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        self._names = [name for (name,) in self._connection.execute(tables)]
        assert len(self._names) > 8

    def rows(self) -> dict[str, list[Any]]:
        """All rows. An event's number is how many came before it: PostgreSQL leaves gaps."""
        found = {name: sorted(self._connection.execute(f"SELECT * FROM {name}"), key=repr) for name in self._names}
        found["kr_event"] = [
            (number, *row[1:]) for number, row in enumerate(sorted(found["kr_event"], key=lambda row: row[0]))
        ]
        return found

    def close(self) -> None:
        self._connection.close()


class Bench:
    """A store, its driver's tripwire, and what is in its tables."""

    def __init__(self, store: SqlStore, tables: Tables) -> None:
        self.store, self.tables = store, tables
        self.wire = Tripwire(store)

    def fails_at_every_step(self, fault: Fault, expected: Callable[[StoreError], bool]) -> list[int]:
        """Let every write fail at every step for as long as the cause is there; return how many steps each one has.

        Once there is no such step, the write works: on the same store, from the same rows.
        """
        steps = []
        for number, write in enumerate(WRITES):
            write.set_up(self.store, number)
            before, at = self.tables.rows(), 1
            while (error := self._tried(write, number, fault, at)) is not None:
                assert expected(error), (write.method, number, at, error)
                assert before == self.tables.rows(), (write.method, number, at)
                at += 1
            assert before != self.tables.rows(), (write.method, number)
            steps.append(at - 1)
        return steps

    def _tried(self, write: Write, number: int, fault: Fault, at: int) -> StoreError | None:
        error: StoreError | None = None
        with self.wire.armed(fault, at=at):
            try:
                write.act(self.store, number)
            except StoreError as raised:
                error = raised
        assert (error is not None) == (self.wire.hits > 0), f"step {at} of {write.method} {number} failed unnoticed"
        return error


@contextmanager
def bench(url: str, clock: CountingClock) -> Iterator[Bench]:
    """A store that waits by ``clock``."""
    with open_store(url, clock=clock, timeout_s=TIMEOUT_S) as store:
        tables = Tables(url)
        try:
            yield Bench(store, tables)
        finally:
            tables.close()

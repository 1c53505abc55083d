"""What only a server does: it loses connections, cancels, finds cycles, ends, and starts again (R-DUR-6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count, cycle

import psycopg
import pytest
from psycopg import sql

from kandev_routing_sdk.errors import StaleRevision, StoreError, StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.records import Claim
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.store import SqlStore, codec, open_store
from tests._postgres import PostgresServer, running_server
from tests._processes import wait_for
from tests.store._faults import MINUTE, WRITES, CountingClock, Fault, Tripwire, bench
from tests.store._values import NOW, advance, create, event, route
from tests.store.test_faults import UNCHANGED, says


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


@pytest.fixture
def other(postgres_url: str) -> Iterator[psycopg.Connection]:
    """A connection that is not the store's."""
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def answers_with(clock: CountingClock, *states: str) -> Fault:
    """The server itself ends the transaction, with these SQLSTATEs in turn."""
    turns = cycle(states)

    def fault(connection: psycopg.Connection) -> None:
        clock.time += 6
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'canary' USING ERRCODE = '{next(turns)}'; END $$")

    return fault


def waits_too_long(clock: CountingClock) -> Fault:
    """In turn: somebody holds what the transaction needs for longer than it may wait; a statement does not come to its end."""
    turns = cycle(
        [
            ("SET LOCAL lock_timeout = '10ms'", "SELECT pg_advisory_xact_lock(7)"),
            ("SET LOCAL statement_timeout = '10ms'", "SELECT pg_sleep(60)"),
        ]
    )

    def fault(connection: psycopg.Connection) -> None:
        clock.time += 20
        with connection.transaction():  # of its own before BEGIN
            for statement in next(turns):
                connection.execute(statement)

    return fault


def loses_the_connection(clock: CountingClock, other: psycopg.Connection, *, seconds: float = 6) -> Fault:
    """The server ends the session, and the step that comes next finds out, so many seconds later."""

    def fault(connection: psycopg.Connection) -> None:
        clock.time += seconds
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])

    return fault


FAULTS: dict[str, Callable[[CountingClock, psycopg.Connection], tuple[Fault, Callable[[StoreError], bool]]]] = {
    "serialisation failure or disk full": lambda clock, _: (
        answers_with(clock, "40001", "40001", "53100"),
        says(StoreUnavailable, UNCHANGED, one_of=("locked", "free some space")),
    ),
    "lock or statement timeout": lambda clock, _: (
        waits_too_long(clock),
        says(StoreUnavailable, UNCHANGED, one_of=("locked", "took too long")),
    ),
    "lost connection": lambda clock, other: (
        loses_the_connection(clock, other, seconds=20),  # no time to try again: connecting costs the most
        says(StoreUnavailable, one_of=(UNCHANGED, "may or may not be stored")),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_server_refuses_at_each_step(
    postgres_url: str, clock: CountingClock, other: psycopg.Connection, fault: str
) -> None:
    other.execute("SELECT pg_advisory_lock(7)")
    with bench(postgres_url, clock) as b:
        steps = b.fails_at_every_step(*FAULTS[fault](clock, other))
    assert 3 == min(steps)
    assert 14 < max(steps)


def test_every_wait_has_an_end(postgres_url: str, other: psycopg.Connection) -> None:
    """R-PRF, R-DUR-6: for a lock, for a statement, for a process that stopped in mid-transaction; and what is confirmed is durable."""
    other.execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")
    try:
        with open_store(postgres_url, timeout_s=3) as store:
            connection = store._database.engine.raw_connection()
            cursor = connection.cursor()
            found = {}
            for name in (
                "lock_timeout",
                "statement_timeout",
                "idle_in_transaction_session_timeout",
                "synchronous_commit",
            ):
                cursor.execute(f"SHOW {name}")
                (found[name],) = cursor.fetchone() or ("",)
            connection.close()
    finally:
        other.execute("ALTER ROLE CURRENT_USER RESET synchronous_commit")
    assert {
        "lock_timeout": "3s",
        "statement_timeout": "6s",
        "idle_in_transaction_session_timeout": "18s",
        "synchronous_commit": "on",
    } == found


def test_a_database_that_only_takes_reads_refuses_every_write(
    postgres_url: str, postgres_server: PostgresServer, other: psycopg.Connection, clock: CountingClock
) -> None:
    """A standby, or maintenance."""
    with bench(postgres_url, clock) as b:
        for number, write in enumerate(WRITES):
            write.set_up(b.store, number)
        before = b.tables.rows()
        name = sql.Identifier(other.info.dbname)
        other.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
        b.store._database.forget_connections()  # as the server's restart would
        for number, write in enumerate(WRITES):
            with pytest.raises(StoreReadOnly) as caught:
                write.act(b.store, number)
            assert says(StoreReadOnly, UNCHANGED, "only takes reads")(caught.value)
        assert before == b.tables.rows()
        other.execute(sql.SQL("SET default_transaction_read_only = off; ALTER DATABASE {} RESET ALL").format(name))
        b.store._database.forget_connections()
        for number, write in enumerate(WRITES):
            write.act(b.store, number)


# --- what passes by itself ---


def commits_and_loses_the_answer(connection: psycopg.Connection) -> None:
    """The server did commit. Its answer never came."""
    connection.execute("COMMIT")
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    raise psycopg.OperationalError("canary: server closed the connection unexpectedly")


@pytest.fixture
def twin_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


@pytest.mark.parametrize("fault", ["in the way", "lost connection", "lost answer"])
def test_what_passes_by_itself_is_tried_again_and_counts_once(
    postgres_url: str, twin_url: str, other: psycopg.Connection, fault: str
) -> None:
    """Once at each step: answers and rows are those of a twin that nothing happened to (R-ENG-8: exactly one commit)."""
    clock = CountingClock()
    inject = {
        "in the way": answers_with(clock, "40001", "40P01"),
        "lost connection": loses_the_connection(clock, other),
        "lost answer": commits_and_loses_the_answer,
    }[fault]
    number = 0
    with bench(postgres_url, clock) as b, bench(twin_url, clock) as twin:
        for write in WRITES:
            steps = [-1] if fault == "lost answer" else range(1, 30)
            for at in steps:
                number += 1
                for each in (b, twin):
                    write.set_up(each.store, number)
                clock.time = 0
                with b.wire.armed(inject, at=at, times=1):
                    answer = write.act(b.store, number)
                assert answer == write.act(twin.store, number), (write.method, at)
                if not b.wire.hits:
                    break
            assert b.tables.rows() == twin.tables.rows(), write.method


# --- a commit of which nobody knows whether it counts ---


@contextmanager
def loses_one_answer(store: SqlStore, meanwhile: Callable[[], object]) -> Iterator[None]:
    """The next commit is made, its answer lost, and then something happens before anybody can ask."""

    def fault(connection: psycopg.Connection) -> None:
        try:
            commits_and_loses_the_answer(connection)
        finally:
            meanwhile()

    with Tripwire(store).armed(fault, at=-1, times=1):
        yield


def test_a_lease_that_was_renewed_meanwhile_does_not_hide_a_commit(
    postgres_url: str, other: psycopg.Connection
) -> None:
    """The heartbeat runs beside everything."""
    with open_store(postgres_url) as store:
        owned = route(owner_id="me", owner_until=NOW)
        first = store.commit(create(after=owned)).route
        renew = "UPDATE kr_session SET owner_until = owner_until + 5000000"
        with loses_one_answer(store, lambda: other.execute(renew)):
            assert 2 == store.commit(advance(first, events=(event(),))).route.revision
        assert 1 == len(store.events())


def test_who_was_moved_on_meanwhile_is_told_so(postgres_url: str, other: psycopg.Connection) -> None:
    """Somebody else's revision is the truth now, whoever made the one before it."""
    with open_store(postgres_url) as store, open_store(postgres_url) as theirs:
        store.commit(create())

        def moves_on() -> None:
            before = theirs.load("s1")
            assert before is not None
            theirs.commit(advance(before, to={"state": State.STOPPED}))

        first = store.load("s1")
        assert first is not None
        with loses_one_answer(store, moves_on), pytest.raises(StaleRevision):
            store.commit(advance(first, events=(event(),)))
        found = store.load("s1")
        assert found is not None
        assert (3, State.STOPPED, 1) == (found.revision, found.state, len(store.events()))


def test_a_claim_whose_answer_was_lost_is_not_lost(postgres_url: str) -> None:
    """Otherwise nobody would go on with these sessions until the lease ends, and others would be taken in their place."""
    with open_store(postgres_url) as store:
        for name in ("s1", "s2"):
            store.commit(create(name, after=route(name, state=State.WAITING, deadline=NOW)))
        with loses_one_answer(store, lambda: None):
            (mine,) = store.claim(Claim.DUE, now=NOW, owner_id="me", until=NOW + MINUTE, limit=1)
        assert mine == store.load(mine.session_id)
        (free,) = store.claim(Claim.DUE, now=NOW, owner_id="you", until=NOW + MINUTE, limit=5)
        assert {"s1", "s2"} == {mine.session_id, free.session_id}


def test_a_commit_that_is_still_under_way_is_waited_for(postgres_url: str, other: psycopg.Connection) -> None:
    """The connection is gone, the transaction not yet: what looks first finds nothing, and waits at the row (R-ENG-8)."""
    with open_store(postgres_url) as store:
        store.commit(create())
        first = store.load("s1")
        assert first is not None
        done = threading.Event()

        def still_committing(connection: psycopg.Connection) -> None:
            # The transaction moves to a connection that ends it later: to the store it looks like its own, cut off.
            connection.close()
            other.execute("BEGIN")
            values = codec.encode_route(advance(first).after)
            columns = ", ".join(f"{name} = %({name})s" for name in values)
            other.execute(f"UPDATE kr_session SET {columns} WHERE session_id = %(session_id)s", values)
            timer.start()
            raise psycopg.OperationalError("canary")

        def ends() -> None:
            other.execute("COMMIT")
            done.set()

        timer = threading.Timer(0.3, ends)
        with Tripwire(store).armed(still_committing, at=-1, times=1):
            assert 2 == store.commit(advance(first)).route.revision
        assert done.wait(5)


# --- a server that ends and starts again ---


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that nobody else needs meanwhile."""
    with running_server() as server:
        yield server


def test_a_process_that_was_stopped_in_mid_transaction_loses_it_and_makes_it_anew(
    postgres_url: str, other: psycopg.Connection
) -> None:
    """Nobody waits for its rows until it wakes up."""
    with open_store(postgres_url) as store:
        first = store.commit(create()).route

        def stops(connection: psycopg.Connection) -> None:
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
            wait_for(lambda: not other.execute(ours, [connection.info.backend_pid]).fetchall())

        ours = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        with Tripwire(store).armed(stops, at=-1, times=1):
            assert 2 == store.commit(advance(first, events=(event(),))).route.revision
        assert 1 == len(store.events())


def test_when_nobody_can_be_asked_the_error_says_that_nobody_knows(
    own_server: PostgresServer, clock: CountingClock
) -> None:
    with own_server.database() as url, bench(url, clock) as b:
        b.store.commit(create())

        def halts(connection: psycopg.Connection) -> None:
            connection.execute("COMMIT")
            own_server.halt()
            raise psycopg.OperationalError("canary")

        first = b.store.load("s1")
        assert first is not None
        with b.wire.armed(halts, at=-1), pytest.raises(StoreUnavailable, match="may or may not be stored") as caught:
            b.store.commit(advance(first))
        assert says(StoreUnavailable, "read the session again")(caught.value)
        assert UNCHANGED not in str(caught.value)
        with pytest.raises(StoreUnavailable, match=UNCHANGED):
            b.store.commit(advance(first))
        own_server.resume()
        assert 2 == (b.store.load("s1") or first).revision, "what was confirmed outlives a crash of the server"
        with pytest.raises(StaleRevision):
            b.store.commit(advance(first))


def test_a_server_that_starts_again_is_found_again(own_server: PostgresServer) -> None:
    """The same store before, during and after: what is in flight is made anew, once, and never half done."""
    with own_server.database() as url, open_store(url, timeout_s=60) as store:
        over = threading.Event()
        done: list[str] = []

        def writes() -> None:
            for number in count(1):
                if over.is_set():
                    return
                done.append(store.commit(create(f"s{number}", events=(event(), event()))).route.session_id)

        with ThreadPoolExecutor() as pool:
            writer = pool.submit(writes)

            def moves(enough: int) -> bool:
                return writer.done() or len(done) >= enough

            try:
                for immediate in (True, False, True):
                    wait_for(partial(moves, len(done) + 1))
                    own_server.restart(immediate=immediate)
            finally:
                over.set()
            writer.result(60)  # nothing was raised
        sessions = [r.session_id for r in store.sessions(limit=10_000)]
        assert sorted(done) == sorted(sessions)
        assert len(done) > 3
        assert sorted(sessions * 2) == sorted(e.session_id for e in store.events(limit=20_000))

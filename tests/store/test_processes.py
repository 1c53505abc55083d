"""Several processes on one database, and one that dies (R-PRF-6, R-DUR-1, R-CIR-6)."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.store import open_store
from tests.store import _racers
from tests.store._race import CONTEXT, race
from tests.store._values import ACCOUNT, MODEL, NOW, advance, create, event, failure, selection

COUNT = 8


def test_eight_starts_on_an_empty_database_all_succeed(database_url: str) -> None:
    """R-DUR-1: migrations are safe to run concurrently."""
    assert [f"s{n}" for n in range(COUNT)] == race(_racers.opens, database_url, count=COUNT)
    with open_store(database_url) as store:
        assert {f"s{n}" for n in range(COUNT)} == {r.session_id for r in store.sessions()}


def test_every_generation_exactly_once(database_url: str) -> None:
    """R-PRF-6: exactly one winner per revision, over all processes."""
    with open_store(database_url) as store:
        store.commit(create())
        won = race(_racers.climbs, database_url, 41, count=COUNT)
        assert list(range(2, 42)) == sorted(revision for mine in won for revision in mine)
        assert list(range(1, 41)) == [s.generation for s in store.selections("s1")]
        assert list(range(1, 41)) == [a.ordinal for a in store.attempts("s1")]
        # Who won the revision wrote the event: nothing of a loser is left.
        events = store.events()
        assert list(range(1, 41)) == [e.generation for e in events]
        assert [{e.generation + 1 for e in events if e.params == {"number": n}} for n in range(COUNT)] == [
            set(m) for m in won
        ]


def test_one_probe_of_an_expired_circuit(database_url: str) -> None:
    """R-CIR-6: exactly one worker over all processes gets the lease, on all keys or on none."""
    with open_store(database_url) as store:
        due = NOW + timedelta(minutes=5)
        store.change_circuits([failure(ACCOUNT, due_at=due), failure(MODEL, due_at=due)], now=NOW)
        answers = race(_racers.probes, database_url, due, count=COUNT)
        assert [(ACCOUNT.key, MODEL.key)] == [a for a in answers if a is not None]
        winner = next(n for n, a in enumerate(answers) if a is not None)
        assert [f"probe-{winner}"] == [r.session_id for r in store.sessions()]
        assert {f"token-{winner}"} == {c.probe_token for c in store.circuits()}


def test_one_installation_key(database_url: str) -> None:
    """R-CIR-3: created once."""
    with open_store(database_url):
        pass
    assert 1 == len(set(race(_racers.keeps_a_key, database_url, count=COUNT)))


def test_a_process_killed_in_mid_transaction_leaves_nothing(database_url: str) -> None:
    """Invariant 3 and R-DUR-6: nothing half written, nobody locked out."""
    with open_store(database_url) as store:
        before = store.commit(create()).route
        told, tell = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_racers.dies_in_mid_transaction, args=(database_url, tell))
        process.start()
        tell.close()
        assert told.poll(60)
        told.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        assert -signal.SIGKILL == process.exitcode
        process.close()
        told.close()

        assert before == store.load("s1")
        assert ([], [], []) == (store.selections("s1"), store.attempts("s1"), store.events())
        again = store.commit(advance(before, to={"state": State.STARTING}, selection=selection(), events=(event(),)))
        assert again.route == store.load("s1")

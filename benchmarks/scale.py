"""What waiting sessions cost (R-PRF-5): ratios from one run, so that the machine does not matter.

Fills two databases of each engine with sessions that wait for two circuits each, a thousand in the one and `--sessions` in the
other, and compares, in turns,

- **due**: claiming 100 sessions whose time has come, scattered among the others;
- **lost**: claiming 100 whose owner's lease ran out;
- **recovered**: claiming 100 whose circuit closed while the others wait on;
- **all recovered**: claiming 100 after the circuit closed that everybody waits for;
- **idle tick**: all that a worker asks the store every second, when there is nothing to do;
- **held tick**: the same while everybody waits for the end of a reset that a probe could look at already.

Each may cost at most twice as much among many as among a thousand. What one waiting session takes in the database, indexes
included, is to be under 1024 bytes. R-PRF-5 speaks of `--sessions 1000000`, which needs some minutes and 2 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

# as a script, this file's own folder is all that Python looks into
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.by_hand import NOW
from benchmarks.databases import TIMEOUT_S, Place, hand, place
from kandev_routing_sdk.circuits import FailureFact, ResourceKey
from kandev_routing_sdk.records import CircuitFailed, Claim
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.store import SqlStore, codec, open_store
from kandev_routing_sdk.store.waiting import circuit_number
from kandev_routing_sdk.types import CircuitState, Code, Confidence, Scope

FEW: Final = 1_000
CLAIMED: Final = 100
MOST: Final = 2.0
"""What a claim, or a tick, among many may cost, against the same among a thousand."""
MOST_BYTES: Final = 1024
_ROOM: Final = 8
"""How many sessions a worker asks for by default."""
_LEASE: Final = timedelta(minutes=1)
_MONTH: Final = timedelta(days=30)
_ACCOUNTS: Final = tuple(
    ResourceKey(f"account:{name}:v1:{digit * 64}", Scope.ACCOUNT, provider_id=name)
    for name, digit in (("acme-provider", "a"), ("nova-provider", "b"), ("rare-provider", "c"))
)
_EVERYBODYS, _ALSO, _RARE = (key.key for key in _ACCOUNTS)

_NAME: Final[Mapping[str, str]] = {
    "sqlite": "'session:' || printf('%028x', n)",
    "postgresql": "'session:' || lpad(to_hex(n), 28, '0')",
}
"""As long as the names that the SDK gives, and in the order of their making, as those are."""
_NUMBERS: Final = (
    "(WITH RECURSIVE number(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < {last}) "
    "SELECT n FROM number) AS n"
)


@dataclass(frozen=True)
class Row:
    """One ratio, or one size."""

    engine: str
    what: str
    few: float
    """The median in milliseconds among a thousand; bytes per session in the small database."""
    many: float
    ratio: float
    """Of the medians; for a size, against what is allowed."""
    most: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the limit is kept."""
        return self.ratio <= self.most


class Crowd:
    """A database full of waiting sessions."""

    def __init__(self, engine: str, url: str, store: SqlStore, sessions: int) -> None:
        self.engine, self.store, self.sessions = engine, store, sessions
        self._hand = hand(url)
        self._mark = "?" if engine == "sqlite" else "%s"
        self._stride = sessions // CLAIMED
        empty = self._size()
        self._fill()
        self.bytes_each = (self._size() - empty) / sessions

    def close(self) -> None:
        """Close the connection that prepares."""
        self._hand.close()

    def _run(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        cursor = self._hand.connection.cursor()
        # psycopg takes no text for SQL that was put together
        cursor.execute(sql.replace("?", self._mark).encode() if self.engine == "postgresql" else sql, values)
        found: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        self._hand.connection.commit()
        return found

    def _size(self) -> int:
        if self.engine == "sqlite":
            self._run("PRAGMA wal_checkpoint(TRUNCATE)")
            ((pages,),) = self._run("PRAGMA page_count")
            ((size,),) = self._run("PRAGMA page_size")
            return int(pages) * int(size)
        ((total,),) = self._run("SELECT pg_total_relation_size('kr_session') + pg_total_relation_size('kr_wait')")
        return int(total)

    def _fill(self) -> None:
        fact = FailureFact(code=Code.QUOTA_LIMITED, confidence=Confidence.HIGH, due_at=NOW + _MONTH, exhausted=True)
        self.store.change_circuits([CircuitFailed(key, fact, uniform=0.5) for key in _ACCOUNTS], now=NOW)
        row = codec.encode_route(_waiting())
        del row["session_id"], row["deadline"], row["created_at"]
        name, numbers = _NAME[self.engine], _NUMBERS.format(last=self.sessions - 1)
        at = codec.to_micros(NOW)
        kept = tuple("NULL" if value is None else "?" for value in row.values())
        values = [value for value in row.values() if value is not None]
        # ruff: disable[S608]  # names of columns, placeholders, and numbers
        self._run(
            f"INSERT INTO kr_session (session_id, deadline, created_at, {', '.join(row)}) "
            f"SELECT {name}, {codec.to_micros(NOW + _MONTH)} + n, {at} + n, {', '.join(kept)} FROM {numbers}",
            values,
        )
        for key in (_EVERYBODYS, _ALSO):
            self._run(
                f"INSERT INTO kr_wait (circuit, until_closed, session_id) SELECT {circuit_number(key)}, 0, {name} FROM {numbers}"
            )
        # ruff: enable[S608]
        if self.engine == "postgresql":
            self._hand.connection.autocommit = True
            for table in ("kr_session", "kr_wait", "kr_circuit"):
                self._run(f"VACUUM ANALYZE {table}")  # what its autovacuum does by itself
            self._hand.connection.autocommit = False

    # --- who is to be claimed ---

    def _chosen(self, turn: int) -> list[str]:
        """Return a hundred of the sessions, as far apart as can be; others each turn."""
        return [f"session:{each * self._stride + turn % self._stride:028x}" for each in range(CLAIMED)]

    def _set(self, turn: int, changes: Mapping[str, object]) -> None:
        self._update(self._chosen(turn), changes)

    def _update(self, names: Sequence[str], changes: Mapping[str, object]) -> None:
        to = ", ".join(f"{column} = ?" for column in changes)
        self._run(
            f"UPDATE kr_session SET {to} WHERE session_id IN ({', '.join('?' * len(names))})",  # noqa: S608  # placeholders only
            [*changes.values(), *names],
        )

    def be_due(self, turn: int) -> None:
        """Let the time of a hundred sessions come."""
        self._set(turn, {"deadline": codec.to_micros(NOW)})

    def be_lost(self, turn: int) -> None:
        """Let the owner of a hundred sessions be gone."""
        self._set(turn, {"owner_id": "owner:gone", "owner_until": codec.to_micros(NOW)})

    def recover(self, turn: int) -> None:
        """Let a hundred sessions wait for a circuit that is closed now."""
        for name in self._chosen(turn):
            self._run(
                "INSERT INTO kr_wait (circuit, until_closed, session_id) VALUES (?, 0, ?)",
                (circuit_number(_RARE), name),
            )
        self._close(_RARE)

    def recover_all(self, _turn: int) -> None:
        """Close the circuit that everybody waits for."""
        self._close(_EVERYBODYS)

    def _close(self, key: str) -> None:
        self._run("UPDATE kr_circuit SET state = ? WHERE key = ?", (CircuitState.CLOSED.value, key))

    def hold(self, until_closed: int) -> None:
        """Let everybody wait for the end of a reset, whose circuit may be probed; or wait as before."""
        self._run("UPDATE kr_wait SET until_closed = ?", (until_closed,))
        at = NOW if until_closed else NOW + _MONTH
        self._run("UPDATE kr_circuit SET deadline = ?", (codec.to_micros(at),))
        if self.engine == "postgresql":
            self._hand.connection.autocommit = True
            self._run("VACUUM ANALYZE kr_wait")
            self._hand.connection.autocommit = False

    def be_as_before(self, claimed: Sequence[Route]) -> None:
        """Let those who were claimed wait again, and no circuit be closed."""
        names = [route.session_id for route in claimed]
        self._update(names, {"deadline": codec.to_micros(NOW + _MONTH), "owner_id": None, "owner_until": None})
        self._run("DELETE FROM kr_wait WHERE circuit = ?", (circuit_number(_RARE),))
        self._run("UPDATE kr_circuit SET state = ?", (CircuitState.OPEN.value,))

    # --- what is measured ---

    def claim(self, why: Claim, limit: int = CLAIMED) -> list[Route]:
        """Take sessions as a worker does."""
        return self.store.claim(why, now=NOW, owner_id="owner:bench", until=NOW + _LEASE, limit=limit)

    def tick(self) -> None:
        """Ask what a worker asks every second; there must be nothing."""
        self.store.interrupt_calls(now=NOW)
        for why in Claim:
            if self.claim(why, _ROOM):
                raise SystemExit(f"something is {why.value}, and nothing was to be")


CLAIMS: Final[Mapping[str, tuple[Claim, Callable[[Crowd, int], None]]]] = {
    "due": (Claim.DUE, Crowd.be_due),
    "lost": (Claim.LOST, Crowd.be_lost),
    "recovered": (Claim.RECOVERED, Crowd.recover),
    "all recovered": (Claim.RECOVERED, Crowd.recover_all),
}
TICKS: Final = ("idle tick", "held tick")


def _waiting() -> Route:
    """Return a session whose candidates are all unavailable, as a new prompt finds them."""
    return Route(
        session_id="session:0",
        logical_profile_id="frontier",
        cwd="/home/somebody/projects/parser",
        state=State.WAITING,
        reason=Reason.NO_ELIGIBLE_CANDIDATE,
        prompt_number=1,
        parked_prompt="Find out why the tests in tests/parser fail since the last merge, and repair it.",
        deadline=NOW,
        created_at=NOW,
        updated_at=NOW,
    )


def _timed(work: Callable[[], object]) -> tuple[float, Any]:
    begun = time.perf_counter()
    done = work()
    return (time.perf_counter() - begun) * 1e3, done


def claims(crowds: Sequence[Crowd], rounds: int) -> Iterator[tuple[str, list[float], list[float]]]:
    """Measure every claim, in the small and the large database in turn."""
    for what, (why, prepare) in CLAIMS.items():
        taken: dict[int, list[float]] = {id(crowd): [] for crowd in crowds}
        for turn in range(rounds + 1):
            for crowd in crowds if turn % 2 else reversed(crowds):
                prepare(crowd, turn)
                milliseconds, found = _timed(lambda crowd=crowd: crowd.claim(why))  # type: ignore[misc]  # noqa: B023  # called at once
                if len({route.session_id for route in found}) != CLAIMED:
                    raise SystemExit(f"{what}: {len(found)} were claimed of {CLAIMED}, in {crowd.engine}")
                crowd.be_as_before(found)
                if turn:  # the first one compiles statements
                    taken[id(crowd)].append(milliseconds)
        few, many = (taken[id(crowd)] for crowd in crowds)
        yield what, few, many


def ticks(crowds: Sequence[Crowd], rounds: int) -> Iterator[tuple[str, list[float], list[float]]]:
    """Measure a worker's look at a database where there is nothing to do."""
    for what in TICKS:
        if what == "held tick":
            for crowd in crowds:
                crowd.hold(1)
        taken: dict[int, list[float]] = {id(crowd): [] for crowd in crowds}
        for turn in range(-5, 20 * rounds):
            for crowd in crowds if turn % 2 else reversed(crowds):
                milliseconds, _ = _timed(crowd.tick)
                if turn >= 0:
                    taken[id(crowd)].append(milliseconds)
        few, many = (taken[id(crowd)] for crowd in crowds)
        yield what, few, many


def measure(where: Place, sessions: int, rounds: int) -> Iterator[Row]:
    """Return every ratio of one engine."""
    with ExitStack() as stack:
        crowds = []
        for count in (FEW, sessions):
            url = next(where.urls)
            store = stack.enter_context(open_store(url, timeout_s=TIMEOUT_S))
            crowds.append(stack.enter_context(closing(Crowd(where.engine, url, store, count))))
        each = [crowd.bytes_each for crowd in crowds]
        yield Row(where.engine, "bytes for a session", each[0], each[1], each[1], MOST_BYTES, "B")
        for found in (claims(crowds, rounds), ticks(crowds, rounds)):
            for what, few, many in found:
                a, b = median(few), median(many)
                yield Row(where.engine, what, a, b, b / a, MOST, "ms")


def line(row: Row) -> str:
    """One row as text."""
    verdict = "kept" if row.holds else "MISSED"
    mark = " " if row.holds else "!"
    if row.unit == "B":
        return f"{mark} {row.many:7.0f} B   {row.what:14} at most {row.most:.0f} B, {verdict}"
    return f"{mark} {row.ratio:7.2f}×   {row.what:14} {row.many:9.2f} ms : {row.few:9.2f} ms  at most {row.most:g}×, {verdict}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], help="measure only this")
    parser.add_argument(
        "--folder", type=Path, help="where SQLite's files are; the system's temporary folder by default"
    )
    parser.add_argument("--sessions", type=int, default=100_000, help="in the large database (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="claims of each kind (default: %(default)s)")
    asked = parser.parse_args(arguments)
    if asked.sessions < FEW or asked.rounds < 1:
        parser.error(f"--sessions is at least {FEW}, --rounds at least 1")
    found: list[Row] = []
    for engine in (asked.engine,) if asked.engine else ("sqlite", "postgresql"):
        with place(engine, asked.folder) as where:
            if not asked.json:
                print(f"{where}: {CLAIMED} of {asked.sessions:,} waiting sessions, against {CLAIMED} of {FEW:,}")
            for row in measure(where, asked.sessions, asked.rounds):
                found.append(row)
                if not asked.json:
                    print(line(row), flush=True)
        if not asked.json:
            print()
    if asked.json:
        print(json.dumps({"rows": [asdict(row) | {"holds": row.holds} for row in found]}, indent=1))
    return int(any(not row.holds for row in found))


if __name__ == "__main__":
    sys.exit(main())

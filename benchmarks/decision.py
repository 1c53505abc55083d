"""What a durable decision costs (R-PRF-1): ratios from one run, so that the machine does not matter.

`python benchmarks/decision.py` commits the same decisions three times, on SQLite and on PostgreSQL: by hand on one driver
connection, with `SqlStore.commit`, and with `SqlStore.commit` from an event loop, as the conductor does it. The three take turns
with every single commit. A round's ratio is that of the medians; the median over the rounds counts.

Afterwards the three databases must hold the same rows. Limits: 1.5× on SQLite, 2.2× from an event loop, 1.2× on PostgreSQL.
`benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Final

import anyio

# as a script, this file's own folder is all that Python looks into
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.by_hand import Hand, begin, decide
from benchmarks.databases import TIMEOUT_S, Place, hand, place, rows, set_up_alike
from kandev_routing_sdk.conductor.tasks import in_thread
from kandev_routing_sdk.ports import Commit
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.store import SqlStore, open_store

SIDES: Final = ("by hand", "store", "store from a loop")
MOST: Final[Mapping[tuple[str, str], float]] = {
    ("sqlite", "store"): 1.5,
    ("sqlite", "store from a loop"): 2.2,
    ("postgresql", "store"): 1.2,
}
"""The limits of R-PRF-1, by engine and side."""
_ORDERS: Final = tuple(permutations(SIDES))
"""Each side comes as often first as last, and as often after one as after the other."""
SESSIONS: Final = 8
_WARM: Final = 5
"""Rounds of every session that are not counted: psycopg prepares what it has seen five times."""

Taken = dict[str, list[list[float]]]
"""Seconds of every commit, by side and round."""


@dataclass(frozen=True)
class Row:
    """One measured ratio."""

    engine: str
    side: str
    base_us: float
    """The median time by hand, in microseconds."""
    time_us: float
    least: float
    ratio: float
    """The median over the rounds."""
    highest: float
    in_all: float
    """The ratio of the sums: what medians leave out is in it, checkpoints and the odd slow sync of the disk."""
    most: float | None

    @property
    def holds(self) -> bool:
        """Whether the limit is kept, if there is one."""
        return self.most is None or self.ratio <= self.most


class Stored:
    """Sessions in a database of their own, which are moved on with the store."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self._routes = [store.commit(begin(f"session:{number}")).route for number in range(SESSIONS)]

    def next(self, number: int) -> Commit:
        """Return the decision ``number``."""
        before = self._routes[number % SESSIONS]
        return decide(before, f"attempt:{number}")

    def moved(self, number: int, route: Route) -> None:
        """Remember what the decision ``number`` made of its route."""
        self._routes[number % SESSIONS] = route


@dataclass(frozen=True)
class Sides:
    """The three databases of one engine."""

    urls: Mapping[str, str]
    hand: Hand
    plain: Stored
    looped: Stored

    def by_hand(self, number: int) -> float:
        """Make the decision ``number`` by hand and return the seconds it took."""
        values = self.hand.values(f"session:{number % SESSIONS}", number // SESSIONS + 2, f"attempt:{number}")
        begun = time.perf_counter()
        sequence = self.hand.commit(values)
        taken = time.perf_counter() - begun
        if sequence != number + 1:
            raise SystemExit(f"by hand, decision {number} got the event {sequence}")
        return taken

    def with_store(self, number: int) -> float:
        """Make it with the store."""
        commit = self.plain.next(number)
        begun = time.perf_counter()
        done = self.plain.store.commit(commit)
        taken = time.perf_counter() - begun
        self.plain.moved(number, done.route)
        return taken

    async def from_loop(self, number: int) -> float:
        """Make it with the store, from the running event loop."""
        commit = self.looped.next(number)
        begun = time.perf_counter()
        done = await in_thread(self.looped.store.commit, commit)
        taken = time.perf_counter() - begun
        self.looped.moved(number, done.route)
        return taken

    def compare(self, decisions: int) -> None:
        """See that all three did the same durable work: the same rows, every one of them."""
        found = {side: rows(url) for side, url in self.urls.items()}
        written = {table: len(known) for table, known in found[SIDES[0]].items()}
        due = {"kr_session": SESSIONS, "kr_attempt": decisions, "kr_event": decisions}
        if written != due:
            raise SystemExit(f"by hand wrote {written}, and {due} were due")
        for side, known in found.items():
            for table, mine in known.items():
                if mine != found[SIDES[0]][table]:
                    raise SystemExit(f"{side} and {SIDES[0]} wrote other rows of {table}")


@contextmanager
def sides(where: Place) -> Iterator[Sides]:
    """Open a database for each side, with the same sessions in it."""
    urls = {side: next(where.urls) for side in SIDES}
    with open_store(urls[SIDES[0]], timeout_s=TIMEOUT_S) as store:
        Stored(store)
    with (
        closing(hand(urls[SIDES[0]])) as connected,
        open_store(urls[SIDES[1]], timeout_s=TIMEOUT_S) as plain,
        open_store(urls[SIDES[2]], timeout_s=TIMEOUT_S) as looped,
    ):
        set_up_alike(where.engine, plain, connected)
        yield Sides(urls, connected, Stored(plain), Stored(looped))


async def measure(made: Sides, *, rounds: int, commits: int) -> Taken:
    """Let the sides take turns, and return what each commit took."""
    taken: Taken = {side: [] for side in SIDES}
    number = 0
    for counted in range(-1, rounds):
        now: dict[str, list[float]] = {side: [] for side in SIDES}
        for _ in range(commits if counted >= 0 else _WARM * SESSIONS):
            for side in _ORDERS[number % len(_ORDERS)]:
                if side == "by hand":
                    now[side].append(made.by_hand(number))
                elif side == "store":
                    now[side].append(made.with_store(number))
                else:
                    now[side].append(await made.from_loop(number))
            number += 1
        if counted >= 0:
            for side, seconds in now.items():
                taken[side].append(seconds)
    made.compare(number)
    return taken


def ratios(engine: str, taken: Taken) -> Iterator[Row]:
    """Return what each side took, against what it took by hand."""
    bases = [median(seconds) for seconds in taken[SIDES[0]]]
    for side in SIDES[1:]:
        medians = [median(seconds) for seconds in taken[side]]
        each = [mine / base for mine, base in zip(medians, bases, strict=True)]
        yield Row(
            engine,
            side,
            median(bases) * 1e6,
            median(medians) * 1e6,
            min(each),
            median(each),
            max(each),
            sum(map(sum, taken[side])) / sum(map(sum, taken[SIDES[0]])),
            MOST.get((engine, side)),
        )


def table(found: Sequence[Row]) -> str:
    """The rows as text."""
    lines = []
    for row in found:
        limit = "no limit" if row.most is None else f"at most {row.most:g}×, {'kept' if row.holds else 'MISSED'}"
        lines.append(
            f"{' ' if row.holds else '!'} {row.ratio:5.2f}×  (rounds {row.least:.2f} to {row.highest:.2f}, in all "
            f"{row.in_all:.2f})  {row.time_us:8.1f} µs : {row.base_us:8.1f} µs  {row.side:18} {limit}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], help="measure only this")
    parser.add_argument(
        "--folder", type=Path, help="where SQLite's files are; the system's temporary folder by default"
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--commits", type=int, default=50, help="decisions of each side in a round")
    asked = parser.parse_args(arguments)
    found: list[Row] = []
    places = {}
    for engine in (asked.engine,) if asked.engine else ("sqlite", "postgresql"):
        with place(engine, asked.folder) as where, sides(where) as made:
            places[engine] = str(where)
            taken = anyio.run(partial(measure, made, rounds=asked.rounds, commits=asked.commits))
            mine = list(ratios(engine, taken))
            found += mine
            if not asked.json:
                print(f"{where}: {asked.rounds} rounds of {asked.commits} decisions; all sides wrote the same rows")
                print(table(mine), end="\n\n")
    if asked.json:
        missed = [asdict(row) for row in found if not row.holds]
        print(json.dumps({"places": places, "missed": missed, "rows": [asdict(r) for r in found]}, indent=1))
    return int(any(not row.holds for row in found))


if __name__ == "__main__":
    sys.exit(main())

"""Eight processes on one database (R-PRF-6): ratios from one run, so that the machine does not matter.

`python benchmarks/contention.py` lets eight processes, on SQLite and on PostgreSQL,

- commit generations of **one** session by compare-and-swap, each as many as it can, with the store and by hand in turn,
- do the same over **many** sessions,
- ask at the same instant for the **probe** lease of an expired circuit, again and again.

Every generation must be there exactly once, and every circuit must have exactly one probe; otherwise it ends with what went wrong.
Limit: with the store, nobody waits for the answer to a commit more than 10 times as long as the median. `benchmarks/README.md` says
more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

# as a script, this file's own folder is all that Python looks into
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.by_hand import NOW, begin
from benchmarks.databases import TIMEOUT_S, Place, place, rows
from benchmarks.racers import Climbed, Course, Probed, climb, keys, probe, race, token
from kandev_routing_sdk.circuits import FailureFact
from kandev_routing_sdk.ports import CircuitFailed
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.types import Code, Confidence

PROCESSES: Final = 8
MOST: Final = 10.0
"""The longest wait for the answer to a commit, made or refused, against the median one."""
_WON: Final[Mapping[str, str]] = {
    "attempts": "SELECT session_id, generation, attempt_id FROM kr_attempt ORDER BY session_id, ordinal",
    "events": "SELECT session_id, generation FROM kr_event ORDER BY session_id, sequence",
    "sessions": "SELECT session_id, generation, revision FROM kr_session ORDER BY session_id",
}


@dataclass(frozen=True)
class Round:
    """One race: all processes, from the start to the last commit."""

    seconds: float
    commits: tuple[int, ...]
    """Of each process."""
    median_ms: float
    """The median wait for an answer, over all processes."""
    longest_ms: float
    without_ms: float
    """The longest time that any process went without a commit."""
    lost: int
    """How often somebody else was first, over all processes."""

    @property
    def starvation(self) -> float:
        """The longest wait against the median one."""
        return self.longest_ms / self.median_ms


def told(answers: Sequence[Climbed]) -> Round:
    """Return what the processes of a race saw, together."""
    waits = [wait for answer in answers for wait in answer.waits]
    return Round(
        max(a.ended for a in answers) - min(a.began for a in answers),
        tuple(len(a.won) for a in answers),
        median(waits) * 1e3,
        max(waits) * 1e3,
        max(a.without for a in answers) * 1e3,
        sum(a.lost for a in answers),
    )


def once(won: Sequence[tuple[str, int, str]], course: Course) -> None:
    """See that every generation of every session was committed exactly once, and that its winner wrote what belongs to it."""
    url, sessions, target = course
    due = sorted((s, g) for s in sessions for g in range(2, target + 1))
    twice = [which for which, times in Counter((s, g) for s, g, _ in won).items() if times > 1]
    if twice:
        raise SystemExit(f"committed more than once: {twice[:5]}")
    found = rows(url, _WON)
    for what, is_so in (
        ("not every generation was committed", sorted((s, g) for s, g, _ in won) == due),
        ("an attempt is not of who won its generation", sorted(found["attempts"]) == sorted(won)),
        ("the events are not one for each generation, in order", found["events"] == due),
        ("a session is not where it should be", found["sessions"] == sorted((s, target, target) for s in sessions)),
    ):
        if not is_so:
            raise SystemExit(f"{what}, in {url}")


def generations(where: Place, sessions: int, target: int, rounds: int) -> dict[str, list[Round]]:
    """Race for the generations of some sessions, with the store and by hand in turn."""
    names = tuple(f"session:{number:03d}" for number in range(sessions))
    found: dict[str, list[Round]] = {"store": [], "by hand": []}
    for number in range(rounds):
        for how in sorted(found, reverse=bool(number % 2)):
            course = Course(next(where.urls), names, target)
            with open_store(course.url, timeout_s=TIMEOUT_S) as store:
                for name in names:
                    store.commit(begin(name))
            answers: list[Climbed] = race(climb, course, how, count=PROCESSES)
            once([each for answer in answers for each in answer.won], course)
            found[how].append(told(answers))
    return found


def probes(where: Place, turns: int) -> list[Probed]:
    """Race for probe leases and see that each one was given once, for all its keys, to who is written down as its holder."""
    url = next(where.urls)
    fact = FailureFact(code=Code.QUOTA_LIMITED, confidence=Confidence.HIGH, due_at=NOW)
    with open_store(url, timeout_s=TIMEOUT_S) as store:
        for turn in range(turns):
            failed = [CircuitFailed(key, fact, uniform=0.5) for key in keys(turn)]
            store.change_circuits(failed, now=NOW - timedelta(minutes=5))
        answers: list[Probed] = race(probe, url, turns, count=PROCESSES)
        holders = {circuit.key.key: circuit.probe_token for circuit in store.circuits()}
        begun = {route.session_id for route in store.sessions(limit=turns * PROCESSES)}
    for turn in range(turns):
        wanted = tuple(key.key for key in keys(turn))
        got = [(number, answer.leased[turn]) for number, answer in enumerate(answers) if answer.leased[turn]]
        if len(got) != 1 or got[0][1] != wanted:
            raise SystemExit(f"the probe of turn {turn} was given to {got}")
        winner = token(turn, got[0][0])
        if {holders[key] for key in wanted} != {winner} or {t for t in begun if t.startswith(f"probe:{turn}/")} != {
            winner
        }:
            raise SystemExit(f"the probe of turn {turn} was given to {winner}, and the database says otherwise")
    return answers


def holds(rounds: Sequence[Round]) -> bool:
    """Whether the limit is kept: in the median round, for whoever shares the machine stops somebody now and then."""
    return median(r.starvation for r in rounds) <= MOST


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the median of ``values`` and how far they go."""
    return f"{median(values):{form}} (rounds {min(values):{form}} to {max(values):{form}})"


def lines(what: str, found: Mapping[str, Sequence[Round]]) -> Iterator[str]:
    """Tell of one race."""
    yield f"{what}: every generation exactly once"
    for how, rounds in found.items():
        mark, limit = " ", ""
        if how == "store":
            mark, limit = (
                (" ", f", at most {MOST:g}×, kept") if holds(rounds) else ("!", f", at most {MOST:g}×, MISSED")
            )
        yield (
            f"{mark} {how:8} longest wait : median wait {spread([r.starvation for r in rounds])}×{limit}; "
            f"median {median(r.median_ms for r in rounds):.2f} ms, longest {max(r.longest_ms for r in rounds):.1f} ms"
        )
        fewest = min(min(r.commits) / (sum(r.commits) / PROCESSES) for r in rounds)
        highest = max(max(r.commits) / (sum(r.commits) / PROCESSES) for r in rounds)
        yield (
            f"           commits of a process: {fewest:.0%} to {highest:.0%} of an even share, the last round "
            f"{' '.join(map(str, rounds[-1].commits))}"
        )
        yield (
            f"           {median(sum(r.commits) / r.seconds for r in rounds):.0f} commits/s, "
            f"{median(r.lost / sum(r.commits) for r in rounds):.1f} lost tries for each, longest without one "
            f"{max(r.without_ms for r in rounds):.0f} ms"
        )
    slower = [mine.seconds / base.seconds for mine, base in zip(found["store"], found["by hand"], strict=True)]
    yield f"  the same number of commits took the store {spread(slower)}× as long as by hand"


def summary(found: Mapping[str, Sequence[Round]]) -> Mapping[str, Any]:
    """What a program wants to know of one race."""
    return {how: [asdict(r) | {"starvation": r.starvation} for r in rounds] for how, rounds in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Race and print; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], help="measure only this")
    parser.add_argument(
        "--folder", type=Path, help="where SQLite's files are; the system's temporary folder by default"
    )
    parser.add_argument("--rounds", type=int, default=5, help="races of each kind")
    parser.add_argument("--commits", type=int, default=800, help="generations in a race, over all its sessions")
    parser.add_argument("--sessions", type=int, default=200, help="sessions of the race over many")
    parser.add_argument("--probes", type=int, default=200, help="circuits whose probe is asked for")
    asked = parser.parse_args(arguments)
    said: dict[str, dict[str, Any]] = {}
    missed = False
    for engine in (asked.engine,) if asked.engine else ("sqlite", "postgresql"):
        with place(engine, asked.folder) as where:
            said[engine] = {"place": str(where)}
            if not asked.json:
                print(f"{where}: {PROCESSES} processes, {asked.rounds} rounds")
            for name, sessions in (("one", 1), ("many", asked.sessions)):
                each = max(1, asked.commits // sessions)
                found = generations(where, sessions, 1 + each, asked.rounds)
                said[engine][name] = summary(found)
                missed |= not holds(found["store"])
                if not asked.json:
                    print(*lines(f"{sessions} session(s), {each} generations each", found), sep="\n")
            answers = probes(where, asked.probes)
            waits = [wait * 1e3 for answer in answers for wait in answer.waits]
            said[engine]["probes"] = {"turns": asked.probes, "median_ms": median(waits), "longest_ms": max(waits)}
            if not asked.json:
                shares = " ".join(str(sum(map(bool, answer.leased))) for answer in answers)
                print(
                    f"one probe: {asked.probes} expired circuits, each one probed by exactly one; by process {shares}"
                )
                print(f"  an answer took {median(waits):.2f} ms, at most {max(waits):.1f} ms", end="\n\n")
    if asked.json:
        print(json.dumps(said, indent=1))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

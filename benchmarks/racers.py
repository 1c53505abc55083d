"""What the processes of `contention.py` do, each on connections of its own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from benchmarks.by_hand import Hand, begin, decide
from benchmarks.databases import TIMEOUT_S, hand
from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.errors import NotAdmitted, StaleRevision
from kandev_routing_sdk.ports import Admit
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.types import Scope

LIMIT_S: Final = 300.0
_TOGETHER_S: Final = 0.002
"""How long after all have arrived they start: time enough for each of them to be asleep until then."""

# Forked from a server that has imported everything: eight interpreters would spend a race on their imports.
CONTEXT: Final = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["benchmarks.racers", "alembic.command", "psycopg", "tenacity"])


class Start:
    """Lets all processes go on at the same instant, again and again."""

    def __init__(self, count: int) -> None:
        self._instant = CONTEXT.Value("d", 0.0)
        self._barrier = CONTEXT.Barrier(count, partial(_appoint, self._instant))

    def wait(self) -> None:
        """Wait for all, then for the instant that the last one appointed."""
        self._barrier.wait(LIMIT_S)
        time.sleep(max(0.0, self._instant.value - time.monotonic()))


def _appoint(instant: Any) -> None:  # noqa: ANN401  # of multiprocessing
    instant.value = time.monotonic() + _TOGETHER_S


def race(work: Callable[..., Any], *arguments: object, count: int) -> list[Any]:
    """Call ``work(number, start, *arguments)`` in ``count`` processes and return what each one returned."""
    start = Start(count)
    running = []
    for number in range(count):
        mine, theirs = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_run, args=(theirs, work, number, start, arguments))
        process.start()
        theirs.close()
        running.append((process, mine))
    try:
        answers = []
        for number, (_, answer) in enumerate(running):
            if not answer.poll(LIMIT_S):
                raise SystemExit(f"process {number} did not end within {LIMIT_S:g} s")
            answers.append(answer.recv())
            if isinstance(answers[-1], Exception):
                raise answers[-1]
        return answers
    finally:
        for process, answer in running:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
            answer.close()


def _run(answer: Any, work: Callable[..., Any], number: int, start: Start, arguments: tuple[Any, ...]) -> None:  # noqa: ANN401  # a route, or a row of whichever driver
    try:
        answer.send(work(number, start, *arguments))
    except Exception as error:  # noqa: BLE001  # raised again by who asked
        answer.send(error)


# --- generations ---


class _Climber(Protocol):
    def load(self, session_id: str) -> Any:  # noqa: ANN401  # what commit() wants of it
        """Read a session."""

    def generation(self, loaded: Any) -> int:  # noqa: ANN401  # a route, or a row of whichever driver
        """Return the generation that was read."""

    def prepare(self, loaded: Any, session_id: str, attempt_id: str) -> Any:  # noqa: ANN401  # a route, or a row of whichever driver
        """Return the decision that follows what was read."""

    def commit(self, decision: Any) -> bool:  # noqa: ANN401  # a route, or a row of whichever driver
        """Commit it; return whether nobody else was first."""


class _WithStore:
    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def load(self, session_id: str) -> Any:  # noqa: ANN401  # a route, or a row of whichever driver
        return self._store.load(session_id)

    def generation(self, loaded: Any) -> int:  # noqa: ANN401  # a route, or a row of whichever driver
        return int(loaded.generation)

    def prepare(self, loaded: Any, _session_id: str, attempt_id: str) -> Any:  # noqa: ANN401  # a route, or a row of whichever driver
        return decide(loaded, attempt_id)

    def commit(self, decision: Any) -> bool:  # noqa: ANN401  # a route, or a row of whichever driver
        try:
            self._store.commit(decision)
        except StaleRevision:
            return False
        return True


class _ByHand:
    def __init__(self, connected: Hand) -> None:
        self._hand = connected

    def load(self, session_id: str) -> Any:  # noqa: ANN401  # a route, or a row of whichever driver
        return self._hand.load(session_id)

    def generation(self, loaded: Any) -> int:  # noqa: ANN401  # a route, or a row of whichever driver
        return int(loaded)

    def prepare(self, loaded: Any, session_id: str, attempt_id: str) -> Any:  # noqa: ANN401  # a route, or a row of whichever driver
        return self._hand.values(session_id, loaded + 1, attempt_id)

    def commit(self, decision: Any) -> bool:  # noqa: ANN401  # a route, or a row of whichever driver
        return self._hand.commit(decision) is not None


@dataclass
class Climbed:
    """What one process got done."""

    began: float = 0.0
    ended: float = 0.0
    won: list[tuple[str, int, str]] = field(default_factory=list)
    """Session, generation and attempt of each decision that was committed."""
    waits: list[float] = field(default_factory=list)
    """Seconds from asking for a commit to the answer: that it is made, or that somebody else was first."""
    without: float = 0.0
    """The longest time without a commit, in seconds: from the start, between two, or to the end."""
    lost: int = 0
    """How often somebody else was first."""


class Course(NamedTuple):
    """What is raced for: the generations of some sessions, up to a target."""

    url: str
    sessions: tuple[str, ...]
    target: int


def climb(number: int, start: Start, course: Course, how: str) -> Climbed:
    """Commit generations, of the sessions in an order of one's own, until each session is at the target."""
    if how == "store":
        with open_store(course.url, timeout_s=TIMEOUT_S) as store:
            return _climb(_WithStore(store), number, start, course)
    with closing(hand(course.url)) as connected:
        return _climb(_ByHand(connected), number, start, course)


def _climb(climber: _Climber, number: int, start: Start, course: Course) -> Climbed:
    told, remaining = Climbed(), list(course.sessions)
    order = Random(number)  # noqa: S311  # which session is next is no secret
    climber.load(remaining[0])
    start.wait()
    told.began = last = time.perf_counter()
    while remaining:
        place = order.randrange(len(remaining))
        session_id = remaining[place]
        while True:
            loaded = climber.load(session_id)
            generation = climber.generation(loaded) + 1
            if generation > course.target:
                del remaining[place]
                break
            attempt_id = f"{number}/{session_id}/{generation}"
            decision = climber.prepare(loaded, session_id, attempt_id)
            asked = time.perf_counter()
            won = climber.commit(decision)
            done = time.perf_counter()
            told.waits.append(done - asked)
            if won:
                told.won.append((session_id, generation, attempt_id))
                told.without = max(told.without, done - last)
                last = done
                break
            told.lost += 1
    told.ended = time.perf_counter()
    told.without = max(told.without, told.ended - last)
    return told


# --- probes ---


def keys(turn: int) -> tuple[ResourceKey, ...]:
    """Return the resources that the probe of ``turn`` is about."""
    return (
        ResourceKey(f"account:acme:v1:{turn:06d}", Scope.ACCOUNT, provider_id="acme"),
        ResourceKey(f"model:acme:m{turn:06d}", Scope.MODEL, provider_id="acme", model_id=f"m{turn:06d}"),
    )


@dataclass
class Probed:
    """What one process was told, turn by turn."""

    leased: list[tuple[str, ...]] = field(default_factory=list)
    """The keys it got the lease of; none when it was refused."""
    waits: list[float] = field(default_factory=list)
    """Seconds to each answer."""


def token(turn: int, number: int) -> str:
    """Return what process ``number`` asks with."""
    return f"probe:{turn}/{number}"


def probe(number: int, start: Start, url: str, turns: int) -> Probed:
    """Ask for the probe lease of one expired circuit after the other, each time together with all others."""
    told = Probed()
    with open_store(url, timeout_s=TIMEOUT_S) as store:
        for turn in range(turns):
            name = token(turn, number)
            asks = replace(begin(name), admit=Admit(keys=keys(turn), token=name, owner=f"owner:{number}", lease_s=60))
            start.wait()
            asked = time.perf_counter()
            try:
                leased = store.commit(asks).leased
            except NotAdmitted:
                leased = ()
            told.waits.append(time.perf_counter() - asked)
            told.leased.append(tuple(key.key for key in leased))
    return told

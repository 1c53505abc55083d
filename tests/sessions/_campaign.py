"""One kill of the campaign: a world, a worker that dies in it, a worker that takes over, and what the agents witnessed."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.store.tables import METADATA
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark
from tests._nursery import Nursery
from tests.sessions._programs import WORK, Op, Program, build

SIGKILLED = -9
AHEAD_S = 600.0
"""How much later each taker-over lives: the leases of the dead are over by then, and so are short resets."""
RESTING = frozenset({"active", "waiting", "retry_wait", "waiting_for_reset", "action_required", "stopped"})
TIMED = frozenset({"waiting", "retry_wait", "waiting_for_reset"})


@dataclass
class Databases:
    """Empty databases, one after the other, each as good as new in a few milliseconds."""

    url: str
    fresh: Callable[[Path], str]
    """Make a folder's database; return its URL."""


@contextmanager
def sqlite_databases(folder: Path) -> Iterator[Databases]:
    """Copies of one file."""
    template = folder / "template.db"
    with open_store(f"sqlite:///{template}") as store:
        _keep_a_key(store)

    def fresh(place: Path) -> str:
        shutil.copyfile(template, place / "routing.db")
        return f"sqlite:///{place / 'routing.db'}"

    yield Databases("", fresh)


@contextmanager
def postgresql_databases(url: str) -> Iterator[Databases]:
    """One database, emptied."""
    with open_store(url) as store:
        _keep_a_key(store)
    names = ", ".join(sorted(name for name in METADATA.tables if name != "kr_installation_key"))

    def fresh(place: Path) -> str:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"TRUNCATE {names} RESTART IDENTITY")
        return url

    yield Databases(url, fresh)


def _keep_a_key(store: SqlStore) -> None:
    from kandev_routing_sdk.binding import new_installation_key

    store.installation_key(new_installation_key(b"k" * 32))


@dataclass
class Case:
    """A world in which workers die."""

    nursery: Nursery
    folder: Path
    url: str
    world: Path
    programs: tuple[Program, ...]
    results: list[dict[str, Any]] = field(default_factory=list)
    ahead_s: float = 0.0
    """Where the clock of the last taker-over stood."""
    _jobs: int = 0

    @classmethod
    def of(cls, nursery: Nursery, folder: Path, databases: Databases, *programs: Program) -> Case:
        folder.mkdir()
        url = databases.fresh(folder)
        return cls(nursery, folder, url, build(folder, url, programs), programs)

    @property
    def prompts(self) -> list[str]:
        """What the sessions are first asked."""
        return [f"{program.name}: do it" for program in self.programs]

    def whole(self) -> list[Op]:
        """What an undisturbed worker does."""
        starts: list[Op] = [("start", p.name, text) for p, text in zip(self.programs, self.prompts, strict=True)]
        ops = self.programs[0].ops if len(self.programs) == 1 else (WORK, ("later", 70), WORK)
        return [*starts, *(("prompt", f"{self.programs[0].name}: go on") if op == ("prompt",) else op for op in ops)]

    def job(self, ops: Sequence[Op], **fields: Any) -> dict[str, Any]:
        """A job for the nursery."""
        self._jobs += 1
        result = str(self.folder / f"result-{self._jobs}.json")
        return {"world": str(self.world), "ops": [list(op) for op in ops], "ahead_s": 0.0, "result": result, **fields}

    def run(self, ops: Sequence[Op], **fields: Any) -> dict[str, Any] | None:
        """Let a worker play; return what it has to tell, or None when it was killed."""
        job = self.job(ops, **fields)
        (code,) = self.nursery.run(job)
        if code == SIGKILLED:
            return None
        assert 0 == code
        self.results.append(told(job))
        return self.results[-1]

    def recover(self, **fields: Any) -> dict[str, Any] | None:
        """Let another worker take over, later, and then a person do what is asked for; None when that one was killed, too."""
        ops: list[Op] = [WORK, ("look",), ("person",), ("look",)]
        dropped = [p.name for p in self.programs if ("work", "drop") in p.ops]
        self.ahead_s += AHEAD_S
        return self.run(ops, ahead_s=self.ahead_s, dropped=dropped, **fields)

    def settle(self) -> None:
        """Let a worker recover undisturbed, and hold what it found against what the agents witnessed."""
        recovered = self.recover()
        assert recovered is not None
        assert "error" not in recovered, recovered["error"]
        self.check()
        shutil.rmtree(self.folder)

    # What the agents witnessed ----------------------------------------------------------------------------------------------

    def log(self) -> list[dict[str, Any]]:
        """Everything that agents wrote down, in order of time; prompts with the steps that answered them."""
        found = []
        for script in sorted(self.folder.glob("*/script.json")):
            answers = json.loads(script.read_text("utf-8"))["prompts"]
            path = script.with_name("log.jsonl")
            for entry in map(json.loads, path.read_text("utf-8").splitlines() if path.exists() else ()):
                if entry["event"] == "prompt":
                    entry["steps"] = answers[min(entry["number"], len(answers)) - 1]
                found.append({**entry, "agent": script.parent.name})
        return sorted(found, key=lambda entry: float(entry["time"]))

    def _lines(self, name: str) -> list[Any]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def check(self) -> None:
        """The invariants (design §6), once everything is over."""
        rest, end = self.results[-1]["looks"]
        for look in (rest, end):
            assert [] == look["alive"], "an agent outlived its worker"
            for session in look["sessions"]:
                _says_what_it_needs(session)
        assert {"active", "stopped"} >= {session["state"] for session in end["sessions"]}, end
        with open_store(self.url, migrate=False) as store:
            routes = {route.session_id: route for route in store.sessions()}
            acknowledged = self._lines("acknowledged")
            assert {session_id for session_id, _ in acknowledged} <= set(routes), "a session was lost"
            assert {row["session_id"] for row in end["sessions"]} == set(routes)
            for route in routes.values():
                attempts = store.attempts(route.session_id)
                _is_whole(store, route, attempts)
                asked = [text for session_id, text in acknowledged if session_id == route.session_id]
                _answered(route, attempts, asked)
                self._dispatched_once(route, attempts)
            if self.url.startswith("sqlite"):
                _file_is_sound(self.folder / "routing.db")

    def _dispatched_once(self, route: Route, attempts: Sequence[AttemptRecord]) -> None:
        """No prompt leaves again after it may have had effects, unless a person says so (R-SAFE-3, R-DUR-3)."""
        by_group = {a.process_group: a for a in attempts if a.process_group is not None}
        acted = [at for session_id, at in self._lines("acted") if session_id == route.session_id]
        mine = [
            entry
            for entry in self.log()
            if entry["event"] == "prompt" and entry["agent"].rpartition("-")[0] == route.logical_profile_id
        ]
        assert len(mine) == len({entry["pid"] for entry in mine}), "an agent was asked twice"
        for first, second in itertools.pairwise(mine):
            if any(first["time"] < at <= second["time"] for at in acted):
                continue
            attempt = by_group.get(first["pid"])
            assert attempt is not None, f"{second} followed {first}, of which nothing was known"
            if attempt.outcome is AttemptOutcome.SUCCESS:
                other = by_group.get(second["pid"])
                assert other is None or other.prompt_number > attempt.prompt_number, (
                    f"answered, and sent again: {second}"
                )
                continue
            assert AttemptOutcome.FAILED is attempt.outcome, f"{second} followed {first}, whose end nobody saw"
            shown = {step["do"] for step in first["steps"]}
            assert {"fail"} == shown, f"{second} followed {first}, which had effects"


def told(job: Mapping[str, Any]) -> dict[str, Any]:
    """What the worker that did a job had to tell."""
    found: dict[str, Any] = json.loads(Path(job["result"]).read_text("utf-8"))
    return found


def _says_what_it_needs(session: dict[str, Any]) -> None:
    assert session["state"] in RESTING, session
    assert not session["turn_running"], session
    if session["state"] in TIMED:
        assert session["deadline"] is not None, session
    if session["state"] == "action_required":
        assert "retry_now" in session["actions"], session
        assert session["has_prompt"], session
    if session["state"] == "active":
        assert not session["has_prompt"], session


def _is_whole(store: SqlStore, route: Route, attempts: Sequence[AttemptRecord]) -> None:
    """Nothing is half written, nothing is left open."""
    assert list(range(1, len(attempts) + 1)) == [a.ordinal for a in attempts]
    generations = [a.generation for a in attempts]
    assert sorted(generations) == generations
    assert all(1 <= g <= route.generation for g in generations)
    assert list(range(1, route.generation + 1)) == [s.generation for s in store.selections(route.session_id)]
    for attempt in attempts:
        assert DispatchMark.SETTLED is attempt.mark, attempt
        assert attempt.outcome is not None, attempt
        assert attempt.settled_at is not None, attempt
    numbers = [a.prompt_number for a in attempts]
    assert sorted(numbers) == numbers
    for number in set(numbers):
        won = [a for a in attempts if a.prompt_number == number and a.outcome is AttemptOutcome.SUCCESS]
        assert len(won) <= 1, won
    sequences = [event.sequence for event in store.events(session_id=route.session_id)]
    assert sorted(set(sequences)) == sequences
    assert route.owner_id is None, route
    store.decisions(route.session_id)


def _answered(route: Route, attempts: Sequence[AttemptRecord], asked: Sequence[str]) -> None:
    """Every message was answered, or is still there, or its session was stopped."""
    won = {a.prompt_number for a in attempts if a.outcome is AttemptOutcome.SUCCESS}
    assert route.prompt_number >= len(asked), "a message was lost"
    for number in range(1, route.prompt_number + 1):
        kept = number == route.prompt_number and route.parked_prompt is not None
        assert number in won or kept or route.state is State.STOPPED, f"message {number} was lost"


def _file_is_sound(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        assert [] == connection.execute("PRAGMA foreign_key_check").fetchall()
    finally:
        connection.close()

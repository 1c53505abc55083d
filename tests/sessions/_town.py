"""Hosts over one store: what each of them does can be followed write by write, and any of them may die at any write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from pydantic import SecretBytes

from kandev_routing_sdk import Router, Settings
from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.conductor import Engine
from kandev_routing_sdk.errors import RoutingError
from kandev_routing_sdk.opening import Opened, Opening, load_rules
from kandev_routing_sdk.plugins import load_registry
from kandev_routing_sdk.profile_store import Profiles
from kandev_routing_sdk.profiles import Profile, parse_profiles
from kandev_routing_sdk.records import AttemptRecord, Commit
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.scheduler import Worker, WorkerOptions
from kandev_routing_sdk.scheduler.keeper import Keeper
from kandev_routing_sdk.settings import EnvironmentSecrets
from kandev_routing_sdk.store import SqlStore
from kandev_routing_sdk.testing import FakeClock
from tests.sessions._played import HOST, AskedAdapter, Dead, Host, PlayedAdapter, Stage, profiles_table

WRITES: Final = (
    "commit",
    "mark_attempt",
    "renew",
    "claim",
    "release",
    "change_circuits",
    "admit",
    "put_circuit",
)
CATALOGUE: Final = load_rules([PlayedAdapter(Stage())], plugins=False)[1]
KEY: Final = InstallationKey(1, SecretBytes(b"k" * 32))
FOLDER: Final = Path("/")
"""Where played agents work: anywhere."""
_MOST_TURNS: Final = 20_000


class Dice:
    """Ids that are counted, and jitter that is thrown."""

    def __init__(self, dice: random.Random, prefix: str) -> None:
        self._dice, self._prefix, self._count = dice, prefix, 0

    def new(self, prefix: str) -> str:
        """Return the next id of this host."""
        self._count += 1
        return f"{prefix}{self._prefix}-{self._count:06d}"

    def token(self) -> str:
        """Return the next token."""
        return self.new("token-")

    def uniform(self) -> float:
        """Throw."""
        return self._dice.random()


class Shelf:
    """Profiles that people edit."""

    def __init__(self) -> None:
        self.profiles: dict[str, Profile] = {}
        self.version = 0

    def put(self, table: Mapping[str, Any]) -> None:
        """Replace everything that stands there."""
        found, problems = parse_profiles(table, families=None)
        assert problems == []
        self.version += 1
        self.profiles = {i: p.model_copy(update={"version": self.version}) for i, p in found.items()}

    def get(self, profile_id: str) -> Profile | None:
        """A profile as it is now."""
        return self.profiles.get(profile_id)

    def all(self) -> Mapping[str, Profile]:
        """Every profile as it is now."""
        return self.profiles


@dataclass
class Write:
    """One write that became durable, and the circuits before and after it."""

    host: Host
    name: str
    args: tuple[Any, ...]
    result: Any
    before: dict[str, Circuit]
    after: dict[str, Circuit]

    @property
    def commit(self) -> Commit | None:
        """The transition, if it was one."""
        return self.args[0] if self.name == "commit" else None


class MortalStore:
    """One host's way to the store: dead hosts write nothing, read nothing, and learn nothing."""

    def __init__(self, store: SqlStore, host: Host, town: Town) -> None:
        self._store, self._host, self._town = store, host, town

    def __getattr__(self, name: str) -> Any:  # a stand-in for every method
        method = getattr(self._store, name)
        host = self._host

        def call(*args: Any, **kwargs: Any) -> Any:  # as above
            if host.dead:
                raise Dead
            return method(*args, **kwargs) if name not in WRITES else self._write(name, method, args, kwargs)

        return call

    def _write(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        host = self._host
        fatal = host.fuse is not None and host.fuse.meant(name, args[0])
        if fatal and host.fuse is not None and not host.fuse.after:
            host.die()
            raise Dead
        touches = name in {"change_circuits", "admit", "put_circuit", "renew"} or (
            name == "commit" and (args[0].circuits or args[0].admit is not None)
        )
        before = self._town.circuits
        result = method(*args, **kwargs)
        if touches:
            self._town.circuits = {c.key.key: c for c in self._store.circuits()}
        self._town.wrote(Write(host, name, (*args, *kwargs.values()), result, before, self._town.circuits))
        if fatal:
            host.die()
            raise Dead
        return result


class OneLook(Worker):
    """A worker that looks once whenever it is told to, and then waits for what it drives."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, WorkerOptions(until_idle=True, grace_s=1e9), lambda _: _nobody)
        self._caught_up = True

    async def once(self, most: int, *, afresh: bool) -> None:
        """Look for so many sessions; ``afresh``: at flag and settings, too, as each worker does when it starts and now and then."""
        self._options = replace(self._options, max_sessions=len(self._running) + most)
        self._caught_up = not afresh
        self.stop = anyio.Event()
        await self.run()
        if afresh:
            await Keeper(self._engine).end_strays()

    async def _pause(self) -> None:
        """One look is enough."""
        self.stop.set()


@dataclass(eq=False)
class Process:
    """A host and what runs in it."""

    host: Host
    engine: Engine
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._worker = OneLook(self.engine)

    def worker(self, *, most: int = 1, afresh: bool = False) -> Coroutine[Any, Any, None]:
        """What its worker does in one look, taking so many sessions at most."""
        return self._worker.once(most, afresh=afresh)

    @property
    def router(self) -> Router:
        """What the host holds."""
        kept = Profiles(self.engine, self.engine.profiles, "the shelf", keeps=False)
        settings = Settings("sqlite:///unused.db", dynamic_agent_routing=self.engine.dynamic_enabled, profiles={})
        return Router(Opening(lambda: Opened.of(self.engine, settings, kept)), read_only=False)


@dataclass
class Town:
    """A stage, a store, a shelf, and any number of hosts."""

    store: SqlStore
    stage: Stage
    clock: FakeClock = field(default_factory=FakeClock)
    shelf: Shelf = field(default_factory=Shelf)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    flag: bool = True
    asks: bool = True
    """Whether hosts can ask anybody cheaply."""
    attempts: dict[str, AttemptRecord] = field(default_factory=dict)
    """Every attempt whose row became durable, as it is now."""
    routes: dict[str, Route] = field(default_factory=dict)
    """Every session as it was last committed or claimed."""
    generations: dict[str, list[int]] = field(default_factory=dict)
    """Of each session those whose decision became durable."""
    asked: dict[str, int] = field(default_factory=dict)
    """How often a person asked for work in each session, and it became durable."""
    processes: list[Process] = field(default_factory=list)
    """Whoever was ever started."""
    circuits: dict[str, Circuit] = field(default_factory=dict)
    """As they are stored: nobody else writes."""
    watchers: list[Callable[[Write], None]] = field(default_factory=list)
    bugs: list[BaseException] = field(default_factory=list)
    """What came out of a living host's work that is no error of this SDK's."""

    def __post_init__(self) -> None:
        self.stage.about = self._about

    def _about(self, attempt_id: str) -> tuple[str, int, int]:
        record = self.attempts.get(attempt_id)
        assert record is not None, "an agent was launched without its committed attempt (design §6, 4)"
        return record.session_id, record.prompt_number, self.asked.get(record.session_id, 0)

    def wrote(self, write: Write) -> None:
        """Take note of what became durable."""
        for watch in self.watchers:
            watch(write)
        if write.name == "claim":
            self.routes |= {route.session_id: route for route in write.result}
        if write.name == "mark_attempt":
            self.attempts[write.args[0].attempt_id] = write.args[0]
        commit = write.commit
        if commit is None:
            return
        for record in (commit.update_attempt, commit.new_attempt):
            if record is not None:
                self.attempts[record.attempt_id] = record
        session_id = commit.after.session_id
        self.routes[session_id] = write.result.route
        if commit.selection is not None:
            self.generations.setdefault(session_id, []).append(commit.selection.generation)
        spoke = commit.before is not None and commit.after.prompt_number > commit.before.prompt_number
        acted = commit.action is not None and commit.action.action in {"retry_now", "resume", "start_fresh", "skip_now"}
        if spoke or acted:
            self.asked[session_id] = self.asked.get(session_id, 0) + 1

    # Hosts ------------------------------------------------------------------------------------------------------------------

    def process(self, namespace: str = "here") -> Process:
        """Start a host."""
        host = Host(f"h{len(self.processes) + 1}", namespace)
        store: Any = MortalStore(self.store, host, self)
        adapters = [PlayedAdapter(self.stage), *([AskedAdapter(self.stage)] if self.asks else [])]
        engine = Engine(
            store=store,
            registry=load_registry(adapters, entry_points_too=False),
            profiles=self.shelf,
            secrets=EnvironmentSecrets({}),
            catalogue=CATALOGUE,
            clock=self.clock,
            ids=Dice(self.stage.dice, host.name),
            key=KEY,
            owner_id=f"{namespace}/owner:{host.name}",
            executor_namespace=namespace,
            environ={},
            dynamic_enabled=self.flag,
        )
        process = Process(host, engine)
        self.processes.append(process)
        return process

    def begin(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let ``process`` do ``work`` until that is done or waits for an agent."""

        return self.race([(process, work)])[0]

    def race(self, works: Sequence[tuple[Process, Coroutine[Any, Any, Any]]]) -> list[asyncio.Task[Any]]:
        """As :meth:`begin`, several at once."""

        async def main() -> list[asyncio.Task[Any]]:
            tasks = []
            for process, work in works:
                HOST.set(process.host)
                task = asyncio.get_running_loop().create_task(_quietly(process.host, work))
                process.tasks.add(task)
                task.add_done_callback(partial(self._ended, process))
                tasks.append(task)
            await self._settle()
            return tasks

        return self.runner.run(main())

    def _ended(self, process: Process, task: asyncio.Task[Any]) -> None:
        process.tasks.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, RoutingError):
            self.bugs.append(problem)

    def do(self, process: Process, work: Coroutine[Any, Any, Any]) -> Any:
        """As :meth:`begin`, and return what came of it (None if it is not done, or nobody lived to see)."""
        task = self.begin(process, work)
        if not task.done():
            return None
        if (problem := task.exception()) is not None:
            raise problem
        return task.result()

    def settle(self) -> None:
        """Let everybody go on as far as they can."""
        self.runner.run(self._settle())

    async def _settle(self) -> None:
        ready: Any = getattr(asyncio.get_running_loop(), "_ready")  # noqa: B009  # who can go on: nothing public says
        for _ in range(_MOST_TURNS):
            await asyncio.sleep(0)
            if not ready:
                return
        raise AssertionError("somebody never comes to rest")

    def has_ended(self, process: Process) -> bool:
        """Whether nothing runs in ``process`` any more; a worker notices that a little later."""

        async def main() -> None:
            for _ in range(100):
                if not process.tasks:
                    return
                await asyncio.sleep(0.02)

        self.runner.run(main())
        return not process.tasks

    def look(self, process: Process, *, most: int = 1, afresh: bool = False) -> asyncio.Task[Any]:
        """Let the worker of ``process`` look once."""
        return self.begin(process, process.worker(most=most, afresh=afresh))

    def beat(self, process: Process) -> None:
        """Let ``process`` renew what it owns."""
        beat, process.host.beat = process.host.beat, asyncio.Event()
        beat.set()
        self.settle()

    def kill(self, process: Process) -> None:
        """The process is gone, at once; its agents are not."""
        process.host.die()
        self._end(process)

    def shut(self, process: Process) -> None:
        """The process is asked to end, and does: its agents are ended, its sessions are left to others."""
        self._end(process)
        process.host.die()

    def _end(self, process: Process) -> None:
        async def main() -> None:
            for task in list(process.tasks):
                task.cancel()
            await self._settle()

        self.runner.run(main())
        assert not process.tasks, "a process did not end"

    def close(self) -> None:
        """End everything."""
        for process in self.processes:
            self.kill(process)
        self.runner.close()


@contextmanager
def town_over(store: SqlStore, stage: Stage) -> Iterator[Town]:
    """Hosts over ``store``; ``frontier`` is fable, then sol."""
    town = Town(store, stage)
    concrete = {"fable": ("played", "fable", "acme"), "sol": ("played", "sol", "other")}
    town.shelf.put(profiles_table(concrete, {"frontier": [{"profile": "fable"}, {"profile": "sol"}]}))
    try:
        yield town
    finally:
        town.close()


async def _quietly(host: Host, work: Coroutine[Any, Any, Any]) -> Any:
    """What a dead process does is nobody's business."""
    try:
        return await work
    except BaseException:
        if host.dead:
            return None
        raise


def _nobody(progress: object) -> None:
    """Nobody listens."""

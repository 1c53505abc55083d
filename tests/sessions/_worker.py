"""A worker process of the campaign: forked from a warm parent, it opens a router and plays its part until it is killed or done.

Operations, each a list: ``["start", program, prompt]``, ``["call", profile, prompt]``, ``["work"]`` (until nothing is
to be done now), ``["work", "stop" | "drop"]`` (at the agents' first words, stop the session or take its first candidate
away), ``["later", seconds]``, ``["prompt", text]``, ``["act", action]``, ``["at", time]`` (wait for it), ``["race",
generation]`` (ask for the same retry as everybody else until it is reached), ``["look"]`` (write down what the sessions
show), ``["person"]`` (do what they ask for, until nothing is asked).
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import anyio

from kandev_routing_sdk import Progress, Router, Settings
from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.conductor import alongside
from kandev_routing_sdk.errors import PreconditionFailed
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.profiles import DynamicProfile, parse_profiles
from kandev_routing_sdk.profiles.model import Profile
from kandev_routing_sdk.results import AgentSaid
from kandev_routing_sdk.spec.adapter import LaunchPlan
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.store.engine import Database
from kandev_routing_sdk.testing import ScriptedAdapter

CATALOGUE = load_rules((ScriptedAdapter(),), plugins=False)[1]
POLL_S = 0.02
_PERSON_TRIES = 12


class Unasked(ScriptedAdapter):
    """Has no cheap probe: the next launch is the probe."""

    can_probe: ClassVar[bool] = False


class Slow(ScriptedAdapter):
    """Its cheap probe takes longer than its worker lives."""

    async def probe(self, plan: LaunchPlan, turn: TurnRecord) -> None:
        await super().probe(plan, turn)
        await anyio.sleep(60)


_ADAPTERS: Mapping[str, type[ScriptedAdapter]] = {"asked": ScriptedAdapter, "unasked": Unasked, "slow": Slow}


class LateClock(SystemClock):
    """The machine's clock, so many seconds ahead."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_s)


class Boundaries:
    """Counts the commits of this process, and kills it just before or just after the fatal one (0: never)."""

    def __init__(self, fatal: int, moment: str) -> None:
        self._fatal, self._moment = fatal, moment
        self._lock = threading.Lock()
        self.count = 0

    def watch(self, database: Database) -> None:
        """Stand between a store and its driver."""
        connect = database.engine.raw_connection
        setattr(database.engine, "raw_connection", lambda: _Watched(connect(), self))  # noqa: B010  # an instance's method
        database.forget_connections()

    def commit(self, connection: Any) -> None:
        with self._lock:
            self.count += 1
            fatal = self.count == self._fatal
            if fatal and self._moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            connection.commit()
            if fatal:
                os.kill(os.getpid(), signal.SIGKILL)


class _Watched:
    """A pooled connection whose commits are counted."""

    def __init__(self, connection: Any, boundaries: Boundaries) -> None:
        self._connection, self._boundaries = connection, boundaries

    def commit(self) -> None:
        self._boundaries.commit(self._connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Profiles:
    """Profiles that may lose a candidate while they are used."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles = dict(profiles)

    def get(self, profile_id: str) -> Profile | None:
        return self._profiles.get(profile_id)

    def all(self) -> Mapping[str, Profile]:
        return self._profiles

    def drop(self, profile_id: str) -> None:
        """Take the first candidate of a dynamic profile away."""
        profile = self._profiles[profile_id]
        assert isinstance(profile, DynamicProfile)
        self._profiles[profile_id] = profile.model_copy(update={"candidates": profile.candidates[1:]})


def agents_alive(folder: Path) -> list[int]:
    """The live processes that belong to the agents of a world, and the children they left."""
    place, left = str(folder).encode(), set[int]()
    for log in folder.glob("*/log.jsonl"):
        left |= {entry["child"] for entry in map(json.loads, log.read_text("utf-8").splitlines()) if "child" in entry}
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  # twice for each kill: a Path costs as much again
        with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123  # as above
            command = file.read()  # a zombie has none
            if command and (place in command or int(name) in left):
                found.append(int(name))
    return found


class Worker:
    """One job, see the module; ``done`` is what it has to tell."""

    def __init__(self, job: dict[str, Any], router: Router, clock: LateClock, profiles: Profiles) -> None:
        self._job, self._router, self._clock, self._profiles = job, router, clock, profiles
        self._folder = Path(job["folder"])
        self.done: dict[str, Any] = {"acted": [], "looks": [], "report": []}

    async def play(self) -> None:
        for op, *arguments in self._job["ops"]:
            await getattr(self, f"_{op}")(*arguments)

    def _sessions(self) -> list[Any]:
        return self._router.sessions.list()

    async def _start(self, program: str, prompt: str) -> None:
        begun = await self._router.sessions.start(program, prompt, cwd=self._folder)
        self._acknowledged(begun.session_id, prompt)

    async def _call(self, profile: str, prompt: str) -> None:
        await self._router.route_once_async(profile, prompt, cwd=self._folder, timeout=60)

    def _acknowledged(self, session_id: str, prompt: str) -> None:
        """Whoever asked was told that it is durable."""
        with (self._folder / "acknowledged").open("a", encoding="utf-8") as file:
            file.write(json.dumps([session_id, prompt]) + "\n")

    async def _work(self, meanwhile: str | None = None) -> None:
        said = anyio.Event()
        concerned = ""

        def told(session_id: str, progress: Progress) -> None:
            nonlocal concerned
            if isinstance(progress, AgentSaid) and not said.is_set():
                concerned = session_id
                said.set()
                if meanwhile == "drop":
                    self._profiles.drop(self._router.sessions.snapshot(session_id).logical_profile_id)

        async def stop() -> None:
            await said.wait()
            with anyio.CancelScope(shield=True):
                await self._router.sessions.stop(concerned)

        async with alongside(*([stop()] if meanwhile == "stop" else [])):
            report = await self._router.run_worker(
                until_idle=True,
                poll_s=self._job.get("poll_s", POLL_S),
                max_sessions=self._job.get("room", 8),
                on_progress=told,
            )
        self.done["report"].append([report.claimed, report.settled, report.given_up, report.probes])

    async def _later(self, seconds: float) -> None:
        self._clock.ahead_s += seconds

    async def _prompt(self, text: str) -> None:
        for session in self._sessions():
            await self._router.sessions.prompt(session.session_id, text)
            self._acknowledged(session.session_id, text)

    async def _act(self, action: str) -> None:
        for session in self._sessions():
            self._acted(session.session_id)
            await self._router.sessions.act(session.session_id, action, expected_generation=session.generation)

    def _acted(self, session_id: str) -> None:
        """What follows is on a person's word."""
        with (self._folder / "acted").open("a", encoding="utf-8") as file:
            file.write(json.dumps([session_id, time.time()]) + "\n")

    async def _at(self, moment: float) -> None:
        await anyio.sleep(max(0.0, moment - time.time()))

    async def _race(self, goal: int) -> None:
        (session,) = self._sessions()
        won, lost = list[int](), 0
        while session.generation < goal or session.state != "action_required":
            if session.state == "action_required":
                try:
                    await self._router.sessions.act(
                        session.session_id, "retry_now", expected_generation=session.generation, here=True
                    )
                    won.append(session.generation)
                except PreconditionFailed:
                    lost += 1
            else:
                await anyio.sleep(0.01)
            session = self._router.sessions.snapshot(session.session_id)
        self.done |= {"won": won, "lost": lost}

    async def _look(self) -> None:
        found = [self._router.sessions.snapshot(s.session_id).to_json() for s in self._sessions()]
        self.done["looks"].append({"sessions": found, "alive": agents_alive(self._folder)})

    async def _person(self) -> None:
        for _ in range(_PERSON_TRIES):
            open_ones = [s for s in self._sessions() if s.state not in {"active", "stopped"}]
            if not open_ones:
                return
            for session in open_ones:
                if session.deadline is not None:
                    ahead = (session.deadline - self._clock.now()).total_seconds() + 5
                    self._clock.ahead_s += max(0.0, ahead)
                elif "retry_now" in session.actions:
                    self._acted(session.session_id)
                    await self._router.sessions.act(
                        session.session_id, "retry_now", expected_generation=session.generation
                    )
            await self._work()


def run_job(job: dict[str, Any]) -> None:
    """Play a job in this process and write down what it has to tell."""
    done: dict[str, Any] = {}
    try:
        boundaries = Boundaries(*job.get("fatal", (0, "")))
        world = json.loads(Path(job["world"]).read_text("utf-8"))
        job["folder"] = world["folder"]
        profiles, _ = parse_profiles(world["profiles"], families=None)
        settings = Settings(world["url"], dynamic_agent_routing=True, profiles=profiles)
        clock, source = LateClock(job["ahead_s"]), Profiles(profiles)
        for name in job.get("dropped", ()):
            source.drop(name)
        adapters = (_ADAPTERS[job.get("adapter", "asked")](),)
        store = open_store(world["url"], migrate=False, timeout_s=job.get("timeout_s", 10.0))
        boundaries.watch(store._database)
        with Router.open(
            settings=settings,
            profiles=source,
            adapters=adapters,
            plugins=False,
            store=store,
            catalogue=CATALOGUE,
            clock=clock,
        ) as router:
            worker = Worker(job, router, clock, source)
            done = worker.done
            anyio.run(worker.play)
        done["commits"], done["ahead_s"] = boundaries.count, clock.ahead_s
    except BaseException as error:  # noqa: BLE001  # it is the result
        code = getattr(error, "code", None)
        done["error"] = [type(error).__name__, None if code is None else str(code), traceback.format_exc()]
    Path(job["result"]).write_text(json.dumps(done), "utf-8")

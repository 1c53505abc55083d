"""Agents without processes, processes without a machine: what a model of many lives plays with.

A :class:`Stage` is the machine. It knows which agents run, whom they were sent what, and whose process is gone; it is the witness of
what really happened, whatever the durable state says.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import anyio
import anyio.lowlevel
import pytest

from kandev_routing_sdk.binding import CredentialBindingDescriptor
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import AgentAdapter, LaunchPlan, LaunchRequest
from kandev_routing_sdk.spec.adapter import Extractor
from kandev_routing_sdk.testing.scripted import bodies
from kandev_routing_sdk.types import Channel, Transport

CANARY: Final = "sk-ant-api03-QmF0dGVyeUhvcnNlU3RhcGxlQ29ycmVjdA"
"""A secret of every agent's, which it repeats whenever it fails."""

SAFE_FAILURES: Final[Mapping[str, Callable[[], bodies.Failure]]] = {
    "quota": lambda: bodies.quota_limited(900),
    "near_quota": lambda: bodies.quota_limited(60),
    "far_quota": lambda: bodies.quota_limited(6 * 3600),
    "throttled": lambda: bodies.rate_limited(20),
    "overloaded": bodies.overloaded,
    "network": bodies.network,
    "auth": bodies.unauthorised,
}
"""Plays after which nothing can have happened."""
UNSAFE_FAILURES: Final[Mapping[str, Callable[[], bodies.Failure]]] = {
    "puzzling": bodies.puzzling,
    "tool_then_overloaded": bodies.overloaded,
    "text_then_quota": lambda: bodies.quota_limited(900),
}
_FAILURES: Final = {**SAFE_FAILURES, **UNSAFE_FAILURES}
PLAYS: Final = ("answer", *_FAILURES, "lost", "empty", "start_fails", "breaks")
"""What an agent may do with a prompt. ``slow:`` before it: not before the stage says so."""


class Dead(BaseException):  # not an error: nothing that a dead process does can be seen
    """This process is gone."""


@dataclass
class Sent:
    """A prompt that an agent got."""

    attempt_id: str
    session_id: str
    prompt_number: int
    agent: str
    play: str
    text: str
    person: int
    """How often a person had asked for something in this session before."""


@dataclass(eq=False)
class Agent:
    """A running agent."""

    attempt_id: str
    session_id: str
    profile_id: str
    namespace: str
    """Where it can be seen."""
    person: int
    group: int
    live: bool = True
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def kill(self) -> None:
        """End it."""
        self.live = False
        self.ended.set()
        self.go.set()


@dataclass
class Fuse:
    """Ends a host at the first write that is ``meant``."""

    meant: Callable[[str, Any], bool]
    """Given a write's name and its first argument."""
    after: bool
    """After it, else before it."""

    @classmethod
    def in_writes(cls, number: int, *, after: bool) -> Fuse:
        """At the write behind ``number`` others."""
        left = iter(range(number, -1, -1))
        return cls(lambda name, what: next(left, 0) == 0, after)


@dataclass(eq=False)
class Host:
    """A process of the SDK's: what it runs is gone with it, except for its agents."""

    name: str
    namespace: str = "here"
    dead: bool = False
    fuse: Fuse | None = None
    beat: asyncio.Event = field(default_factory=asyncio.Event)

    def die(self) -> None:
        """From now on nothing that it does can be seen."""
        self.dead = True
        self.fuse = None


HOST: ContextVar[Host] = ContextVar("HOST")


@dataclass
class Stage:
    """The machine."""

    dice: random.Random = field(default_factory=lambda: random.Random(0))  # lots, not secrets
    plays: dict[str, list[str]] = field(default_factory=dict)
    probes: dict[str, str] = field(default_factory=dict)
    probed: list[str] = field(default_factory=list)
    early: bool | None = None
    """Whether agents are spawned before the prompt may leave, as over ACP; None: now so, now so."""
    sent: list[Sent] = field(default_factory=list)
    agents: dict[str, Agent] = field(default_factory=dict)
    at_launch: Callable[[Agent], None] = lambda agent: None
    at_dispatch: Callable[[Sent], None] = lambda sent: None
    about: Callable[[str], tuple[str, int, int]] = lambda attempt_id: ("", 1, 0)
    """An attempt's session, prompt number, and how often a person had asked there."""

    def next(self, profile_id: str) -> str:
        """Take the agent's next play; the last one stays."""
        queue = self.plays.setdefault(profile_id, ["answer"])
        return queue.pop(0) if len(queue) > 1 else queue[0]

    async def breathe(self) -> None:
        """Let others go first, or not: whoever waits for a disk or a process does."""
        for _ in range(self.dice.choice((0, 0, 0, 1, 1, 2, 5))):
            await anyio.lowlevel.checkpoint()

    def live(self, session_id: str) -> list[Agent]:
        """The session's agents that can still act."""
        return [a for a in self.agents.values() if a.live and a.session_id == session_id]

    async def reap(self, group: int | None, started_at: object, attempt_id: str) -> bool:
        """What ``reap_group`` is to a real machine: an agent is found by its marker, whether its group was written down or not."""
        await self.breathe()
        agent = self.agents.get(attempt_id)
        if agent is not None:
            agent.kill()
        return True


class Extracts:
    """A played agent marks its turn itself."""

    def receive(self, event: object, turn: TurnRecord) -> None:
        """Nothing comes this way."""


class PlayedAdapter(AgentAdapter):
    """Plays; ``account`` and ``provider_id`` among the options say for whom."""

    family: ClassVar[str] = "played"
    label: ClassVar[str] = "Played agent"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.HEADLESS,)

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Whoever is resumed is resumed by its own profile (design §6, 7)."""
        profile = request.profile
        assert (request.resume_session_id or f"native:{profile.id}:").startswith(f"native:{profile.id}:")
        provider, account = _option(profile, "provider_id"), _option(profile, "account")
        descriptor = CredentialBindingDescriptor(
            family="played",
            mechanism="api_key",
            source_kind="option",
            locator=account,
            executor_namespace=request.executor_namespace,
            authorisation_scope=provider,
        )
        return LaunchPlan(
            transport=Transport.HEADLESS,
            argv=("/bin/true", profile.id),
            environ=request.environ,
            cwd=request.cwd,
            descriptor=descriptor,
            provider_id=provider,
            secrets=frozenset({CANARY}),
            resumed=request.resume_session_id is not None,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """May be broken, as a third party's code may."""
        if self.stage.plays.get(plan.argv[1], [""])[0] == "breaks":
            self.stage.next(plan.argv[1])
            raise RuntimeError(f"a bug of the adapter's {CANARY}")
        return Extracts()

    async def probe(self, plan: LaunchPlan, turn: TurnRecord) -> None:
        """Say what the stage says of the provider."""
        provider = str(plan.provider_id)
        self.stage.probed.append(provider)
        await self.stage.breathe()
        match self.stage.probes.get(provider, "nothing"):
            case "back":
                turn.succeeded("probe")
            case "bug":
                raise RuntimeError(f"a bug of the adapter's {CANARY}")
            case "hangs":
                await anyio.sleep(3600)
            case play if play in _FAILURES:
                fail(turn, _FAILURES[play]())


class AskedAdapter(PlayedAdapter):
    """Can be asked cheaply as well."""

    family: ClassVar[str] = "asked"
    can_probe: ClassVar[bool] = True


def _option(profile: ConcreteProfile, name: str) -> str:
    return str(profile.options.get(name, profile.id))


def fail(turn: TurnRecord, failure: bodies.Failure) -> None:
    """End the turn with a failure as an agent reports it, its secret in the text."""
    data: Any = {**(failure.get("data") or {}), "token": CANARY}
    text = f"{failure['message']} (key {CANARY})"
    turn.signal(Signal(channel=Channel.ACP_ERROR, text=text, data=data, code=failure["code"]))
    turn.failed()


class PlayedDownstream:
    """One agent for one attempt: the conductor's port."""

    stage: ClassVar[Stage]
    stale_frames = 0

    def __init__(
        self, plan: LaunchPlan, extractor: object, *, attempt_id: str, on_spawn: Any, on_first_sign: Any, clock: Any
    ) -> None:
        self._profile_id, self._attempt_id = plan.argv[1], attempt_id
        self._on_spawn, self._on_first_sign, self._clock = on_spawn, on_first_sign, clock
        self._host = HOST.get()
        self._agent: Agent | None = None
        self._play = ""

    @property
    def reaped(self) -> bool:
        """Whether nothing of it can act any more."""
        return self._agent is None or not self._agent.live

    async def start(self, turn: TurnRecord) -> Ready | None:
        """Spawn, as an agent of ACP does, or later, as a headless one does."""
        self._play = self.stage.next(self._profile_id)
        early = self.stage.dice.random() < 0.5 if self.stage.early is None else self.stage.early
        if early or self._play == "start_fails":
            await self._spawn()
        if self._play == "start_fails":
            fail(turn, bodies.unavailable())
            return None
        return Ready(f"native:{self._profile_id}:{self._attempt_id}")

    async def _spawn(self) -> None:
        if self._agent is not None:
            return
        stage = self.stage
        await stage.breathe()
        session_id, _, person = stage.about(self._attempt_id)
        agent = Agent(
            self._attempt_id,
            session_id,
            self._profile_id,
            namespace=self._host.namespace,
            person=person,
            group=1000 + len(stage.agents),
        )
        self._alive()
        self._agent = agent
        stage.at_launch(agent)
        stage.agents[self._attempt_id] = agent
        await stage.breathe()
        await self._on_spawn(agent.group, self._clock.now())

    def _alive(self) -> None:
        if self._host.dead:
            raise Dead

    async def prompt(self, text: str, turn: TurnRecord) -> None:
        """Send, and play."""
        stage = self.stage
        await self._spawn()
        agent = self._agent
        assert agent is not None
        await stage.breathe()
        self._alive()
        if not agent.live:
            self._exited(turn)
            return
        session_id, number, person = stage.about(self._attempt_id)
        sent = Sent(
            self._attempt_id, session_id, number, self._profile_id, self._play.removeprefix("slow:"), text, person
        )
        turn.sent()
        stage.sent.append(sent)
        stage.at_dispatch(sent)
        if self._play.startswith("slow:"):
            await agent.go.wait()
        await stage.breathe()
        if agent.ended.is_set():
            self._exited(turn)
            return
        await self._perform(sent.play, turn, agent)

    async def _perform(self, play: str, turn: TurnRecord, agent: Agent) -> None:
        if play == "lost":
            agent.kill()
            self._exited(turn)
            return
        await self._on_first_sign()
        turn.acknowledged()
        turn.session(f"native:{self._profile_id}:{self._attempt_id}")
        turn.served_model(f"{self._profile_id}-served")
        if play == "answer":
            turn.text("forty-two")
        if play in {"answer", "empty"}:
            turn.succeeded("end_turn")
            return
        if play == "tool_then_overloaded":
            turn.tool_result("t1", ok=True)
        if play == "text_then_quota":
            turn.text("forty-")
        fail(turn, _FAILURES[play]())

    def _exited(self, turn: TurnRecord) -> None:
        turn.exited(None, "SIGKILL")
        turn.signal(Signal(channel=Channel.EXIT, data={"exit_code": None, "signal": "SIGKILL", "eof": True}))
        turn.failed()

    async def cancel(self) -> None:
        """Ends as soon as it is stopped."""

    async def stop(self) -> None:
        """End it, unless whoever asks is dead."""
        with anyio.CancelScope(shield=True):
            await self.stage.breathe()
        self._alive()
        if self._agent is not None:
            self._agent.kill()


def install(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Let conductors play on ``stage``: no threads, no processes, and heartbeats when the stage says so."""

    async def run_sync(function: Callable[[], Any], **_: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        result = function()
        with anyio.CancelScope(shield=True):  # as a thread: what was made is made
            await stage.breathe()
        return result

    def marked() -> set[str]:
        """Whose agents run on this machine."""
        here = HOST.get().namespace
        return {a.attempt_id for a in stage.agents.values() if a.live and a.namespace == here}

    class Beating:
        """``anyio``, except that it sleeps until the next heartbeat, and has no threads."""

        to_thread = SimpleNamespace(run_sync=run_sync)

        def __getattr__(self, name: str) -> Any:
            return getattr(anyio, name)

        async def sleep(self, seconds: float) -> None:
            await HOST.get().beat.wait()

    PlayedDownstream.stage = stage
    patch.setattr("kandev_routing_sdk.conductor.attempt.HeadlessDownstream", PlayedDownstream)
    patch.setattr("kandev_routing_sdk.conductor.recovery.reap_group", stage.reap)
    patch.setattr("kandev_routing_sdk.conductor.tasks.to_thread", SimpleNamespace(run_sync=run_sync))
    patch.setattr("kandev_routing_sdk.conductor.ledger.anyio", Beating())
    patch.setattr("kandev_routing_sdk.scheduler.keeper.anyio", Beating())
    patch.setattr("kandev_routing_sdk.scheduler.keeper.marked_attempts", marked)
    patch.setattr("kandev_routing_sdk.scheduler.keeper.reap_group", stage.reap)


def profiles_table(
    names: Mapping[str, tuple[str, str, str]], routes: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """A profiles table: concrete profiles (family, account, provider) and dynamic ones (their candidates)."""
    table: dict[str, Any] = {
        name: {"family": family, "options": {"account": account, "provider_id": provider}}
        for name, (family, account, provider) in names.items()
    }
    table |= {
        name: {"kind": "dynamic", "name": name.title(), "candidates": list(candidates)}
        for name, candidates in routes.items()
    }
    return table

"""A random life of several profiles over one store, checked after every step (design §6).

Agents are played in memory, so that Hypothesis can try thousands of lives: calls through two routers, crashes at any write, clock
jumps, resets by hand. What the agents were sent is the witness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kandev_routing_sdk import CallFailed, Router, Settings
from kandev_routing_sdk.errors import StoreUnavailable
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.spec import LaunchPlan
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import FakeClock, ScriptedAdapter
from kandev_routing_sdk.testing.scripted import bodies
from kandev_routing_sdk.types import Channel, CircuitState, DispatchMark
from tests.routes._stores import WRITES

NAMES = ("fable", "sol", "luna")
PARTS: dict[str, Any] = {
    "adapters": [ScriptedAdapter()],
    "plugins": False,
    "catalogue": load_rules([ScriptedAdapter()], plugins=False)[1],
}
RETRY = {"transient": {"retry": {"enabled": True, "max_retries": 2, "initial_interval_seconds": 5}}}
WAIT = {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 600}}}
SAFE_FAILURES: dict[str, Callable[[], bodies.Failure]] = {
    "quota": lambda: bodies.quota_limited(900),
    "near_quota": lambda: bodies.quota_limited(60),
    "overloaded": bodies.overloaded,
    "auth": bodies.unauthorised,
}
PLAYS = ("answer", "answer", *SAFE_FAILURES, "puzzling", "tool_then_overloaded", "text_then_quota", "lost", "empty")


@dataclass
class Sent:
    """A prompt that an agent got, and what it did with it."""

    attempt_id: str
    agent: str
    play: str


@dataclass
class Stage:
    """What the played agents will do, and what they were sent."""

    plays: dict[str, list[str]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)

    def next(self, agent: str) -> str:
        """Take the agent's next play; the last one stays."""
        queue = self.plays.setdefault(agent, ["answer"])
        return queue.pop(0) if len(queue) > 1 else queue[0]


class Played:
    """A downstream without a process."""

    stage: ClassVar[Stage]
    reaped = True
    stale_frames = 0

    def __init__(
        self, plan: LaunchPlan, extractor: object, *, attempt_id: str, on_first_sign: Any, **_: object
    ) -> None:
        del extractor
        self._agent = str(plan.provider_id)
        self._attempt_id = attempt_id
        self._on_first_sign = on_first_sign

    async def start(self, turn: TurnRecord) -> Ready:
        del turn
        return Ready()

    async def prompt(self, text: str, turn: TurnRecord) -> None:
        del text
        turn.sent()
        play = self.stage.next(self._agent)
        self.stage.sent.append(Sent(self._attempt_id, self._agent, play))
        if play == "lost":
            turn.exited(None, "SIGKILL")
            turn.signal(Signal(channel=Channel.EXIT, data={"exit_code": None, "signal": "SIGKILL", "eof": True}))
            turn.failed()
            return
        await self._on_first_sign()
        turn.acknowledged()
        self._play(play, turn)

    def _play(self, play: str, turn: TurnRecord) -> None:
        if play == "answer":
            turn.text("forty-two")
        if play in {"answer", "empty"}:
            turn.succeeded("end_turn")
            return
        if play == "tool_then_overloaded":
            turn.tool_result("t1", ok=True)
        if play == "text_then_quota":
            turn.text("forty-")
        failure = {
            "puzzling": bodies.puzzling,
            "tool_then_overloaded": bodies.overloaded,
            "text_then_quota": lambda: bodies.quota_limited(900),
            **SAFE_FAILURES,
        }[play]()
        data: Any = failure.get("data")
        turn.signal(Signal(channel=Channel.ACP_ERROR, text=failure["message"], data=data, code=failure["code"]))
        turn.failed()

    async def cancel(self) -> None:
        """Nothing runs."""

    async def stop(self) -> None:
        """Nothing runs."""


class DyingStore:
    """A store whose process dies at its Nth write: nothing after it becomes durable."""

    def __init__(self, store: Any, last: int) -> None:
        self._store, self._left = store, last

    def __getattr__(self, name: str) -> Any:  # a stand-in for every method
        method = getattr(self._store, name)
        if name not in {*WRITES, "change_circuits", "interrupt_calls"}:
            return method

        def write(*args: Any, **kwargs: Any) -> Any:  # as above
            if self._left <= 0:
                raise StoreUnavailable("the process is dead")
            self._left -= 1
            return method(*args, **kwargs)

        return write


class Lives(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.stage = Stage()
        Played.stage = self.stage
        self.folder = TemporaryDirectory()
        self.url = f"sqlite:///{self.folder.name}/routing.db"
        self.deadlines: dict[str, Any] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(
        policies=st.lists(st.sampled_from([None, RETRY, WAIT]), min_size=3, max_size=3),
        shared=st.booleans(),
    )
    def build(self, policies: list[Any], shared: bool) -> None:  # drawn
        """Three candidates; two of them may be one account."""
        command = ["true"]
        table: dict[str, Any] = {}
        for name in NAMES:
            account = "work" if shared and name != "luna" else name
            provider = "work" if shared and name != "luna" else name
            options = {"account": account, "provider_id": provider}
            table[name] = {"family": "scripted", "command": command, "transport": "headless", "options": options}
        candidates = [
            {"profile": name, **({"policy": policy} if policy else {})}
            for name, policy in zip(NAMES, policies, strict=True)
        ]
        table["frontier"] = {"kind": "dynamic", "name": "Frontier", "candidates": candidates}
        profiles, problems = parse_profiles(table, families=None)
        assert problems == []
        self.settings = Settings(self.url, dynamic_agent_routing=True, profiles=profiles)

    def _call(self, store: Any, profile: str) -> None:
        parts: dict[str, Any] = {**PARTS, "clock": self.clock, "store": store}
        first = len(self.stage.sent)
        try:
            with Router.open(settings=self.settings, **parts) as router:
                router.route_once(profile, "do it", timeout=3600, cwd=Path(self.folder.name))
        except CallFailed:
            pass
        self._check_order(self.stage.sent[first:])

    def _check_order(self, sent: list[Sent]) -> None:
        """Invariant 1: within a call, nothing follows a play that may have had effects."""
        for one in sent[:-1]:
            assert one.play in SAFE_FAILURES, f"{one.play} was followed by another prompt"

    @rule(profile=st.sampled_from(["frontier", "frontier", "fable"]))
    def call(self, profile: str) -> None:
        """One call, to its end."""
        self._call(open_store(self.url), profile)

    @rule(last=st.integers(0, 16))
    def crash(self, last: int) -> None:
        """A call whose process dies at a write."""
        store = open_store(self.url)
        try:
            self._call(DyingStore(store, last), "frontier")
        except StoreUnavailable:
            pass
        finally:
            store.close()

    @rule(agent=st.sampled_from([*NAMES, "work"]), plays=st.lists(st.sampled_from(PLAYS), min_size=1, max_size=4))
    def script(self, agent: str, plays: list[str]) -> None:
        """Say what an agent does next."""
        self.stage.plays[agent] = plays

    @rule(seconds=st.sampled_from([1, 30, 90, 1000, 7200]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([5, 600]))
    def jump_back(self, seconds: int) -> None:
        """The machine's clock is set back (R-DUR-5)."""
        self.clock.set(self.clock.now() - timedelta(seconds=seconds))

    @rule()
    def reset_by_hand(self) -> None:
        """A person closes the first circuit."""
        with Router.open(settings=self.settings, clock=self.clock, **PARTS) as router:
            circuits = router.circuits()
            if circuits:
                router.reset_circuit(circuits[0].key.key)
                self.deadlines.pop(circuits[0].key.key, None)

    @invariant()
    def holds(self) -> None:
        """Everything that must be true of the durable state and of what the agents got."""
        prompts = Counter(s.attempt_id for s in self.stage.sent)
        assert all(count == 1 for count in prompts.values()), "a prompt was dispatched twice for one attempt"
        with open_store(self.url) as store:
            known = set()
            for route in store.sessions(limit=1000):
                generations = [s.generation for s in store.selections(route.session_id)]
                assert list(range(1, len(generations) + 1)) == generations
                assert route.generation == len(generations)
                attempts = store.attempts(route.session_id)
                known |= {a.attempt_id for a in attempts}
                assert list(range(1, len(attempts) + 1)) == [a.ordinal for a in attempts]
                for attempt in attempts:
                    assert attempt.mark is not DispatchMark.CLAIMED or prompts[attempt.attempt_id] == 0
            assert set(prompts) <= known, "a prompt without its committed attempt"
            for circuit in store.circuits():
                self._check_circuit(circuit)

    def _check_circuit(self, circuit: Any) -> None:
        before = self.deadlines.get(circuit.key.key)
        if circuit.state is CircuitState.CLOSED:
            self.deadlines.pop(circuit.key.key, None)
            return
        assert circuit.deadline is not None or circuit.action_required
        if before is not None and circuit.deadline is not None and before > self.clock.now():
            assert circuit.deadline >= before, "an open deadline shrank"
        if circuit.deadline is not None:
            self.deadlines[circuit.key.key] = circuit.deadline


@pytest.mark.usefixtures("_played")
def test_random_lives() -> None:
    """Hundreds of steps; ``--hypothesis-profile=long`` for many more."""
    from hypothesis.stateful import run_state_machine_as_test  # beside its only use

    default = settings.get_profile("house")
    profile = settings() if settings().max_examples > default.max_examples else settings(max_examples=25)
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Lives, settings=settings(profile, stateful_step_count=30, deadline=None, suppress_health_check=slow)
    )


@pytest.fixture
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kandev_routing_sdk.conductor.attempt.HeadlessDownstream", Played)

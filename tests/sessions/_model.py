"""Many lives of many sessions, at random: people, hosts that die and sleep, agents that fail, a clock that jumps (design §6)."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kandev_routing_sdk.errors import RoutingError, StaleGeneration
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.sessions import Action
from kandev_routing_sdk.store import SqlStore
from tests.sessions._laws import Laws, settles
from tests.sessions._played import PLAYS, SAFE_FAILURES, Fuse, Stage, profiles_table
from tests.sessions._town import FOLDER, Process, Town

NAMES = ("fable", "sol", "luna")
MOST_SESSIONS = 4
LOOKS = 0.15
"""How often a worker looks after whatever was done."""
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"transient": {"retry": {"enabled": True, "max_retries": 2, "initial_interval_seconds": 5}}},
    {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 600}}},
    {
        "transient": {
            "retry": {"enabled": True, "max_retries": 1, "initial_interval_seconds": 90},
            "on_exhausted": "stop",
        },
        "hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 604800}, "on_exhausted": "stop"},
    },
    {"hard": {"retry": {"enabled": True, "max_retries": 1, "initial_interval_seconds": 30}, "on_exhausted": "stop"}},
)
SLOTS = st.integers(0, 2)
WHICH = st.integers(0, MOST_SESSIONS - 1)
CRASHES = st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 9), st.booleans()))
ONE_PLAY = st.sampled_from(
    [*PLAYS, *SAFE_FAILURES, "answer", "slow:answer", "slow:answer", "slow:tool_then_overloaded"]
)


class Tally:
    """What was done, over all lives."""

    def __init__(self) -> None:
        self.steps = 0
        self.rules: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.states: Counter[str] = Counter()


class Lives(RuleBasedStateMachine):
    """See the module. ``store``, ``stage``, ``empty``, ``dump`` and ``tally`` are given by the test."""

    store: ClassVar[SqlStore]
    stage: ClassVar[Stage]
    empty: ClassVar[Callable[[], None]]
    dump: ClassVar[Callable[[], bytes]]
    log: ClassVar[list[str]]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        cls = type(self)
        cls.empty()
        cls.stage.__init__()  # type: ignore[misc]  # the same machine, swept
        self.town = Town(cls.store, cls.stage)
        self.laws = Laws(self.town, cls.dump)
        self.laws.said = cls.log
        self.slots: list[Process] = []
        self.sessions: list[str] = []
        self.actions = 0
        self.sound = True
        self.policies: list[int] = [0, 0, 0]
        self.order = list(NAMES)
        self.left_out: dict[str, str] = {}
        self.shared = False

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        policies=st.lists(st.integers(0, len(POLICIES) - 1), min_size=3, max_size=3),
        shared=st.booleans(),
        plays=st.lists(st.lists(ONE_PLAY, min_size=1, max_size=4), min_size=3, max_size=3),
        asks=st.sampled_from([False, False, False, True]),
    )
    def begin(self, seed: int, policies: list[int], shared: bool, plays: list[list[str]], asks: bool) -> None:
        """Three candidates, two of which may be one account; two hosts on this machine and one on another."""
        self.stage.dice = random.Random(seed)  # lots, not secrets
        self.stage.plays = dict(zip(NAMES, plays, strict=True))
        self.policies, self.shared, self.town.asks = policies, shared, asks
        self.write_profiles()
        self.slots = [self.town.process(), self.town.process(), self.town.process("far")]
        for profile in ("frontier", "fable"):
            self.town.do(self.slots[0], self.slots[0].router.sessions.start(profile, "do it", cwd=FOLDER))
        self.sessions = sorted(r.session_id for r in self.store.sessions(limit=100))

    def write_profiles(self) -> None:
        same = ("work", "acme") if self.shared else None
        concrete = {
            "fable": ("played", *(same or ("fable", "acme"))),
            "sol": ("played", *(same or ("sol", "acme"))),
            "luna": ("asked" if self.town.asks else "played", "luna", "moon"),
        }
        listed: list[dict[str, Any]] = [
            {"profile": name, "policy": POLICIES[self.policies[NAMES.index(name)]]}
            | ({"enabled": False} if self.left_out.get(name) == "disabled" else {})
            for name in self.order
            if self.left_out.get(name) != "removed"
        ] or [{"profile": "luna"}]
        table = profiles_table(concrete, {"frontier": listed, "solo": [{"profile": "luna"}]})
        for name, how in self.left_out.items():
            if how == "unusable":
                table[name]["enabled"] = False
        self.town.shelf.put(table)

    # Doing ------------------------------------------------------------------------------------------------------------------

    def host(self, slot: int, crash: tuple[int, bool] | None = None) -> Process:
        """The living host of a slot; it will die at a write if it shall crash."""
        process = self.slots[slot]
        if process.host.dead or process.engine.dynamic_enabled != self.town.flag:
            if not process.host.dead:
                self.town.shut(process)
            process = self.slots[slot] = self.town.process(process.host.namespace)
        process.host.fuse = None if crash is None else Fuse.in_writes(crash[0], after=crash[1])
        return process

    def does(self, process: Process, work: Coroutine[Any, Any, Any]) -> Any:
        """Let a host do something, and take note of how it was refused."""
        try:
            return self.town.do(process, work)
        except RoutingError as refused:
            self.tally.refusals[type(refused).__name__] += 1
            self.laws.said.append(str(refused))
            return refused
        finally:
            self.bury(process)

    def bury(self, process: Process) -> None:
        """Whoever died in this step is gone with everything that it did."""
        process.host.fuse = None
        if process.host.dead:
            self.town.kill(process)

    def session(self, which: int) -> Route | None:
        if not self.sessions:
            return None
        return self.store.load(self.sessions[which % len(self.sessions)])

    # People -----------------------------------------------------------------------------------------------------------------

    @rule(
        slot=SLOTS,
        profile=st.sampled_from(["frontier", "frontier", "solo", "fable"]),
        here=st.booleans(),
        crash=CRASHES,
    )
    def starts_a_session(self, slot: int, profile: str, here: bool, crash: tuple[int, bool] | None) -> None:
        """Begun, here or for whoever comes."""
        if len(self.sessions) >= MOST_SESSIONS:
            return
        host = self.host(slot, crash)
        self.does(host, host.router.sessions.start(profile, "do it", cwd=FOLDER, here=here))
        self.sessions = sorted(r.session_id for r in self.store.sessions(limit=100))

    @rule(slot=SLOTS, which=WHICH, here=st.booleans(), crash=CRASHES)
    def says_more(self, slot: int, which: int, here: bool, crash: tuple[int, bool] | None) -> None:
        """The next message."""
        if route := self.session(which):
            host = self.host(slot, crash)
            self.does(host, host.router.sessions.prompt(route.session_id, "and more", here=here))

    @rule(
        slot=SLOTS,
        which=WHICH,
        action=st.sampled_from(
            ["retry_now", "retry_now", "skip_now", "skip_now", "resume", "start_fresh", "cancel_wait", "stop"]
        ),
        behind=st.sampled_from([0, 0, 0, 1]),
        fenced=st.booleans(),
        again=st.booleans(),
        here=st.booleans(),
        crash=CRASHES,
    )
    def acts(  # noqa: PLR0917  # as drawn
        self, slot: int, which: int, action: str, behind: int, fenced: bool, again: bool, here: bool, crash: Any
    ) -> None:
        """An action on what was seen, or on what has moved on since; now and then the same one twice."""
        host = self.host(slot, crash)
        if (route := self.session(which)) is None or (action == "stop" and self.stage.dice.random() < 0.9):
            host.host.fuse = None
            return
        self.actions += 1
        asked: dict[str, Any] = {
            "expected_generation": route.generation - behind,
            "expected_revision": route.revision if fenced else None,
            "action_id": f"a{self.actions}",
            "here": here,
        }
        answer = self.does(host, host.router.sessions.act(route.session_id, Action(action), **asked))
        after = self.store.load(route.session_id)
        if behind and not host.host.dead:
            assert isinstance(answer, StaleGeneration) or not self.town.flag
            assert after == route, "a stale action changed something"
        if again and not isinstance(answer, RoutingError) and not host.host.dead:
            sent = len(self.stage.sent)
            self.does(host, host.router.sessions.act(route.session_id, Action(action), **asked))
            assert (after, sent) == (self.store.load(route.session_id), len(self.stage.sent)), "carried out twice"

    @rule(slot=SLOTS, which=WHICH, crash=CRASHES)
    def stops_a_session(self, slot: int, which: int, crash: tuple[int, bool] | None) -> None:
        """From any state, whoever runs it; seldom."""
        if (route := self.session(which)) and self.stage.dice.random() < 0.05:
            host = self.host(slot, crash)
            self.does(host, host.router.sessions.stop(route.session_id))

    # Hosts ------------------------------------------------------------------------------------------------------------------

    def look(self, slot: int, most: int, crash: tuple[int, bool] | None) -> None:
        host = self.host(slot, crash)
        self.laws.after_step()
        now = self.town.clock.now()
        waiting = [r for r in self.laws.seen if r.state is State.RETRY_WAIT and self.town.flag]
        self.town.look(host, most=most, afresh=self.stage.dice.random() < 0.08)
        self.bury(host)
        for route in waiting:
            self.laws.invariant_4_no_timer_fires_early(route, now)

    @rule(slot=SLOTS, crash=CRASHES)
    def looks_for_one(self, slot: int, crash: tuple[int, bool] | None) -> None:
        """A worker takes one session."""
        self.look(slot, 1, crash)

    @rule(slot=SLOTS, most=st.integers(1, 4))
    def looks(self, slot: int, most: int) -> None:
        """A worker takes a few."""
        self.look(slot, most, None)

    @rule(one=SLOTS, two=SLOTS, most=st.integers(1, 3))
    def two_look(self, one: int, two: int, most: int) -> None:
        """Two workers race for the same sessions."""
        hosts = [self.host(one), self.host(two)]
        self.town.race([(host, host.worker(most=most)) for host in hosts])

    @rule(
        slot=SLOTS,
        other=SLOTS,
        which=WHICH,
        action=st.sampled_from(["retry_now", "skip_now", "resume", "start_fresh", "prompt", "stop"]),
        here=st.booleans(),
    )
    def a_person_races_a_worker(self, slot: int, other: int, which: int, action: str, here: bool) -> None:
        """A timer and a person, perhaps in one process: exactly one commits (R-ENG-8)."""
        if (route := self.session(which)) is None:
            return
        hosts = self.host(slot), self.host(other)
        sessions = hosts[0].router.sessions
        self.actions += 1
        asks: Coroutine[Any, Any, Any]
        if action == "prompt":
            asks = sessions.prompt(route.session_id, "racing", here=here)
        elif action == "stop":
            asks = (
                sessions.stop(route.session_id)
                if self.stage.dice.random() < 0.2
                else sessions.act(route.session_id, Action.CANCEL_WAIT, expected_generation=route.generation)
            )
        else:
            asks = sessions.act(
                route.session_id,
                action,
                expected_generation=route.generation,
                action_id=f"a{self.actions}",
                here=here,
            )
        self.town.race([(hosts[0], asks), (hosts[1], hosts[1].worker(most=2))])

    @rule(slot=SLOTS)
    def renews(self, slot: int) -> None:
        """A heartbeat."""
        if not self.slots[slot].host.dead:
            self.town.beat(self.slots[slot])

    @rule(slot=SLOTS, kindly=st.booleans())
    def ends(self, slot: int, kindly: bool) -> None:
        """A host is killed, or asked to end."""
        if not self.slots[slot].host.dead:
            (self.town.shut if kindly else self.town.kill)(self.slots[slot])

    # The world --------------------------------------------------------------------------------------------------------------

    @rule(which=WHICH)
    def an_agent_goes_on(self, which: int) -> None:
        """A slow agent does what it was about to do."""
        if route := self.session(which):
            for agent in self.stage.live(route.session_id):
                agent.go.set()
            self.town.settle()

    @rule(name=st.sampled_from(NAMES), plays=st.lists(ONE_PLAY, min_size=1, max_size=4))
    def agents_change(self, name: str, plays: list[str]) -> None:
        """What an agent does from now on."""
        self.stage.plays[name] = plays

    @rule(play=st.sampled_from(["nothing", "back", "bug", "quota", "auth"]))
    def probes_change(self, play: str) -> None:
        """What a cheap probe says from now on."""
        self.stage.probes["moon"] = play

    @rule(seconds=st.sampled_from([1, 5, 10, 30, 61, 61, 200, 1000, 4000, 90_000]))
    def time_passes(self, seconds: int) -> None:
        """For everybody; leases end."""
        self.town.clock.advance(seconds)

    @rule()
    def time_passes_until_something_is_due(self) -> None:
        """To the next deadline of any session."""
        now = self.town.clock.now()
        due = [r.deadline for r in self.laws.seen if r.deadline is not None]
        ahead = sorted(d for d in due if d > now)
        if ahead:
            self.town.clock.set(ahead[0])

    @rule(seconds=st.sampled_from([1, 30, 600]))
    def the_clock_is_set_back(self, seconds: int) -> None:
        """A machine's wall clock may be (R-DUR-5)."""
        self.town.clock.set(self.town.clock.now() - timedelta(seconds=seconds))

    @rule(order=st.permutations(NAMES), policies=st.lists(st.integers(0, len(POLICIES) - 1), min_size=3, max_size=3))
    def the_profile_is_edited(self, order: list[str], policies: list[int]) -> None:
        """Another order, other policies."""
        self.order, self.policies = list(order), policies
        self.write_profiles()

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["disabled", "removed", "unusable", "there", "there"]))
    def a_candidate_comes_or_goes(self, name: str, how: str) -> None:
        """One is disabled, removed, unusable for everybody, or there again."""
        self.left_out[name] = how
        self.write_profiles()

    @rule(on=st.sampled_from([True, True, False]))
    def the_flag_is_switched(self, on: bool) -> None:
        """At each host's next start (R-RES-4)."""
        self.town.flag = on

    @rule(slot=SLOTS, how=st.sampled_from(["reset", "retry", "credentials", "credentials"]), which=st.integers(0, 5))
    def health_is_set_by_hand(self, slot: int, how: str, which: int) -> None:
        """A person closes a circuit, lets it be probed, or says that logins changed."""
        router = self.host(slot).router
        circuits = self.store.circuits()
        if how == "credentials":
            router.credentials_changed()
        elif circuits:
            key = circuits[which % len(circuits)].key.key
            (router.reset_circuit if how == "reset" else router.retry_circuit)(key)

    # What must hold -----------------------------------------------------------------------------------------------------------

    def somebody_looks(self) -> None:
        """Workers look all the time, whatever else happens: else most would happen to sessions that nobody is at."""
        if self.stage.dice.random() < LOOKS:
            self.look(self.stage.dice.randrange(3), self.stage.dice.choice((1, 1, 3)), None)

    @invariant()
    def everything_holds(self) -> None:
        """The eight."""
        self.tally.steps += 1
        sound, self.sound = self.sound, False
        self.laws.after_step()
        if self.slots:
            self.somebody_looks()
            self.laws.after_step()
        for route in self.laws.seen:
            self.tally.states[route.state.value] += 1
        self.sound = sound

    def teardown(self) -> None:
        """Reconciliation, and the end."""
        try:
            if self.sound and self.slots:
                settles(self.town)
                self.laws.after_step()
                self.laws.invariant_8_no_secret_is_kept()
                self.laws.what_was_seen_is_what_is_kept()
                self.laws.what_was_decided_is_decided_again()
        finally:
            self.town.close()


class Heard(logging.Handler):
    """Keeps what was logged."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(self.format(record))

"""A host that embeds the router: sessions driven in its process, and the events that it renders (R-CON-5, R-CON-6, R-CON-10)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import anyio
import pytest

from kandev_routing_sdk import EventKind, EventRecord, NotPermitted, Router
from kandev_routing_sdk.conductor import Drive
from kandev_routing_sdk.errors import StaleGeneration, StoreUnavailable, TurnInProgress, UsageError
from kandev_routing_sdk.events import EventDraft
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.store import SqlStore
from kandev_routing_sdk.testing import ScriptBuilder
from tests._processes import group_members, wait_for
from tests.sessions._home import CATALOGUE, Home, retries

T = TypeVar("T")

ANSWER = ScriptBuilder


def hosted(home: Home, work: Callable[[Router], Awaitable[T]], **options: Any) -> T:
    """Run ``work`` in a host of its own, which ends in order."""

    async def main() -> T:
        parts = {"adapters": [home.adapter], "clock": home.clock, "catalogue": CATALOGUE, "poll_s": 0.02, **options}
        async with Router.open(home.url, settings=home.settings, plugins=False, **parts) as router:
            with anyio.fail_after(30):
                return await work(router)

    return anyio.run(main)


def kinds(events: list[EventRecord]) -> list[str]:
    """Their kinds, without what every kind begins with."""
    return [event.kind.removeprefix("session.") for event in events]


def said(events: list[EventRecord]) -> str:
    """The answer, as its events have it."""
    output = (e.params for e in events if e.kind is EventKind.TURN_OUTPUT)
    return "".join(str(p["text"]) for p in output if p["type"] == "text")


def test_a_conversation(home: Home) -> None:
    """One session, one author: each prompt's events from the user's message to the end of the turn, and the same again later."""
    home.agent("fable", ANSWER().say("hel").say("lo"), ANSWER().say("bye"))

    async def talk(router: Router) -> tuple[str, list[list[EventRecord]]]:
        session = await router.start_session("frontier", cwd=home.folder, prompt="hi")
        first = []
        async for event in session.events():
            first.append(event)
            if event.kind is EventKind.TURN_ENDED:
                break
        second = [event async for event in session.prompt("and now?")]
        seen = await session.snapshot()
        assert ("active", False, 1) == (seen.state, seen.has_prompt, seen.generation)
        assert 2 == len(await session.attempts())
        return session.id, [first, second]

    session_id, (first, second) = hosted(home, talk)
    turn = ["user_message", "route_changed", "capabilities_replaced", "turn_started", "turn_output", "turn_ended"]
    assert turn == [k for i, k in enumerate(kinds(first)) if k not in kinds(first)[:i]]
    assert ["user_message", "turn_ended"] == [kinds(second)[0], kinds(second)[-1]]
    assert ("hello", "bye") == (said(first), said(second))
    assert [{"text": "hi", "prompt_number": 1}, {"text": "and now?", "prompt_number": 2}] == [
        e.params for e in (*first, *second) if e.kind is EventKind.USER_MESSAGE
    ]
    (attempt, *_) = home.rows(session_id)
    output = next(e for e in first if e.kind is EventKind.TURN_OUTPUT)
    assert (attempt.generation, attempt.attempt_id, "fable", 1) == (
        output.generation,
        output.params["attempt_id"],
        output.params["profile_id"],
        output.params["ordinal"],
    )
    assert [*first, *second] == home.store.events(session_id=session_id), "replayed after a restart: the same view"


def test_a_turn_goes_on_through_waits_and_switches(lite_home: Home) -> None:
    """The iterator ends with the turn, not with the first failure of it."""
    home = lite_home
    home.agent("fable", *([ANSWER().fail_overloaded()] * 2), policy=retries(1))
    home.agent("sol", ANSWER().say("here"))

    async def talk(router: Router) -> list[EventRecord]:
        session = await router.start_session("frontier", cwd=home.folder)
        events = []
        async for event in session.prompt("hi"):
            events.append(event)
            if event.kind is EventKind.ROUTE_WAITING:
                home.fake.advance(60)
        return events

    events = hosted(home, talk)
    assert ["user_message", "route_waiting", "route_changing", "turn_ended"] == [
        k for k in kinds(events) if k in {"user_message", "route_waiting", "route_changing", "turn_ended"}
    ]
    assert "here" == said(events)
    assert {"fable": 2, "sol": 1} == {name: len(agent.prompts) for name, agent in home.agents.items()}


def test_a_session_that_could_not_be_made_ready_is_not_left(lite_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody learns its id, and nobody asked it anything; one with a prompt is kept, whatever happens (R-CON-10)."""
    home = lite_home
    home.agent("fable", ANSWER().say("hello"))

    async def fails(*_: object, **__: object) -> Route:
        raise StoreUnavailable("the store does not answer")

    async def talk(router: Router) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr("kandev_routing_sdk.sessions.host.go_on", fails)
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await router.start_session("fable", cwd=home.folder)
            await router.start_session("fable", cwd=home.folder, prompt="hi")
        return sorted(session.state for session in router.sessions.list())

    states = hosted(home, talk)
    assert 2 == len(states)
    assert 1 == states.count("stopped")


def test_the_events_of_no_session_are_not_waited_for(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER().say("hi"))

    async def talk(router: Router) -> None:
        with anyio.fail_after(10), pytest.raises(UsageError, match="there is no session 'typo'"):
            await anext(router.session("typo").events())

    hosted(home, talk)


def test_sessions_are_listed_by_state(lite_home: Home) -> None:
    """By the words of a snapshot as well; a misspelt one is named."""
    home = lite_home
    home.agent("fable", ANSWER().say("hi"))

    async def talk(router: Router) -> None:
        session = await router.start_session("frontier", cwd=home.folder)
        state = (await session.snapshot()).state
        assert [session.id] == [s.session_id for s in router.sessions.list(states=[state])]
        assert [] == router.sessions.list(states=[State.STOPPED])
        with pytest.raises(UsageError, match="there is no state 'idle'; states are selecting, "):
            router.sessions.list(states=["idle"])

    hosted(home, talk)


def test_a_turn_ends_where_a_person_is_needed_who_then_acts(lite_home: Home) -> None:
    """R-ENG-7: fenced by the generation that was seen; what follows is driven here as well."""
    home = lite_home
    home.agent("fable", ANSWER().fail_puzzling(), ANSWER().say("now"))

    async def talk(router: Router) -> tuple[list[EventRecord], list[EventRecord]]:
        session = await router.start_session("frontier", cwd=home.folder)
        first = [event async for event in session.prompt("hi")]
        seen = await session.snapshot()
        with pytest.raises(StaleGeneration):
            await session.act("retry_now", expected_generation=seen.generation + 1)
        with pytest.raises(UsageError, match="no action 'dance'"):
            await session.act("dance", expected_generation=seen.generation)
        for _ in range(2):  # the same request again changes nothing
            await session.act("retry_now", expected_generation=seen.generation, action_id="once")
        then = []
        async for event in session.events(after=first[-1].sequence):
            then.append(event)
            if event.kind is EventKind.TURN_ENDED:
                break
        return first, then

    first, then = hosted(home, talk)
    assert ("route_waiting", "action_required") == (kinds(first)[-1], first[-1].params["state"])
    assert "now" == said(then)


def test_what_is_refused_is_told_with_the_first_event(lite_home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Or it is logged, with fields, when nobody reads that (R-OBS-1)."""
    home = lite_home
    home.agent("fable", ANSWER().hang())

    async def talk(router: Router) -> list[EventRecord]:
        session = await router.start_session("frontier", cwd=home.folder, prompt="hi")
        for prompt, problem in (("more", TurnInProgress), (" ", UsageError)):
            with pytest.raises(problem):
                await anext(session.prompt(prompt))
        with pytest.raises(UsageError, match="there is no session"):
            await anext(router.session("nobody").prompt("hi"))
        assert [] == caplog.records
        session.prompt("more")
        while not caplog.records:  # noqa: ASYNC110  # nobody tells a test
            await anyio.sleep(0.005)
        (told,) = caplog.records
        assert ("a prompt was refused, and nobody asked why", "WARNING") == (told.getMessage(), told.levelname)
        assert (session.id, "turn_in_progress") == (vars(told)["session_id"], vars(told)["code"])
        with pytest.raises(UsageError, match="does not exist"):
            await router.start_session("frontier", cwd=home.folder / "nowhere", prompt="hi")
        await session.stop()
        return router.events(session_id=session.id)

    events = hosted(home, talk)
    assert "route_stopped" == kinds(events)[-1]
    assert 1 == kinds(events).count("user_message")


def test_a_stopped_session_ends_its_turn(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER().say("well").hang())

    async def talk(router: Router) -> list[EventRecord]:
        session = await router.start_session("frontier", cwd=home.folder)
        events = []
        async for event in session.prompt("hi"):
            events.append(event)
            if event.kind is EventKind.TURN_OUTPUT:
                await session.stop()
        return events

    assert ["turn_output", "route_stopped"] == kinds(hosted(home, talk))[-2:]


def test_a_prompt_is_kept_and_answered_whoever_stops_listening(lite_home: Home) -> None:
    """R-CON-10: neither a dropped iterator nor a cancelled host loses the message, and nothing of either stays behind."""
    home = lite_home
    home.agent("fable", *[ANSWER().say(word) for word in ("one", "two", "three")])

    async def talk(router: Router) -> str:
        session = await router.start_session("frontier", cwd=home.folder)
        router_feed = router._host.feed

        async def ended(number: int) -> None:
            async for event in session.events():
                if event.kind is EventKind.TURN_ENDED and event.params["prompt_number"] == number:
                    return

        session.prompt("never read")
        await ended(1)
        async for _ in session.prompt("dropped at once"):
            break
        await ended(2)
        with anyio.CancelScope() as scope:
            turn = session.prompt("cancelled")
            scope.cancel()
            await anext(turn)
        assert scope.cancelled_caught
        await ended(3)
        del turn
        gc.collect()
        assert 0 == len(router_feed._followers)
        with anyio.fail_after(5):
            while router._host._watches:  # noqa: ASYNC110  # nobody tells a test
                await anyio.sleep(0.005)
        return session.id

    session_id = hosted(home, talk)
    messages = [e.params["text"] for e in home.store.events(session_id=session_id) if e.kind is EventKind.USER_MESSAGE]
    assert ["never read", "dropped at once", "cancelled"] == messages
    assert "onetwothree" == said(home.store.events(session_id=session_id))


def test_leaving_ends_agents_and_leaves_sessions_to_others(lite_home: Home) -> None:
    """R-CON-11: nothing is orphaned, no session is lost, and whoever listens is told that there is no more."""
    home = lite_home
    home.agent("fable", ANSWER().say("well").hang())
    heard: list[EventRecord] = []

    async def main() -> str:
        async with (
            anyio.create_task_group() as group,
            Router.open(
                home.url,
                settings=home.settings,
                plugins=False,
                adapters=[home.adapter],
                clock=home.clock,
                catalogue=CATALOGUE,
            ) as router,
        ):
            session = await router.start_session("frontier", cwd=home.folder)
            begun = anyio.Event()

            async def listen() -> None:
                async for event in session.prompt("hi"):
                    heard.append(event)
                    if event.kind is EventKind.TURN_OUTPUT:
                        begun.set()

            group.start_soon(listen)
            await begun.wait()
        with pytest.raises(UsageError, match="was closed"):
            session.prompt("more")
        return session.id

    session_id = anyio.run(main)
    (attempt,) = [a for a in home.rows(session_id) if a.process_group is not None]
    assert attempt.process_group is not None
    wait_for(lambda: not group_members(attempt.process_group or 0))
    route = home.store.load(session_id)
    assert route is not None
    assert (None, "action_required", "hi") == (route.owner_id, route.state, route.parked_prompt)
    assert "well" == said(home.store.events(session_id=session_id)), "what was said stays"


def test_a_session_that_is_opened_again_goes_on(lite_home: Home) -> None:
    """Its host died in mid-wait, or before anything was sent: the next one sees it through (R-DUR-3, R-CON-10)."""
    home = lite_home
    home.agent("fable", ANSWER().say("hello"))

    async def begin(router: Router) -> str:
        begun = await router.sessions.start("frontier", "hi", cwd=home.folder)
        return begun.session_id

    async def talk(router: Router) -> list[EventRecord]:
        session, heard = router.session(session_id), list[EventRecord]()
        assert "selecting" == (await session.go_on()).state
        await session.go_on()  # once is enough, and twice is no harm
        async for event in session.events():
            heard.append(event)
            if event.kind is EventKind.TURN_ENDED:
                break
        assert "active" == (await session.go_on()).state
        return heard

    session_id = hosted(home, begin)
    assert "hello" == said(hosted(home, talk))
    assert 1 == len(home.rows(session_id))


async def _is_dead(_drive: Drive, *, after_s: float = 0.0) -> None:
    """Leave everything as it is, as who is killed does."""


def test_a_turn_whose_host_was_killed_is_settled_by_who_asks_for_the_next(
    lite_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-DUR-3, R-CON-11: without any worker; nothing is sent twice, its agent is ended, and the session goes on."""
    home = lite_home
    home.agent("fable", ANSWER().say("well").hang(), ANSWER().say("again"))

    async def first(router: Router) -> str:
        session = await router.start_session("frontier", cwd=home.folder)
        async for event in session.prompt("hi"):
            if event.kind is EventKind.TURN_OUTPUT:
                break
        monkeypatch.setattr(Drive, "relinquish", _is_dead)
        return session.id

    session_id = hosted(home, first)
    monkeypatch.undo()
    left = home.store.load(session_id)
    assert left is not None
    assert ("active", True) == (left.state, left.turn_running)
    home.fake.advance(61)

    async def second(router: Router) -> list[EventRecord]:
        session, cursor = router.session(session_id), home.store.last_sequence()
        with pytest.raises(TurnInProgress):
            await anext(session.prompt("and?"))
        async for event in session.events(after=cursor):
            if event.kind is EventKind.ROUTE_WAITING:
                break
        seen = await session.snapshot()
        assert ("action_required", True) == (seen.state, seen.has_prompt)
        await session.act("retry_now", expected_generation=seen.generation)
        async for later in session.events(after=cursor):
            if later.kind is EventKind.TURN_ENDED:
                break
        return router.events(session_id=session_id)

    events = hosted(home, second)
    assert "wellagain" == said(events)
    assert ["hi", "hi"] == [p.prompt.partition("\n")[0] for p in home.agents["fable"].prompts]
    assert not any(group_members(a.process_group) for a in home.rows(session_id) if a.process_group is not None)


def test_the_flag_is_told_when_a_session_is_opened_again(lite_home: Home) -> None:
    """R-RES-4: switched off, it needs a person for that reason; on again, it is where it was."""
    home = lite_home
    home.agent("fable", ANSWER().say("hello"))

    async def talk(router: Router) -> str:
        session = await router.start_session("frontier", cwd=home.folder)
        async for _ in session.prompt("hi"):
            pass
        return session.id

    async def look(router: Router) -> tuple[str, str]:
        await router.session(session_id).go_on()
        while True:
            now = await router.session(session_id).snapshot()
            if now.reason != before:
                return now.state, now.reason
            await anyio.sleep(0.01)

    session_id, before = hosted(home, talk), "succeeded"
    assert ("action_required", "dynamic_routing_disabled") == hosted(home, look, dynamic_agent_routing=False)
    before = "dynamic_routing_disabled"
    assert ("active", "succeeded") == hosted(home, look)


class Failing:
    """A store that cannot take output, however often it is asked."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        """It is needed by others."""

    def append_events(self, route: Route, *, owner_id: str, events: Sequence[EventDraft], now: datetime) -> None:
        """The disk is full, of output alone."""
        self.asked += 1
        raise StoreUnavailable("the disk is full")


def test_output_that_cannot_be_written_decides_nothing(lite_home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The turn ends as it ended, and its events say that something of it is missing."""
    home = lite_home
    home.agent("fable", ANSWER().say("lost"))
    failing: Any = Failing(home.store)

    async def talk(router: Router) -> list[EventRecord]:
        session = await router.start_session("frontier", cwd=home.folder)
        return [event async for event in session.prompt("hi")]

    with caplog.at_level(logging.ERROR):
        events = hosted(home, talk, store=failing)
    assert ["turn_output", "turn_ended"] == kinds(events)[-2:]
    assert ("cut", "store", "fable") == tuple(events[-2].params[k] for k in ("type", "because", "profile_id"))
    assert "succeeded" == events[-1].reason
    assert failing.asked > 0


def test_a_host_may_refuse_what_is_asked_for(lite_home: Home) -> None:
    """Before anything is written, on the task that asks."""
    home = lite_home
    home.agent("fable", ANSWER())

    def guard(action: str, subject: str) -> None:
        raise NotPermitted(f"{action} of {subject} is not for you")

    async def talk(router: Router) -> None:
        with pytest.raises(NotPermitted, match=r"session\.start of frontier"):
            await router.start_session("frontier", cwd=home.folder)
        session = router.session("s")
        with pytest.raises(NotPermitted, match=r"session\.prompt of s"):
            session.prompt("hi")
        with pytest.raises(NotPermitted, match=r"session\.act of s"):
            await session.act("stop", expected_generation=1)
        with pytest.raises(NotPermitted, match=r"session\.stop of s"):
            await session.stop()

    hosted(home, talk, authorise=guard)
    assert [] == home.store.events()


def _says_no(action: str, subject: str) -> bool:
    return False


async def _asks_elsewhere(action: str, subject: str) -> None:
    raise NotPermitted("too late")


@pytest.mark.parametrize("guard", [_says_no, _asks_elsewhere])
def test_a_guard_that_does_not_guard_lets_nothing_happen(lite_home: Home, guard: Any) -> None:
    """An answer, or a coroutine that nobody awaits, is no leave."""
    home = lite_home
    home.agent("fable", ANSWER())

    async def talk(router: Router) -> None:
        with pytest.raises(UsageError, match="plain function that raises to refuse"):
            await router.start_session("frontier", cwd=home.folder, prompt="hi")

    hosted(home, talk, authorise=guard)
    assert [] == home.store.events()


def test_without_an_event_loop_the_way_out_is_named(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER())
    with home.router() as router, pytest.raises(UsageError, match="SyncRouter"):
        router.session("s").prompt("hi")

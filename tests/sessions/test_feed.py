"""Live fan-out: every event once and in order for each follower, whoever writes, whoever is slow (R-CON-6)."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.events import EventDraft, EventKind, EventRecord
from kandev_routing_sdk.route.model import Reason, Route
from kandev_routing_sdk.sessions import Crew, EventFeed, EventStream
from kandev_routing_sdk.sessions import feed as feeds
from kandev_routing_sdk.store import SqlStore, open_store
from tests.sessions._empty import Reused
from tests.store._values import NOW, create, route

T = TypeVar("T")


def session(store: SqlStore, session_id: str) -> Route:
    """A session of ours, of which nothing has been said yet."""
    return store.commit(create(session_id, after=route(session_id, owner_id="me", generation=1))).route


def say(store: SqlStore, of: Route, *words: str) -> tuple[EventRecord, ...]:
    """Write an event for each word."""
    drafts = [EventDraft(EventKind.TURN_OUTPUT, Reason.STARTED, {"type": "text", "text": w}) for w in words]
    written = store.append_events(of, owner_id="me", events=drafts, now=NOW)
    assert written is not None
    return written


def words(events: list[EventRecord]) -> list[object]:
    """What they say."""
    return [event.params["text"] for event in events]


async def take(stream: EventStream, count: int) -> list[EventRecord]:
    """The next events."""
    with anyio.fail_after(20):
        return [await anext(stream) for _ in range(count)]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    with anyio.fail_after(10):
        while not holds():  # noqa: ASYNC110  # nobody tells a test
            await anyio.sleep(0.005)


def with_feed(store: SqlStore, work: Callable[[EventFeed], Awaitable[T]], *, poll_s: float = 0.02) -> T:
    """Run ``work`` with a feed of its own."""

    async def main() -> T:
        crew = Crew()
        feed = EventFeed(store, crew, poll_s=poll_s)
        try:
            return await work(feed)
        finally:
            await crew.close()
            feed.close()

    return anyio.run(main)


def test_output_is_written_by_its_owner_alone(either_store: Reused) -> None:
    """R-ENG-8: neither by who lost the session, nor for a generation that is over."""
    store = either_store.store
    mine = session(store, "s1")
    draft = EventDraft(EventKind.TURN_OUTPUT, Reason.STARTED, {"type": "text", "text": "late"})
    older = mine.model_copy(update={"generation": 0})
    assert store.append_events(mine, owner_id="you", events=[draft], now=NOW) is None
    assert store.append_events(older, owner_id="me", events=[draft], now=NOW) is None
    assert ([], 0) == (store.events(), store.last_sequence())
    (written,) = say(store, mine, "now")
    assert ([written], written.sequence) == (store.events(), store.last_sequence())


def test_what_was_comes_first_then_what_comes(either_store: Reused) -> None:
    store = either_store.store
    one, two = session(store, "s1"), session(store, "s2")
    (first,) = say(store, one, "a")
    say(store, two, "b")

    async def work(feed: EventFeed) -> tuple[list[EventRecord], list[EventRecord], list[EventRecord]]:
        mine, all_of_them, later = feed.follow(session_id="s1"), feed.follow(), feed.follow(after=first.sequence)
        before = await take(mine, 1), await take(all_of_them, 2), await take(later, 1)
        say(store, one, "c")
        feed.published()
        say(store, two, "d")
        return before[0] + await take(mine, 1), before[1] + await take(all_of_them, 2), before[2] + await take(later, 2)

    assert (["a", "c"], ["a", "b", "c", "d"], ["b", "c", "d"]) == tuple(map(words, with_feed(store, work)))


def test_a_word_of_a_newer_version_comes_by_like_any_other(either_store: Reused) -> None:
    """And no reader loses its cursor for it: it passes over what it does not know."""
    store = either_store.store
    mine = session(store, "s1")
    say(store, mine, "a")
    later = EventDraft(EventKind("session.later"), Reason("later"), {"text": "b"})
    assert store.append_events(mine, owner_id="me", events=[later], now=NOW)
    say(store, mine, "c")

    async def work(feed: EventFeed) -> list[EventRecord]:
        return await take(feed.follow(session_id="s1"), 3)

    found = with_feed(store, work)
    assert (["a", "b", "c"], store.events()) == (words(found), found)
    unknown = pickle.loads(pickle.dumps(found[1]))
    assert ("session.later", "later", found[1]) == (unknown.kind.value, unknown.reason.value, unknown)
    assert unknown.kind not in list(EventKind)
    assert unknown.reason not in list(Reason)
    nothing: Any = None
    with pytest.raises(ValueError, match="is not a valid EventKind"):
        EventKind(nothing)


@settings(max_examples=25, deadline=None)
@given(
    bursts=st.lists(
        st.tuples(st.sampled_from(["s1", "s2"]), st.integers(1, 9), st.booleans()), min_size=1, max_size=12
    ),
    start=st.integers(0, 20),
    room=st.integers(1, 6),
)
def test_no_follower_misses_an_event_or_sees_one_twice(
    sqlite_store: Reused, bursts: list[tuple[str, int, bool]], start: int, room: int
) -> None:
    """Whatever is written between its looks, however little room there is for it, from whichever cursor on."""
    sqlite_store.empty()
    store = sqlite_store.store
    routes = {name: session(store, name) for name in ("s1", "s2")}
    offset = store.last_sequence()

    async def work(feed: EventFeed) -> list[tuple[list[EventRecord], EventStream]]:
        follow = [feed.follow(after=offset + start), feed.follow(session_id="s1", after=offset + start)]
        seen: list[tuple[list[EventRecord], EventStream]] = [([], stream) for stream in follow]
        for name, count, looks in bursts:
            say(store, routes[name], *map(str, range(count)))
            feed.published()
            for events, stream in seen if looks else ():
                events.extend(await _read(stream))
        for events, stream in seen:
            expected = store.events(session_id=stream.session_id, after=offset + start)
            events.extend(await take(stream, len(expected) - len(events)))
        return seen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "QUEUE", room)
        patch.setattr(feeds, "PAGE", room)
        (all_of_them, _), (mine, _) = with_feed(store, work, poll_s=5.0)
    expected = store.events(after=offset + start)
    assert expected == all_of_them
    assert [event for event in expected if event.session_id == "s1"] == mine


async def _read(stream: EventStream) -> list[EventRecord]:
    """What can be had at once, and a little later."""
    found = []
    with anyio.move_on_after(0.02):
        while True:
            found.append(await anext(stream))
            if len(found) == 4:
                break
    return found


def test_who_does_not_look_keeps_nobody_waiting(lite_store: Reused) -> None:
    """A bounded queue: the slow one reads the store from its own cursor, the others go on."""
    store = lite_store.store
    mine = session(store, "s1")

    async def work(feed: EventFeed) -> tuple[list[EventRecord], list[EventRecord]]:
        slow, quick = feed.follow(), feed.follow()
        seen = [say(store, mine, "first")[0]]
        await take(slow, 1)
        await take(quick, 1)
        for burst in range(5):
            seen += say(store, mine, *(f"{burst}.{i}" for i in range(200)))
            feed.published()
            assert seen[-200:] == await take(quick, 200)
            assert len(slow._queue) <= feeds.QUEUE
        return seen[1:], await take(slow, 1000)

    expected, seen = with_feed(store, work)
    assert expected == seen


def test_writers_of_all_processes_are_heard_in_order(either_store: Reused) -> None:
    """Several writers with connections of their own: one order for all, at least once, without gaps."""
    store = either_store.store
    routes = [session(store, f"s{i}") for i in range(3)]

    def write(of: Route) -> None:
        with open_store(either_store.url, migrate=False) as own:
            for i in range(20):
                say(own, of, str(i))

    async def work(feed: EventFeed) -> list[EventRecord]:
        stream = feed.follow()
        seen = []
        async with anyio.create_task_group() as group:
            for of in routes:
                group.start_soon(anyio.to_thread.run_sync, write, of)
            seen += await take(stream, 60)
        return seen

    seen = with_feed(store, work)
    assert store.events() == seen
    assert [str(i) for i in range(20)] == words([e for e in seen if e.session_id == "s1"])


@contextmanager
def _writing(url: str) -> Iterator[SqlStore]:
    with open_store(url, migrate=False) as other:
        yield other


def _kill_listener(url: str) -> None:
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        assert [(True,)] == connection.execute(kill).fetchall()


def test_postgresql_tells_of_what_others_write(postgres_store: Reused) -> None:
    """LISTEN/NOTIFY: nobody looks for it in the meantime."""
    postgres_store.empty()
    mine = session(postgres_store.store, "s1")

    async def work(feed: EventFeed) -> list[EventRecord]:
        stream = feed.follow()
        say(postgres_store.store, mine, "before")
        first = await take(stream, 1)
        await until(lambda: feed._listening)
        with _writing(postgres_store.url) as other:
            await anyio.to_thread.run_sync(say, other, mine, "told")
            return first + await take(stream, 1)

    assert ["before", "told"] == words(with_feed(postgres_store.store, work, poll_s=600.0))


def test_a_listener_that_is_killed_is_missed_by_nobody(postgres_store: Reused, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody tells, it is looked for; then somebody tells again."""
    monkeypatch.setattr(feeds, "_AGAIN_S", (0.3, 0.3))
    postgres_store.empty()
    mine = session(postgres_store.store, "s1")

    async def work(feed: EventFeed) -> list[EventRecord]:
        stream = feed.follow()
        seen = []
        say(postgres_store.store, mine, "0")
        seen += await take(stream, 1)
        await until(lambda: feed._listening)
        await anyio.to_thread.run_sync(_kill_listener, postgres_store.url)
        with _writing(postgres_store.url) as other:
            await anyio.to_thread.run_sync(say, other, mine, "1")
            await until(lambda: not feed._listening)
            await anyio.to_thread.run_sync(say, other, mine, "2")
            seen += await take(stream, 2)
            await until(lambda: feed._listening)
            await anyio.to_thread.run_sync(say, other, mine, "3")
            return seen + await take(stream, 1)

    assert ["0", "1", "2", "3"] == words(with_feed(postgres_store.store, work))


def test_whoever_is_gone_is_forgotten(lite_store: Reused) -> None:
    """A stream that is closed ends, and without followers nobody reads."""
    store = lite_store.store
    mine = session(store, "s1")

    async def work(feed: EventFeed) -> list[EventRecord]:
        stream, dropped = feed.follow(), feed.follow()
        say(store, mine, "a")
        seen = [*await take(stream, 1), *await take(dropped, 1)]
        del dropped
        async with anyio.create_task_group() as group:

            async def close() -> None:
                await anyio.sleep(0.02)
                await stream.aclose()

            group.start_soon(close)
            seen += [event async for event in stream]
        await until(lambda: feed._idle)
        say(store, mine, "b")
        return seen + await take(feed.follow(after=seen[-1].sequence), 1)

    assert ["a", "a", "b"] == words(with_feed(store, work))


def test_a_feed_serves_one_loop_after_the_other(lite_store: Reused) -> None:
    store = lite_store.store
    mine = session(store, "s1")
    crew = Crew()
    feed = EventFeed(store, crew, poll_s=0.02)

    async def main(word: str, after: int) -> list[EventRecord]:
        stream = feed.follow(after=after)
        say(store, mine, word)
        feed.published()
        return await take(stream, 1)

    (first,) = anyio.run(main, "a", 0)
    feed.published()  # the loop of those who followed is over
    assert ["b"] == words(anyio.run(main, "b", first.sequence))


def test_who_comes_while_it_closes_waits_for_nothing(lite_store: Reused) -> None:
    """A stream that is on its way to the feed when the router is closed ends as well."""

    async def late(store: SqlStore) -> list[EventRecord]:
        crew = Crew()
        feed = EventFeed(store, crew, poll_s=0.02)
        last_sequence = store.last_sequence

        def closed_meanwhile() -> int:
            found = last_sequence()
            anyio.from_thread.run(crew.close)
            feed.close()
            return found

        with pytest.MonkeyPatch.context() as patch, anyio.fail_after(10):
            patch.setattr(store, "last_sequence", closed_meanwhile)
            return [event async for event in feed.follow()]

    with open_store(lite_store.url) as store:
        assert [] == anyio.run(late, store)

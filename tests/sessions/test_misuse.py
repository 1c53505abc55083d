"""A host that does what it should not: one clear error, and nothing lost (R-CON-10, R-CON-11, R-CIR-2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from kandev_routing_sdk import EventKind, Router, SyncRouter
from kandev_routing_sdk.conductor import given
from kandev_routing_sdk.errors import StoreError, UsageError
from kandev_routing_sdk.sessions import Crew
from kandev_routing_sdk.testing import ScriptBuilder
from tests._processes import group_members, wait_for
from tests.sessions._empty import Reused
from tests.sessions._home import CATALOGUE, Home

ANSWER = ScriptBuilder


def opened(home: Home, **parts: Any) -> Router:
    """A router of this home, with a store of its own."""
    parts |= {"adapters": [home.adapter], "clock": home.clock, "catalogue": CATALOGUE, "poll_s": 0.02}
    return Router.open(home.url, settings=home.settings, plugins=False, **parts)


def group_of(home: Home, session_id: str) -> int:
    """The process group of the session's agent."""
    group = home.rows(session_id)[-1].process_group
    assert group is not None
    return group


# --- prompts, folders, ids ---


NO_PROMPTS: dict[str, Any] = {
    "of type bytes": b"hi",
    "of type int": 7,
    "a lone surrogate, at 1": "a\ud800",
    "larger than": "x" * (given.MAX_PROMPT_BYTES + 1),
}


def test_what_is_no_prompt_is_refused_before_anything_happens(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER())
    seen = home.begin()
    home.stop(seen.session_id)
    before = home.see(seen.session_id), home.kinds(seen.session_id)

    for says, prompt in NO_PROMPTS.items():
        with pytest.raises(UsageError, match=f"the prompt .*{says}"):
            home.say(seen.session_id, prompt)
        with pytest.raises(UsageError, match=f"the prompt .*{says}"):
            home.begin(prompt)

    assert before == (home.see(seen.session_id), home.kinds(seen.session_id))
    assert 1 == len(home.store.sessions())


def test_a_prompt_of_any_characters_arrives(home: Home) -> None:
    """Also those that a column of one of the engines cannot hold."""
    text = "a\0b\x1b[31m\x85\u2028\U0001f600"
    home.transport = "acp"
    home.agent("fable", ANSWER().say("read"))
    seen = home.run(text)
    assert ("active", [text]) == (seen.state, [p.prompt for p in home.agents["fable"].prompts])
    (asked,) = home.store.newest_events(seen.session_id, [EventKind.USER_MESSAGE], 1)
    assert text == asked.params["text"]


def test_a_folder_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    named = {name: given.folder_problem(tmp_path / name) for name in ("", "none", "file", "a\0", "\udcff", "n" * 5000)}
    assert {
        "": None,
        "none": "does not exist",
        "file": "is not a folder",
        "a\0": "does not exist",
        "\udcff": "has a name that is no text in UTF-8",
        "n" * 5000: "cannot be reached (File name too long)",
    } == named
    assert given.folder_problem(tmp_path / "loop") is not None
    monkeypatch.setattr(given, "os", SimpleNamespace(access=lambda *_: False, X_OK=1))
    assert "may not be entered" == given.folder_problem(tmp_path)


def test_a_sessions_own_folder_closes_no_profile_to_others(lite_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launch would fail, and be booked to the profile (R-CIR-2); it goes on once its folder can be used again."""
    home = lite_home
    home.agent("fable", ANSWER().say("one"), ANSWER().say("two"))
    seen = home.run()
    home.say(seen.session_id)
    with monkeypatch.context() as patch:
        patch.setattr(given, "os", SimpleNamespace(access=lambda *_: False, X_OK=1))
        home.work(after_s=120)
        home.work(after_s=3600)

    stuck = home.see(seen.session_id)
    assert ("action_required", True, []) == (stuck.state, stuck.has_prompt, home.circuits())
    (candidate,) = stuck.candidates
    assert "may not be entered; make it usable, or change cwd" in str(candidate["detail"])
    home.act(stuck, "retry_now")
    home.work()
    assert ("active", False) == (home.see(seen.session_id).state, home.see(seen.session_id).has_prompt)


_LOOKS: dict[str, Callable[[Router], object]] = {
    "session": lambda r: r.sessions.snapshot("\ud800"),
    "profile": lambda r: r.profiles.get("\ud800"),
    "call": lambda r: r.call("\ud800"),
    "cursor": lambda r: r.events(after=2**63),
    "limit": lambda r: r.calls(limit=2**63),
}


@pytest.mark.parametrize("look", _LOOKS.values(), ids=_LOOKS)
def test_what_no_column_can_hold_is_told_as_such(home: Home, look: Callable[[Router], object]) -> None:
    """Not as the driver says it, and not as a fault of the database."""
    home.agent("fable", ANSWER())

    async def work(router: Router) -> None:
        with pytest.raises(StoreError, match="can hold no such value"):
            look(router)
        assert [] == router.sessions.list()

    home.async_with(work)


def test_half_a_row_is_never_left_by_a_value_that_cannot_be_stored(either_store: Reused) -> None:
    """PostgreSQL's columns hold no NUL; SQLite's do."""
    with pytest.raises(StoreError, match="can hold no such value"):
        either_store.store.release("\ud800", owner_id="nobody")
    if "postgresql" in either_store.url:
        with pytest.raises(StoreError, match="can hold no such value"):
            either_store.store.load("a\0b")
    assert either_store.store.load("a") is None


# --- the end ---


def test_a_router_closed_without_waiting_ends_what_it_drives(lite_home: Home) -> None:
    """R-CON-11: `close()` in the middle of a turn, from the very loop; whoever follows is told that there is no more."""
    home = lite_home
    home.agent("fable", ANSWER().say("well").hang())

    async def main() -> tuple[str, list[EventKind]]:
        router = await opened(home).__aenter__()
        session = await router.start_session("frontier", cwd=home.folder)
        seen = []
        with anyio.fail_after(20):
            async for event in session.prompt("hi"):
                seen.append(event.kind)
                if event.kind is EventKind.TURN_OUTPUT:
                    assert group_members(group_of(home, session.id))
                    router.close()
            await router.aclose()
        return session.id, seen

    session_id, seen = anyio.run(main)
    assert EventKind.TURN_OUTPUT is seen[-1]
    assert [] == group_members(group_of(home, session_id))


def test_a_vault_that_does_not_answer_holds_up_nobody_who_closes(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER(), env={"TOKEN": {"secret": "env:TOKEN"}})
    asked, answer = threading.Event(), threading.Event()

    class Vault:
        def resolve(self, reference: str) -> str:
            asked.set()
            answer.wait(30)
            return reference

    async def main() -> str:
        async with opened(home, secrets=Vault()) as router:
            session = await router.start_session("frontier", cwd=home.folder, prompt="hi")
            await asyncio.to_thread(asked.wait, 20)
            closing = anyio.current_time()
        assert 10 > anyio.current_time() - closing
        answer.set()
        return session.id

    session_id = anyio.run(main)
    seen = home.see(session_id)
    assert ("selecting", True, 0) == (seen.state, seen.has_prompt, home.agents["fable"].starts)


def test_streams_of_a_script_end_with_its_router_whoever_reads_them(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER().say("well").hang())
    ended: list[str] = []

    def read(name: str, events: Any) -> None:
        for event in events:
            if event.kind is EventKind.TURN_OUTPUT:
                said.set()
        ended.append(name)

    said = threading.Event()
    with SyncRouter(opened(home)) as router:
        session = router.start_session("frontier", cwd=home.folder)
        later = session.events()
        next(later)
        threads = [
            threading.Thread(target=read, args=("turn", session.prompt("hi"))),
            threading.Thread(target=read, args=("events", session.events())),
        ]
        for thread in threads:
            thread.start()
        assert said.wait(20)
        router.router.close()  # a script may also close what it gave away
    for thread in threads:
        thread.join(20)
    assert ["events", "turn"] == sorted(ended)
    assert [] == list(later)
    wait_for(lambda: not group_members(group_of(home, session.id)))


def test_a_store_that_fails_in_its_own_way_leaves_no_session_unwatched(lite_home: Home) -> None:
    """It is looked at again a little later: who waits for its turn would wait for ever."""
    home = lite_home

    class Faulty:
        def load(self, session_id: str) -> None:
            raise RuntimeError(session_id)

        def __getattr__(self, name: str) -> Any:
            return getattr(home.store, name)

    async def look(router: Router) -> Any:
        return await router._host._next("session:x", patient=True)

    home.agent("fable", ANSWER())
    assert (0.5, None) == home.async_with(look, store=Faulty())


# --- event loops ---


def test_a_stream_goes_on_on_the_loop_that_is_there_and_on_no_two_at_once(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER().say("well"))
    router = opened(home)

    async def begin() -> Any:
        session = await router.start_session("frontier", cwd=home.folder)
        stream = session.events()
        await anext(stream)
        with pytest.raises(UsageError, match="on one event loop at a time"):
            await asyncio.to_thread(lambda: asyncio.run(_first(router)))
        return session, stream

    session, stream = asyncio.run(begin())

    async def go_on() -> list[EventKind]:
        with anyio.fail_after(20):
            async for _ in session.prompt("hi"):
                pass
            found = []
            while EventKind.TURN_ENDED not in found:
                found.append((await anext(stream)).kind)
            await router.aclose()
        return found

    assert EventKind.USER_MESSAGE in asyncio.run(go_on())


async def _first(router: Router) -> Any:
    return await anext(router.follow())


def test_tasks_of_other_loops_are_ended_and_those_of_a_closed_one_hold_nobody_up() -> None:
    crew, ended = Crew(), threading.Event()

    async def work(*, over: threading.Event | None = None) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if over is not None:
                over.set()

    async def begin() -> None:
        crew.start(work())
        await asyncio.sleep(0)

    dead = asyncio.new_event_loop()
    dead.run_until_complete(begin())
    left = asyncio.all_tasks(dead)
    dead.close()

    def elsewhere() -> None:
        async def main() -> None:
            crew.start(work(over=ended))
            begun.set()
            while not ended.is_set():  # noqa: ASYNC110  # of another thread
                await anyio.sleep(0.005)

        asyncio.run(main())

    begun = threading.Event()
    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert begun.wait(10)

    async def close() -> None:
        with anyio.fail_after(10):
            await crew.close()

    asyncio.run(close())
    assert ended.wait(10)
    thread.join(10)
    assert 1 == len(left)
    for task in left:
        task.get_coro().close()  # nobody else ever can
        setattr(task, "_log_destroy_pending", False)  # noqa: B010  # it is what is tested

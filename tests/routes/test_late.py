"""Whoever gives up in the moment in which an answer is written down still gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import anyio

from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.types import AttemptOutcome
from tests.routes._world import World, answers


class _SlowLast:
    """A store whose commit of the answer takes a while, and in whose middle something happens."""

    def __init__(self, store: Any, meanwhile: Callable[[], None]) -> None:
        self._store, self._meanwhile = store, meanwhile

    def __getattr__(self, name: str) -> Any:  # a stand-in for every method
        return getattr(self._store, name)

    def commit(self, commit: Any) -> Any:  # as above
        attempt = commit.update_attempt
        if attempt is not None and attempt.outcome is AttemptOutcome.SUCCESS:
            self._meanwhile()
            time.sleep(0.3)
        return self._store.commit(commit)


def test_a_cancel_while_the_answer_is_written_comes_too_late(world: World) -> None:
    """The work was done and paid for; the record says so, and so does the result."""
    world.agent("fable", answers().say("done"))

    async def main() -> str:
        cancel, loop = anyio.Event(), asyncio.get_running_loop()

        def give_up() -> None:
            loop.call_soon_threadsafe(cancel.set)

        store: Any = _SlowLast(open_store(world.url), give_up)
        with world.router(store=store) as router:
            result = await router.route_once_async("frontier", "go", timeout=60, cwd=world.folder, cancel=cancel)
            assert ["success"] == [call.outcome for call in router.calls()]
        return result.text

    assert "done" == anyio.run(main)

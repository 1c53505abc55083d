"""Background tasks beside a block, without exception groups leaking to callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar, cast

import anyio
from anyio import to_thread

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def alongside(*coroutines: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run ``coroutines`` while the block runs, and cancel them when it ends.

    What the block raises comes out as it is. What a background task raises ends the block and comes out instead: nothing is
    swallowed, and no exception group reaches a caller.
    """
    problems: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def watched(coroutine: Coroutine[object, object, None]) -> None:
            try:
                await coroutine
            except Exception as raised:  # noqa: BLE001  # raised again below
                problems.append(raised)
                group.cancel_scope.cancel()

        for coroutine in coroutines:
            group.start_soon(watched, coroutine)
        try:
            yield
        except Exception as raised:  # noqa: BLE001  # raised again below, outside of the group that would wrap it
            problems.insert(0, raised)
        finally:
            group.cancel_scope.cancel()
    if problems:
        raise problems[0]


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the synchronous store from the event loop. Not abandoned on cancellation: a commit is either made or not."""
    return cast("T", await to_thread.run_sync(partial(function, *args, **kwargs)))


async def abandoned(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call as :func:`in_thread` does, and on cancellation wait no longer: for what may be done or not, and may hang."""
    return cast("T", await to_thread.run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True))

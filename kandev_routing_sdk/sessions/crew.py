"""Tasks that a router owns: they outlive whoever asked for them, and end with the router."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio

from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.telemetry import get_logger, problem_fields

_log = get_logger(__name__)

ELSEWHERE_S: Final = 30.0
"""For how long tasks of another thread's event loop are waited for."""


class Crew:
    """Tasks on the event loop that runs when they are started."""

    def __init__(self) -> None:
        self._scopes: dict[asyncio.Task[None], anyio.CancelScope] = {}
        self._closed = False

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside everything.

        Raises :class:`~kandev_routing_sdk.errors.UsageError` without an event loop, or once closed.
        """
        if self._closed:
            work.close()
            raise UsageError("this router was closed; open another one")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            work.close()
            raise UsageError("sessions are driven on an event loop; scripts without one use SyncRouter") from None
        scope = anyio.CancelScope()
        task = loop.create_task(self._run(work, scope))
        self._scopes[task] = scope
        task.add_done_callback(self._ended)

    async def _run(self, work: Coroutine[Any, Any, None], scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await work
        except Exception as problem:  # noqa: BLE001  # one task's fault ends no other; its text may hold anything
            _log.error("a task of the router failed", extra=problem_fields(problem))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._scopes.pop(task, None)

    def dismiss(self) -> None:
        """Cancel them all, without waiting for it. From any thread."""
        self._closed = True
        for task, scope in list(self._scopes.items()):
            with suppress(RuntimeError):  # its loop is closed: it will never go on
                task.get_loop().call_soon_threadsafe(scope.cancel)

    async def close(self) -> None:
        """Cancel them all, and wait until each has cleaned up behind itself. Nobody waits for a loop that runs no more."""
        self.dismiss()
        here = asyncio.get_running_loop()
        tasks = list(self._scopes)
        if mine := [task for task in tasks if task.get_loop() is here]:
            await asyncio.wait(mine)
        for loop in {task.get_loop() for task in tasks} - {here}:
            if loop.is_running():
                over = asyncio.run_coroutine_threadsafe(_over([t for t in tasks if t.get_loop() is loop]), loop)
                with anyio.move_on_after(ELSEWHERE_S):  # it may stop before it comes to that
                    await asyncio.wrap_future(over)


async def _over(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)

"""Runs something asynchronous on a router, with its signals: what runs is ended in order before the command ends."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

from kandev_routing_sdk.cli.output import Interrupted
from kandev_routing_sdk.conductor import alongside
from kandev_routing_sdk.router import Router

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """How it ended: with a value, or by a signal."""

    value: T | None
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """0, or what a process that a signal ended exits with; a lost terminal counts as an order to end."""
        if self.signal is None:
            return 0
        return 128 + (signal.SIGTERM if self.signal == signal.SIGHUP else self.signal)

    def result(self) -> T:
        """Return the value. Raises :class:`~kandev_routing_sdk.cli.output.Interrupted` when a signal came first."""
        if self.value is None:
            raise Interrupted(self.exit_code - 128)
        return self.value


def stop_signals() -> list[signal.Signals]:
    """Return the signals that end a command in order."""
    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means it
        wanted.append(signal.SIGHUP)
    return wanted


def on_router(
    open_router: Callable[[], Router],
    work: Callable[[Router], Awaitable[T]],
    heard: Callable[[int], bool] | None = None,
) -> Done[T]:
    """Open a router, do ``work`` and close the router.

    ``heard``: told of each signal; whether ``work`` is to be cancelled now. Without it the first one does that.
    """
    return anyio.run(_on_router, open_router, work, heard or _at_once)


async def _on_router(
    open_router: Callable[[], Router], work: Callable[[Router], Awaitable[T]], heard: Callable[[int], bool]
) -> Done[T]:
    received: list[int] = []
    value: T | None = None
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        router = await anyio.to_thread.run_sync(open_router)
        try:
            with anyio.CancelScope() as scope:

                async def listen(signals: AsyncIterator[int]) -> None:
                    async for number in signals:
                        received.append(number)
                        if heard(number):
                            scope.cancel()

                async with alongside(listen(signals)):
                    value = await work(router)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(router.close)
    return Done(value, received[-1] if value is None and received else None)


def _at_once(_number: int) -> bool:
    return True

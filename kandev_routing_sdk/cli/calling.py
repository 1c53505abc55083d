"""Runs one call with its signals: SIGINT and SIGTERM end the agents first, and the result is still there to be printed."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from kandev_routing_sdk.cli.going import stop_signals
from kandev_routing_sdk.conductor import alongside
from kandev_routing_sdk.results import CallFailed, CallOutcome, CallResult, Progress
from kandev_routing_sdk.router import Router

_INTERRUPTED: Final = 130
_TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended, as the command line sees it."""

    result: CallResult
    failure: CallFailed | None
    exit_code: int


@dataclass(frozen=True, slots=True)
class Order:
    """What to call for."""

    profile_id: str
    prompt: str
    cwd: Path | None
    timeout: float | None = None


def call(open_router: Callable[[], Router], order: Order, tell: Callable[[Progress], None]) -> Ended:
    """Open a router, make the call and close the router.

    Raises a :class:`~kandev_routing_sdk.errors.RoutingError` other than :class:`~kandev_routing_sdk.results.CallFailed`
    when nothing could be started.
    """
    return anyio.run(_call, open_router, order, tell)


async def _call(open_router: Callable[[], Router], order: Order, tell: Callable[[Progress], None]) -> Ended:
    cancel, received = anyio.Event(), list[int]()
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async with alongside(_listen(signals, cancel, received)):
            ended = await _make(open_router, order, tell, cancel)
    if ended.result.outcome is CallOutcome.CANCELLED and received and received[0] != signal.SIGINT:
        return Ended(ended.result, ended.failure, _TERMINATED)
    return ended


async def _listen(signals: AsyncIterator[int], cancel: anyio.Event, received: list[int]) -> None:
    """Further signals change nothing: ending the agents is bounded already."""
    async for number in signals:
        received.append(number)
        cancel.set()


async def _make(
    open_router: Callable[[], Router], order: Order, tell: Callable[[Progress], None], cancel: anyio.Event
) -> Ended:
    router = await anyio.to_thread.run_sync(open_router)
    try:
        result = await router.route_once_async(
            order.profile_id, order.prompt, timeout=order.timeout, on_progress=tell, cwd=order.cwd, cancel=cancel
        )
    except CallFailed as failure:
        return Ended(failure.result, failure, failure.result.exit_code)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(router.close)
    return Ended(result, None, result.exit_code)

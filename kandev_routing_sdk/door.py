"""The script's door: one function call that opens a router from the configuration, uses it and closes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kandev_routing_sdk.router import Router

if TYPE_CHECKING:
    from kandev_routing_sdk.conductor import Tell
    from kandev_routing_sdk.results import CallResult, Explanation


def route_once(
    profile_id: str,
    prompt: str,
    *,
    timeout: float | None = None,
    on_progress: Tell | None = None,
    cwd: str | Path | None = None,
) -> CallResult:
    """Get one prompt answered; see :meth:`Router.route_once` for arguments and errors."""
    with Router.open() as router:
        return router.route_once(profile_id, prompt, timeout=timeout, on_progress=on_progress, cwd=cwd)


async def route_once_async(
    profile_id: str,
    prompt: str,
    *,
    timeout: float | None = None,  # see Router.route_once_async
    on_progress: Tell | None = None,
    cwd: str | Path | None = None,
) -> CallResult:
    """:func:`route_once` for async code (asyncio)."""
    from kandev_routing_sdk.conductor import in_thread  # noqa: PLC0415  # loads the event loop, which the sync door may not need yet

    router = await in_thread(Router.open)
    try:
        return await router.route_once_async(profile_id, prompt, timeout=timeout, on_progress=on_progress, cwd=cwd)
    finally:
        await in_thread(router.close)


def explain(profile_id: str) -> Explanation:
    """Return the selection walk as it would be made now; writes nothing. See :meth:`Router.explain`."""
    with Router.open(read_only=True) as router:
        return router.explain(profile_id)

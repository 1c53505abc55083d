"""Agents that outlived the process of their call (R-CON-11)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import anyio

from kandev_routing_sdk.ports import AttemptRecord
from kandev_routing_sdk.process import reap_group
from kandev_routing_sdk.telemetry import fields, get_logger

_log = get_logger(__name__)


def end_orphans(attempts: Sequence[AttemptRecord]) -> None:
    """End what interrupted attempts left running on this machine; what is not provably theirs is left alone and logged.

    A call is never re-armed, so nothing waits for this; it runs in a thread of its own, for the caller may have an event loop.
    """
    left = [a for a in attempts if a.process_group is not None]
    if left:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(anyio.run, _end, left).result()


async def _end(attempts: Sequence[AttemptRecord]) -> None:
    for attempt in attempts:
        if attempt.process_group is not None and not await reap_group(
            attempt.process_group, attempt.process_started_at, attempt.attempt_id
        ):
            _log.warning(
                "an agent could not be proven gone",
                extra=fields(session_id=attempt.session_id, attempt_id=attempt.attempt_id),
            )

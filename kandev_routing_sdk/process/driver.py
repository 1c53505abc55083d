"""What both transports' drivers have in common: one agent process for one attempt, and what was asked of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from kandev_routing_sdk.clock import Clock
from kandev_routing_sdk.process.child import Child, LineHandler
from kandev_routing_sdk.process.feed import OnFirstSign
from kandev_routing_sdk.process.limits import DEFAULT_LIMITS, ProcessLimits
from kandev_routing_sdk.spec.adapter import Extractor, LaunchPlan
from kandev_routing_sdk.spec.client import NOBODY, HostSide

OnSpawn = Callable[[int, datetime], Awaitable[None] | None]


class AgentDriver:
    """Base of the :class:`~kandev_routing_sdk.ports.Downstream` of each transport.

    ``on_spawn(process_group, started_at)`` is called (and awaited) right after the spawn, before a prompt is written;
    ``on_first_sign()`` when the first event of the turn came back. What they raise ends the process and is raised by the method
    that runs; what the agent or the adapter does never raises.
    """

    def __init__(  # noqa: PLR0913  # what runs, for whom, and within what
        self,
        plan: LaunchPlan,
        extractor: Extractor,
        *,
        attempt_id: str,
        clock: Clock,
        on_spawn: OnSpawn | None = None,
        on_first_sign: OnFirstSign | None = None,
        limits: ProcessLimits = DEFAULT_LIMITS,
        resume_session_id: str | None = None,
        host: HostSide = NOBODY,
    ) -> None:
        self._plan: Final = plan
        self._extractor: Final = extractor
        self._attempt_id: Final = attempt_id
        self._clock: Final = clock
        self._on_spawn: Final = on_spawn
        self._on_first_sign: Final = on_first_sign
        self._limits: Final = limits
        self._resume: Final = resume_session_id
        """A native session to go on with, where the protocol is asked for it; a headless plan has it among its arguments."""
        self._host: Final = host
        """Who answers what the agent asks of its client, where the protocol has such questions."""
        self._child: Child | None = None
        self._cancel_asked = False
        self._stop_asked = False

    @property
    def reaped(self) -> bool:
        """Whether no process of this attempt can act any more."""
        return self._child is None or self._child.gone

    @property
    def stale_frames(self) -> int:
        """How many messages were dropped that were not of this attempt; a process of one prompt has none."""
        return 0

    def _asked_to_end(self) -> bool:
        return self._cancel_asked or self._stop_asked

    async def _spawn_child(self, on_stdout: LineHandler, on_stderr: LineHandler) -> Child:
        self._child = await Child.spawn(
            self._plan.argv,
            environ=self._plan.environ,
            cwd=self._plan.cwd,
            attempt_id=self._attempt_id,
            clock=self._clock,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            limits=self._limits,
        )
        return self._child

"""Notices what people change of a profile while a turn of it runs: the turn is left alone, and what follows is not (R-ENG-4)."""

from __future__ import annotations

import anyio

from kandev_routing_sdk.conductor.choice import Chooser
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import State, Trigger
from kandev_routing_sdk.telemetry import get_logger, problem_fields

_log = get_logger(__name__)


class Edits:
    """Looks whether the candidate at work still is one."""

    def __init__(self, ledger: Ledger, chooser: Chooser) -> None:
        self._ledger, self._chooser = ledger, chooser

    async def notice(self) -> None:
        """Mark a route whose candidate was removed or disabled for a switch, or take that back if it is there again.

        The turn goes on to its end, and no further.
        """
        route = self._ledger.route
        pending = route.state is State.REROUTE_PENDING
        if route.kind != "session" or (pending and not route.turn_running):
            return
        wanted = await self._chooser.wants_current()
        if wanted is pending:
            trigger = Trigger.CANDIDATE_RESTORED if wanted else Trigger.CANDIDATE_REMOVED
            await self._ledger.commit(self._ledger.step(trigger, Facts()))

    async def watch(self) -> None:
        """Notice at each heartbeat; run it beside a turn, and beside nothing else that moves the route."""
        while True:
            await self._ledger.heartbeat()
            with anyio.CancelScope(shield=True):  # a commit is made and known, whoever ends meanwhile
                try:
                    await self.notice()
                except Exception as problem:  # noqa: BLE001  # the turn is not to end for it: it is looked again, and at its end
                    _log.warning(
                        "a look at the profile of a running turn failed",
                        extra=problem_fields(problem, session_id=self._ledger.route.session_id),
                    )

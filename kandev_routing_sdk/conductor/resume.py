"""A resume that failed before anything was sent: one fresh session in the same generation, told what went before (R-CON-2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kandev_routing_sdk.conductor.attempt import Attempt
from kandev_routing_sdk.conductor.choice import Chooser, Claimed
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import Reason, Trigger
from kandev_routing_sdk.telemetry import fields, get_logger
from kandev_routing_sdk.types import AttemptOutcome, Delivery, Phase

_log = get_logger(__name__)

_BY_ITSELF: Final = frozenset({Reason.DEADLINE_DUE, Reason.RECOVERED})


class Resuming:
    """What becomes of an attempt that was to go on with a native session."""

    def __init__(self, ledger: Ledger, chooser: Chooser) -> None:
        self._ledger, self._chooser = ledger, chooser

    async def start_over(self, attempt: Attempt) -> Claimed | None:
        """Return the same attempt without its past, or None where the failure stands. Its agent is gone then."""
        if not attempt.prepared.plan.resumed or not self._may_start_over(attempt.turn):
            return None
        await attempt.downstream.stop()
        prepared = await self._chooser.without_past() if attempt.downstream.reaped else None
        if prepared is None:
            return None
        fresh = Claimed(attempt.record, prepared, attempt.lease)
        await self._forget(fresh)
        attempt.voice.close()
        attempt.over()
        return fresh

    async def noted(self, attempt: Attempt, ready: Ready) -> None:
        """Take note of an agent that offers no way back to its session, and made a new one at once."""
        prepared = attempt.prepared
        if prepared.plan.resumed and ready.fresh:
            attempt.prepared = replace(prepared, plan=replace(prepared.plan, resumed=False))
            await self._forget(Claimed(attempt.record, attempt.prepared, attempt.lease))

    async def _forget(self, fresh: Claimed) -> None:
        """The note is durable before the agent that it is for starts; no attempt and no budget is used."""
        _log.info(
            "an agent could not resume its session and gets a fresh one",
            extra=fields(session_id=self._ledger.route.session_id),
        )
        facts = Facts(continuation=await self._chooser.note_for(fresh.prepared))
        await self._ledger.commit(self._ledger.step(Trigger.RESUME_FAILED, facts))

    def _may_start_over(self, turn: TurnRecord) -> bool:
        """Whether it failed while its session was opened, with nothing sent and nothing done.

        Where an automatic retry rests on a guarantee about this very session, no other may take its place (R-SAFE-2).
        """
        if turn.outcome is not AttemptOutcome.FAILED or turn.phase is not Phase.SESSION_INIT:
            return False
        if turn.effects.delivery is not Delivery.NOT_SENT or effect_refusal(turn.effects) is not None:
            return False
        return not (self._chooser.rests_on_guarantee and self._ledger.route.reason in _BY_ITSELF)

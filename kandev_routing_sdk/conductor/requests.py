"""What a person asks of a route, made durable: actions, the next prompt, the end (R-ENG-7)."""

from __future__ import annotations

from dataclasses import replace

from kandev_routing_sdk.conductor.choice import Chooser
from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.conductor.recovery import Recovery
from kandev_routing_sdk.records import ActionRecord
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import leaves_by_itself, matching
from kandev_routing_sdk.route.model import State, Trigger
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark

_SAME_CANDIDATE = frozenset({State.RETRY_WAIT, State.WAITING_FOR_RESET})


class Requests:
    """The requests of one route. Each is one commit, or nothing."""

    def __init__(self, engine: Engine, ledger: Ledger, chooser: Chooser, recovery: Recovery) -> None:
        self._engine, self._ledger, self._chooser, self._recovery = engine, ledger, chooser, recovery

    async def act(self, action: Trigger, record: ActionRecord | None) -> None:
        """Carry out an action. Raises :class:`~kandev_routing_sdk.errors.NotAdmitted` while somebody else is probing."""
        facts, again = Facts(), action is Trigger.RETRY_NOW and self._ledger.route.state in _SAME_CANDIDATE
        if again and not await self._chooser.wants_current():
            action, again = Trigger.CANDIDATE_REMOVED, False
        if again:
            await self._chooser.check_admitted()
            facts = Facts(attempt_id=self._engine.ids.new("attempt:"))
        # the retry that was armed is what is asked for now, and its lease is its own
        back = () if again else await self._ledger.hand_backs()
        await self._ledger.commit(self._ledger.step(action, facts), action=record, circuits=back)

    async def ask(self, text: str) -> None:
        """Park the next prompt, for the route's own candidate where there still is one."""
        route = self._ledger.route
        own = route.state in {State.ACTIVE, *_SAME_CANDIDATE} and not route.turn_running
        gone = own and not await self._chooser.wants_current()
        facts = Facts(prompt=text, attempt_id=self._engine.ids.new("attempt:"), candidate_gone=gone)
        back = await self._ledger.hand_backs() if gone else ()
        await self._ledger.commit(self._ledger.step(Trigger.PROMPT, facts), circuits=back)

    async def end(self) -> None:
        """Stop the session for good, from any state; what still runs for it on this machine is ended (R-CON-11)."""
        if self._ledger.route.state is State.STOPPED:
            return
        running = await self._recovery.unsettled()
        transition = self._ledger.step(Trigger.STOP_SESSION, Facts())
        settled = None
        if running is not None:
            settled = replace(
                running,
                mark=DispatchMark.SETTLED,
                outcome=AttemptOutcome.CANCELLED,
                settled_at=transition.after.updated_at,
            )
        back = await self._ledger.hand_backs()
        # owned until its agent is gone: if this process dies before, whoever finds the session lost ends it
        await self._ledger.commit(transition, update_attempt=settled, circuits=back, keep_owner=running is not None)
        if running is not None:
            await self._recovery.is_gone(running)
            await self._ledger.rest()

    async def switch_flag(self, *, on: bool, look: bool) -> None:
        """Stop at the feature flag, keeping where the session was, or go back there, and ``look`` for a candidate (R-RES-4)."""
        trigger = Trigger.FLAG_ON if on else Trigger.FLAG_OFF
        is_on = self._ledger.route.prior_state is None
        if is_on is on or matching(self._ledger.route, trigger, Facts()) is None:
            return
        if not on:
            await self._recovery.quieten()
        await self._ledger.commit(self._ledger.step(trigger, Facts()), circuits=await self._ledger.hand_backs())
        route = self._ledger.route
        chooses = route.state is State.WAITING or (route.state is State.ACTION_REQUIRED and leaves_by_itself(route))
        if on and look and chooses:
            await self._ledger.commit(self._ledger.step(Trigger.SETTINGS_CHANGED, Facts()))

    async def settings_changed(self) -> bool:
        """Move a route on that its candidates, as they are now, would not keep here; whether that was so (R-ENG-4, R-ENG-6)."""
        route = self._ledger.route
        if route.state in _SAME_CANDIDATE:
            trigger, moves = Trigger.CANDIDATE_REMOVED, not await self._chooser.wants_current()
        else:
            trigger = Trigger.SETTINGS_CHANGED
            moves = matching(route, trigger, Facts()) is not None and await self._chooser.has_changed()
        if moves:
            await self._ledger.commit(self._ledger.step(trigger, Facts()), circuits=await self._ledger.hand_backs())
        return moves

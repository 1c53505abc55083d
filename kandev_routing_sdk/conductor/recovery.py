"""What becomes of a session whose owner is gone: nothing is started twice, and nothing is lost (R-DUR-3, R-ENG-8).

Only a ``claimed`` attempt provably sent nothing, and only once its processes are gone. Every other unsettled attempt may have done
something: a person is asked, and the next agent is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kandev_routing_sdk.conductor.attempt import Attempt
from kandev_routing_sdk.conductor.choice import Chooser, Claimed
from kandev_routing_sdk.conductor.claims import hand_backs, lost_record
from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.process import reap_group
from kandev_routing_sdk.process.group import has_proc
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import State, Trigger
from kandev_routing_sdk.telemetry import Reconciled, fields, get_logger
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark

_log = get_logger(__name__)


class Recovery:
    """Takes one route over."""

    def __init__(self, engine: Engine, ledger: Ledger, chooser: Chooser) -> None:
        self._engine, self._ledger, self._chooser = engine, ledger, chooser
        self._lost: list[AttemptRecord] = []

    def remember(self, attempts: Sequence[AttemptRecord]) -> None:
        """Keep in mind whose agents were never seen to end: what another machine took over may live on this one."""
        self._lost = [a for a in attempts if a.outcome is AttemptOutcome.LOST and a.process_group is not None]

    async def fence(self) -> bool:
        """End what this machine can see of predecessors that were given up; whether a successor may start (R-CON-8).

        Not while one of this machine may still act. Of another machine's, and where no process can be looked at, nothing is ever
        proven: a person knew that, and wanted the successor.
        """
        lost, self._lost = self._lost, []
        still = [attempt for attempt in lost if not await self.is_gone(attempt)]
        for attempt in still:
            _log.warning(
                "an agent could not be proven gone",
                extra=fields(session_id=attempt.session_id, attempt_id=attempt.attempt_id),
            )
        here = f"{self._engine.executor_namespace}/"
        return not has_proc() or not any((attempt.owner_id or "").startswith(here) for attempt in still)

    async def take_over(self) -> Claimed | None:
        """Make the next step where somebody should be at work, and nobody is: a person asked for it, or its owner died."""
        lost = await self.unsettled()
        if not await self._is_unsent(lost):
            await self._ask_a_person(lost)
            self._engine.telemetry.reconciled(Reconciled.ASKED)
            return None
        claimed = None
        if self._ledger.route.state in {State.STARTING, State.RETRYING}:
            claimed = await self._chooser.claim_again(lost)
        else:
            await self._step_back(lost)
        if lost is not None:  # otherwise it is what a person asked for elsewhere
            self._engine.telemetry.reconciled(Reconciled.REARMED)
        return claimed

    async def quieten(self) -> None:
        """Bring a route whose owner is gone to where nothing runs, and start nothing."""
        route, lost = self._ledger.route, await self.unsettled()
        if lost is None and not route.turn_running:
            return
        if not await self._is_unsent(lost):
            await self._ask_a_person(lost)
            self._engine.telemetry.reconciled(Reconciled.ASKED)
        elif route.turn_running:
            await self._step_back(lost)

    async def _is_unsent(self, lost: AttemptRecord | None) -> bool:
        """Whether nothing was sent: the attempt was not even claimed, or only that, and its processes are gone."""
        if lost is None:
            last = await self._ledger.last_attempt()
            return last is None or last.attempt_id != self._ledger.route.attempt_id
        gone = await self.is_gone(lost)
        return gone and lost.mark is DispatchMark.CLAIMED

    async def _step_back(self, lost: AttemptRecord | None) -> None:
        """From a running turn back to starting with the same attempt, or on to another candidate without it."""
        transition = self._ledger.step(Trigger.OWNER_LOST_UNDISPATCHED, Facts())
        stays = lost is None or transition.after.state is State.STARTING
        left = None if lost is None or stays else lost_record(lost, transition.after.updated_at)
        await self._ledger.commit(transition, update_attempt=left)

    async def leave(self, claimed: Claimed | None, live: Attempt | None, *, after_s: float = 0.0) -> None:
        """Give the session up for others, its agent being ended: as if this process had died, but at once and knowing more.

        ``claimed``: what was not started here; ``live``: what was; ``after_s``: in how many seconds others may take it.
        """
        engine, route = self._engine, await self._ledger.reload()
        if route.owner_id != self._ledger.owner_id:
            return
        lost = await self.unsettled()
        if lost is None:
            await self._ledger.hand_on(after_s=after_s)
            return
        if live is not None:
            live.over()
        if live is not None and live.record.attempt_id != lost.attempt_id:
            live = None
        if lost.mark is DispatchMark.CLAIMED:
            unstarted = claimed is not None and claimed.record.attempt_id == lost.attempt_id
            if unstarted or (live is not None and live.downstream.reaped):
                await self._ledger.disown(lost)
            await self._ledger.hand_on(after_s=after_s)
            return
        if live is not None:
            report = live.turn.report(engine.clock.now())
            lost = replace(lost, effects=report.effects, evidence=report.evidence)
        await self._ask_a_person(lost)

    async def finish_stop(self) -> None:
        """End the agent of a stopped session that still has an owner: whoever stopped it died before that was done (R-CON-11)."""
        route = self._ledger.route
        if route.state is State.STOPPED and route.kind == "session" and route.owner_id == self._ledger.owner_id:
            last = await self._ledger.last_attempt()
            if last is not None:
                await self.is_gone(last)

    async def _ask_a_person(self, lost: AttemptRecord | None) -> None:
        """The prompt may have had effects: nothing goes on by itself. The leases of the attempt go back unchanged."""
        transition = self._ledger.step(Trigger.OWNER_LOST_AMBIGUOUS, Facts())
        if lost is None:
            await self._ledger.commit(transition)
            return
        settled = replace(
            lost, mark=DispatchMark.SETTLED, outcome=AttemptOutcome.LOST, settled_at=transition.after.updated_at
        )
        await self._ledger.commit(transition, update_attempt=settled, circuits=hand_backs(lost))

    async def is_gone(self, lost: AttemptRecord) -> bool:
        """End what the attempt left running; whether nothing of it can act any more, as far as this machine can know (R-CON-11)."""
        return await end_left(self._engine, lost)

    async def unsettled(self) -> AttemptRecord | None:
        """Return the attempt that is not settled, if there is one: it can only be the last."""
        last = await self._ledger.last_attempt()
        return None if last is None or last.mark is DispatchMark.SETTLED else last


async def end_left(engine: Engine, lost: AttemptRecord) -> bool:
    """End what an attempt of a dead owner left running; whether nothing of it can act any more, as far as this machine can know."""
    if lost.owner_id is None and lost.process_group is None:
        return True  # claimed for whoever comes first, or left by an owner that saw its agent end
    if lost.owner_id is None or not lost.owner_id.startswith(f"{engine.executor_namespace}/"):
        return False  # another machine's processes cannot be seen from here
    return await reap_group(lost.process_group, lost.process_started_at or lost.created_at, lost.attempt_id)

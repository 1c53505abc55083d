"""Chooses: walks the candidates, claims one durably with its attempt and its leases, and claims it again when a wait is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.circuits import Circuit, admission
from kandev_routing_sdk.conductor.candidates import Field, rejected_of, survey, survey_of
from kandev_routing_sdk.conductor.claims import (
    SPREAD_S,
    decision_of,
    hand_backs,
    is_unchanged,
    lease_token,
    lost_record,
    new_record,
    next_try,
    problem_of,
    waits_for,
)
from kandev_routing_sdk.conductor.engine import PROBE_LEASE_S, Engine, Tell, Work, WorkSource
from kandev_routing_sdk.conductor.handover import Handover, HandoverFailed
from kandev_routing_sdk.conductor.judge import Lease
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.conductor.native import NativeSession, native_of
from kandev_routing_sdk.conductor.tasks import abandoned, in_thread
from kandev_routing_sdk.errors import NotAdmitted, StoreUnavailable
from kandev_routing_sdk.policy import Context
from kandev_routing_sdk.records import Admit, AttemptRecord, DecisionRecord, DecisionSort, SelectionRecord, Wait
from kandev_routing_sdk.results import AttemptReport, AttemptStarted, CandidateSkipped, Rejected
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import Reason, Round, Route, State, Trigger
from kandev_routing_sdk.route.past import SelectionInputs
from kandev_routing_sdk.route.select import CandidateView, Selection
from kandev_routing_sdk.route.step import Transition
from kandev_routing_sdk.telemetry import ProbeKind, SpanName
from kandev_routing_sdk.types import ProfileKind

_MAX_RESELECT: Final = 32
"""Lost races for a lease before it is called a fault; each one means that somebody else moved on."""
_NO_HEALTH: Final[Mapping[str, Circuit]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Claimed:
    """A committed attempt that nothing was started for yet."""

    record: AttemptRecord
    prepared: Prepared
    lease: Lease


class Chooser:
    """The choices of one route."""

    def __init__(
        self, engine: Engine, work: WorkSource, tell: Tell, ledger: Ledger, reports: Sequence[AttemptReport]
    ) -> None:
        self._engine, self._source, self._tell, self._ledger = engine, work, tell, ledger
        self._reports = reports
        """The attempts of the turn so far; they grow while it is driven."""
        self._handover = Handover(engine, reports)
        self.selection: Selection | None = None
        self.rejected: tuple[Rejected, ...] = ()

    # Somebody -------------------------------------------------------------------------------------------------------------

    async def select(self) -> Claimed | None:
        """Walk the candidates and claim the first that can; None when nobody can, and the route then waits."""
        with self._engine.telemetry.span(SpanName.SELECTION, session_id=self._ledger.route.session_id):
            return await self._select()

    async def _select(self) -> Claimed | None:
        work, found = await abandoned(self._survey)
        for _ in range(_MAX_RESELECT):
            inputs = await self._inputs(work, found, self._ledger.route.round)
            selection = self._walk(inputs)
            if selection.chosen is None:
                await self._nobody(selection, inputs)
                return None
            try:
                return await self._claim(work, selection, inputs, found)
            except NotAdmitted:
                continue  # somebody took the lease, or opened a circuit, since we looked
        raise StoreUnavailable(
            "no candidate could be claimed: its health changed each time it was looked at; try again"
        )

    def _survey(self) -> tuple[Work, Field]:
        """Look at everybody. Asks a host's vault, which may hang: nobody who is cancelled waits for it."""
        work = self._source()
        return work, survey_of(self._engine, work, self._native())

    def _native(self) -> NativeSession | None:
        return native_of(self._ledger.route, self._ledger.attempts, self._engine.executor_namespace)

    async def _inputs(self, work: Work, found: Field, round_: Round) -> SelectionInputs:
        # A concrete profile is what was asked for: health does not keep it from its try (R-CIR-8). A call of one ends with its
        # first failure, and then says when another is worth it.
        route = self._ledger.route
        asked = work.kind is ProfileKind.CONCRETE and (route.kind == "session" or not self._reports)
        health = _NO_HEALTH if asked else await in_thread(self._engine.store.circuit_view, found.keys)
        return SelectionInputs.of(
            found.views,
            health,
            round=round_,
            pinned=route.pinned_profile_id,
            now=self._engine.clock.now(),
            early_probe=route.probe_early,
        )

    def _walk(self, inputs: SelectionInputs) -> Selection:
        selection = inputs.select()
        self.selection, self.rejected = selection, rejected_of(selection)
        return selection

    async def _nobody(self, selection: Selection, inputs: SelectionInputs) -> None:
        for rejected in self.rejected:
            self._tell(CandidateSkipped(rejected))
        await self._wait(selection.trigger, selection, inputs)

    async def _wait(self, trigger: Trigger, selection: Selection, inputs: SelectionInputs) -> None:
        """Commit that nobody is free, with the walk that found it and what is waited for."""
        facts = Facts(deadline=self._spread(selection), labels=problem_of(self._ledger.route, inputs))
        transition = self._ledger.step(trigger, facts)
        await self._ledger.commit(
            transition, decision=decision_of(inputs, selection), waits_for=waits_for(inputs, transition.after)
        )

    def _spread(self, selection: Selection) -> datetime | None:
        """Those who wait for one moment do not all come back at it (R-DUR-4); a call's caller is told the moment itself."""
        if selection.earliest is None or self._ledger.route.kind == "utility":
            return selection.earliest
        return selection.earliest + timedelta(seconds=SPREAD_S * self._engine.ids.uniform())

    async def _claim(self, work: Work, selection: Selection, inputs: SelectionInputs, found: Field) -> Claimed | None:
        """Take the next generation, with the decision, its attempt and its leases in one transaction (R-ENG-2)."""
        assert selection.chosen is not None  # noqa: S101  # the caller looked
        prepared = found.prepared[selection.chosen.profile_id]
        try:
            note = await self._handover.note(self._ledger.route, prepared, tuple(found.prepared.values()))
        except HandoverFailed:
            # nobody is launched who is not told what was done before (R-SAFE-5)
            await self._ledger.commit(self._ledger.step(Trigger.HANDOVER_FAILED, Facts(clean=True)))
            return None
        attempt_id, generation = self._engine.ids.new("attempt:"), self._ledger.route.generation + 1
        facts = Facts(
            profile_id=prepared.profile.id,
            attempt_id=attempt_id,
            profile_version=work.profile_version,
            continuation=note,
        )
        transition = self._ledger.step(Trigger.CANDIDATE_COMMITTED, facts)
        if transition.after.state is not State.STARTING:
            await self._ledger.commit(transition)
            return None
        chosen = SelectionRecord(generation, prepared.profile.id, selection.to_json())
        claimed = await self._commit(
            transition,
            self._claim_of(transition.after, attempt_id, prepared),
            work.kind,
            selection=chosen,
            decision=decision_of(inputs, selection),
        )
        for rejected in self.rejected:
            self._tell(CandidateSkipped(rejected))
        return self._began(claimed)

    # The same one again ---------------------------------------------------------------------------------------------------

    async def try_again(self, trigger: Trigger = Trigger.DUE) -> Claimed | None:
        """The wait is over: the same candidate, if its keys admit it (R-CIR-8)."""
        work, prepared = await self._current()
        if prepared is None:
            away = self._ledger.step(Trigger.CANDIDATE_REMOVED, Facts())
            await self._ledger.commit(away, circuits=await self._ledger.hand_backs())
            return None
        if self.rests_on_guarantee and not prepared.plan.resumed:
            # what was promised is of a session that cannot be had any more (R-SAFE-2)
            revoked = self._ledger.step(Trigger.LATE_EFFECT, Facts())
            await self._ledger.commit(revoked, circuits=await self._ledger.hand_backs())
            return None
        last = await self._ledger.last_attempt()
        if work.kind is ProfileKind.CONCRETE and not is_unchanged(last, prepared):
            # what was to be tried again is not what would be tried: that disarms the retry (R-POL-7)
            shown = self._ledger.step(Trigger.CANCEL_WAIT, Facts(reason=Reason.SETTINGS_CHANGED))
            await self._ledger.commit(shown, circuits=hand_backs(last))
            return None
        attempt_id = self._engine.ids.new("attempt:")
        transition = self._ledger.step(trigger, Facts(attempt_id=attempt_id))
        if transition.after.state is State.ACTION_REQUIRED:
            await self._ledger.commit(transition, circuits=await self._ledger.hand_backs())
            return None
        claim = self._claim_of(transition.after, attempt_id, prepared)
        try:
            claimed = await self._commit(transition, claim, work.kind)
        except NotAdmitted as refused:
            await self._refused(refused)
            return None
        return self._began(claimed)

    async def _refused(self, refused: NotAdmitted) -> None:
        """Wait on, for what refused now and nothing else: what is free already would wake the route again and again."""
        last = await self._ledger.last_attempt()
        failed_at = (last and last.settled_at) or self._ledger.route.updated_at
        again = next_try(self._ledger.route, failed_at, refused.until, self._engine.ids.uniform())
        transition = self._ledger.step(Trigger.DUE_NOT_ADMITTED, Facts(deadline=again))
        stays = transition.after.state is self._ledger.route.state
        early = stays and transition.after.state is State.WAITING_FOR_RESET
        await self._ledger.commit(
            transition,
            circuits=() if stays else await self._ledger.hand_backs(),
            waits_for=(Wait(refused.key, until_closed=True),) if early else (),
        )

    async def claim_again(self, lost: AttemptRecord | None) -> Claimed | None:
        """Claim the route's own candidate in the generation that it has (R-DUR-3).

        ``lost``: what a dead owner had claimed and provably not started; None for what a person asked, and nobody has claimed yet.
        """
        work, prepared = await self._current()
        gone = None if lost is None else lost_record(lost, self._engine.clock.now())
        if prepared is None:
            away = self._ledger.step(Trigger.ADAPTER_EXCEPTION, Facts(clean=True, reason=Reason.CANDIDATE_REMOVED))
            await self._ledger.commit(away, update_attempt=gone, circuits=await self._ledger.hand_backs())
            return None
        attempt_id = self._ledger.route.attempt_id if lost is None else None
        attempt_id = attempt_id or self._engine.ids.new("attempt:")
        facts = Facts(attempt_id=attempt_id, continuation=await self.note_for(prepared))
        transition = self._ledger.step(Trigger.OWNER_LOST_UNDISPATCHED, facts)
        if transition.after.state is State.ACTION_REQUIRED:
            await self._ledger.commit(transition, update_attempt=gone, circuits=await self._ledger.hand_backs())
            return None
        claim = self._claim_of(transition.after, attempt_id, prepared)
        try:
            claimed = await self._commit(transition, claim, work.kind, update=gone)
        except NotAdmitted:
            if transition.after.probe_early:
                # what a person says is no automatic try, and an active session stays where it is (R-CIR-8)
                return self._began(await self._commit(transition, claim, ProfileKind.CONCRETE, update=gone))
            away = self._ledger.step(Trigger.ADAPTER_EXCEPTION, Facts(clean=True, reason=Reason.PROVIDER_FAILURE))
            await self._ledger.commit(away, update_attempt=gone, circuits=await self._ledger.hand_backs())
            return None
        return self._began(claimed)

    async def check_admitted(self) -> None:
        """Raise :class:`~kandev_routing_sdk.errors.NotAdmitted` when somebody else is finding out about the candidate just now."""
        last = await self._ledger.last_attempt()
        work = await in_thread(self._source)
        if last is None or work.kind is ProfileKind.CONCRETE:
            return
        circuits = await in_thread(self._engine.store.circuit_view, last.resource_keys)
        for key in last.resource_keys:
            now = self._engine.clock.now()
            answer = admission(circuits.get(key.key), now=now, token=last.lease_token, early=True)
            if answer.kind == "refused":
                raise NotAdmitted(key.key, answer.until)

    @property
    def rests_on_guarantee(self) -> bool:
        """Whether an automatic retry is one only because its agent is to go on with its very session (R-SAFE-2)."""
        return bool(self._reports) and not self._reports[-1].automatic

    async def note_for(self, prepared: Prepared) -> str | None:
        """What the agent is told beside the prompt: what was kept for it, or what is known now."""
        route = self._ledger.route
        return route.continuation or await self._handover.own_note(route, prepared)

    async def wants_current(self) -> bool:
        """Whether the route's own candidate still is one, and enabled; whoever starts it sees whether it can be."""
        return (await in_thread(self._source)).wants(self._ledger.route.execution_profile_id)

    async def without_past(self) -> Prepared | None:
        """The route's own candidate as it is now, to be started with a native session of its own."""
        return (await self._current(resume=False))[1]

    async def _current(self, *, resume: bool = True) -> tuple[Work, Prepared | None]:
        """The route's own candidate as it is now; None when it is none any more."""
        profile_id = self._ledger.route.execution_profile_id
        native = self._native() if resume else None

        def look() -> tuple[Work, Prepared | None]:
            work = self._source()
            mine = [c for c in work.candidates if c.profile_id == profile_id and c.enabled]
            found = survey(self._engine, mine, work.cwd, native, listed_by=work.listed_by)
            return work, found.prepared.get(profile_id or "")

        return await abandoned(look)

    # Nobody was free ------------------------------------------------------------------------------------------------------

    async def has_changed(self) -> bool:
        """Whether the candidates are not those of the last walk any more, and one of them is free now (R-ENG-6)."""
        work, found = await abandoned(self._survey)
        rows = await in_thread(self._engine.store.decisions, self._ledger.route.session_id)
        last = next((row for row in reversed(rows) if row.sort is DecisionSort.SELECTION), None)
        if last is not None and _candidates_of(last) == found.views:
            return False
        return self._walk(await self._inputs(work, found, Round())).chosen is not None

    async def reconsider(self) -> None:
        """What the route waits for may be over: leave ``waiting`` if somebody is free now, else wait on (R-CIR-8)."""
        work, found = await abandoned(self._survey)
        inputs = await self._inputs(work, found, Round())
        selection = self._walk(inputs)
        if selection.chosen is not None:
            await self._ledger.commit(self._ledger.step(_leaving(self._ledger.route, inputs), Facts()))
            return
        trigger = Trigger.DUE_NOT_ADMITTED if selection.earliest is not None else Trigger.NO_RECOVERY_LEFT
        await self._wait(trigger, selection, inputs)

    # Writing --------------------------------------------------------------------------------------------------------------

    def _claim_of(self, after: Route, attempt_id: str, prepared: Prepared) -> Claimed:
        """Return the claim that a step makes; which leases it gets, its commit says."""
        record = new_record(self._engine, after, attempt_id, prepared, ordinal=self._ledger.next_ordinal)
        return Claimed(record, prepared, Lease(lease_token(after, after.generation), self._engine.owner_id))

    async def _commit(  # what one transaction holds
        self,
        transition: Transition,
        claim: Claimed,
        kind: ProfileKind,
        *,
        selection: SelectionRecord | None = None,
        decision: DecisionRecord | None = None,
        update: AttemptRecord | None = None,
    ) -> Claimed:
        """Commit the attempt with the leases it needs; return it with those it got."""
        token, admit = claim.lease.token, None
        if kind is ProfileKind.DYNAMIC:
            early = transition.after.probe_early
            admit = Admit(claim.record.resource_keys, token, self._engine.owner_id, PROBE_LEASE_S, early=early)
        committed = await self._ledger.commit(
            transition,
            selection=selection,
            new_attempt=claim.record,
            update_attempt=update,
            admit=admit,
            decision=decision,
        )
        held = frozenset(key.key for key in committed.leased)
        if transition.after.context is Context.INTERACTIVE and transition.after.decision is not None:
            held = await self._armed(claim)
            mine = [key for key in claim.record.resource_keys if key.key in held]
            self._engine.telemetry.probing(mine, ProbeKind.LAUNCH)
        return replace(claim, lease=replace(claim.lease, held=held))

    async def _armed(self, claim: Claimed) -> frozenset[str]:
        """Health keeps a concrete profile from nothing; the leases that its armed retry holds are its own (R-CIR-5, R-CIR-8)."""
        health = await in_thread(self._engine.store.circuit_view, claim.record.resource_keys)
        now = self._engine.clock.now()
        return frozenset(key for key, circuit in health.items() if circuit.is_held_by(claim.lease.token, now))

    def _began(self, claimed: Claimed) -> Claimed:
        record = claimed.record
        self._tell(
            AttemptStarted(
                ordinal=record.ordinal,
                generation=record.generation,
                profile_id=record.execution_profile_id,
                label=claimed.prepared.profile.name,
                provider_id=record.provider_id,
                model=record.model_id,
                is_probe=bool(claimed.lease.held),
            )
        )
        return claimed


def _candidates_of(walk: DecisionRecord) -> tuple[CandidateView, ...] | None:
    """The candidates that a stored walk saw; None when this version cannot read them."""
    try:
        return SelectionInputs.from_json(walk.inputs).candidates
    except ValueError:
        return None


def _leaving(route: Route, inputs: SelectionInputs) -> Trigger:
    """Why a route leaves its wait: its time came, or something came back before."""
    return Trigger.DUE if route.deadline is not None and route.deadline <= inputs.now else Trigger.RECOVERED_EARLY

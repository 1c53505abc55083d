"""Chooses: walks the candidates, claims one durably with its attempt and its leases, and claims it again when a wait is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.conductor.candidates import Field, rejected_of, survey
from kandev_routing_sdk.conductor.claims import lease_token, new_record, next_try
from kandev_routing_sdk.conductor.engine import PROBE_LEASE_S, Engine, Tell, Work
from kandev_routing_sdk.conductor.handover import note_for
from kandev_routing_sdk.conductor.judge import Lease
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.conductor.tasks import in_thread
from kandev_routing_sdk.errors import NotAdmitted, StoreUnavailable
from kandev_routing_sdk.ports import Admit, AttemptRecord, SelectionRecord
from kandev_routing_sdk.results import AttemptReport, AttemptStarted, CandidateSkipped, Rejected
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import State, Trigger
from kandev_routing_sdk.route.select import Selection, select
from kandev_routing_sdk.route.step import Transition
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
        self, engine: Engine, work: Work, tell: Tell, ledger: Ledger, reports: Sequence[AttemptReport]
    ) -> None:
        self._engine, self._work, self._tell, self._ledger = engine, work, tell, ledger
        self._reports = reports
        """The route's attempts so far; they grow while it is driven."""
        self.selection: Selection | None = None
        self.rejected: tuple[Rejected, ...] = ()

    async def select(self) -> Claimed | None:
        """Walk the candidates and claim the first that can; None when nobody can, and the route then waits."""
        found = await in_thread(survey, self._engine, self._work.candidates, self._work.cwd)
        for _ in range(_MAX_RESELECT):
            selection = await self._look(found)
            if selection.chosen is None:
                await self._nobody(selection)
                return None
            try:
                return await self._claim(selection, found)
            except NotAdmitted:
                continue  # somebody took the lease, or opened a circuit, since we looked
        raise StoreUnavailable(
            "no candidate could be claimed: its health changed each time it was looked at; try again"
        )

    async def _look(self, found: Field) -> Selection:
        # a concrete profile is what the caller asked for: health does not keep it from its first try (R-CIR-8)
        first = not self._reports and self._work.kind is ProfileKind.CONCRETE
        health = _NO_HEALTH if first else await in_thread(self._engine.store.circuit_view, found.keys)
        route = self._ledger.route
        selection = select(
            found.views, health, round=route.round, pinned=route.pinned_profile_id, now=self._engine.clock.now()
        )
        self.selection, self.rejected = selection, rejected_of(selection)
        return selection

    async def _nobody(self, selection: Selection) -> None:
        trigger = Trigger.NOBODY_RECOVERY_KNOWN if selection.recovery_known else Trigger.NOBODY_PERSON_NEEDED
        for rejected in self.rejected:
            self._tell(CandidateSkipped(rejected))
        await self._ledger.commit(self._ledger.step(trigger, Facts(deadline=selection.earliest)))

    async def _claim(self, selection: Selection, found: Field) -> Claimed | None:
        """Take the next generation, with the decision, its attempt and its leases in one transaction (R-ENG-2)."""
        assert selection.chosen is not None  # noqa: S101  # the caller looked
        prepared = found.prepared[selection.chosen.profile_id]
        attempt_id, generation = self._engine.ids.new("attempt:"), self._ledger.route.generation + 1
        facts = Facts(
            profile_id=prepared.profile.id,
            attempt_id=attempt_id,
            profile_version=self._work.profile_version,
            continuation=note_for(self._ledger.route, self._reports, prepared.cleaner),
        )
        transition = self._ledger.step(Trigger.CANDIDATE_COMMITTED, facts)
        if transition.after.state is not State.STARTING:
            await self._ledger.commit(transition)
            return None
        record = new_record(self._engine, transition.after, attempt_id, prepared, ordinal=len(self._reports) + 1)
        lease = await self._commit_attempt(
            transition, record, SelectionRecord(generation, prepared.profile.id, selection.to_json())
        )
        for rejected in self.rejected:
            self._tell(CandidateSkipped(rejected))
        return self._began(record, prepared, lease)

    async def try_again(self) -> Claimed | None:
        """The deadline passed: the same candidate, if its keys admit it (R-CIR-8)."""
        route = self._ledger.route
        mine = tuple(c for c in self._work.candidates if c.profile_id == route.execution_profile_id)
        found = await in_thread(survey, self._engine, mine, self._work.cwd)
        prepared = found.prepared.get(route.execution_profile_id or "")
        if prepared is None:
            await self._ledger.commit(self._ledger.step(Trigger.CANDIDATE_REMOVED, Facts()))
            return None
        attempt_id = self._engine.ids.new("attempt:")
        transition = self._ledger.step(Trigger.DUE, Facts(attempt_id=attempt_id, profile_id=prepared.profile.id))
        if transition.after.state is not State.RETRYING:
            await self._ledger.commit(transition)
            return None
        record = new_record(self._engine, transition.after, attempt_id, prepared, ordinal=len(self._reports) + 1)
        try:
            lease = await self._commit_attempt(transition, record, None)
        except NotAdmitted as refused:
            await self._ledger.commit(
                self._ledger.step(
                    Trigger.DUE_NOT_ADMITTED,
                    Facts(deadline=next_try(self._ledger.route, refused.until, self._engine.ids.uniform())),
                )
            )
            return None
        return self._began(record, prepared, lease)

    async def _commit_attempt(
        self, transition: Transition, record: AttemptRecord, selection: SelectionRecord | None
    ) -> Lease:
        token = lease_token(self._ledger.route, record.generation)
        admit = None
        if self._work.kind is ProfileKind.DYNAMIC:
            admit = Admit(record.resource_keys, token, self._engine.owner_id, PROBE_LEASE_S)
        committed = await self._ledger.commit(transition, selection=selection, new_attempt=record, admit=admit)
        return Lease(token, self._engine.owner_id, frozenset(k.key for k in committed.leased))

    def _began(self, record: AttemptRecord, prepared: Prepared, lease: Lease) -> Claimed:
        self._tell(
            AttemptStarted(
                ordinal=record.ordinal,
                generation=record.generation,
                profile_id=record.execution_profile_id,
                label=prepared.profile.name,
                provider_id=record.provider_id,
                model=record.model_id,
                is_probe=bool(lease.held),
            )
        )
        return Claimed(record, prepared, lease)

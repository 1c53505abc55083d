"""One attempt: its agent, its record, its leases. Knows nothing of routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from kandev_routing_sdk.conductor.engine import Engine, Work
from kandev_routing_sdk.conductor.judge import Lease, Standing, Verdict, judge_success
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.conductor.tasks import in_thread
from kandev_routing_sdk.conductor.voice import Voice
from kandev_routing_sdk.errors import StaleRevision
from kandev_routing_sdk.evidence.correlation import Correlation
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.evidence.updates import AgentUpdate, Usage
from kandev_routing_sdk.ports import AttemptRecord, Downstream, Ready
from kandev_routing_sdk.process import HeadlessDownstream
from kandev_routing_sdk.results import AttemptReport
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.spec.client import Asker, HostSide
from kandev_routing_sdk.telemetry import Fence, Span, SpanName, Stale, Telemetry
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark, ErrorClass, Transport


class Marks:
    """The durable marks of a committed attempt (state machine, Dispatch marks)."""

    def __init__(self, engine: Engine, record: AttemptRecord) -> None:
        self._store, self._telemetry = engine.store, engine.telemetry
        self.record: AttemptRecord = record

    async def on_spawn(self, process_group: int, started_at: datetime) -> None:
        """Remember the process group, so that a taker-over can reap it."""
        await self._keep(replace(self.record, process_group=process_group, process_started_at=started_at))

    async def on_first_sign(self) -> None:
        """Something of the turn came back."""
        if self.record.mark is DispatchMark.DISPATCHING:
            await self._keep(replace(self.record, mark=DispatchMark.DELIVERED))

    async def _keep(self, record: AttemptRecord) -> None:
        self.record = record
        try:
            await in_thread(self._store.mark_attempt, record)
        except StaleRevision:
            self._telemetry.fenced(Fence.ATTEMPT)
            raise


@dataclass(slots=True)
class Attempt:
    """A committed attempt and what runs for it."""

    marks: Marks
    prepared: Prepared
    lease: Lease
    downstream: Downstream
    turn: TurnRecord
    voice: Voice
    telemetry: Telemetry
    span: Span
    last_words: str | None = None
    """What its agent said when it was asked to hand over."""

    @property
    def record(self) -> AttemptRecord:
        """The attempt's row as it is now."""
        return self.marks.record

    @property
    def correlation(self) -> Correlation:
        """What evidence of this attempt has to say of itself."""
        record = self.record
        return Correlation(record.session_id, record.generation, record.prompt_number, record.attempt_id)

    def dispatching(self) -> AttemptRecord:
        """Return the record with its prompt about to leave; commit it before anything can leave."""
        self.marks.record = replace(self.record, mark=DispatchMark.DISPATCHING)
        return self.record

    def settled(self, report: TurnReport, verdict: Verdict, now: datetime) -> AttemptRecord:
        """Return the record as it will stay (R-ENG-11)."""
        usage = report.usage
        self.marks.record = replace(
            self.record,
            mark=DispatchMark.SETTLED,
            outcome=verdict.outcome,
            stop_reason=report.stop_reason,
            served_model=report.model,
            effects=report.effects,
            evidence=report.evidence,
            classification=verdict.classification,
            decision=verdict.decision,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            inner_retries=report.inner_retries,
            settled_at=now,
        )
        return self.record

    def over(self) -> None:
        """Tell what is known of it besides its row, once that is written; call it once."""
        record = self.record
        found = {} if record.classification is None else {"code": record.classification.code.value}
        self.span.note(found if record.outcome is None else found | {"outcome": record.outcome.value})
        self.span.end()
        self.telemetry.dropped(Stale.FRAME, self.downstream.stale_frames + self.voice.late)

    def answered(self) -> Verdict:
        """Return what an answer means for the resources that this attempt was launched with."""
        return judge_success(self.record.resource_keys, self.lease, credential_doubted=self.turn.credential_is_doubted)

    def ready(self, ready: Ready) -> Facts:
        """Return what is known when its agent can take a prompt. Who answers is captured here, and never changed (R-CON-5)."""
        record, prepared = self.record, self.prepared
        return Facts(
            native_session_id=ready.native_session_id,
            resumed=prepared.plan.resumed,
            labels={"provider_id": record.provider_id, "model_id": record.model_id, "profile": prepared.profile.name},
            capabilities={name: prepared.cleaner.value(value) for name, value in ready.capabilities.items()},
        )

    def standing(self, work: Work, route: Route) -> Standing:
        """Return what its failure is judged by."""
        profile_id, prepared = self.record.execution_profile_id, self.prepared
        return Standing(
            correlation=self.correlation,
            policy=work.policy_of(profile_id),
            visit=route.round.visit(profile_id),
            identity=prepared.identity,
            keys=self.record.resource_keys,
            lease=self.lease,
            # of no worth about a session that was not resumed here (R-SAFE-2)
            resume_guarantee=prepared.plan.resumed and prepared.adapter.resume_guarantee,
            context=route.context,
        )

    def lost_session(self, verdict: Verdict) -> bool:
        """Whether a headless agent, which opens its session with its prompt, most likely did not find the one to go on with."""
        plan, found = self.prepared.plan, verdict.classification
        unknown = found is not None and found.error_class is ErrorClass.UNCLASSIFIED
        asked = plan.resumed and plan.transport is Transport.HEADLESS
        return asked and unknown and not self.turn.effects.any_activity

    def unfinished_outcome(self) -> AttemptOutcome:
        """How an attempt ends that the caller gave up on: silent when no part of an answer ever came."""
        return AttemptOutcome.CANCELLED if self.turn.effects.any_activity else AttemptOutcome.SILENT


def report_of(record: AttemptRecord) -> AttemptReport:
    """Return what the caller is told of a settled attempt: what was written down of it."""
    effects, found = record.effects or NOTHING_SENT, record.classification
    used = record.input_tokens is not None or record.output_tokens is not None
    return AttemptReport(
        ordinal=record.ordinal,
        generation=record.generation,
        execution_profile_id=record.execution_profile_id,
        family=record.family,
        outcome=record.outcome or AttemptOutcome.FAILED,
        automatic=found is not None and found.automatic_refusal(effects) is None,
        inner_retries=record.inner_retries,
        effects=effects,
        provider_id=record.provider_id,
        model=record.served_model or record.model_id,
        usage=Usage(record.input_tokens or 0, record.output_tokens or 0) if used else None,
        classification=found,
        decision=record.decision,
    )


def new_turn(
    engine: Engine, record: AttemptRecord, prepared: Prepared, emit: Callable[[AgentUpdate], None]
) -> TurnRecord:
    """Return the empty record of a turn of an attempt's agent."""
    return TurnRecord(
        TurnContext(
            family=record.family,
            session_id=record.session_id,
            generation=record.generation,
            prompt=record.prompt_number,
            attempt_id=record.attempt_id,
            provider_id=record.provider_id,
            model_id=record.model_id,
            local_zone=prepared.plan.local_zone,
        ),
        prepared.cleaner,
        emit,
        decides=lambda signal: engine.catalogue.decides(signal, record.family),
    )


def make_attempt(engine: Engine, record: AttemptRecord, prepared: Prepared, lease: Lease, voice: Voice) -> Attempt:
    """Put together what runs for a committed attempt, and speaks with ``voice``. Starts nothing.

    Raises whatever the adapter's ``extractor()`` raises.
    """
    plan = prepared.plan
    turn = new_turn(engine, record, prepared, voice)
    marks = Marks(engine, record)
    drives: Callable[..., Downstream] = HeadlessDownstream
    if plan.transport is Transport.ACP:
        from kandev_routing_sdk.acp import AcpDownstream  # noqa: PLC0415  # only those who speak it pay for it

        host = HostSide(
            Asker(record.session_id, record.generation, record.execution_profile_id, plan.cwd.absolute()),
            engine.permissions,
            engine.client,
            prepared.cleaner.value,
        )
        drives = partial(AcpDownstream, resume_session_id=prepared.resume_session_id, host=host)
    downstream = drives(
        plan,
        prepared.adapter.extractor(plan),
        attempt_id=record.attempt_id,
        clock=engine.clock,
        on_spawn=marks.on_spawn,
        on_first_sign=marks.on_first_sign,
    )
    span = engine.telemetry.begin(
        SpanName.ATTEMPT,
        session_id=record.session_id,
        attempt_id=record.attempt_id,
        generation=record.generation,
        family=record.family,
        provider=record.provider_id,
    )
    return Attempt(marks, prepared, lease, downstream, turn, voice, engine.telemetry, span)

"""Drives one session's route: decide, commit, act, observe, decide (design §1).

Each method is one line of design §5. Nothing acts before its commit; what is decided lives in the pure floors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import anyio

from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.conductor.attempt import Attempt, make_attempt, report_of
from kandev_routing_sdk.conductor.choice import Chooser, Claimed
from kandev_routing_sdk.conductor.claims import hand_backs, lease_token
from kandev_routing_sdk.conductor.edits import Edits
from kandev_routing_sdk.conductor.engine import OWNER_LEASE_S, Engine, Tell, WorkSource
from kandev_routing_sdk.conductor.handover import kept_prompt, prompt_of
from kandev_routing_sdk.conductor.judge import (
    Verdict,
    book_failure,
    facts_of,
    is_empty_answer,
    judge_failure,
    judge_neutral,
    waits_of,
)
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.conductor.masking import LiveText
from kandev_routing_sdk.conductor.output import OutputWriter
from kandev_routing_sdk.conductor.parting import part_from, words_of
from kandev_routing_sdk.conductor.recovery import Recovery
from kandev_routing_sdk.conductor.requests import Requests
from kandev_routing_sdk.conductor.resume import Resuming
from kandev_routing_sdk.conductor.tasks import alongside, in_thread
from kandev_routing_sdk.conductor.voice import Voice, is_answer
from kandev_routing_sdk.errors import StoreError
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.evidence.turn import TurnReport
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.records import ActionRecord, AttemptRecord, CircuitHandedBack
from kandev_routing_sdk.results import AgentSaid, AttemptEnded, AttemptReport, Rejected
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import matching
from kandev_routing_sdk.route.model import Reason, Route, State, Trigger
from kandev_routing_sdk.route.select import Selection
from kandev_routing_sdk.route.step import Transition, begin, trigger_for
from kandev_routing_sdk.route.table import ATTEMPT_CAP
from kandev_routing_sdk.telemetry import SpanName, get_logger, problem_fields
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark

_log = get_logger(__name__)


class Drive:
    """One route and, while a turn runs, its agent. One task drives it; its owner lease keeps other processes away."""

    def __init__(
        self, engine: Engine, work: WorkSource, tell: Tell, *, prompt: str | None = None, owner_id: str | None = None
    ) -> None:
        self._engine = engine
        self._work = work
        self._tell = tell
        self._prompt_text = prompt
        """A call's; a session's is parked with its route."""
        self._woken = False
        self._ledger = Ledger(engine, tell, owner_id)
        self._attempt: Attempt | None = None
        self._answered = anyio.Event()
        self._booked: tuple[ResourceKey, ...] = ()
        self._claimed: Claimed | None = None
        self.reports: list[AttemptReport] = []
        self._chooser = Chooser(engine, work, tell, self._ledger, self.reports)
        self._recovery = Recovery(engine, self._ledger, self._chooser)
        self._edits = Edits(self._ledger, self._chooser)
        self._output = OutputWriter(self._ledger)
        self._requests = Requests(engine, self._ledger, self._chooser, self._recovery)
        self._resuming = Resuming(self._ledger, self._chooser)
        self.text: str = ""
        self.has_answer: bool = False
        """Whether ``text`` is a whole answer, written down or not."""
        self.stop_reason: str | None = None

    @property
    def begun(self) -> bool:
        """Whether the session was created."""
        return self._ledger.begun

    @property
    def answered(self) -> bool:
        """Whether an agent answered, and that is written down."""
        return bool(self.reports) and self.reports[-1].outcome is AttemptOutcome.SUCCESS

    @property
    def route(self) -> Route:
        """The route as it was last committed."""
        return self._ledger.route

    @property
    def selection(self) -> Selection | None:
        """The last walk over the candidates."""
        return self._chooser.selection

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """Whom it passed over, and why."""
        return self._chooser.rejected

    # Life -----------------------------------------------------------------------------------------------------------------

    async def open(self, session_id: str) -> None:
        """Create a call's route. Its prompt stays with its caller: it is never re-armed (R-UTL-4)."""
        now = self._engine.clock.now()
        work = self._work()
        begun = begin(
            session_id,
            work.logical_profile_id,
            now=now,
            prompt="",
            kind="utility",
            profile_version=work.profile_version,
            owner_id=self._ledger.owner_id,
            owner_until=now + timedelta(seconds=OWNER_LEASE_S),
        )
        await self._ledger.commit(begun)

    async def adopt(self, route: Route, *, woken: bool = False) -> None:
        """Go on with a stored session. ``woken``: what it waits for may be over."""
        attempts = await in_thread(self._engine.store.attempts, route.session_id, newest=ATTEMPT_CAP)
        self._ledger.adopt(route, attempts)
        self._woken = woken
        self._recovery.remember(attempts)
        self.reports[:] = [
            report_of(a) for a in attempts if a.prompt_number == route.prompt_number and a.mark is DispatchMark.SETTLED
        ]

    async def run(self) -> Route:
        """Go on until the route waits for a deadline or a person, or its turn is done. Waits inside a policy are the caller's."""
        with self._engine.telemetry.span(
            SpanName.TURN, session_id=self.route.session_id, route=self.route.kind
        ) as span:
            async with alongside(self._book_answers(), self._output.run()):
                while (go_on := self._next()) is not None:
                    self._woken = False  # what it was woken for comes first, and nothing after it
                    await go_on()
            span.note({"state": self.route.state.value})
        return self.route

    async def keep_owner(self) -> None:
        """Keep the session ours; run it beside :meth:`run` and the waits between its runs. See :meth:`Ledger.keep_owner`.

        When that is no longer possible the agent is ended here, whatever the drive itself is waiting for (R-ENG-8).
        """
        try:
            await self._ledger.keep_owner(self._probe_token)
        except StoreError:
            with anyio.CancelScope(shield=True):
                await self._end_agent()
            raise

    async def abandon(self) -> None:
        """End the agent and settle what runs as neither success nor failure: charges no circuit. Call it shielded."""
        await self._end_agent()
        # the commit in whose middle the caller was cancelled was made: read again what is true
        if not self._ledger.begun or (await self._ledger.reload()).state is State.STOPPED:
            return
        unsettled = await self._recovery.unsettled()
        transition = self._ledger.step(Trigger.STOP_SESSION, Facts(reason=Reason.CANCELLED))
        live = self._attempt
        if unsettled is None:
            await self._ledger.commit(transition, circuits=self._hand_backs())
        elif live is not None and live.record.attempt_id == unsettled.attempt_id:
            verdict = judge_neutral(live.unfinished_outcome(), Reason.CANCELLED, unsettled.resource_keys, live.lease)
            report = live.turn.report(self._engine.clock.now())
            self.text = live.prepared.cleaner.text(report.text)
            await self._settle(live, report, verdict, transition)
        else:  # committed, but nothing of it was started
            await self._settle_unstarted(transition, unsettled, AttemptOutcome.SILENT)

    async def act(self, action: Trigger, record: ActionRecord | None) -> None:
        """Commit a person's action; :meth:`run` goes on from there."""
        await self._requests.act(action, record)

    async def ask(self, text: str) -> None:
        """Commit the user's next message; :meth:`run` goes on from there."""
        self.reports.clear()  # of an earlier prompt: what they may have done, the route knows
        await self._requests.ask(text)

    async def switch_flag(self, *, on: bool, look: bool = True) -> None:
        """Bring the session in line with the feature flag. ``look``: go on at once where it waits for somebody."""
        await self._requests.switch_flag(on=on, look=look)

    async def settings_changed(self) -> bool:
        """Let the session look for a candidate again, if its candidates changed; whether they did."""
        return await self._requests.settings_changed()

    async def hand_on(self) -> None:
        """Leave what was just committed to whoever comes first, at once; nothing was started for it here."""
        await self._recovery.finish_stop()
        try:
            await self._ledger.hand_on()
        except StoreError as problem:
            # it is made, and found when its lease runs out: asking for it again would be wrong
            _log.warning(
                "a session goes on a little later", extra=problem_fields(problem, session_id=self.route.session_id)
            )

    async def end(self) -> None:
        """Stop the session for good, from any state."""
        await self._requests.end()

    async def rest(self) -> None:
        """Give the session up if there was nothing to do for it."""
        await self._recovery.finish_stop()
        await self._ledger.rest()

    async def relinquish(self, *, after_s: float = 0.0) -> None:
        """End the agent and leave the session to others, in so many seconds. Call it shielded."""
        await self._end_agent()
        await self._output.finish()
        await self._recovery.leave(self._claimed, self._attempt, after_s=after_s)

    async def stop(self) -> None:
        """Close the route for good (R-UTL-4)."""
        if self._ledger.begun and self.route.state is not State.STOPPED:
            end = self._ledger.step(Trigger.STOP_SESSION, Facts(reason=Reason.CALL_ENDED))
            await self._ledger.commit(end, circuits=self._hand_backs())

    def _hand_backs(self) -> tuple[CircuitHandedBack, ...]:
        """An armed retry that will never come must not keep its circuits' probe from others."""
        token = lease_token(self.route, self.route.generation)
        return tuple(CircuitHandedBack(key, token) for key in self._booked)

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        route = self.route
        match route.state:
            case State.SELECTING | State.SWITCHING:
                return self._select
            case State.STARTING | State.RETRYING:
                return self._start if self._claimed else self._take_over
            case State.ACTIVE if route.turn_running:
                return self._prompt if self._attempt else self._take_over
            case State.REROUTE_PENDING:
                return self._take_over if route.turn_running else self._enforce
            case State.RETRY_WAIT | State.WAITING_FOR_RESET if self._is_due():
                return self._try_again
            case _ if self._woken:
                return self._reconsider
            case _:
                return None

    def _is_due(self) -> bool:
        deadline = self.route.deadline
        return deadline is not None and deadline <= self._engine.clock.now()

    async def _select(self) -> None:
        self._claimed = await self._chooser.select()

    async def _try_again(self) -> None:
        self._claimed = await self._chooser.try_again()

    async def _take_over(self) -> None:
        """Nothing of the attempt lives here: its owner died, or a person asked for it elsewhere."""
        self._claimed = await self._recovery.take_over()

    async def _reconsider(self) -> None:
        route = self.route
        if route.state is State.WAITING:
            await self._chooser.reconsider()
        elif route.state is State.WAITING_FOR_RESET:
            self._claimed = await self._chooser.try_again(Trigger.RECOVERED_EARLY)
        elif route.state is State.ACTION_REQUIRED and matching(route, Trigger.SETTINGS_CHANGED, Facts()):
            await self._ledger.commit(self._ledger.step(Trigger.SETTINGS_CHANGED, Facts()))

    async def _enforce(self) -> None:
        """No turn runs: a pending reroute is enforced now (R-ENG-4)."""
        await self._end_agent()
        await self._ledger.commit(self._ledger.step(Trigger.SETTLED, Facts()))

    # One attempt ----------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        assert self._claimed is not None  # noqa: S101  # a claim comes first
        claimed, self._claimed = self._claimed, None
        if not await self._recovery.fence():
            stays = self._ledger.step(Trigger.LATE_EFFECT, Facts(reason=Reason.HANDOVER_FAILED))
            await self._settle_unstarted(stays, claimed.record, AttemptOutcome.SILENT)
            return
        ready = await self._launch(claimed)
        if ready is None and self._attempt is not None and (fresh := await self._resuming.start_over(self._attempt)):
            ready = await self._launch(fresh)
        attempt = self._attempt
        if attempt is None:
            return
        if ready is None:
            await self._judge()
            return
        await self._resuming.noted(attempt, ready)
        await self._edits.notice()
        transition = self._ledger.step(Trigger.READY, attempt.ready(ready))
        if not transition.after.turn_running:  # there is nothing to ask it
            await self._end_agent()
            self._attempt = None
            attempt.over()
            await self._settle_unstarted(transition, attempt.record, AttemptOutcome.SILENT)
            return
        # the mark is durable before the prompt can leave: for a headless agent that is before its spawn
        prompt = kept_prompt(transition.after, attempt.record)
        await self._ledger.commit(transition, update_attempt=attempt.dispatching(), prompt=prompt)
        self._output.begin()

    async def _launch(self, claimed: Claimed) -> Ready | None:
        """Start the agent. None: it failed, or no attempt is left because its adapter could not even begin."""
        record, prepared = claimed.record, claimed.prepared
        output = self._output.turn(record, prepared.cleaner)
        live = LiveText(prepared.cleaner, lambda update: self._tell(AgentSaid(record.ordinal, update)))

        def emit(update: AgentUpdate) -> None:
            if is_answer(update):
                self._answered.set()
            output.say(update)
            live.say(update)

        try:
            attempt = make_attempt(self._engine, record, prepared, claimed.lease, Voice(emit, live.end))
        except Exception:  # noqa: BLE001  # adapter code of a third party: its candidate is ineligible for this round (R-PLG-2)
            gone = self._ledger.step(Trigger.ADAPTER_EXCEPTION, Facts(clean=True))
            await self._settle_unstarted(gone, record, AttemptOutcome.FAILED)
            self._attempt = None
            return None
        self._attempt = attempt
        return await attempt.downstream.start(attempt.turn)

    async def _book_answers(self) -> None:
        """The first sign of an answer closes the circuits that this attempt probes; the turn may take hours (R-CIR-6, R-CIR-8)."""
        while True:
            await self._answered.wait()
            self._answered = anyio.Event()
            if (attempt := self._attempt) is not None and attempt.lease.held:
                verdict = attempt.answered()
                attempt.lease = replace(attempt.lease, held=frozenset())
                await self._ledger.book(verdict.circuits)

    async def _prompt(self) -> None:
        assert self._attempt is not None  # noqa: S101  # it was started
        async with alongside(self._edits.watch()):
            await self._attempt.downstream.prompt(prompt_of(self.route, self._prompt_text), self._attempt.turn)
        await self._judge()

    async def _judge(self) -> None:
        """The turn is quiet and its agent gone: settle it (R-SAFE-6)."""
        attempt = self._attempt
        assert attempt is not None  # noqa: S101  # only called for a running one
        if self.route.turn_running:
            await self._edits.notice()
        await part_from(self._engine, attempt, self.route)
        now = self._engine.clock.now()
        report = attempt.turn.report(now)
        if report.outcome is AttemptOutcome.SUCCESS and not is_empty_answer(report):
            self.text, self.has_answer = attempt.prepared.cleaner.known_only(report.text), True
            facts = Facts(native_session_id=report.native_session_id, served_model=report.model)
            done = self._ledger.step(Trigger.TURN_SUCCEEDED, facts, now=now)
            await self._settle(attempt, report, attempt.answered(), done)
            return
        self.text = attempt.prepared.cleaner.text(report.text)
        standing = attempt.standing(await in_thread(self._work), self.route)
        uniform = self._engine.ids.uniform()
        verdict = judge_failure(self._engine.catalogue, report, standing, now=now, uniform=uniform)
        assert verdict.decision is not None  # noqa: S101  # a failure always has one
        facts = replace(facts_of(verdict, report), native_session_lost=attempt.lost_session(verdict))
        transition = self._ledger.step(trigger_for(verdict.decision), facts, now=now)
        booked = book_failure(verdict, report, standing, transition.after, uniform=uniform, now=now)
        await self._settle(attempt, report, booked, transition)

    async def _settle(self, attempt: Attempt, report: TurnReport, verdict: Verdict, transition: Transition) -> None:
        attempt.voice.close()
        cut = await self._output.finish()
        settled = attempt.settled(report, verdict, transition.after.updated_at)
        transition = replace(transition, events=(*cut, *words_of(attempt, self.route), *transition.events))
        with anyio.CancelScope(shield=True):  # what happened is told as it was written, whoever gives up meanwhile
            await self._ledger.commit(
                transition,
                update_attempt=settled,
                circuits=verdict.circuits,
                decision=verdict.record(settled.attempt_id),
                waits_for=waits_of(verdict, transition.after),
            )
        self._booked = tuple(change.key for change in verdict.circuits)
        self._attempt = None
        attempt.over()
        self.stop_reason = report.stop_reason
        self._report(report_of(settled))

    async def _settle_unstarted(self, transition: Transition, record: AttemptRecord, outcome: AttemptOutcome) -> None:
        """Settle an attempt of which nothing was ever started; its leases go back."""
        settled = replace(
            record,
            mark=DispatchMark.SETTLED,
            outcome=outcome,
            effects=NOTHING_SENT,
            settled_at=transition.after.updated_at,
        )
        await self._ledger.commit(transition, update_attempt=settled, circuits=hand_backs(record))
        self._report(report_of(settled))

    def _report(self, report: AttemptReport) -> None:
        self.reports.append(report)
        self._tell(AttemptEnded(report))

    def _probe_token(self) -> str | None:
        return self._attempt.lease.token if self._attempt and self._attempt.lease.held else None

    async def _end_agent(self) -> None:
        if self._attempt is not None:
            await self._attempt.downstream.stop()

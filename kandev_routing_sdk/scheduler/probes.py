"""Cheap probes: asks a resource whether it is back, where an adapter can do that without a session (R-CIR-6).

Where none can, the next real launch is the probe. A circuit that stays open for long is asked now and then before its time, so that
an allowance that came back early is noticed without a restart.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from kandev_routing_sdk.circuits import FAR_RESET, Circuit, FailureFact, keys_of_failure
from kandev_routing_sdk.conductor import Engine, Prepared, in_thread, survey
from kandev_routing_sdk.errors import NotAdmitted, RoutingError
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.profiles import Candidate, ConcreteProfile
from kandev_routing_sdk.records import Admit, CircuitChange, CircuitFailed, CircuitHandedBack, CircuitSucceeded
from kandev_routing_sdk.telemetry import SpanName, get_logger, problem_fields
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Scope

_log = get_logger(__name__)

EVERY_S: Final = 5.0
"""Seconds between two looks for circuits to be asked."""
TIMEOUT_S: Final = 5.0
"""A probe that takes longer has learnt nothing."""
LEASE_S: Final = 30.0
FAR_EVERY: Final = timedelta(minutes=30)
"""How often a deadline that is far away is asked about."""
SILENT_S: Final = 60.0
"""For how long a resource is left alone whose probe said nothing; twice as long each time …"""
SILENT_AT_MOST_S: Final = 1800.0
"""… up to this."""


_ANSWERS: Final = frozenset({AttemptOutcome.SUCCESS, AttemptOutcome.FAILED})


class _Silence(NamedTuple):
    seconds: float
    until: float


class Prober:
    """Asks the circuits that may be asked, one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = 0.0
        self._silent: dict[str, _Silence] = {}

    async def tick(self) -> int:
        """Probe what may be probed now, unless that was looked for a moment ago; return how many were asked.

        Raises nothing: what a store, an adapter or a host's own profiles fail at is tried again.
        """
        engine = self._engine
        if engine.clock.monotonic() < self._next or not any(a.can_probe for a in engine.registry.adapters.values()):
            return 0
        self._next = engine.clock.monotonic() + EVERY_S
        try:
            return await self._round()
        except RoutingError as problem:
            _log.warning("a look for circuits to be asked failed; trying again", extra=problem_fields(problem))
        except Exception as problem:  # noqa: BLE001  # a host's own parts; their text may hold anything
            _log.error("a look for circuits to be asked failed; trying again", extra=problem_fields(problem))
        return 0

    async def _round(self) -> int:
        engine = self._engine
        now = engine.clock.now()
        wanted = [c for c in await in_thread(engine.store.circuits) if is_wanted(c, now) and self._may_ask(c)]
        if not wanted:
            return 0
        who = await in_thread(self._askers)
        asked = 0
        for circuit in wanted:
            asker = who.get(circuit.key.key)
            asked += asker is not None and await self._probe(circuit, asker)
        return asked

    def _may_ask(self, circuit: Circuit) -> bool:
        """Whether its last answers leave any hope: who says nothing is asked ever more rarely (R-CIR-6)."""
        silence = self._silent.get(circuit.key.key)
        return silence is None or silence.until <= self._engine.clock.monotonic()

    def _askers(self) -> dict[str, Prepared]:
        """For each resource the first profile that stands on it and whose adapter can ask (blocking: adapters read files)."""
        engine = self._engine
        profiles = [p for p in engine.profiles.all().values() if isinstance(p, ConcreteProfile) and p.enabled]
        can = [p for p in profiles if (a := engine.registry.get(p.family)) is not None and a.can_probe]
        found = survey(engine, [Candidate(profile_id=p.id) for p in can], Path.cwd())
        askers: dict[str, Prepared] = {}
        for prepared in found.prepared.values():
            for key in prepared.keys:
                askers.setdefault(key.key, prepared)
        return askers

    async def _probe(self, circuit: Circuit, asker: Prepared) -> bool:
        engine, token = self._engine, self._engine.ids.new("probe:")
        view = await in_thread(engine.store.circuit_view, (circuit.key,))
        circuit = view.get(circuit.key.key, circuit)
        if not is_wanted(circuit, engine.clock.now()):
            return False  # somebody else asked since we looked
        early = circuit.deadline is not None and circuit.deadline > engine.clock.now()
        admit = Admit((circuit.key,), token, engine.owner_id, LEASE_S, early=early)
        try:
            leased = await in_thread(engine.store.admit, admit, now=engine.clock.now())
        except NotAdmitted:
            return False  # somebody else is at it
        if not leased:
            return False  # closed meanwhile
        engine.telemetry.probing(leased)
        changes: tuple[CircuitChange, ...] = (CircuitHandedBack(circuit.key, token),)
        try:
            with engine.telemetry.span(SpanName.PROBE, scope=circuit.key.scope, provider=circuit.key.provider_id):
                changes = await self._ask(circuit, asker, token)
        finally:
            with anyio.CancelScope(shield=True):
                transitions = await in_thread(engine.store.change_circuits, changes, now=engine.clock.now())
                engine.telemetry.booked(transitions, changes)
        self._remember(circuit, silent=changes == (CircuitHandedBack(circuit.key, token),))
        return True

    def _remember(self, circuit: Circuit, *, silent: bool) -> None:
        before = self._silent.pop(circuit.key.key, None)
        if silent:
            seconds = SILENT_S if before is None else min(2 * before.seconds, SILENT_AT_MOST_S)
            self._silent[circuit.key.key] = _Silence(seconds, self._engine.clock.monotonic() + seconds)

    async def _ask(self, circuit: Circuit, asker: Prepared, token: str) -> tuple[CircuitChange, ...]:
        """Return what the probe learnt; nothing unless it is sure."""
        back = (CircuitHandedBack(circuit.key, token),)
        report = await self._answer(asker)
        if report is None:
            return back
        doubted = report.credential_doubted
        if report.outcome is AttemptOutcome.SUCCESS:
            another = doubted and circuit.key.scope is Scope.ACCOUNT
            return back if another else (CircuitSucceeded(circuit.key, token),)
        return self._failed(circuit, asker, token, report)

    def _failed(self, circuit: Circuit, asker: Prepared, token: str, report: TurnReport) -> tuple[CircuitChange, ...]:
        """A failure extends its own keys and hands the one that was asked about back, if it is not among them (R-CIR-8)."""
        engine, now = self._engine, self._engine.clock.now()
        found = engine.catalogue.classify(report.evidence, sanitised=True)
        known = asker.identity.binding is not None and not report.credential_doubted
        fact = FailureFact(
            code=found.code, confidence=found.confidence, due_at=found.due_at(now), exhausted=True, lease_token=None
        )
        keys = keys_of_failure(asker.identity, found, descriptor_known=known)
        changes: list[CircuitChange] = [
            CircuitFailed(key, replace(fact, lease_token=token if key == circuit.key else None), engine.ids.uniform())
            for key in keys
        ]
        if circuit.key not in keys:
            changes.append(CircuitHandedBack(circuit.key, token))
        return tuple(changes)

    async def _answer(self, asker: Prepared) -> TurnReport | None:
        """Ask; None when nothing was learnt: a third party's code may raise, hang, be cancelled or mark nonsense (R-PLG-2)."""
        context = TurnContext(
            family=asker.profile.family, provider_id=asker.identity.provider_id, model_id=asker.identity.model_id
        )
        turn = TurnRecord(context, asker.cleaner, lambda _: None)
        reports: list[TurnReport] = []

        async def ask() -> None:
            try:
                await asker.adapter.probe(asker.plan, turn)
                reports.append(turn.report(self._engine.clock.now()))
            except (Exception, SystemExit) as problem:  # noqa: BLE001
                _log.warning(
                    "an adapter failed while probing", extra=problem_fields(problem, family=asker.profile.family)
                )

        with anyio.move_on_after(TIMEOUT_S):
            # in a task of its own: one that was cancelled by nobody here ends it, and not us
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
        return reports[0] if reports and turn.outcome in _ANSWERS else None


def is_wanted(circuit: Circuit, now: datetime) -> bool:
    """Whether somebody should ask: its time came, or is so far away that it may have been wrong."""
    if circuit.state is CircuitState.CLOSED or circuit.lease_is_live(now) or circuit.deadline is None:
        return False
    return circuit.deadline <= now or (circuit.deadline - now > FAR_RESET and circuit.updated_at <= now - FAR_EVERY)

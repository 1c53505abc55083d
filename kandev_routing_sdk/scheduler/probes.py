"""Cheap probes: asks a resource whether it is back, where an adapter can do that without a session (R-CIR-6).

Where none can, the next real launch is the probe. A circuit that stays open for long is asked now and then before its time, so that
an allowance that came back early is noticed without a restart.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import anyio

from kandev_routing_sdk.circuits import Circuit, FailureFact
from kandev_routing_sdk.conductor import Engine, Prepared, in_thread, survey
from kandev_routing_sdk.errors import NotAdmitted
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.profiles import Candidate, ConcreteProfile
from kandev_routing_sdk.records import Admit, CircuitChange, CircuitFailed, CircuitHandedBack, CircuitSucceeded
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Confidence, ErrorClass

_log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
"""Seconds between two looks for circuits to be asked."""
TIMEOUT_S: Final = 5.0
"""A probe that takes longer has learnt nothing."""
LEASE_S: Final = 30.0
FAR: Final = timedelta(hours=1)
"""A deadline further away is not believed blindly …"""
FAR_EVERY: Final = timedelta(minutes=30)
"""… and asked about so often."""


class Prober:
    """Asks the circuits that may be asked, one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = 0.0

    async def tick(self) -> int:
        """Probe what may be probed now, unless that was looked for a moment ago; return how many were asked."""
        engine = self._engine
        if engine.clock.monotonic() < self._next or not any(a.can_probe for a in engine.registry.adapters.values()):
            return 0
        self._next = engine.clock.monotonic() + EVERY_S
        now = engine.clock.now()
        wanted = [c for c in await in_thread(engine.store.circuits) if is_wanted(c, now)]
        if not wanted:
            return 0
        who = await in_thread(self._askers)
        asked = 0
        for circuit in wanted:
            asker = who.get(circuit.key.key)
            asked += asker is not None and await self._probe(circuit, asker)
        return asked

    def _askers(self) -> dict[str, Prepared]:
        """For each resource some profile that stands on it and whose adapter can ask (blocking: adapters read files)."""
        engine = self._engine
        profiles = [p for p in engine.profiles.all().values() if isinstance(p, ConcreteProfile) and p.enabled]
        can = [p for p in profiles if (a := engine.registry.get(p.family)) is not None and a.can_probe]
        found = survey(engine, [Candidate(profile_id=p.id) for p in can], Path.cwd())
        return {key.key: prepared for prepared in found.prepared.values() for key in prepared.keys}

    async def _probe(self, circuit: Circuit, asker: Prepared) -> bool:
        engine, token = self._engine, self._engine.ids.new("probe:")
        early = circuit.deadline is not None and circuit.deadline > engine.clock.now()
        admit = Admit((circuit.key,), token, engine.owner_id, LEASE_S, early=early)
        try:
            leased = await in_thread(engine.store.admit, admit, now=engine.clock.now())
        except NotAdmitted:
            return False  # somebody else is at it
        if not leased:
            return False  # closed meanwhile
        change: CircuitChange = CircuitHandedBack(circuit.key, token)
        try:
            change = await self._ask(circuit, asker, token)
        finally:
            with anyio.CancelScope(shield=True):
                await in_thread(engine.store.change_circuits, [change], now=engine.clock.now())
        return True

    async def _ask(self, circuit: Circuit, asker: Prepared, token: str) -> CircuitChange:
        """Return what the probe learnt; nothing unless it is sure."""
        engine = self._engine
        context = TurnContext(
            family=asker.profile.family, provider_id=asker.identity.provider_id, model_id=asker.identity.model_id
        )
        turn = TurnRecord(context, asker.cleaner, lambda _: None)
        with anyio.move_on_after(TIMEOUT_S):
            try:
                await asker.adapter.probe(asker.plan, turn)
            except Exception as problem:  # noqa: BLE001  # a third party's code: it has learnt nothing (R-PLG-2)
                _log.warning("the %s adapter failed while probing (%s)", asker.profile.family, type(problem).__name__)
                return CircuitHandedBack(circuit.key, token)
        report = turn.report(engine.clock.now())
        if report.outcome is AttemptOutcome.SUCCESS:
            return CircuitSucceeded(circuit.key, token)
        found = engine.catalogue.classify(report.evidence, sanitised=True)
        if found.error_class is ErrorClass.UNCLASSIFIED or found.confidence is not Confidence.HIGH:
            return CircuitHandedBack(circuit.key, token)
        fact = FailureFact(
            code=found.code,
            confidence=found.confidence,
            due_at=found.due_at(engine.clock.now()),
            exhausted=True,
            lease_token=token,
        )
        return CircuitFailed(circuit.key, fact, engine.ids.uniform())


def is_wanted(circuit: Circuit, now: datetime) -> bool:
    """Whether somebody should ask: its time came, or is so far away that it may have been wrong."""
    if circuit.state is CircuitState.CLOSED or circuit.lease_is_live(now) or circuit.deadline is None:
        return False
    return circuit.deadline <= now or (circuit.deadline - now > FAR and circuit.updated_at <= now - FAR_EVERY)

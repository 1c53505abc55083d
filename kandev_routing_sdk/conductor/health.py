"""What people change of shared health: they know that something is back, or was mended (R-CIR-7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kandev_routing_sdk.circuits import Circuit, make_due, reset
from kandev_routing_sdk.conductor.candidates import survey
from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.profiles import Candidate
from kandev_routing_sdk.records import CircuitTransition


def change_circuit(engine: Engine, key: str, *, due: bool) -> Circuit:
    """Let a circuit be probed (``due``), or close it. Raises :class:`~kandev_routing_sdk.errors.UsageError` if there is none."""
    while True:
        before = next((c for c in engine.store.circuits() if c.key.key == key), None)
        if before is None:
            raise UsageError(f"no circuit has the key {key!r}; kandev-routing circuits lists them")
        after = (make_due if due else reset)(before, engine.clock.now())
        if after == before:
            return after
        if engine.store.put_circuit(before, after):
            engine.telemetry.booked([CircuitTransition(before, after)])
            return after


def may_be_probed(engine: Engine, profile_ids: Sequence[str] | None, folder: Path) -> list[str]:
    """Let the circuits of these profiles (None: of all) that wait for a person be probed; return their keys."""
    wanted = tuple(engine.profiles.all()) if profile_ids is None else tuple(profile_ids)
    found = survey(engine, [Candidate(profile_id=i) for i in wanted], folder)
    mine = {key.key for key in found.keys}
    due = [c.key.key for c in engine.store.circuits() if c.action_required and c.key.key in mine]
    for key in due:
        change_circuit(engine, key, due=True)
    return due

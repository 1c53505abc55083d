"""What a choice writes: the attempt's row, its lease token, the decision, and what is waited for if nobody is free."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.circuits import admission
from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.records import AttemptRecord, CircuitHandedBack, DecisionRecord, DecisionSort, Wait
from kandev_routing_sdk.route.guards import leaves_by_itself
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.route.past import SelectionInputs, selection_answer
from kandev_routing_sdk.route.select import Selection
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark

_DAY: Final = timedelta(hours=24)
SPREAD_S: Final = 2.0
"""How far those who wait for the same thing are spread, so that they do not all come back at once."""


def lease_token(route: Route, generation: int) -> str:
    """Return the one lease token of a visit, so that the owner's scheduled retry is its circuit's probe (R-CIR-5)."""
    return f"{route.session_id}/{generation}"


def new_record(engine: Engine, after: Route, attempt_id: str, prepared: Prepared, *, ordinal: int) -> AttemptRecord:
    """Return the row of an attempt that is about to be claimed, with the keys it is launched with (R-CIR-5)."""
    return AttemptRecord(
        attempt_id=attempt_id,
        session_id=after.session_id,
        generation=after.generation,
        ordinal=ordinal,
        prompt_number=after.prompt_number,
        execution_profile_id=prepared.profile.id,
        profile_version=prepared.profile.version,
        family=prepared.profile.family,
        mark=DispatchMark.CLAIMED,
        resource_keys=prepared.keys,
        provider_id=prepared.identity.provider_id,
        model_id=prepared.identity.model_id,
        catalogue_version=engine.catalogue.version,
        created_at=engine.clock.now(),
        owner_id=engine.owner_id,
        lease_token=lease_token(after, after.generation),
    )


def next_try(route: Route, failed_at: datetime, until: datetime | None, uniform: float) -> datetime | None:
    """Return when to ask again for a resource that was refused until ``until``; None beyond what the policy allows (R-CIR-8).

    ``failed_at``: when the failure was settled after which the policy waits.
    """
    decision = route.decision
    if until is None or decision is None or decision.deadline is None or decision.policy is None:
        return None
    bound = _DAY
    if route.state is State.WAITING_FOR_RESET:
        bound = timedelta(seconds=decision.policy.wait_for_reset.max_wait_seconds)
    again = until + timedelta(seconds=1 + SPREAD_S * uniform)
    return again if again <= failed_at + bound else None


def lost_record(record: AttemptRecord, now: datetime) -> AttemptRecord:
    """Return the row of an attempt whose owner died before its prompt could leave."""
    return replace(record, mark=DispatchMark.SETTLED, outcome=AttemptOutcome.LOST, effects=NOTHING_SENT, settled_at=now)


def hand_backs(record: AttemptRecord | None) -> tuple[CircuitHandedBack, ...]:
    """Give back the leases that an attempt may hold: they must not keep their circuits' probe from others (R-CIR-6)."""
    if record is None or record.lease_token is None:
        return ()
    return tuple(CircuitHandedBack(key, record.lease_token) for key in record.resource_keys)


def decision_of(inputs: SelectionInputs, selection: Selection) -> DecisionRecord:
    """Return what is written down of a walk."""
    return DecisionRecord(DecisionSort.SELECTION, inputs.to_json(), selection_answer(selection))


def is_unchanged(last: AttemptRecord | None, prepared: Prepared) -> bool:
    """Whether a profile would be launched as it was for its last attempt: the same version, model and account."""
    now = (prepared.profile.version, prepared.identity.model_id, prepared.keys)
    return last is None or now == (last.profile_version, last.model_id, last.resource_keys)


def problem_of(route: Route, inputs: SelectionInputs) -> dict[str, JsonValue]:
    """Return the word that says why the selected profile itself may not be used any more, if so (R-RES-3)."""
    found = [c.problem[0] for c in inputs.candidates if c.problem and c.profile_id == route.logical_profile_id]
    return {"profile_problem": found[0]} if found else {}


def waits_for(inputs: SelectionInputs, after: Route) -> tuple[Wait, ...]:
    """Return the circuits that keep a route from every candidate; none if only a person can move it.

    One that may be asked already is not waited for, whatever else its candidate lacks: the route would be woken again and again.
    """
    if after.kind == "utility" or (after.state is State.ACTION_REQUIRED and not leaves_by_itself(after)):
        return ()
    keys = sorted({k.key for c in inputs.candidates if c.enabled and c.problem is None for k in c.keys})
    refused = (key for key in keys if admission(inputs.circuits.get(key), now=inputs.now).kind == "refused")
    return tuple(Wait(key) for key in refused)

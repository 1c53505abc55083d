"""What a claim of a candidate writes: its attempt's row, its lease token, and when to ask again if it was refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.ports import AttemptRecord
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.types import DispatchMark

_DAY: Final = timedelta(hours=24)
_SPREAD_S: Final = 2.0
"""How far those who wait for the same lease are spread, so that they do not all come back at once."""


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
        lease_token=lease_token(after, after.generation),
    )


def next_try(route: Route, until: datetime | None, uniform: float) -> datetime | None:
    """Return when to ask again for a resource that was refused until ``until``; None beyond what the policy allows (R-CIR-8)."""
    decision = route.decision
    if until is None or decision is None or decision.deadline is None or decision.policy is None:
        return None
    bound = _DAY
    if route.state is State.WAITING_FOR_RESET:
        bound = timedelta(seconds=decision.policy.wait_for_reset.max_wait_seconds)
    again = until + timedelta(seconds=1 + _SPREAD_S * uniform)
    return again if again <= decision.deadline + bound else None

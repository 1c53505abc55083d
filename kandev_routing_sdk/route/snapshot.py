"""What a person or a host is shown of a session (R-ENG-6, R-ENG-7): the authoritative state, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from kandev_routing_sdk.route.guards import valid_actions
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.types import ErrorClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A session as it was last committed. Holds no prompt. Times are aware and UTC."""

    session_id: str
    logical_profile_id: str
    """What the session was started with."""
    context: str
    """``interactive`` for a concrete profile, whose failures are its person's; ``dynamic`` otherwise."""
    execution_profile_id: str | None
    """The concrete profile that runs, or ran last."""
    state: str
    """Where the route stands (R-ENG-1)."""
    reason: str
    """Why it is there; an enum's value, never a sentence."""
    generation: int
    """What an action has to name (``expected_generation``)."""
    revision: int
    """Moves with every step."""
    turn_running: bool
    """Whether an agent is at work."""
    error_class: ErrorClass | None
    """Of the last failure."""
    code: str | None
    """Of the last failure."""
    safe_excerpt: str | None
    """What the provider said, sanitised."""
    ordinal: int | None
    """Of the retry that is waited for."""
    maximum: int | None
    """Retries in all."""
    deadline: datetime | None
    """When the route goes on by itself."""
    pending_outcome: str | None
    """What follows if the next try fails as well: ``skip`` or ``stop``."""
    potentially_effectful: bool
    """Work may have been done that nobody saw the end of (R-SAFE-4)."""
    has_prompt: bool
    """Whether a message of the user is still to be answered."""
    actions: tuple[str, ...]
    """What a person can do now."""
    may_be_back: bool = False
    """A concrete profile's: what failed may work again. Nothing is tried unasked (R-POL-7)."""
    candidates: tuple[Mapping[str, JsonValue], ...] = ()
    """The last walk: each candidate with its reason."""
    capabilities: Mapping[str, JsonValue] | None = None
    """What the session's agent offers now: models, current model, modes, options, commands; None while no agent is there."""
    created_at: datetime
    updated_at: datetime

    def to_json(self) -> dict[str, JsonValue]:
        """Return the document that ``action`` and ``sessions show`` print."""
        return {
            "session_id": self.session_id,
            "logical_profile_id": self.logical_profile_id,
            "context": self.context,
            "execution_profile_id": self.execution_profile_id,
            "state": self.state,
            "reason": self.reason,
            "generation": self.generation,
            "revision": self.revision,
            "turn_running": self.turn_running,
            "class": self.error_class,
            "code": self.code,
            "safe_excerpt": self.safe_excerpt,
            "ordinal": self.ordinal,
            "maximum": self.maximum,
            "deadline": None if self.deadline is None else self.deadline.isoformat(),
            "pending_outcome": self.pending_outcome,
            "potentially_effectful": self.potentially_effectful,
            "has_prompt": self.has_prompt,
            "actions": list(self.actions),
            "may_be_back": self.may_be_back,
            "candidates": [dict(c) for c in self.candidates],
            "capabilities": None if self.capabilities is None else dict(self.capabilities),
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


def snapshot_of(
    route: Route,
    walk: Sequence[Mapping[str, JsonValue]] = (),
    capabilities: Mapping[str, JsonValue] | None = None,
) -> Snapshot:
    """Return what is shown of ``route``; ``walk``: the last selection's, as stored; ``capabilities``: of its agent."""
    found, decision = route.classification, route.decision
    # While the flag is off nothing goes on by itself: no countdown is shown that nobody owns.
    deadline = route.deadline if route.prior_state is None else None
    waits = decision is not None and decision.deadline is not None and deadline is not None
    return Snapshot(
        session_id=route.session_id,
        logical_profile_id=route.logical_profile_id,
        context=route.context.value,
        execution_profile_id=route.execution_profile_id,
        state=route.state.value,
        reason=route.reason.value,
        generation=route.generation,
        revision=route.revision,
        turn_running=route.turn_running,
        error_class=None if found is None else found.error_class,
        code=None if found is None else found.code.value,
        safe_excerpt=None if found is None else found.safe_excerpt,
        ordinal=decision.ordinal if decision is not None and waits else None,
        maximum=decision.maximum if decision is not None and waits else None,
        deadline=deadline,
        pending_outcome=decision.pending_outcome if decision is not None and waits else None,
        potentially_effectful=route.potentially_effectful,
        has_prompt=route.parked_prompt is not None,
        actions=tuple(action.value for action in valid_actions(route)),
        may_be_back=route.may_be_back and route.state is State.ACTION_REQUIRED,
        candidates=tuple(walk),
        capabilities=capabilities,
        created_at=route.created_at,
        updated_at=route.updated_at,
    )

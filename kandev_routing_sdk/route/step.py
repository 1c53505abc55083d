"""``step()``: one transition of a route, read from the table. Pure: time, ids and what happened are arguments (R-ENG-1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from kandev_routing_sdk.errors import (
    DynamicRoutingDisabled,
    IllegalTransition,
    StaleGeneration,
    StaleRevision,
    TurnInProgress,
)
from kandev_routing_sdk.policy import Context, Decision, DecisionKind
from kandev_routing_sdk.route.drafts import drafts, message_params
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import ACTIONS, is_settled, matching
from kandev_routing_sdk.route.model import Effect, EventDraft, EventKind, Reason, Route, State, Trigger
from kandev_routing_sdk.route.rows import Goes, Row
from kandev_routing_sdk.route.writes import Move, apply

_BY_A_PERSON: Final = frozenset({*ACTIONS, Trigger.PROMPT})
_OWN: Final = frozenset(
    {Reason.ATTEMPT_CAP, Reason.CANDIDATE_REMOVED, Reason.AMBIGUOUS_DISPATCH, Reason.DYNAMIC_ROUTING_DISABLED}
)
"""Reasons that only the table can know."""
_GOES_ON: Final = frozenset({Reason.RETRY_SCHEDULED, Reason.RESET_WAIT, Reason.PROVIDER_FAILURE})
"""Reasons of something automatic, which never are why a person is needed."""
_TRIGGERS: Final[Mapping[DecisionKind, Trigger]] = MappingProxyType(
    {
        DecisionKind.WAIT: Trigger.FAILED_WAIT,
        DecisionKind.RETRY: Trigger.FAILED_RETRY,
        DecisionKind.SKIP: Trigger.FAILED_SKIP,
        DecisionKind.STOP: Trigger.FAILED_STOP,
    }
)


@dataclass(frozen=True, slots=True)
class Transition:
    """One step that may be committed. Until it is, nothing may act on it."""

    before: Route | None
    """None: the session begins."""
    after: Route
    """With the next revision: the store commits it only if nobody else took that."""
    effects: tuple[Effect, ...]
    events: tuple[EventDraft, ...]


def begin(  # noqa: PLR0913  # what a route begins with
    session_id: str,
    logical_profile_id: str,
    *,
    now: datetime,
    prompt: str | None = None,
    kind: Literal["session", "utility"] = "session",
    profile_version: int = 1,
    context: Context = Context.DYNAMIC,
    cwd: str | None = None,
    owner_id: str | None = None,
    owner_until: datetime | None = None,
) -> Transition:
    """Return the first state of a route: ``selecting``, with the prompt parked."""
    route = Route(
        session_id=session_id,
        kind=kind,
        logical_profile_id=logical_profile_id,
        context=context,
        profile_version=profile_version,
        cwd=cwd,
        revision=1,
        prompt_number=0 if prompt is None else 1,
        parked_prompt=prompt,
        owner_id=owner_id,
        owner_until=owner_until,
        created_at=now,
        updated_at=now,
    )
    said = prompt is not None and kind == "session"  # a call's prompt is its caller's, and is kept nowhere (R-UTL-4)
    params = message_params(prompt or "", route.prompt_number)
    events = (EventDraft(EventKind.USER_MESSAGE, route.reason, params),) if said else ()
    return Transition(None, route, (Effect.SELECT,), events)


def step(route: Route, trigger: Trigger, facts: Facts | None = None, *, now: datetime) -> Transition:
    """Take the one row of the table that fits.

    Raises :class:`~kandev_routing_sdk.errors.TurnInProgress` for a prompt or an action while a turn is on its way,
    :class:`~kandev_routing_sdk.errors.DynamicRoutingDisabled` for one while the feature flag is off,
    :class:`~kandev_routing_sdk.errors.IllegalTransition` for every other pair that the table does not list, and
    :class:`~kandev_routing_sdk.errors.UsageError` when the row needs a fact that is missing. Each leaves everything as it was.
    """
    facts = facts or Facts()
    row = matching(route, trigger, facts)
    if row is None:
        raise _refusal(route, trigger)
    changes: dict[str, Any] = {
        "state": _next(route, row),
        "reason": _reason(route, row, facts),
        "updated_at": now,
        "revision": route.revision + 1,
    }
    if facts.owner_id is not None:
        changes |= {"owner_id": facts.owner_id, "owner_until": facts.owner_until}
    after = route.model_copy(update=changes)
    move = Move(route, trigger, facts)
    for write in row.writes:
        after = apply(write, after, move)
    return Transition(route, after, row.effects, drafts(row.events, route, after, facts))


def check_seen(route: Route, *, expected_generation: int, expected_revision: int | None) -> None:
    """Raise StaleGeneration or StaleRevision when ``route`` is not what a person saw any more (R-ENG-7).

    That is told before anything else.
    """
    if expected_generation != route.generation:
        raise StaleGeneration(expected_generation, route.generation)
    if expected_revision is not None and expected_revision != route.revision:
        raise StaleRevision(route.session_id, expected_revision)


def trigger_for(decision: Decision) -> Trigger:
    """Return the trigger that a policy's answer to a failure is."""
    return _TRIGGERS[decision.kind]


def _next(route: Route, row: Row) -> State:
    match row.to:
        case Goes.NOWHERE:
            return route.state
        case Goes.BACK:
            return route.prior_state or route.state
        case state:
            return state


def _reason(route: Route, row: Row, facts: Facts) -> Reason:
    """The facts know more than the row, unless the row itself goes another way than they thought."""
    if facts.reason is None or row.reason in _OWN:
        return row.reason or route.reason
    if row.to is State.ACTION_REQUIRED and facts.reason in _GOES_ON:
        return row.reason or route.reason
    return facts.reason


def _refusal(route: Route, trigger: Trigger) -> Exception:
    if trigger in _BY_A_PERSON and route.state is not State.STOPPED:
        if route.prior_state is not None:
            return DynamicRoutingDisabled()
        if trigger is Trigger.PROMPT or not is_settled(route):
            return TurnInProgress(
                f"session {route.session_id} has a turn on its way; wait until it ends, or stop the session"
            )
    return IllegalTransition(route.state, trigger)

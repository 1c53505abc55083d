"""The events of a transition: enums and parameters, never sentences (R-CON-6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import valid_actions
from kandev_routing_sdk.route.model import EventDraft, EventKind, Route, State
from kandev_routing_sdk.types import ErrorClass

_WAITING: Final = frozenset({State.RETRY_WAIT, State.WAITING_FOR_RESET, State.WAITING, State.ACTION_REQUIRED})


def drafts(kinds: Iterable[EventKind], before: Route, after: Route, facts: Facts) -> tuple[EventDraft, ...]:
    """Return one draft for each kind."""
    return tuple(
        EventDraft(kind, after.reason, _params(kind, before, after, facts))
        for kind in kinds
        # A flag that goes on again may lead back to a state in which nothing is waited for.
        if kind is not EventKind.ROUTE_WAITING or after.state in _WAITING
    )


def _params(  # noqa: PLR0911  # one for each kind
    kind: EventKind, before: Route, after: Route, facts: Facts
) -> dict[str, JsonValue]:
    match kind:
        case EventKind.ROUTE_CHANGING:
            return {"prior_profile_id": before.execution_profile_id, **_cause(after)}
        case EventKind.ROUTE_CHANGED:
            return {"profile_id": after.execution_profile_id, "resumed": facts.resumed, **facts.labels}
        case EventKind.CAPABILITIES_REPLACED:
            return {"profile_id": after.execution_profile_id, "capabilities": dict(facts.capabilities)}
        case EventKind.ROUTE_WAITING:
            return {**_waiting(after), **facts.labels}
        case EventKind.ROUTE_PENDING:
            return {"profile_id": after.execution_profile_id, "pending": after.state is State.REROUTE_PENDING}
        case EventKind.TURN_STARTED | EventKind.TURN_OUTPUT:
            return {**_turn(after), **facts.labels}
        case EventKind.TURN_ENDED:
            return {**_turn(after), **facts.labels, "served_model": facts.served_model}
        case EventKind.TURN_FAILED:
            return {**_turn(after), **_cause(after), "served_model": facts.served_model}
        case EventKind.USER_MESSAGE:
            return message_params(facts.prompt or "", after.prompt_number)
        case EventKind.ROUTE_STOPPED:
            return {"prior_state": before.state.value, "profile_id": after.execution_profile_id}


def message_params(text: str, prompt_number: int) -> dict[str, JsonValue]:
    """Return the parameters of a user's message."""
    return {"text": text, "prompt_number": prompt_number}


def _turn(route: Route) -> dict[str, JsonValue]:
    return {
        "profile_id": route.execution_profile_id,
        "attempt_id": route.attempt_id,
        "prompt_number": route.prompt_number,
    }


def _cause(route: Route) -> dict[str, JsonValue]:
    if route.classification is None:
        return {}
    return {"code": route.classification.code.value, "class": route.classification.error_class.value}


def _waiting(route: Route) -> dict[str, JsonValue]:
    """What the waiting and action-required surfaces show (R-ENG-6)."""
    params: dict[str, JsonValue] = {
        "state": route.state.value,
        "profile_id": route.execution_profile_id,
        "deadline": None if route.deadline is None else route.deadline.isoformat(),
        "actions": [action.value for action in valid_actions(route)],
        **_cause(route),
    }
    if route.may_be_back:
        params["may_be_back"] = True
    decision = route.decision
    if decision is not None and route.state in {State.RETRY_WAIT, State.WAITING_FOR_RESET}:
        params["ordinal"] = decision.ordinal
        params["maximum"] = decision.maximum
        params["pending_outcome"] = decision.pending_outcome
    return params


def retry_ordinal(route: Route, error_class: ErrorClass) -> int:
    """Return how many retries of the current candidate this round has used for this class, the one by hand included."""
    profile_id = route.execution_profile_id
    return 0 if profile_id is None else route.round.visit(profile_id).retries_used.get(error_class, 0)

"""What a route that nobody can answer waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kandev_routing_sdk.circuits import Circuit, ResourceKey
from kandev_routing_sdk.conductor.claims import waits_for
from kandev_routing_sdk.records import Wait
from kandev_routing_sdk.route.model import Reason, Round, State
from kandev_routing_sdk.route.past import SelectionInputs
from kandev_routing_sdk.route.select import CandidateView
from kandev_routing_sdk.types import CircuitState, Code, Scope
from tests.route._routes import a_route

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DUE = ResourceKey("provider:acme", Scope.PROVIDER, provider_id="acme")
SHUT = ResourceKey("account:acme:v1:aa", Scope.ACCOUNT, provider_id="acme")
LOGIN = ResourceKey("account:other:v1:bb", Scope.ACCOUNT, provider_id="other")

OPEN = Circuit(
    key=SHUT, state=CircuitState.OPEN, code=Code.QUOTA_LIMITED, deadline=NOW + timedelta(hours=1), updated_at=NOW
)
CIRCUITS = {
    DUE.key: replace(OPEN, key=DUE, deadline=NOW - timedelta(seconds=1)),
    SHUT.key: OPEN,
    LOGIN.key: replace(OPEN, key=LOGIN, code=Code.AUTH_REQUIRED, deadline=None, action_required=True),
}


def inputs(*candidates: CandidateView) -> SelectionInputs:
    return SelectionInputs.of(candidates, CIRCUITS, round=Round(), pinned=None, now=NOW, early_probe=False)


def test_what_refuses_is_waited_for_and_what_may_be_asked_already_is_not() -> None:
    """Otherwise a session whose other circuit needs a person would be woken at each tick, and write a decision each time (R-DUR-4)."""
    one = CandidateView(profile_id="one", family="f", position=0, keys=(DUE, LOGIN))
    two = CandidateView(profile_id="two", family="f", position=1, keys=(DUE, SHUT))
    route = a_route(State.WAITING)
    assert (Wait(SHUT.key), Wait(LOGIN.key)) == waits_for(inputs(one, two), route)


def test_candidates_that_no_circuit_can_free_are_not_waited_for() -> None:
    off = CandidateView(profile_id="off", family="f", position=0, keys=(SHUT,), enabled=False)
    broken = CandidateView(profile_id="broken", family="f", position=1, keys=(LOGIN,), problem=("missing", "gone"))
    assert () == waits_for(inputs(off, broken), a_route(State.WAITING))


def test_only_who_may_leave_by_itself_waits() -> None:
    """R-ENG-6: after effects nothing but a person moves a session."""
    one = CandidateView(profile_id="one", family="f", position=0, keys=(LOGIN,))
    stuck = a_route(State.ACTION_REQUIRED, reason=Reason.NO_ELIGIBLE_CANDIDATE)
    assert (Wait(LOGIN.key),) == waits_for(inputs(one), stuck)
    assert () == waits_for(inputs(one), stuck.model_copy(update={"potentially_effectful": True}))
    assert () == waits_for(inputs(one), stuck.model_copy(update={"reason": Reason.AMBIGUOUS_DISPATCH}))

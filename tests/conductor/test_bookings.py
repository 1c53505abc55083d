"""Which circuits a settled attempt opens, closes, arms and hands back: those that its next try could close, and no others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kandev_routing_sdk.circuits import ResourceIdentity, consulted_keys
from kandev_routing_sdk.conductor.claims import next_try
from kandev_routing_sdk.conductor.judge import Lease, Standing, book_failure, judge_failure, judge_success
from kandev_routing_sdk.evidence.correlation import Correlation
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.policy import PolicyDocument
from kandev_routing_sdk.records import CircuitFailed, CircuitHandedBack, CircuitSucceeded
from kandev_routing_sdk.route.model import State, Visit
from kandev_routing_sdk.types import Channel, Code, Confidence, ErrorClass, Scope
from tests.catalogue._shipped import shipped
from tests.route._routes import NOW, a_failure, a_policy, a_route, fail

IDENTITY = ResourceIdentity("acme", "opus", "v1:account", "fable", "here")
KEYS = consulted_keys(IDENTITY)


def test_only_what_the_next_try_can_close_is_armed_for_it() -> None:
    """A failure opens the circuit of the model that it names, too; no launch has that key to give it back (R-CIR-5)."""
    current = Correlation(session_id="s", generation=1, prompt=1, attempt_id="a")
    turn = TurnRecord(TurnContext(family="other", **current._asdict()), Sanitiser(), lambda _: None)
    turn.sent()
    turn.signal(Signal(channel=Channel.HTTP, http_status=529))
    turn.failed()
    report = turn.report(NOW)
    held = frozenset(key.key for key in KEYS)
    standing = Standing(current, PolicyDocument(), Visit(profile_id="fable"), IDENTITY, KEYS, Lease("token", "o", held))
    verdict = judge_failure(shipped(), report, standing, now=NOW)
    assert verdict.classification is not None
    named = verdict.classification.model_copy(
        update={
            "code": Code.MODEL_UNAVAILABLE,
            "error_class": ErrorClass.HARD,
            "confidence": Confidence.HIGH,
            "scope": Scope.MODEL,
            "model_id": "opus-4-1",
        }
    )
    after = a_route(State.RETRY_WAIT, deadline=NOW + timedelta(seconds=60))

    booked = book_failure(replace(verdict, classification=named), report, standing, after, uniform=0.5, now=NOW)

    failed = {c.key.key: c.fact for c in booked.circuits if isinstance(c, CircuitFailed)}
    assert 2 == len(failed)
    assert {True: True, False: False} == {key in held: fact.arm is not None for key, fact in failed.items()}


def test_an_answer_to_another_login_closes_all_but_the_account() -> None:
    """The agent signed in otherwise than its descriptor says: the provider is well, of the account nothing is known (R-CIR-3)."""
    lease = Lease("token", "owner", frozenset(key.key for key in KEYS))
    changes = judge_success(KEYS, lease, credential_doubted=True).circuits
    kinds = {change.key.scope: type(change) for change in changes}
    assert CircuitHandedBack is kinds[Scope.ACCOUNT]
    assert {CircuitSucceeded} == {kind for scope, kind in kinds.items() if scope is not Scope.ACCOUNT}
    assert {CircuitSucceeded} == {type(c) for c in judge_success(KEYS, lease).circuits}


@pytest.mark.parametrize(("until_s", "waits_on"), [(500, True), (590, True), (601, False), (1000, False)])
def test_a_reset_is_waited_for_no_longer_than_the_policy_says(until_s: int, waits_on: bool) -> None:
    """However often it is refused: what counts is when the failure was settled, not the deadline that passed (R-CIR-8)."""
    running = a_route(State.ACTIVE, turn_running=True, parked_prompt="x")
    quota = a_failure(Code.QUOTA_LIMITED, reset_in=400)
    waiting = fail(running, a_policy(wait=600), quota).after
    assert State.WAITING_FOR_RESET is waiting.state

    again = next_try(waiting, NOW, NOW + timedelta(seconds=until_s), 0.0)

    assert waits_on is (again is not None)
    if again is not None:
        assert NOW + timedelta(seconds=until_s) < again <= NOW + timedelta(seconds=600)

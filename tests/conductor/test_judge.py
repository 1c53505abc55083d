"""What a settled attempt means: for the route, and for the health of what it used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.circuits import ResourceIdentity, ResourceKey, consulted_keys
from kandev_routing_sdk.conductor.judge import Lease, Standing, Verdict, book_failure, judge_failure
from kandev_routing_sdk.evidence.correlation import Correlation
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.policy import DecisionKind, PolicyDocument
from kandev_routing_sdk.ports import CircuitFailed, CircuitHandedBack
from kandev_routing_sdk.route.model import Reason, Route, State, Visit
from kandev_routing_sdk.types import Channel, Code, ErrorClass
from tests.catalogue._shipped import shipped
from tests.route._routes import a_policy, a_route

NOW = datetime(2026, 11, 30, tzinfo=UTC)
CURRENT = Correlation(session_id="s", generation=2, prompt=1, attempt_id="a")


@pytest.fixture
def catalogue() -> Catalogue:
    return shipped()


def judged(catalogue: Catalogue, evidence_of: Correlation, after: Route | None = None) -> tuple[Verdict, ResourceKey]:
    """A clean overload that the evidence books to ``evidence_of``, and that leads to ``after``."""
    turn = TurnRecord(TurnContext(family="other", **evidence_of._asdict()), Sanitiser(), lambda _: None)
    turn.sent()
    turn.acknowledged()
    turn.signal(Signal(channel=Channel.HTTP, http_status=529))
    turn.failed()
    identity = ResourceIdentity("p", None, "v1:account", "fable", "here")
    key = next(key for key in consulted_keys(identity) if key.key.startswith("provider"))
    standing = Standing(
        correlation=CURRENT,
        policy=PolicyDocument(),
        visit=Visit(profile_id="fable"),
        identity=identity,
        keys=(key,),
        lease=Lease("token", "owner", frozenset({key.key})),
    )
    report = turn.report(NOW)
    verdict = judge_failure(catalogue, report, standing, now=NOW)
    return book_failure(verdict, report, standing, after or a_route(State.SWITCHING), uniform=0.5, now=NOW), key


def test_a_failure_is_booked_and_decides(catalogue: Catalogue) -> None:
    verdict, _ = judged(catalogue, CURRENT)
    assert verdict.decision is not None
    assert (True, DecisionKind.SKIP, Reason.PROVIDER_FAILURE) == (
        verdict.automatic,
        verdict.decision.kind,
        verdict.reason,
    )
    assert [CircuitFailed] == [type(change) for change in verdict.circuits]


def test_an_empty_answer_is_a_persons_whatever_was_said_beside_it(catalogue: Catalogue) -> None:
    """R-CON-7: a limit that the agent met on its way explains nothing for sure."""
    turn = TurnRecord(TurnContext(family="other", **CURRENT._asdict()), Sanitiser(), lambda _: None)
    turn.sent()
    turn.acknowledged()
    turn.signal(Signal(channel=Channel.HTTP, http_status=529))
    turn.succeeded("end_turn")
    report = turn.report(NOW)
    assert catalogue.classify(report.evidence).automatic_refusal(report.effects) is None
    identity = ResourceIdentity("p", None, "v1:account", "fable", "here")
    standing = Standing(
        correlation=CURRENT,
        policy=a_policy(retries=3),
        visit=Visit(profile_id="fable"),
        identity=identity,
        keys=consulted_keys(identity),
        lease=Lease("token", "owner"),
    )
    verdict = judge_failure(catalogue, report, standing, now=NOW)
    assert verdict.classification is not None
    assert verdict.decision is not None
    assert (ErrorClass.UNCLASSIFIED, DecisionKind.STOP, False, Reason.EMPTY_ANSWER) == (
        verdict.classification.error_class,
        verdict.decision.kind,
        verdict.automatic,
        verdict.reason,
    )
    after = a_route(State.ACTION_REQUIRED)
    assert () == book_failure(verdict, report, standing, after, uniform=0.5, now=NOW).circuits


@pytest.mark.parametrize("other", [{"generation": 1}, {"prompt": 2}, {"attempt_id": "b"}, {"session_id": "t"}])
def test_stale_evidence_authorises_nothing(other: dict[str, object], catalogue: Catalogue) -> None:
    """R-EVI-4: it is still named, but nobody acts on it, and nobody's health is charged."""
    verdict, key = judged(catalogue, CURRENT._replace(**other))  # type: ignore[arg-type]
    assert verdict.classification is not None
    assert verdict.decision is not None
    assert (Code.PROVIDER_OVERLOADED, False, DecisionKind.STOP) == (
        verdict.classification.code,
        verdict.automatic,
        verdict.decision.kind,
    )
    assert (CircuitHandedBack(key, "token"),) == verdict.circuits


@pytest.mark.parametrize(
    ("state", "in_s", "armed", "delay"),
    [
        (State.RETRY_WAIT, 5, True, 5),
        (State.WAITING_FOR_RESET, 3600, True, 3600),
        (State.WAITING_FOR_RESET, 3601, False, 3601),
        (State.SWITCHING, None, False, None),
        (State.ACTION_REQUIRED, None, False, None),
    ],
)
def test_only_who_really_waits_for_the_same_candidate_arms_its_retry(
    catalogue: Catalogue, state: State, in_s: int | None, armed: bool, delay: int | None
) -> None:
    """R-CIR-5: a retry that the cap or a removed candidate takes away keeps no probe from others; R-CIR-6: a far one is no lease."""
    deadline = None if in_s is None else NOW + timedelta(seconds=in_s)
    verdict, _ = judged(catalogue, CURRENT, a_route(state, deadline=deadline))
    (change,) = verdict.circuits
    assert isinstance(change, CircuitFailed)
    assert (armed, delay, delay is None) == (
        change.fact.arm is not None,
        change.fact.owner_delay_s,
        change.fact.exhausted,
    )

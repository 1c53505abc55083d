"""What a successor is told, from what is stored (R-CON-3, R-CON-4, R-CON-10, R-SAFE-4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kandev_routing_sdk.conductor.attempt import report_of
from kandev_routing_sdk.conductor.handover import Past, have_worked, is_first, may_have_past, of_attempts, package_of
from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.route.parts import ContinuationPart
from kandev_routing_sdk.types import AttemptOutcome, Delivery, DispatchMark
from tests.route._routes import a_route
from tests.store._values import attempt, classification

REFUSED = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
TOOL = REFUSED.model_copy(update={"tool_call": True, "tool_effect": True})


def tried(
    ordinal: int, outcome: AttemptOutcome | None, effects: Effects | None = REFUSED, prompt: int = 1
) -> AttemptRecord:
    """An attempt that ended so."""
    return replace(
        attempt(f"a{ordinal}", ordinal=ordinal),
        prompt_number=prompt,
        execution_profile_id="fable",
        mark=DispatchMark.SETTLED,
        outcome=outcome,
        effects=effects,
        classification=classification() if outcome is AttemptOutcome.FAILED else None,
    )


def route(**facts: object) -> Route:
    known = {
        "prompt_number": 2,
        "execution_profile_id": "fable",
        "parked_prompt": "go on",
        "reason": Reason.PROVIDER_FAILURE,
    }
    return a_route(State.SWITCHING, **{**known, **facts})


FAILED, OK, LOST = AttemptOutcome.FAILED, AttemptOutcome.SUCCESS, AttemptOutcome.LOST


@pytest.mark.parametrize(
    ("attempts", "worked"),
    [
        ([], False),
        ([tried(1, FAILED)], False),
        ([tried(1, LOST, NOTHING_SENT)], False),
        ([replace(tried(1, None, None), mark=DispatchMark.CLAIMED)], False),
        ([tried(1, OK)], True),
        ([tried(1, FAILED, TOOL)], True),
        ([tried(1, LOST, None)], True),
        ([tried(9, FAILED)], True),
    ],
    ids=["none", "refused", "lost unsent", "claimed", "answered", "a tool ran", "lost", "older ones are not seen"],
)
def test_whether_there_is_any_work_to_continue(attempts: list[AttemptRecord], worked: bool) -> None:
    """R-CON-10: no history is made up."""
    assert worked is have_worked(attempts)


def test_what_nobody_saw_the_end_of_must_be_verified() -> None:
    rows = [tried(1, FAILED, TOOL), tried(2, OK), tried(3, FAILED), tried(4, LOST, None), tried(5, FAILED, TOOL)]
    assert (
        "whatever attempt 4 (fable) did: it ended as lost, and nothing is known of the effects",
        "whatever attempt 5 (fable) did: it ended as failed, and a tool ran",
    ) == of_attempts(rows).must_verify, "what an answer came after is over"


def test_the_first_agent_is_told_nothing_and_a_call_has_no_past() -> None:
    assert is_first(route(prompt_number=1), [])
    assert is_first(route(execution_profile_id=None), [])
    report = report_of(tried(1, FAILED))
    assert not is_first(route(prompt_number=1), [report])
    assert not may_have_past(route(prompt_number=1), [report])
    assert may_have_past(route(prompt_number=1), [report_of(tried(1, FAILED, TOOL))])
    assert may_have_past(route(prompt_number=1, potentially_effectful=True), [])
    assert not may_have_past(route(kind="utility", prompt_number=2), [])


def test_a_replay_in_a_session_with_a_past() -> None:
    past = Past(ContinuationPart(plan="p"), ("board",), worked=True)
    package = package_of(route(), [report_of(tried(2, FAILED, prompt=2))], "sol", past)
    assert (True, True, False, False) == (
        package.nothing_happened,
        package.earlier_work,
        package.potentially_effectful,
        package.same_agent,
    )
    assert ("fable", "p", ("board",), Reason.PROVIDER_FAILURE) == (
        package.from_profile,
        package.plan,
        package.missing,
        package.reason,
    )


def test_the_same_agent_in_a_new_process_after_an_answer() -> None:
    package = package_of(route(), [], "fable", Past(worked=True))
    assert (False, True, "") == (package.nothing_happened, package.same_agent, package.from_profile)


def test_a_second_message_after_nothing_ever_happened_is_a_replay() -> None:
    package = package_of(route(), [], "sol", Past())
    assert (True, False, "fable") == (package.nothing_happened, package.earlier_work, package.from_profile)


def test_after_an_answer_nothing_is_in_doubt() -> None:
    """R-ENG-4: its candidate was removed while it answered."""
    removed = route(prompt_number=1, parked_prompt=None, reason=Reason.CANDIDATE_REMOVED)
    reports = [report_of(tried(1, FAILED)), report_of(tried(2, OK, TOOL))]
    assert may_have_past(removed, reports)
    package = package_of(removed, reports, "sol", Past(worked=True))
    assert (False, False, "fable", Reason.CANDIDATE_REMOVED, None) == (
        package.nothing_happened,
        package.potentially_effectful,
        package.from_profile,
        package.reason,
        package.failure_code,
    )


def test_a_switch_between_two_turns_says_why() -> None:
    """R-CON-4: its candidate was removed while nothing ran, and the next message goes to another one."""
    package = package_of(route(reason=Reason.CANDIDATE_REMOVED), [], "sol", Past(worked=True))
    assert (Reason.CANDIDATE_REMOVED, None) == (package.reason, package.failure_code)
    started = a_route(State.STARTING, prompt_number=2, execution_profile_id="fable", reason=Reason.USER_ACTION)
    assert package_of(started, [], "fable", Past(worked=True)).reason is None, "nothing was changed"


def test_what_may_have_happened_is_not_over_with_a_new_message() -> None:
    """R-SAFE-4."""
    package = package_of(route(potentially_effectful=True), [], "sol", Past(worked=True))
    assert (False, True, "fable") == (package.nothing_happened, package.potentially_effectful, package.from_profile)

"""What goes into a decision comes back exactly from storage, and the decision with it (R-ENG-11)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import Circuit, ResourceKey
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import ClassPolicy, Context, Decision, PolicyDocument
from kandev_routing_sdk.policy.document import RetryPolicy, WaitPolicy
from kandev_routing_sdk.route.model import Round, Visit
from kandev_routing_sdk.route.past import PolicyInputs, SelectionInputs, selection_answer
from kandev_routing_sdk.route.select import CandidateView, select
from kandev_routing_sdk.types import CircuitState, Code, Confidence, Delivery, ErrorClass, Scope, Transport
from tests.route._routes import NOW, a_failure

TIMES = st.timedeltas(timedelta(days=-2), timedelta(days=2)).map(lambda away: NOW + away)
"""Around the moment of the decision, to the microsecond."""
TEXTS = st.text(max_size=12)
PROFILES = ("fable", "luna", "sol", "Ünïcode \x00 \u2028", "")
NAMES = st.sampled_from(PROFILES)
CLASSES = st.sampled_from(ErrorClass)


def key(name: str, scope: Scope) -> ResourceKey:
    return ResourceKey(name, scope, provider_id="north", model_id=None, profile_id=None, version=2)


KEYS = st.sampled_from(
    [key(f"key:{n}", s) for n, s in enumerate((Scope.ACCOUNT, Scope.PROVIDER, Scope.MODEL, Scope.PROFILE))]
)

RETRIES = st.one_of(
    st.just(RetryPolicy()),
    st.builds(
        RetryPolicy,
        enabled=st.just(True),
        max_retries=st.integers(1, 10),
        initial_interval_seconds=st.integers(1, 3600),
    ),
)
WAITS = st.one_of(
    st.just(WaitPolicy()), st.builds(WaitPolicy, enabled=st.just(True), max_wait_seconds=st.integers(1, 86_400))
)
HALVES = st.builds(ClassPolicy, retry=RETRIES, wait_for_reset=WAITS, on_exhausted=st.sampled_from(["skip", "stop"]))
POLICIES = st.builds(PolicyDocument, transient=HALVES, hard=HALVES)


@st.composite
def circuits(draw: st.DrawFn) -> dict[str, Circuit]:
    found = {}
    for resource in draw(st.lists(KEYS, unique=True, max_size=4)):
        leased = draw(st.booleans())
        by_hand = draw(st.booleans())
        found[resource.key] = Circuit(
            key=resource,
            state=draw(st.sampled_from(CircuitState)),
            code=draw(st.none() | st.sampled_from(Code)),
            confidence=draw(st.none() | st.sampled_from(Confidence)),
            failures=draw(st.integers(0, 9)),
            deadline=None if by_hand else draw(TIMES),
            action_required=by_hand,
            ladder_step=draw(st.integers(0, 5)),
            backoff_s=draw(st.none() | st.floats(0, 4500)),
            probe_token=draw(TEXTS) if leased else None,
            probe_owner="somebody" if leased else None,
            probe_until=draw(TIMES) if leased else None,
            probe_since=draw(TIMES) if leased else None,
            last_success_at=draw(st.none() | TIMES),
            closed_at=draw(st.none() | TIMES),
            updated_at=draw(TIMES),
        )
    return found


@st.composite
def candidates(draw: st.DrawFn) -> tuple[CandidateView, ...]:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    return tuple(
        CandidateView(
            profile_id=name,
            family=draw(TEXTS),
            enabled=draw(st.booleans()) or draw(st.booleans()),
            position=position,
            keys=tuple(draw(st.lists(KEYS, unique=True, max_size=4))),
            problem=draw(st.none() | st.none() | st.tuples(TEXTS, TEXTS)),
            policy=draw(POLICIES),
            transport=draw(st.none() | st.sampled_from(Transport)),
            provider_id=draw(st.none() | TEXTS),
            model_id=draw(st.none() | TEXTS),
        )
        for position, name in enumerate(names)
    )


VISITS = st.builds(
    Visit,
    profile_id=NAMES,
    retries_used=st.dictionaries(CLASSES, st.integers(0, 10), max_size=3),
    reset_waits_used=st.lists(CLASSES, unique=True, max_size=3).map(tuple),
)
ROUNDS = st.builds(
    Round,
    excluded=st.lists(NAMES, unique=True, max_size=2).map(tuple),
    visits=st.lists(VISITS, max_size=2).map(tuple),
    skip_once=st.lists(NAMES, unique=True, max_size=1).map(tuple),
)


def stored(document: Any) -> Any:
    """What comes back of JSON that was written."""
    return json.loads(json.dumps(document))


@given(
    listed=candidates(),
    health=circuits(),
    round_=ROUNDS,
    pinned=st.none() | NAMES,
    now=TIMES,
    early=st.booleans(),
)
def test_a_walk_is_made_again_from_what_was_stored(
    *,
    listed: tuple[CandidateView, ...],
    health: dict[str, Circuit],
    round_: Round,
    pinned: str | None,
    now: datetime,
    early: bool,
) -> None:
    """Closed circuits are left out: they change no answer."""
    first = select(listed, health, round=round_, pinned=pinned, now=now, early_probe=early)
    inputs = SelectionInputs.of(listed, health, round=round_, pinned=pinned, now=now, early_probe=early)
    assert first == inputs.select()
    again = SelectionInputs.from_json(stored(inputs.to_json()))
    assert inputs == again
    assert first == again.select()
    assert stored(selection_answer(first)) == selection_answer(again.select())


CLASSIFICATIONS = st.builds(
    lambda code, reset_in, retry_after, occurred, confidence: a_failure(code, reset_in=reset_in).model_copy(
        update={
            "retry_after": None if retry_after is None else timedelta(seconds=retry_after),
            "occurred_at": occurred,
            "confidence": confidence,
        }
    ),
    st.sampled_from([Code.MODEL_CAPACITY, Code.QUOTA_LIMITED, Code.AUTH_REQUIRED, Code.TASK_ERROR, Code.RATE_LIMITED]),
    st.none() | st.floats(-3600, 90_000),
    st.none() | st.floats(0, 90_000),
    st.none() | TIMES,
    st.sampled_from(Confidence),
)
EFFECTS = st.none() | st.builds(
    Effects,
    delivery=st.sampled_from(Delivery),
    output=st.booleans(),
    tool_call=st.booleans(),
    complete=st.booleans() | st.just(True),
)
INPUTS = st.builds(
    PolicyInputs,
    policy=POLICIES,
    retries_used=st.integers(0, 10),
    reset_wait_used=st.booleans(),
    now=TIMES,
    stale=st.sampled_from([False, False, False, True]),
    resume_guarantee=st.booleans(),
    context=st.sampled_from([Context.DYNAMIC, Context.INTERACTIVE]),
    uniform=st.floats(0, 1, exclude_max=True),
)


@given(INPUTS, CLASSIFICATIONS, EFFECTS)
def test_what_follows_a_failure_is_decided_again_from_what_was_stored(
    inputs: PolicyInputs, found: Classification, effects: Effects | None
) -> None:
    """The rest of its inputs is in the attempt, which comes back from JSON as well."""
    first = inputs.evaluate(found, effects)
    again = PolicyInputs.from_json(stored(inputs.to_json()))
    assert inputs == again
    found_again = Classification.model_validate_json(found.model_dump_json())
    effects_again = None if effects is None else Effects.model_validate_json(effects.model_dump_json())
    second = again.evaluate(found_again, effects_again)
    assert first == second
    assert stored(first.model_dump(mode="json")) == second.model_dump(mode="json")
    assert first == Decision.model_validate(stored(first.model_dump(mode="json")))


SELECTION = SelectionInputs(candidates=(), circuits={}, round=Round(), pinned=None, now=NOW).to_json()
POLICY = PolicyInputs(
    policy=PolicyDocument(), retries_used=0, reset_wait_used=False, now=NOW, stale=False, resume_guarantee=False
).to_json()


@pytest.mark.parametrize(
    "change",
    [{"now": None}, {"now": "soon"}, {"round": {"excluded": "fable"}}, {"circuits": []}, {"candidates": [{}]}],
    ids=str,
)
def test_a_walk_that_is_none_is_refused(change: dict[str, Any]) -> None:
    assert SELECTION == SelectionInputs.from_json(stored(SELECTION)).to_json()
    with pytest.raises(ValueError, match="validation error"):
        SelectionInputs.from_json({**SELECTION, **change})


@pytest.mark.parametrize("missing", ["candidates", "circuits", "round", "pinned", "now"])
def test_a_walk_without_a_part_is_refused(missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        SelectionInputs.from_json({name: value for name, value in SELECTION.items() if name != missing})


def test_the_inputs_of_a_version_that_knew_no_context_are_a_documents() -> None:
    """What was recorded before sessions of concrete profiles had a context of their own is decided again as it was."""
    older = {name: value for name, value in POLICY.items() if name not in {"context", "uniform"}}
    assert POLICY == PolicyInputs.from_json(older).to_json()


@pytest.mark.parametrize("missing", sorted(POLICY.keys() - {"context", "uniform"}))
def test_a_policys_inputs_without_a_part_are_refused(missing: str) -> None:
    assert POLICY == PolicyInputs.from_json(stored(POLICY)).to_json()
    with pytest.raises(ValueError, match=missing):
        PolicyInputs.from_json({name: value for name, value in POLICY.items() if name != missing})

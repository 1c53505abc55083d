"""Each committed fact is counted once, and under the name that R-OBS-2 keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.policy.decision import Context
from kandev_routing_sdk.records import (
    CircuitSucceeded,
    CircuitTransition,
    Commit,
    Committed,
    DecisionRecord,
    DecisionSort,
)
from kandev_routing_sdk.route.model import Reason, State
from kandev_routing_sdk.telemetry import METRICS, Fence, Reconciled, Stale, Telemetry, Totals
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Code, DispatchMark
from tests.store._values import ACCOUNT, NOW, advance, attempt, call, classification, create, decision, route, settled

Counted = dict[str, list[dict[str, str]]]


class Heard:
    """A telemetry whose counts can be read."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.telemetry = Telemetry(families=["codex"], providers=["acme"], rules=["acme.quota.1"], sinks=[self.totals])

    def commit(self, commit: Commit, **made: Any) -> Heard:
        self.telemetry.committed(commit, Committed(commit.after, **made))
        return self

    @property
    def counts(self) -> Counted:
        """Labels of everything counted, by metric; what does not apply is left out."""
        found: Counted = {}
        for (metric, labels), times in self.totals.read().items():
            shown = {name: value for name, value in labels if value != "none"}
            found.setdefault(metric.name, []).extend([shown] * times)
        return found


def test_the_names_that_dashboards_know_stay() -> None:
    """R-OBS-2."""
    assert {
        "routing_route_attempts_total",
        "routing_fallback_total",
        "routing_resource_circuit_opened_total",
        "routing_resource_circuit_closed_total",
        "routing_waiting_sessions_total",
    } <= {metric.name for metric in METRICS}


def test_a_session_that_begins_is_nothing_yet() -> None:
    assert {} == Heard().commit(create()).counts


def test_a_failure_is_an_attempt_a_decision_and_a_rule() -> None:
    before = route(state=State.ACTIVE, execution_profile_id="sol", attempts_in_turn=1)
    judged = DecisionRecord(DecisionSort.POLICY, {"stale": False}, {}, "a1")
    commit = advance(before, to={"state": State.SWITCHING}, update_attempt=settled(attempt()), decision=judged)
    failed = {"code": "quota_limited", "class": "hard"}
    whose = {"route": "session", "context": "dynamic"}
    assert {
        "routing_route_attempts_total": [whose | failed | {"family": "codex", "provider": "acme", "outcome": "failed"}],
        "routing_classifications_total": [
            {"family": "codex", "rule": "acme.quota.1", "code": "quota_limited", "confidence": "high"}
        ],
        "routing_decisions_total": [whose | failed | {"sort": "policy", "result": "skip"}],
    } == Heard().commit(commit).counts


def test_an_attempt_that_is_only_marked_has_not_ended() -> None:
    marked = advance(route(), update_attempt=attempt(mark=DispatchMark.DISPATCHING))
    assert {} == Heard().commit(marked).counts


def test_stale_evidence_is_counted_with_the_decision_that_dropped_it() -> None:
    """R-EVI-4, R-ENG-9."""
    judged = DecisionRecord(DecisionSort.POLICY, {"stale": True}, {}, "a1")
    counts = Heard().commit(advance(route(), update_attempt=settled(attempt()), decision=judged)).counts
    assert [{"what": "evidence"}] == counts["routing_stale_dropped_total"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            {"state": State.SWITCHING, "execution_profile_id": "fable", "attempts_in_turn": 1},
            ["routing_fallback_total"],
        ),
        (
            {"state": State.SWITCHING, "execution_profile_id": "fable", "attempts_in_turn": 0},
            ["routing_fallback_total"],
        ),
        ({"state": State.SELECTING, "execution_profile_id": "fable", "attempts_in_turn": 0}, []),
        ({"state": State.SELECTING, "execution_profile_id": None}, []),
        (
            {"state": State.RETRY_WAIT, "execution_profile_id": "sol", "attempt_id": "a0", "attempts_in_turn": 1},
            ["routing_same_route_retries_total"],
        ),
        (
            {
                "state": State.WAITING_FOR_RESET,
                "execution_profile_id": "sol",
                "attempt_id": "a0",
                "attempts_in_turn": 1,
            },
            ["routing_same_route_retries_total"],
        ),
        ({"state": State.SELECTING, "execution_profile_id": "sol", "attempts_in_turn": 1}, []),
    ],
    ids=[
        "another after a failure",
        "another because a person skipped it",
        "another in the next turn",
        "the first",
        "a retry",
        "after a reset",
        "chosen again",
    ],
)
def test_what_a_new_attempt_is(before: dict[str, Any], expected: list[str]) -> None:
    earlier = route(classification=classification(), **before)
    commit = advance(earlier, to={"state": State.STARTING, "execution_profile_id": "sol"}, new_attempt=attempt())
    found = Heard().commit(commit).counts
    assert expected == list(found)
    for (labels,) in found.values():
        assert ("codex", "acme", "quota_limited") == (labels["family"], labels["provider"], labels["code"])


@pytest.mark.parametrize("sort", ["chosen", "nobody"])
def test_a_walk_is_a_decision(sort: str) -> None:
    walk = DecisionRecord(DecisionSort.SELECTION, {}, {})
    taken: dict[str, Any] = {"new_attempt": attempt()} if sort == "chosen" else {}
    found = Heard().commit(advance(route(), to={"state": State.STARTING}, decision=walk, **taken)).counts
    assert [(sort, "selection")] == [(d["result"], d["sort"]) for d in found["routing_decisions_total"]]


@pytest.mark.parametrize(
    "state", [State.WAITING, State.RETRY_WAIT, State.WAITING_FOR_RESET, State.ACTION_REQUIRED], ids=str
)
def test_coming_to_wait_is_counted_and_waiting_on_is_not(state: State) -> None:
    to = {"state": state, "reason": Reason.NO_ELIGIBLE_CANDIDATE}
    came = Heard().commit(advance(route(), to=to)).counts
    assert [(state.value, "no_eligible_candidate")] == [
        (w["state"], w["reason"]) for w in came["routing_waiting_sessions_total"]
    ]
    assert {} == Heard().commit(advance(route(state=state), to={"deadline": NOW})).counts


def test_a_continuation_is_counted_when_it_is_kept() -> None:
    kept = {"state": State.STARTING, "continuation": "…", "potentially_effectful": True, "reason": Reason.USER_ACTION}
    found = Heard().commit(advance(route(), to=kept)).counts["routing_continuations_total"]
    assert [("true", "user_action")] == [(c["effectful"], c["reason"]) for c in found]
    assert {} == Heard().commit(advance(route(continuation="…"), to=kept)).counts


def _circuit(state: CircuitState, **changes: Any) -> Circuit:
    return Circuit(key=ACCOUNT, state=state, code=Code.QUOTA_LIMITED, updated_at=NOW, **changes)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, CircuitState.OPEN, ["routing_resource_circuit_opened_total"]),
        (CircuitState.CLOSED, CircuitState.HALF_OPEN, ["routing_resource_circuit_opened_total"]),
        (CircuitState.OPEN, CircuitState.HALF_OPEN, []),
        (CircuitState.HALF_OPEN, CircuitState.OPEN, []),
        (CircuitState.HALF_OPEN, CircuitState.CLOSED, ["routing_resource_circuit_closed_total"]),
        (CircuitState.OPEN, CircuitState.CLOSED, ["routing_resource_circuit_closed_total"]),
    ],
)
def test_a_circuit_opens_and_closes_once(before: CircuitState | None, after: CircuitState, expected: list[str]) -> None:
    """However often it is asked in between: opened minus closed is what is open."""
    change = CircuitTransition(None if before is None else _circuit(before), _circuit(after))
    heard, labels = Heard(), {"scope": "account", "provider": "acme", "code": "quota_limited"}
    heard.telemetry.booked([change])
    assert {key: [labels] for key in expected} == heard.counts
    assert {key: [labels] for key in expected} == Heard().commit(advance(route()), transitions=(change,)).counts


def test_what_a_closed_circuit_was_open_for_is_told_though_it_forgot() -> None:
    change = CircuitTransition(_circuit(CircuitState.OPEN), replace(_circuit(CircuitState.CLOSED), code=None))
    assert (
        "quota_limited"
        == Heard()
        .commit(advance(route()), transitions=(change,))
        .counts["routing_resource_circuit_closed_total"][0]["code"]
    )


def test_an_answer_under_a_lease_that_is_somebody_elses_is_stale() -> None:
    """R-CIR-6: a late result of an older lease is ignored, and R-ENG-9: counted."""
    told = CircuitSucceeded(ACCOUNT, "older")
    assert [{"what": "probe_result"}] == Heard().commit(advance(route(), circuits=(told,))).counts[
        "routing_stale_dropped_total"
    ]
    closed = CircuitTransition(_circuit(CircuitState.HALF_OPEN), _circuit(CircuitState.CLOSED))
    counts = Heard().commit(advance(route(), circuits=(told,)), transitions=(closed,)).counts
    assert "routing_stale_dropped_total" not in counts


def test_a_lease_is_a_probe_whoever_asks() -> None:
    labels = {"scope": "account", "provider": "acme"}
    heard = Heard().commit(advance(route()), leased=(ACCOUNT,))
    heard.telemetry.probing([ACCOUNT])
    assert [labels | {"asked_by": "launch"}, labels | {"asked_by": "probe"}] == heard.counts[
        "routing_half_open_probes_total"
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"logical_profile_id": "sol", "execution_profile_id": "sol"}, "interactive"),
        ({"logical_profile_id": "sol", "execution_profile_id": "sol", "kind": "utility"}, "dynamic"),
        ({"logical_profile_id": "frontier", "execution_profile_id": "sol"}, "dynamic"),
        ({"decision": decision().model_copy(update={"context": Context.UNATTENDED})}, "unattended"),
    ],
)
def test_whose_context_it_is(changes: dict[str, Any], expected: str) -> None:
    """R-RES-2, R-POL-7, R-UTL-4."""
    done = replace(attempt(), mark=DispatchMark.SETTLED, outcome=AttemptOutcome.SUCCESS)
    found = Heard().commit(advance(route(state=State.ACTIVE, **changes), to={}, update_attempt=done)).counts
    assert [expected] == [a["context"] for a in found["routing_route_attempts_total"]]


def test_what_is_told_one_by_one() -> None:
    heard = Heard()
    heard.telemetry.call_ended(call(outcome="timed_out", code="quota_limited", ended_at=NOW + timedelta(seconds=1)))
    heard.telemetry.interrupted(2)
    heard.telemetry.reconciled(Reconciled.ASKED)
    heard.telemetry.dropped(Stale.FRAME, 3)
    heard.telemetry.fenced(Fence.OWNER)
    found = {name: Counter(str(sorted(c.items())) for c in counts) for name, counts in heard.counts.items()}
    assert {
        "routing_utility_calls_total": {
            "[('code', 'quota_limited'), ('outcome', 'timed_out')]": 1,
            "[('outcome', 'interrupted')]": 2,
        },
        "routing_restart_reconciliations_total": {"[('result', 'interrupted')]": 2, "[('result', 'asked')]": 1},
        "routing_stale_dropped_total": {"[('what', 'frame')]": 3},
        "routing_fence_refusals_total": {"[('fence', 'owner')]": 1},
    } == found

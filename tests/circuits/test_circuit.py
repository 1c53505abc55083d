"""One circuit's life (R-CIR-4 to R-CIR-8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.circuits import (
    Admission,
    ArmedRetry,
    Circuit,
    FailureFact,
    ResourceKey,
    admission,
    hand_back,
    make_due,
    on_failure,
    on_success,
    renew_lease,
    reset,
    take_lease,
)
from kandev_routing_sdk.circuits.circuit import _WINDOWS, _Window
from kandev_routing_sdk.types import CircuitState, Code, Confidence, ErrorClass, Scope

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = ResourceKey("account:anthropic:v3:ab", Scope.ACCOUNT, provider_id="anthropic", version=3)
MIDDLE = 0.5
"""The uniform number that adds no jitter."""
TTL = timedelta(seconds=60)
ACTION_CODES = [
    Code.SUBSCRIPTION_REQUIRED,
    Code.AUTH_REQUIRED,
    Code.MISSING_CREDENTIALS,
    Code.PROVIDER_NOT_CONFIGURED,
    Code.MODEL_UNAVAILABLE,
]
TRANSIENT_CODES = [
    Code.NETWORK_UNAVAILABLE,
    Code.PROVIDER_UNAVAILABLE,
    Code.PROVIDER_OVERLOADED,
    Code.MODEL_CAPACITY,
]


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def fact(code: Code = Code.QUOTA_LIMITED, **changes: Any) -> FailureFact:
    return FailureFact(code, changes.pop("confidence", Confidence.HIGH), **changes)


def fail(circuit: Circuit | None, f: FailureFact, now: datetime = NOW, uniform: float = MIDDLE) -> Circuit:
    return on_failure(circuit, KEY, f, now=now, uniform=uniform)


def armed(due: float, token: str = "mine") -> ArmedRetry:
    return ArmedRetry(token, "worker-1", after(due), TTL)


# --- windows ---


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_window_that_fits_its_class(code: Code) -> None:
    """R-CIR-5: a code without a row would open at random."""
    expected = CODES[code].error_class is not ErrorClass.UNCLASSIFIED and code is not Code.AGENT_TRANSPORT_LOST
    assert expected is (_WINDOWS[code] is not _Window.NONE)


def test_a_first_failure_opens() -> None:
    """R-CIR-4, R-CIR-5."""
    circuit = fail(None, fact(due_at=after(7200)))
    assert Circuit(
        key=KEY,
        key_version=3,
        state=CircuitState.OPEN,
        code=Code.QUOTA_LIMITED,
        confidence=Confidence.HIGH,
        failures=1,
        deadline=after(7200),
        updated_at=NOW,
    ) == (circuit)


@pytest.mark.parametrize("code", ACTION_CODES)
def test_what_a_person_must_fix_has_no_deadline(code: Code) -> None:
    """R-CIR-5: not even when a reset was named."""
    circuit = fail(None, fact(code, due_at=after(60)))
    assert (True, None) == (circuit.action_required, circuit.deadline)
    assert Admission("refused") == admission(circuit, now=after(1_000_000))


@pytest.mark.parametrize("code", [*TRANSIENT_CODES, Code.RATE_LIMITED])
@pytest.mark.parametrize(("delay", "window"), [(5, 5), (60, 60), (3600, 60), (-3, 0)])
def test_a_transient_opens_for_the_shorter_of_the_next_delay_and_a_minute(
    code: Code, delay: float, window: float
) -> None:
    """R-CIR-5: one policy must not block a shared provider for hours."""
    assert after(window) == fail(None, fact(code, owner_delay_s=delay)).deadline


@pytest.mark.parametrize("code", [*TRANSIENT_CODES, Code.RATE_LIMITED])
@pytest.mark.parametrize("changes", [{}, {"exhausted": True}, {"exhausted": True, "owner_delay_s": 5.0}])
def test_an_exhausted_transient_takes_the_ladder(code: Code, changes: dict[str, Any]) -> None:
    circuit = fail(None, fact(code, **changes))
    assert (after(120), 1, 120.0) == (circuit.deadline, circuit.ladder_step, circuit.backoff_s)


def test_a_hint_outranks_the_ladder_but_not_the_owners_retry_of_a_transient() -> None:
    overloaded = Code.PROVIDER_OVERLOADED
    assert after(900) == fail(None, fact(overloaded, due_at=after(900), exhausted=True)).deadline
    assert after(5) == fail(None, fact(overloaded, due_at=after(900), owner_delay_s=5)).deadline


def test_a_throttle_with_a_reset_is_shut_until_then_whoever_retries() -> None:
    """R-CIR-5: what the provider says is not one owner's policy."""
    assert after(900) == fail(None, fact(Code.RATE_LIMITED, due_at=after(900), owner_delay_s=5)).deadline


@pytest.mark.parametrize("due", [None, NOW, after(-5)])
def test_a_quota_without_a_future_reset_takes_the_ladder(due: datetime | None) -> None:
    assert after(120) == fail(None, fact(due_at=due, owner_delay_s=5)).deadline


@pytest.mark.parametrize(("uniform", "seconds"), [(0.0, 90), (0.5, 120), (0.999999999, 150)])
def test_the_ladder_jitters_by_a_quarter(uniform: float, seconds: float) -> None:
    deadline = fail(None, fact(), uniform=uniform).deadline
    assert deadline is not None
    assert seconds == pytest.approx((deadline - NOW).total_seconds(), abs=0.001)


def test_each_failed_probe_climbs_to_an_hour() -> None:
    """R-CIR-5, R-CIR-6: failure extends."""
    circuit, now, steps = fail(None, fact()), NOW, []
    for probe in range(7):
        assert circuit.deadline is not None
        steps.append(round((circuit.deadline - now).total_seconds() / 60))
        now = circuit.deadline
        circuit = take_lease(circuit, f"t{probe}", "w", now, TTL)
        circuit = fail(circuit, fact(lease_token=f"t{probe}"), now=now)
    assert [2, 5, 10, 20, 60, 60, 60] == steps
    assert 8 == circuit.failures


def test_a_failure_when_nobody_probes_after_the_deadline_begins_the_next_window() -> None:
    circuit = fail(fail(None, fact()), fact(), now=after(120))
    assert (after(420), 2) == (circuit.deadline, circuit.ladder_step)


# --- monotone ---


def test_later_failures_add_evidence_and_never_shorten() -> None:
    """R-CIR-5: a hint-less failure after a long reset leaves it as it is."""
    first = fail(None, fact(due_at=after(36_000)))
    later = fail(fail(first, fact(), now=after(10)), fact(Code.RATE_LIMITED, due_at=after(60)), now=after(20))
    assert replace(first, failures=3, updated_at=after(20)) == later


def test_a_later_reset_lengthens() -> None:
    circuit = fail(fail(None, fact()), fact(due_at=after(9000)), now=after(1))
    assert after(9000) == circuit.deadline


def test_a_transient_hint_under_retry_does_not_lengthen() -> None:
    first = fail(None, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=5))
    second = fail(first, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=5, due_at=after(50)), now=after(1))
    assert after(5) == second.deadline
    third = fail(second, fact(Code.PROVIDER_OVERLOADED, exhausted=True, due_at=after(50)), now=after(2))
    assert after(50) == third.deadline


def test_the_need_for_a_person_outlasts_any_deadline() -> None:
    timed = fail(None, fact(due_at=after(9000)))
    person = fail(timed, fact(Code.AUTH_REQUIRED), now=after(1))
    assert (True, None, Code.AUTH_REQUIRED) == (person.action_required, person.deadline, person.code)
    again = fail(person, fact(due_at=after(50)), now=after(2))
    assert (True, None, Code.AUTH_REQUIRED, 3) == (again.action_required, again.deadline, again.code, again.failures)


def test_a_probe_that_fails_never_shortens() -> None:
    circuit = take_lease(fail(None, fact(due_at=after(9000))), "t", "w", NOW, TTL)
    assert after(9000) == fail(circuit, fact(lease_token="t"), now=after(1)).deadline


def test_only_high_confidence_and_classified_failures_qualify() -> None:
    """R-CIR-5: anything else is neutral, for a probe too."""
    assert CircuitState.CLOSED is fail(None, fact(confidence=Confidence.MEDIUM)).state
    assert CircuitState.CLOSED is fail(None, fact(Code.TASK_ERROR)).state
    opened = fail(None, fact())
    assert opened == fail(opened, fact(Code.AGENT_TRANSPORT_LOST))
    probing = take_lease(opened, "t", "w", after(120), TTL)
    assert hand_back(probing, "t", after(121)) == fail(probing, fact(Code.TASK_ERROR, lease_token="t"), now=after(121))


# --- reopening ---


def closed_after(circuit: Circuit) -> Circuit:
    assert circuit.deadline is not None
    held = take_lease(circuit, "t", "w", circuit.deadline, TTL)
    return on_success(held, "t", circuit.deadline)


def test_reopening_soon_continues_the_ladder() -> None:
    """R-CIR-5: sooner after closing than the last backoff."""
    closed = closed_after(fail(None, fact()))
    assert (2, after(120 + 119 + 300)) == (
        (soon := fail(closed, fact(), now=after(120 + 119))).ladder_step,
        soon.deadline,
    )


def test_reopening_later_starts_at_the_base() -> None:
    closed = closed_after(fail(None, fact()))
    late = fail(closed, fact(), now=after(120 + 120))
    assert (1, after(120 + 120 + 120)) == (late.ladder_step, late.deadline)


def test_a_manual_reset_forgets_the_ladder() -> None:
    held = take_lease(fail(None, fact()), "t", "w", after(120), TTL)
    again = reset(held, after(121))
    assert Admission("closed") == admission(again, now=after(121))
    assert again == on_success(again, "t", after(122))
    assert again == fail(again, fact(lease_token="t"), now=after(122))
    assert 1 == fail(again, fact(), now=after(123)).ladder_step


# --- admission and leases ---


def test_no_circuit_and_a_closed_one_admit() -> None:
    assert Admission("closed") == admission(None, now=NOW)
    assert Admission("closed") == admission(Circuit(key=KEY, updated_at=NOW), now=NOW)


def test_an_open_circuit_refuses_until_its_deadline_and_then_admits_one_probe() -> None:
    """R-CIR-6."""
    circuit = fail(None, fact())
    assert Admission("refused", after(120)) == admission(circuit, now=after(119))
    assert Admission("probe") == admission(circuit, now=after(120))
    held = take_lease(circuit, "t1", "w1", after(120), TTL)
    assert CircuitState.HALF_OPEN is held.state
    assert Admission("refused", after(180)) == admission(held, now=after(121), token="t2")
    assert Admission("probe", after(180)) == admission(held, now=after(121), token="t1")
    assert held == take_lease(held, "t2", "w2", after(121), TTL)


def test_a_crashed_probers_lease_expires() -> None:
    """R-CIR-6."""
    held = take_lease(fail(None, fact()), "t1", "w1", after(120), TTL)
    assert Admission("probe") == admission(held, now=after(180), token="t1")
    taken = take_lease(held, "t2", "w2", after(180), TTL)
    assert ("t2", "w2", after(240), after(180)) == (
        taken.probe_token,
        taken.probe_owner,
        taken.probe_until,
        taken.probe_since,
    )


def test_success_closes_for_the_holder_of_the_lease_only() -> None:
    """R-CIR-6, R-CIR-8."""
    held = take_lease(fail(None, fact()), "t", "w", after(120), TTL)
    for token, now in [(None, after(121)), ("old", after(121)), ("t", after(180))]:
        assert held == on_success(held, token, now)
    closed = on_success(held, "t", after(121))
    assert (CircuitState.CLOSED, 0, None, None, None, False) == (
        closed.state,
        closed.failures,
        closed.code,
        closed.deadline,
        closed.probe_token,
        closed.action_required,
    )
    assert (after(121), after(121)) == (closed.last_success_at, closed.closed_at)


def test_a_late_result_of_an_older_lease_is_ignored() -> None:
    """R-CIR-6."""
    first = take_lease(fail(None, fact()), "old", "w", after(120), TTL)
    second = take_lease(first, "new", "w", after(180), TTL)
    assert second == fail(second, fact(lease_token="old"), now=after(181))
    assert second == hand_back(second, "old", after(181))
    assert second == renew_lease(second, "old", after(181), TTL)
    assert CircuitState.CLOSED is fail(None, fact(lease_token="old")).state


def test_a_neutral_end_hands_the_lease_back_unchanged() -> None:
    """R-CIR-6: a bad request or a cancel is no failed probe."""
    circuit = fail(None, fact())
    held = take_lease(circuit, "t", "w", after(120), TTL)
    assert replace(circuit, updated_at=after(121)) == hand_back(held, "t", after(121))


def test_a_live_probe_renews_for_ten_minutes_in_all() -> None:
    """R-CIR-8."""
    held = take_lease(fail(None, fact()), "t", "w", after(120), TTL)
    renewed = renew_lease(held, "t", after(150), TTL)
    assert after(210) == renewed.probe_until
    assert renewed == take_lease(held, "t", "w", after(150), TTL)
    for second in range(160, 720, 10):
        renewed = renew_lease(renewed, "t", after(second), TTL)
    assert after(720) == renewed.probe_until
    assert renewed == renew_lease(renewed, "t", after(719), TTL)
    assert renewed == renew_lease(renewed, "t", after(720), TTL)
    assert renewed == renew_lease(renewed, "t", after(715), timedelta(seconds=1))


def test_a_lease_is_not_longer_than_a_probe_may_be() -> None:
    held = take_lease(fail(None, fact()), "t", "w", after(120), timedelta(hours=5))
    assert after(720) == held.probe_until


def test_a_closed_circuit_has_no_lease() -> None:
    closed = Circuit(key=KEY, updated_at=NOW)
    assert closed == take_lease(closed, "t", "w", NOW, TTL)
    assert closed == hand_back(closed, "t", NOW)


# --- the owner's own retry ---


def test_the_owners_scheduled_retry_is_the_probe() -> None:
    """R-CIR-5: it holds the lease from the moment the retry is armed, and goes at its own time."""
    circuit = fail(None, fact(Code.QUOTA_LIMITED, owner_delay_s=5, arm=armed(5)))
    assert (after(120), "mine", after(65)) == (circuit.deadline, circuit.probe_token, circuit.probe_until)
    assert "probe" == admission(circuit, now=after(5), token="mine").kind
    assert Admission("refused", after(120)) == admission(circuit, now=after(5), token="other")


def test_a_long_policy_does_not_keep_the_lease_beyond_the_minute() -> None:
    """R-CIR-5: after the circuit's own deadline others may probe, and the owner asks anew."""
    circuit = fail(None, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=3600, arm=armed(3600)))
    assert (after(60), after(120)) == (circuit.deadline, circuit.probe_until)
    assert Admission("probe") == admission(circuit, now=after(120), token="other")


def test_a_retry_of_a_failure_that_only_added_evidence_is_no_probe() -> None:
    """R-CIR-5: the first committed transition wins, later ones start no second probe."""
    first = fail(None, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=5, arm=armed(5, "first")))
    second = fail(first, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=5, arm=armed(6, "second")), now=after(1))
    assert "first" == second.probe_token


def test_a_failed_retry_may_be_armed_again() -> None:
    circuit = fail(None, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=5, arm=armed(5, "a")))
    again = fact(Code.PROVIDER_OVERLOADED, owner_delay_s=10, lease_token="a", arm=armed(15, "b"))
    circuit = fail(circuit, again, now=after(5))
    assert ("b", after(15), after(75)) == (circuit.probe_token, circuit.deadline, circuit.probe_until)
    last = fail(circuit, fact(Code.PROVIDER_OVERLOADED, exhausted=True, lease_token="b"), now=after(15))
    assert (None, after(135), 1) == (last.probe_token, last.deadline, last.ladder_step)


def test_one_visit_may_keep_its_token_from_retry_to_retry() -> None:
    circuit = fail(None, fact(Code.PROVIDER_OVERLOADED, owner_delay_s=5, arm=armed(5)))
    again = fact(Code.PROVIDER_OVERLOADED, owner_delay_s=10, lease_token="mine", arm=armed(15))
    circuit = fail(circuit, again, now=after(5))
    assert ("mine", after(15), after(15), after(75)) == (
        circuit.probe_token,
        circuit.deadline,
        circuit.probe_since,
        circuit.probe_until,
    )


def test_a_retry_of_what_a_person_must_fix_is_the_only_way_in() -> None:
    circuit = fail(None, fact(Code.AUTH_REQUIRED, owner_delay_s=300, arm=armed(300)))
    assert "probe" == admission(circuit, now=after(300), token="mine").kind
    assert Admission("refused") == admission(circuit, now=after(300), token="other")


def test_a_transient_retry_does_not_settle_what_a_person_must_fix() -> None:
    circuit = fail(None, fact(Code.AUTH_REQUIRED, owner_delay_s=5, arm=armed(5)))
    still = fail(circuit, fact(Code.NETWORK_UNAVAILABLE, lease_token="mine"), now=after(5))
    assert (True, None, Code.AUTH_REQUIRED) == (still.action_required, still.deadline, still.code)
    accepted = fail(circuit, fact(Code.QUOTA_LIMITED, lease_token="mine", due_at=after(900)), now=after(5))
    assert (False, after(900), Code.QUOTA_LIMITED) == (accepted.action_required, accepted.deadline, accepted.code)


# --- people ---


def test_changed_credentials_make_it_due_for_one_probe_and_do_not_close_it() -> None:
    """R-CIR-7."""
    due = make_due(fail(None, fact(Code.AUTH_REQUIRED)), after(50))
    assert CircuitState.OPEN is due.state
    assert Admission("probe") == admission(due, now=after(50))
    held = take_lease(due, "t", "w", after(50), TTL)
    assert "refused" == admission(held, now=after(51)).kind
    assert fail(held, fact(Code.AUTH_REQUIRED, lease_token="t"), now=after(52)).action_required


def test_what_recovers_by_itself_is_not_made_due() -> None:
    circuit = fail(None, fact())
    assert circuit == make_due(circuit, after(5))


def test_a_person_may_ask_early_but_not_beside_a_probe() -> None:
    """R-ENG-6: retry_now may probe early."""
    for circuit in (fail(None, fact()), fail(None, fact(Code.AUTH_REQUIRED))):
        assert Admission("probe") == admission(circuit, now=after(1), early=True)
        held = take_lease(circuit, "t", "w", after(1), TTL)
        assert Admission("refused", after(61)) == admission(held, now=after(2), early=True)

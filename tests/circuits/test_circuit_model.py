"""Random lives of a circuit: what must hold whatever happens in whatever order (R-CIR-5, R-CIR-6, R-CIR-8; design §6, 6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kandev_routing_sdk.circuits import (
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
from kandev_routing_sdk.types import CircuitState, Code, Confidence, Scope

KEY = ResourceKey("provider:acme", Scope.PROVIDER, provider_id="acme")
LIMIT = timedelta(minutes=10)


class Failure(NamedTuple):
    code: Code
    hint: int | None
    delay: float | None
    exhausted: bool
    uniform: float
    arm: bool


_failures = st.builds(
    Failure,
    code=st.sampled_from(Code),
    hint=st.none() | st.integers(min_value=-600, max_value=100_000),
    delay=st.none() | st.floats(min_value=0, max_value=90_000),
    exhausted=st.booleans(),
    uniform=st.floats(min_value=0, max_value=1, exclude_max=True),
    arm=st.booleans(),
)
_seconds = st.integers(min_value=0, max_value=8000)
_ttl = st.integers(min_value=1, max_value=1200).map(lambda s: timedelta(seconds=s))


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.circuit = Circuit(key=KEY, updated_at=self.now)
        self.tokens: list[str] = []

    def new_token(self) -> str:
        self.tokens.append(f"t{len(self.tokens)}")
        return self.tokens[-1]

    def become(self, after: Circuit) -> None:
        """A live lease is only ever replaced by nobody's: no second probe beside it."""
        before = self.circuit
        if before.lease_is_live(self.now) and after.lease_is_live(self.now) and before.probe_token != after.probe_token:
            assert after.probe_token == self.tokens[-1]
            assert self.replaced == before.probe_token
        self.circuit = after

    replaced: str | None = None

    @rule(seconds=_seconds)
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(failure=_failures)
    def somebody_fails(self, failure: Failure) -> None:
        self._fail(failure, token=None)

    @precondition(lambda self: self.circuit.probe_token is not None)
    @rule(failure=_failures)
    def the_probe_fails(self, failure: Failure) -> None:
        token = self.circuit.probe_token
        self.replaced = token
        self._fail(failure, token=token)
        self.replaced = None
        assert self.circuit.probe_token != token

    def _fail(self, failure: Failure, *, token: str | None) -> None:
        before = self.circuit
        due = self.now + timedelta(seconds=failure.delay or 0)
        fact = FailureFact(
            failure.code,
            Confidence.HIGH,
            due_at=None if failure.hint is None else self.now + timedelta(seconds=failure.hint),
            owner_delay_s=failure.delay,
            exhausted=failure.exhausted,
            lease_token=token,
            arm=ArmedRetry(self.new_token(), "w", due, timedelta(minutes=1)) if failure.arm else None,
        )
        after = on_failure(before, KEY, fact, now=self.now, uniform=failure.uniform)
        if before.state is not CircuitState.CLOSED:
            assert after.state is not CircuitState.CLOSED
            if before.deadline is not None:
                assert after.action_required or (after.deadline is not None and after.deadline >= before.deadline)
        assert after.failures >= before.failures
        self.become(after)

    @rule(ttl=_ttl, early=st.booleans())
    def somebody_asks(self, ttl: timedelta, early: bool) -> None:
        if admission(self.circuit, now=self.now, early=early).kind == "probe":
            assert not self.circuit.lease_is_live(self.now)
            token = self.new_token()
            self.become(take_lease(self.circuit, token, "w", self.now, ttl))
            assert self.circuit.is_held_by(token, self.now)

    @rule(ttl=_ttl)
    def somebody_grabs(self, ttl: timedelta) -> None:
        """Even without asking first nobody gets a second lease."""
        before = self.circuit
        after = take_lease(before, self.new_token(), "w", self.now, ttl)
        if before.lease_is_live(self.now) or before.state is CircuitState.CLOSED:
            assert before == after
        self.become(after)

    @rule(ttl=_ttl)
    def the_probe_renews(self, ttl: timedelta) -> None:
        if self.circuit.probe_token is not None:
            self.become(renew_lease(self.circuit, self.circuit.probe_token, self.now, ttl))

    @rule()
    def the_probe_succeeds(self) -> None:
        live = self.circuit.lease_is_live(self.now)
        self.become(on_success(self.circuit, self.circuit.probe_token, self.now))
        if live:
            assert self.circuit.state is CircuitState.CLOSED

    @rule()
    def the_probe_ends_neutrally(self) -> None:
        before = self.circuit
        if before.probe_token is not None:
            self.become(hand_back(before, before.probe_token, self.now))
            assert (before.deadline, before.failures, before.action_required) == (
                self.circuit.deadline,
                self.circuit.failures,
                self.circuit.action_required,
            )

    @rule(data=st.data())
    def an_old_lease_speaks(self, data: st.DataObject) -> None:
        old = [t for t in self.tokens if t != self.circuit.probe_token]
        if not old:
            return
        token = data.draw(st.sampled_from(old))
        fact = FailureFact(Code.QUOTA_LIMITED, Confidence.HIGH, lease_token=token)
        assert self.circuit == on_failure(self.circuit, KEY, fact, now=self.now, uniform=0.5)
        assert self.circuit == on_success(self.circuit, token, self.now)
        assert self.circuit == hand_back(self.circuit, token, self.now)
        assert self.circuit == renew_lease(self.circuit, token, self.now, LIMIT)

    @rule()
    def a_person_changes_credentials(self) -> None:
        self.become(make_due(self.circuit, self.now))
        assert not self.circuit.action_required

    @rule()
    def a_person_resets(self) -> None:
        self.become(reset(self.circuit, self.now))
        assert admission(self.circuit, now=self.now).kind == "closed"

    @invariant()
    def fields_fit_the_state(self) -> None:
        c = self.circuit
        held = {c.probe_token is None, c.probe_owner is None, c.probe_until is None, c.probe_since is None}
        assert len(held) == 1
        assert (c.probe_token is not None) is (c.state is CircuitState.HALF_OPEN)
        if c.state is CircuitState.CLOSED:
            assert (c.deadline, c.code, c.failures, c.action_required) == (None, None, 0, False)
        else:
            assert c.code is not None
            assert c.action_required is (c.deadline is None)
        if c.probe_since is not None and c.probe_until is not None:
            assert c.probe_until - c.probe_since <= LIMIT

    @invariant()
    def there_is_always_a_way_back(self) -> None:
        """Nothing is shut for ever: a refusal names its end, or a person is needed."""
        answer = admission(self.circuit, now=self.now)
        if answer.kind == "refused":
            assert (answer.until is None) is self.circuit.action_required
            assert answer.until is None or answer.until > self.now


TestLife = Life.TestCase

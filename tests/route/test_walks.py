"""Random lives of a route: what must hold whatever happens in whatever order (design §6; R-ENG-1, R-ENG-5, R-ENG-10, R-SAFE-1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kandev_routing_sdk.errors import DynamicRoutingDisabled, IllegalTransition, TurnInProgress
from kandev_routing_sdk.route import ATTEMPT_CAP, CandidateView, Facts, begin, matching, select, step, trigger_for
from kandev_routing_sdk.route.model import Effect, Route, State, Trigger
from kandev_routing_sdk.types import Code
from tests.route._routes import CLEAN, NOW, SPOKE, a_failure, a_policy, decide

S, T = State, Trigger
PROFILES = ("fable", "codex", "sol")
RETRIES = 2
POLICY = a_policy(retries=RETRIES, wait=300)
BY_A_PERSON = (T.RETRY_NOW, T.SKIP_NOW, T.CANCEL_WAIT, T.STOP)
FAILURES = (T.FAILED_WAIT, T.FAILED_RETRY, T.FAILED_SKIP, T.FAILED_STOP)
SPECIAL = {*FAILURES, T.CANDIDATE_COMMITTED, T.NOBODY_RECOVERY_KNOWN, T.NOBODY_PERSON_NEEDED, T.PROMPT}
ENDS = {T.STOP, T.STOP_SESSION}
WAITS = {S.RETRY_WAIT, S.WAITING_FOR_RESET, S.WAITING}


class Life(RuleBasedStateMachine):
    """One session, its conductor and its user."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.route: Route = begin("s1", "frontier", now=NOW, prompt="prompt 1").after
        self.ids = 0
        self.visited: list[str] = []
        self.dispatched: set[str] = set()
        self.unaided = 0
        self.retried_by_hand = False
        self.unanswered = {"prompt 1"}

    def take(self, trigger: Trigger, facts: Facts) -> None:
        before = self.route
        moved = step(before, trigger, facts, now=self.now)
        after = self.route = moved.after
        assert before.revision + 1 == after.revision
        committed = trigger is T.CANDIDATE_COMMITTED and after.state is S.STARTING
        assert before.generation + committed == after.generation
        self._rounds(before, trigger, committed=committed)
        self._attempts(before, trigger)
        if Effect.SEND_PROMPT in moved.effects:
            assert after.attempt_id is not None
            assert after.attempt_id not in self.dispatched, "an attempt is dispatched at most once"
            self.dispatched.add(after.attempt_id)
        if trigger in {T.TURN_SUCCEEDED, T.TURN_CANCELLED}:
            self.unanswered.clear()

    def _rounds(self, before: Route, trigger: Trigger, *, committed: bool) -> None:
        left = before.state in {S.WAITING, S.ACTION_REQUIRED} and self.route.state in {S.SELECTING, S.SWITCHING}
        if (left and trigger is not T.FLAG_ON) or trigger in {T.PROMPT, T.TURN_SUCCEEDED}:
            self.visited, self.retried_by_hand = [], False
        if committed:
            assert self.route.execution_profile_id is not None
            assert self.route.execution_profile_id not in self.visited, "nobody is visited twice in a round"
            self.visited.append(self.route.execution_profile_id)

    def _attempts(self, before: Route, trigger: Trigger) -> None:
        if trigger in {*BY_A_PERSON, T.PROMPT, T.TURN_SUCCEEDED, T.TURN_CANCELLED}:
            self.unaided = 0
        if self.route.attempt_id != before.attempt_id:
            self.unaided += 1
        assert self.unaided <= ATTEMPT_CAP

    def fresh(self) -> str:
        self.ids += 1
        return f"a{self.ids}"

    @rule(
        trigger=st.sampled_from([t for t in Trigger if t not in SPECIAL and t not in ENDS]),
        clean=st.booleans(),
        deadline=st.booleans(),
    )
    def anything(self, trigger: Trigger, clean: bool, deadline: bool) -> None:
        facts = Facts(
            attempt_id=self.fresh(),
            clean=clean,
            deadline=self.now + timedelta(seconds=9) if deadline else None,
        )
        if matching(self.route, trigger, facts) is None:
            self.refused(trigger, facts)
            return
        if trigger is T.RETRY_NOW:
            self.retried_by_hand = True
        self.take(trigger, facts)

    def refused(self, trigger: Trigger, facts: Facts) -> None:
        twin = self.route.model_copy(deep=True)
        with pytest.raises((IllegalTransition, TurnInProgress, DynamicRoutingDisabled)):
            step(self.route, trigger, facts, now=self.now)
        assert twin == self.route, "what is refused changes nothing"

    @rule(trigger=st.sampled_from(sorted(SPECIAL)))
    def out_of_place(self, trigger: Trigger) -> None:
        facts = Facts(profile_id="fable", attempt_id=self.fresh(), prompt="x", deadline=self.now)
        if matching(self.route, trigger, facts) is None:
            self.refused(trigger, facts)

    @precondition(lambda self: self.route.state in {S.SELECTING, S.SWITCHING})
    @rule(enabled=st.lists(st.booleans(), min_size=len(PROFILES), max_size=len(PROFILES)), recovers=st.booleans())
    def selects(self, enabled: list[bool], recovers: bool) -> None:
        views = [
            CandidateView(profile_id=p, family="f", position=i, enabled=e)
            for i, (p, e) in enumerate(zip(PROFILES, enabled, strict=True))
        ]
        found = select(views, {}, round=self.route.round, pinned=self.route.pinned_profile_id, now=self.now)
        if found.chosen is not None:
            facts = Facts(profile_id=found.chosen.profile_id, attempt_id=self.fresh(), continuation="note")
            self.take(T.CANDIDATE_COMMITTED, facts)
        elif recovers:
            self.take(T.NOBODY_RECOVERY_KNOWN, Facts(deadline=self.now + timedelta(minutes=2)))
        else:
            self.take(T.NOBODY_PERSON_NEEDED, Facts())

    @precondition(lambda self: self.route.state in {S.STARTING, S.RETRYING})
    @rule()
    def gets_ready(self) -> None:
        self.take(T.READY, Facts(native_session_id=f"native-{self.route.execution_profile_id}"))

    @precondition(lambda self: matching(self.route, T.FAILED_STOP, Facts()) is not None)
    @rule(code=st.sampled_from(Code), reset=st.none() | st.integers(1, 400), spoke=st.booleans())
    def fails(self, code: Code, reset: int | None, spoke: bool) -> None:
        failure = a_failure(code, reset_in=reset, now=self.now)
        effects = SPOKE if spoke else CLEAN
        decision = decide(self.route, failure, POLICY, self.now, effects)
        automatic = not spoke and trigger_for(decision) is not T.FAILED_STOP
        self.take(
            trigger_for(decision),
            Facts(decision=decision, classification=failure, automatic=automatic, clean=not spoke),
        )
        if spoke:
            assert S.ACTION_REQUIRED is self.route.state, "effects stop for a person"
            assert self.route.potentially_effectful

    @rule()
    def says_more(self) -> None:
        prompt = f"prompt {self.route.prompt_number + 1}"
        facts = Facts(prompt=prompt, attempt_id=self.fresh())
        if matching(self.route, T.PROMPT, facts) is None:
            self.refused(T.PROMPT, facts)
            return
        self.unanswered.add(prompt)
        self.take(T.PROMPT, facts)

    @rule(seconds=st.integers(1, 600))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(trigger=st.sampled_from(Trigger))
    def a_twin_is_stopped(self, trigger: Trigger) -> None:
        """On a copy, so that lives stay long."""
        if self.route.state is S.STOPPED:
            return
        stopped = step(self.route, T.STOP_SESSION, now=self.now).after
        with pytest.raises(IllegalTransition):
            step(stopped, trigger, Facts(profile_id="x", attempt_id="x", prompt="x"), now=self.now)

    @invariant()
    def the_route_is_sound(self) -> None:
        route = self.route
        kept = route.prior_state or route.state
        assert (kept in WAITS) == (route.deadline is not None)
        assert not route.turn_running or kept in {S.ACTIVE, S.REROUTE_PENDING}
        assert route.attempts_in_turn <= ATTEMPT_CAP
        assert route.native_profile_id in {None, route.execution_profile_id}
        assert (route.prior_state is None) or route.state is S.ACTION_REQUIRED
        assert all(prompt in (route.parked_prompt or "") for prompt in self.unanswered), "no message is lost"

    @invariant()
    def no_budget_is_exceeded(self) -> None:
        for visit in self.route.round.visits:
            assert len(visit.reset_waits_used) == len(set(visit.reset_waits_used))
            if not self.retried_by_hand:
                assert all(used <= RETRIES for used in visit.retries_used.values())


TestLife: Any = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def test_without_a_person_a_turn_of_failures_ends() -> None:
    """Launch fallback visits everyone once; retries and waits are bounded; then nobody is left (R-ENG-5)."""
    route, attempts = begin("s1", "frontier", now=NOW, prompt="do it").after, 0
    views = [CandidateView(profile_id=p, family="f", position=i) for i, p in enumerate(PROFILES)]
    order: list[str] = []
    while route.state is not S.ACTION_REQUIRED:
        attempts += 1
        if route.state in {S.SELECTING, S.SWITCHING}:
            found = select(views, {}, round=route.round, now=NOW)
            if found.chosen is None:
                route = step(route, found.trigger, now=NOW).after
                continue
            order.append(found.chosen.profile_id)
            facts = Facts(profile_id=found.chosen.profile_id, attempt_id=f"a{attempts}")
            route = step(route, T.CANDIDATE_COMMITTED, facts, now=NOW).after
        elif route.state in WAITS:
            route = step(route, T.DUE, Facts(attempt_id=f"a{attempts}"), now=NOW).after
        failure = a_failure()
        decision = decide(route, failure, POLICY, NOW, CLEAN)
        facts = Facts(decision=decision, classification=failure, automatic=True)
        route = step(route, trigger_for(decision), facts, now=NOW).after
    assert list(PROFILES) == order
    assert len(PROFILES) * (1 + RETRIES) == route.attempts_in_turn

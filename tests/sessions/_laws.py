"""The eight invariants (design §6), each as one function, judged from what really happened and from what is durable."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.policy import Context
from kandev_routing_sdk.ports import Commit, DecisionSort
from kandev_routing_sdk.profiles import DynamicProfile
from kandev_routing_sdk.route.guards import is_at_rest
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.sessions.past import made_again
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, DispatchMark
from tests.sessions._played import CANARY, SAFE_FAILURES, Agent, Sent
from tests.sessions._town import CATALOGUE, Process, Town, Write

TIMED = frozenset({State.RETRY_WAIT, State.WAITING_FOR_RESET, State.WAITING})


class Laws:
    """Watches a town; raises ``AssertionError`` as soon as one is broken."""

    def __init__(self, town: Town, dump: Callable[[], bytes]) -> None:
        self.town, self._dump = town, dump
        self.said: list[str] = []
        """What errors said."""
        self._heard = 0
        self._moved = False
        self._broken: AssertionError | None = None
        self._seen: dict[str, Route] = {}
        town.stage.at_launch = self._at_launch
        town.stage.at_dispatch = self._at_dispatch
        town.watchers.append(self._at_write)

    @property
    def seen(self) -> list[Route]:
        """The sessions as they were after the last step."""
        return list(self._seen.values())

    # When they can be broken ------------------------------------------------------------------------------------------------

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """A worker outlives whatever comes out of one session's work; what was broken is broken all the same."""
        try:
            yield
        except AssertionError as broken:
            self._broken = self._broken or broken
            raise

    def _at_launch(self, agent: Agent) -> None:
        with self._remembered():
            self.invariant_2_at_most_one_live_agent(agent)
            self.invariant_4_no_launch_without_its_decision(agent)

    def _at_dispatch(self, sent: Sent) -> None:
        with self._remembered():
            self.invariant_1_at_most_one_dispatch(sent)
            self.invariant_7_no_resume_token_crosses_profiles(sent)

    def _at_write(self, write: Write) -> None:
        self._moved = True
        with self._remembered():
            self.invariant_6_one_probe_and_monotone_deadlines(write)
            self.invariant_8_no_secret_is_written(write)
            self.what_was_shown_is_its_persons(write)

    def after_step(self) -> None:
        """Everything that must hold whenever nobody is in the middle of a write."""
        if self._broken is not None:
            raise self._broken
        for bug in self.town.bugs:
            raise bug
        if self._moved:
            self._moved = False
            for route in self.town.store.sessions(limit=1000):
                before = self._seen.get(route.session_id)
                if before is None or before.revision != route.revision:
                    self.invariant_3_numbers_only_grow(before, route)
                    self.invariant_4_no_timer_without_its_deadline(route)
                    self.invariant_7_the_native_session_is_its_own_profiles(route)
                    self.no_prompt_is_lost(route)
                self.invariant_5_whoever_is_at_work_has_an_owner(route)
                self._seen[route.session_id] = route
        self.invariant_8_no_secret_is_said()

    # The eight --------------------------------------------------------------------------------------------------------------

    def invariant_1_at_most_one_dispatch(self, sent: Sent) -> None:
        """A prompt is dispatched at most once per attempt row, and never again automatically after any observed or possible effect."""
        others = [s for s in self.town.stage.sent if s is not sent and s.session_id == sent.session_id]
        assert all(s.attempt_id != sent.attempt_id for s in others), "twice for one attempt"
        rows = self.town.attempts
        assert DispatchMark.DISPATCHING is rows[sent.attempt_id].mark, "sent before that was written down"
        for other in others:
            if other.person != sent.person:
                continue  # a person asked meanwhile
            assert other.play in SAFE_FAILURES, f"{other.play} was followed by another dispatch"
            row = rows[other.attempt_id]
            assert (DispatchMark.SETTLED, AttemptOutcome.FAILED) == (row.mark, row.outcome), "what it did was unknown"
            assert row.effects is not None
            assert effect_refusal(row.effects) is None

    def invariant_2_at_most_one_live_agent(self, agent: Agent) -> None:
        """At most one live downstream per session; a successor's prompt is never sent while a predecessor may act.

        What runs on another machine than the successor could not be reached, and is a person's risk: then one was asked. A worker of
        that machine ends it sooner or later.
        """
        for other in self.town.stage.live(agent.session_id):
            words = f"{agent.profile_id} was started while {other.profile_id} may still act"
            assert agent.namespace != other.namespace, words
            assert agent.person > other.person, words

    def invariant_3_numbers_only_grow(self, before: Route | None, after: Route) -> None:
        """Generations and revisions only grow; each generation has exactly one decision row."""
        if before is not None:
            assert before.revision <= after.revision
            assert before.generation <= after.generation
            assert before.prompt_number <= after.prompt_number
            if before.generation == after.generation and before.attempt_id == after.attempt_id:
                return
        store = self.town.store
        expected = list(range(1, after.generation + 1))
        assert expected == [s.generation for s in store.selections(after.session_id)]
        made = [d for d in store.decisions(after.session_id) if d.sort is DecisionSort.SELECTION and d.answer["chosen"]]
        assert len(expected) == len(made)
        ordinals = [row.ordinal for row in store.attempts(after.session_id)]
        assert list(range(1, len(ordinals) + 1)) == ordinals

    def invariant_4_no_launch_without_its_decision(self, agent: Agent) -> None:
        """No launch without its committed decision; …"""
        row = self.town.attempts[agent.attempt_id]
        assert row.mark in {DispatchMark.CLAIMED, DispatchMark.DISPATCHING}
        assert row.generation in self.town.generations[agent.session_id]
        route = self.town.routes[agent.session_id]
        assert (agent.attempt_id, agent.profile_id) == (route.attempt_id, route.execution_profile_id)

    def invariant_4_no_timer_without_its_deadline(self, route: Route) -> None:
        """… no timer without its committed deadline."""
        if route.prior_state is None:
            assert (route.state in TIMED) == (route.deadline is not None), f"{route.state} with {route.deadline}"
        if route.state in {State.RETRY_WAIT, State.WAITING_FOR_RESET}:
            assert route.decision is not None

    def invariant_4_no_timer_fires_early(self, before: Route, now: datetime) -> None:
        """Whose retry is not due yet is not asked again, whoever looks. (It may be left meanwhile: its candidate is gone.)"""
        if before.state is State.RETRY_WAIT and before.deadline is not None and before.deadline > now:
            after = self.town.store.load(before.session_id)
            assert after is not None
            left = after.generation > before.generation
            assert left or before.attempt_id == after.attempt_id, f"{before.deadline} fired at {now}"

    def invariant_5_whoever_is_at_work_has_an_owner(self, route: Route) -> None:
        """``selecting``, ``starting``, ``switching``, ``retrying``, and ``active``/``reroute_pending`` with a turn in flight, always have
        a live owner lease, or reconciliation moves them: they have a lease that ends. Whether they are moved then, see :func:`settles`.
        """
        if is_at_rest(route):
            return
        assert route.owner_id is not None, f"nobody is at work for {route.state}"
        assert route.owner_until is not None, f"{route.state} belongs to somebody for ever"

    def invariant_6_one_probe_and_monotone_deadlines(self, write: Write) -> None:
        """At most one unexpired probe lease per resource over all processes; an open deadline never shrinks through a later, weaker
        hint. And who is launched has every key closed, or its lease (R-CIR-8).
        """
        now = self.town.clock.now()
        by_hand = write.name == "put_circuit"
        freed = {} if write.commit is None else {(c.key.key, getattr(c, "token", None)) for c in write.commit.circuits}
        for key, after in write.after.items():
            before = write.before.get(key)
            if before is None:
                continue
            if before.lease_is_live(now) and after.lease_is_live(now) and before.probe_token != after.probe_token:
                assert (key, before.probe_token) in freed, f"two probes of {key}"
            closed = CircuitState.CLOSED in {before.state, after.state}
            if before.deadline is not None and before.deadline > now and not closed and not by_hand:
                assert after.action_required or (after.deadline or now) >= before.deadline, f"{key} opens earlier"
        commit = write.commit
        if commit is None or commit.new_attempt is None or not self._is_dynamic(commit.after):
            return
        if self._was_said_to_whom_it_is_with(commit):
            return
        for stands_on in commit.new_attempt.resource_keys:
            circuit = write.after.get(stands_on.key)
            if circuit is not None and circuit.state is not CircuitState.CLOSED:
                assert circuit.is_held_by(commit.new_attempt.lease_token, now), f"launched against {stands_on.key}"

    def _was_said_to_whom_it_is_with(self, commit: Commit) -> bool:
        """What a person says is no automatic try: the first attempt of a message stays with whom the session is with (R-CIR-8)."""
        new = commit.new_attempt
        assert new is not None
        if commit.after.probe_early or (commit.before is not None and commit.before.probe_early):
            return True
        mine = [r for r in self.town.attempts.values() if r.session_id == new.session_id and r is not new]
        first = all(r.prompt_number != new.prompt_number or r.outcome is AttemptOutcome.LOST for r in mine)
        return first and any(r.generation == new.generation for r in mine)

    def _is_dynamic(self, route: Route) -> bool:
        return isinstance(self.town.shelf.get(route.logical_profile_id), DynamicProfile)

    def invariant_7_no_resume_token_crosses_profiles(self, sent: Sent) -> None:
        """No resume token is ever passed to another profile. (What a launch is given, the played adapter looks at itself.)"""
        assert "native:" not in sent.text

    def invariant_7_the_native_session_is_its_own_profiles(self, route: Route) -> None:
        """What is kept of a native session is kept with the profile that made it."""
        if route.native_session_id is not None:
            assert route.native_session_id.startswith(f"native:{route.native_profile_id}:")

    def invariant_8_no_secret_is_written(self, write: Write) -> None:
        """No secret canary appears in any row, event, …"""
        assert CANARY.encode() not in pickle.dumps(write.args)

    def invariant_8_no_secret_is_said(self) -> None:
        """… log line or exception text."""
        assert not any(CANARY in text for text in self.said[self._heard :])
        self._heard = len(self.said)

    def invariant_8_no_secret_is_kept(self) -> None:
        """And none in the database, whichever way it might have come there."""
        assert CANARY.encode() not in self._dump()

    def what_was_seen_is_what_is_kept(self) -> None:
        """The attempts and decisions that were followed write by write are those that are stored."""
        for session_id, generations in self.town.generations.items():
            kept = {row.attempt_id: row.mark for row in self.town.store.attempts(session_id)}
            assert kept == {r.attempt_id: r.mark for r in self.town.attempts.values() if r.session_id == session_id}
            assert generations == [s.generation for s in self.town.store.selections(session_id)]

    def what_was_decided_is_decided_again(self) -> None:
        """From what is stored of each decision the same functions make the same again (R-ENG-11)."""
        for session_id in self._seen:
            store = self.town.store
            for past in made_again(store.decisions(session_id), store.attempts(session_id), CATALOGUE):
                assert past.same, (past.problem, past.record.answer, past.again)
                assert past.classified_again is None or not past.classified_again.changes

    # And what follows from them -----------------------------------------------------------------------------------------------

    def no_prompt_is_lost(self, route: Route) -> None:
        """The user's message stays parked with the session until it is answered, or the session was stopped (R-CON-10)."""
        if route.parked_prompt is not None or route.state is State.STOPPED or route.reason is Reason.SUCCEEDED:
            return
        rows = self.town.store.attempts(route.session_id)
        answered = [r for r in rows if r.prompt_number == route.prompt_number and r.outcome is AttemptOutcome.SUCCESS]
        assert answered, f"the prompt of {route.session_id} is gone in {route.state}"

    def what_was_shown_is_its_persons(self, write: Write) -> None:
        """A concrete profile's session leaves ``action_required`` by a person, and for nobody else's agent (R-POL-7)."""
        commit = write.commit
        if commit is None or commit.after.context is not Context.INTERACTIVE:
            return
        after, before = commit.after, commit.before
        assert after.execution_profile_id in {None, after.logical_profile_id}
        assert after.state not in {State.WAITING, State.WAITING_FOR_RESET}
        if before is not None and before.state is State.ACTION_REQUIRED is not after.state:
            spoke = after.prompt_number > before.prompt_number or after.state is State.STOPPED
            assert spoke or commit.action is not None, "replayed unasked"


def settles(town: Town) -> None:
    """Reconciliation moves whoever lost their owner (invariant 5): with the flag on and every agent answering, after a week of workers
    looking each session rests, is answered, or says what a person has to do.
    """
    for process in town.processes:
        town.kill(process)
    town.stage.plays.clear()
    town.stage.probes.clear()
    town.flag = True
    for wait_s in (61, 8 * 24 * 3600, 61):
        town.clock.advance(wait_s)
        _until_still(town, town.process())
    for machine in ("far", "here"):
        _until_still(town, town.process(machine))
    assert [] == [agent for agent in town.stage.agents.values() if agent.live], "orphans"
    for route in town.store.sessions(limit=1000):
        words = f"{route.session_id} is left in {route.state} ({route.reason})"
        assert is_at_rest(route), words
        assert route.owner_id is None, words
        assert route.state in {State.ACTIVE, State.ACTION_REQUIRED, State.STOPPED}, words


def _until_still(town: Town, worker: Process) -> None:
    for tried in range(100):
        revisions = _revisions(town)
        town.look(worker, most=100, afresh=tried == 0)
        if revisions == _revisions(town):
            return
    raise AssertionError("workers never come to rest")


def _revisions(town: Town) -> dict[str, int]:
    return {route.session_id: route.revision for route in town.store.sessions(limit=1000)}

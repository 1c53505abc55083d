"""The sessions of a router, as a host uses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kandev_routing_sdk.conductor import Engine, Gate, Tell, in_thread
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.ports import Operation
from kandev_routing_sdk.records import AttemptRecord, DecisionRecord, PromptRecord
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.route.snapshot import Snapshot, snapshot_of
from kandev_routing_sdk.sessions.actions import Action, act, asked_for, prompt, stop_session
from kandev_routing_sdk.sessions.life import Order, begin_session, go_on, keep_going, silent
from kandev_routing_sdk.sessions.past import PastDecision, made_again
from kandev_routing_sdk.sessions.reading import load_session, snapshot


class Sessions:
    """Logical sessions: durable, moved on by whoever owns them, and by people. Get it from :attr:`Router.sessions`.

    Methods that change something are for asyncio. One that goes on with a session *here* returns when the session rests; otherwise
    it returns once the change is durable, and a worker (:meth:`Router.run_worker`) goes on.
    """

    def __init__(self, engine: Engine, *, read_only: bool) -> None:
        self._engine, self._gate = engine, Gate(engine, read_only)

    # Reading --------------------------------------------------------------------------------------------------------------

    def list(
        self, *, states: Sequence[State | str] | None = None, before: str | None = None, limit: int = 100
    ) -> list[Snapshot]:
        """Return sessions, newest first, without their candidates.

        Args:
            states: only those in one of these; default: in any.
            before: those that come after this session, for the next page.
            limit: at most so many.

        Raises:
            UsageError: there is no such state, or no session of the id ``before``.
        """
        wanted, found = None if states is None else _states(states), list[Snapshot]()
        last = None if before is None else load_session(self._engine.store, before)
        while len(found) < limit and (page := self._engine.store.sessions(states=wanted, before=last, limit=200)):
            last = page[-1]
            found += [snapshot_of(route) for route in page if route.kind == "session"]
        return found[:limit]

    def snapshot(self, session_id: str) -> Snapshot:
        """Return the authoritative snapshot (R-ENG-7). Raises :class:`~kandev_routing_sdk.errors.UsageError` if there is none."""
        return snapshot(self._engine.store, session_id)

    def attempts(self, session_id: str) -> Sequence[AttemptRecord]:
        """Return all attempts in order; history, never relabelled (R-ENG-11)."""
        load_session(self._engine.store, session_id)
        return self._engine.store.attempts(session_id)

    def decisions(self, session_id: str) -> Sequence[DecisionRecord]:
        """Return every decision in order, with all that it was made from (R-ENG-11)."""
        load_session(self._engine.store, session_id)
        return self._engine.store.decisions(session_id)

    def prompts(self, session_id: str) -> Sequence[PromptRecord]:
        """Return the exact text that each attempt's agent was given, in order: the request, and the note behind it (R-CON-3)."""
        load_session(self._engine.store, session_id)
        return self._engine.store.prompts(session_id)

    def why(self, session_id: str) -> Sequence[PastDecision]:
        """Return every decision in order, made again from what was stored of it (R-ENG-11)."""
        return made_again(self.decisions(session_id), self.attempts(session_id), self._engine.catalogue)

    # Changing -------------------------------------------------------------------------------------------------------------

    async def start(
        self,
        profile_id: str,
        text: str,
        *,
        cwd: str | Path,
        here: bool = False,
        on_progress: Tell | None = None,
    ) -> Snapshot:
        """Begin a session with its first message.

        Args:
            profile_id: a concrete or dynamic profile.
            text: what to do. It is stored until it is answered (R-CON-10).
            cwd: where the agents work; stored with the session.
            here: go on with it in this process.
            on_progress: ``here``: called with each :data:`~kandev_routing_sdk.results.Progress`.

        Raises:
            UsageError: no such profile or folder, or an empty message.
            RoutingError: another child when the profile may not be used, or the store refuses.
        """
        self._gate(Operation.SESSION_START, profile_id)
        route = await begin_session(self._engine, Order(profile_id, text, Path(cwd)), here=here)
        if here:
            route = await go_on(self._engine, route, on_progress or silent)
        return await in_thread(self.snapshot, route.session_id)

    async def prompt(
        self, session_id: str, text: str, *, here: bool = False, on_progress: Tell | None = None
    ) -> Snapshot:
        """Give a session its next message.

        Raises:
            UsageError: no such session, or an empty message.
            TurnInProgress: a turn is on its way.
            DynamicRoutingDisabled: the feature flag is off.
        """
        self._gate(Operation.SESSION_PROMPT, session_id)
        drive = await prompt(self._engine, session_id, text, on_progress or silent)
        await (keep_going(drive) if here else drive.hand_on())
        return await in_thread(self.snapshot, session_id)

    async def act(
        self,
        session_id: str,
        action: Action | str,
        *,
        expected_generation: int,
        expected_revision: int | None = None,
        action_id: str | None = None,
        here: bool = False,
        on_progress: Tell | None = None,
    ) -> Snapshot:
        """Carry out a person's action on the session that the person saw, and return what it is now (R-ENG-7).

        Args:
            session_id: which.
            action: ``retry_now``, ``resume``, ``start_fresh``, ``skip_now``, ``cancel_wait`` or ``stop``.
            expected_generation: of the snapshot that was acted upon.
            expected_revision: also of that snapshot, for those who want no race with a timer.
            action_id: a repeated id is carried out once, and returns what became of it: the snapshot as it is now.
            here: go on with the session in this process.
            on_progress: ``here``: called with each :data:`~kandev_routing_sdk.results.Progress`.

        Raises:
            StaleGeneration, StaleRevision: it has moved on; nothing was changed. :meth:`snapshot` is what it is now.
            TurnInProgress: its turn is not settled.
            IllegalTransition: nothing like that can be done where the session is.
            NotAdmitted: somebody else is finding out whether the resource is back.
        """
        self._gate(Operation.SESSION_ACT, session_id)
        asked = asked_for(
            session_id,
            action,
            expected_generation=expected_generation,
            expected_revision=expected_revision,
            action_id=action_id,
        )
        drive = await act(self._engine, asked, on_progress or silent)
        if drive is not None:
            await (keep_going(drive) if here else drive.hand_on())
        return await in_thread(self.snapshot, session_id)

    async def stop(self, session_id: str) -> Snapshot:
        """Stop a session from any state: cancels its turn, ends its agent, charges nothing. Idempotent (R-ENG-7)."""
        self._gate(Operation.SESSION_STOP, session_id)
        await stop_session(self._engine, session_id, silent)
        return await in_thread(self.snapshot, session_id)


def _states(given: Sequence[State | str]) -> Sequence[State]:
    known = {state.value: state for state in State}
    unknown = [state for state in given if state not in known]
    if unknown:
        raise UsageError(f"there is no state {unknown[0]!r}; states are {', '.join(known)}")
    return [known[state] for state in given]

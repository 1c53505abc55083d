"""What the upper floors need from the outside: the store and the host's own pieces, as small protocols.

The values that a store keeps are in ``records``, and can be had from here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.circuits import Circuit, ResourceKey
from kandev_routing_sdk.events import EventDraft, EventKind, EventRecord
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.profiles import Dependent, Profile
from kandev_routing_sdk.records import (
    ActionRecord,
    Admit,
    AttemptQuery,
    AttemptRecord,
    CallRecord,
    CircuitChange,
    CircuitFailed,
    CircuitHandedBack,
    CircuitSucceeded,
    CircuitTransition,
    Claim,
    Commit,
    Committed,
    DecisionRecord,
    DecisionSort,
    Interrupted,
    PastAttempt,
    ProfileChange,
    ProfilePlan,
    PromptRecord,
    SelectionRecord,
    StoredProfile,
    Wait,
)
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.route.parts import ContinuationPart

__all__ = [
    "ActionRecord",
    "Admit",
    "AttemptQuery",
    "AttemptRecord",
    "Authorise",
    "CallRecord",
    "CircuitChange",
    "CircuitFailed",
    "CircuitHandedBack",
    "CircuitSucceeded",
    "CircuitTransition",
    "Claim",
    "Commit",
    "Committed",
    "ContinuationPart",
    "ContinuationRequest",
    "ContinuationSource",
    "DecisionRecord",
    "DecisionSort",
    "Downstream",
    "EventListener",
    "Interrupted",
    "Operation",
    "PastAttempt",
    "ProfileChange",
    "ProfilePlan",
    "ProfileReferences",
    "ProfileSource",
    "PromptRecord",
    "Ready",
    "SecretResolver",
    "SelectionRecord",
    "Store",
    "StoredProfile",
    "Wait",
    "allow",
]


class Store(Protocol):
    """Durable state. Synchronous; every method is one transaction. Errors: :class:`~kandev_routing_sdk.errors.StoreError`
    and its children; nothing is half written.
    """

    def commit(self, commit: Commit) -> Committed:
        """Make one transition durable.

        Raises :class:`~kandev_routing_sdk.errors.StaleRevision` when somebody else was first and
        :class:`~kandev_routing_sdk.errors.NotAdmitted` when a key refuses; both change nothing.
        """
        ...

    def load(self, session_id: str) -> Route | None:
        """Return the route, or None."""
        ...

    def sessions(
        self, *, states: Sequence[State] | None = None, before: Route | None = None, limit: int = 100
    ) -> list[Route]:
        """Return routes, newest first, from behind ``before`` on."""
        ...

    def mark_attempt(self, attempt: AttemptRecord) -> None:
        """Durably move an attempt's dispatch mark (and process group) forward, outside a transition.

        Raises :class:`~kandev_routing_sdk.errors.StaleRevision` when the attempt is already settled or the mark would go back.
        """
        ...

    def renew(self, session_id: str, *, owner_id: str, until: datetime, lease_token: str | None, now: datetime) -> bool:
        """Renew the owner lease, and the probe leases held under ``lease_token`` (as far as R-CIR-8 allows), without touching the
        revision. Return False when the owner lease is no longer ours: the caller must end its agents at once (R-ENG-8).
        """
        ...

    def claim(  # whose, what and how much
        self, why: Claim, *, now: datetime, owner_id: str, until: datetime, limit: int, only: str | None = None
    ) -> list[Route]:
        """Take up to ``limit`` sessions that are free and for which ``why`` holds, the longest waiting first, and return them as
        theirs is now: each with a new revision, so that whoever had it before can commit nothing. No two callers get the same one,
        and none waits for another. What it costs does not depend on how many sessions wait (R-DUR-4, R-PRF-5). ``only``: this
        session, and no other.
        """
        ...

    def release(self, session_id: str, *, owner_id: str, at: datetime | None = None) -> bool:
        """Give up an owner lease that is still ours; return whether it was. ``at``: the lease ends then instead (now: at once), and
        the session counts as lost.
        """
        ...

    def decisions(self, session_id: str) -> list[DecisionRecord]:
        """Return all decisions of a session in order."""
        ...

    def action(self, session_id: str, action_id: str) -> ActionRecord | None:
        """Return the action that was carried out under this id."""
        ...

    def attempts(self, session_id: str, *, newest: int | None = None) -> list[AttemptRecord]:
        """Return all attempts of a session in order, or only so many of the newest."""
        ...

    def prompts(self, session_id: str) -> list[PromptRecord]:
        """Return the exact prompts of a session's attempts, in their order; none of an attempt that was never given one."""
        ...

    def past_attempts(
        self, query: AttemptQuery, *, after: PastAttempt | None = None, limit: int = 200
    ) -> list[PastAttempt]:
        """Return a page of attempts of all sessions, newest first, from behind ``after`` on. A row that cannot be read is one of
        them and says so.
        """
        ...

    def selections(self, session_id: str) -> list[SelectionRecord]:
        """Return all selections of a session in order."""
        ...

    def events(self, *, session_id: str | None = None, after: int = 0, limit: int = 500) -> list[EventRecord]:
        """Return events with ``sequence`` greater than ``after``, in order."""
        ...

    def newest_events(self, session_id: str, kinds: Sequence[EventKind], limit: int) -> list[EventRecord]:
        """Return so many of a session's newest events of these kinds, in order."""
        ...

    def append_events(
        self, route: Route, *, owner_id: str, events: Sequence[EventDraft], now: datetime
    ) -> tuple[EventRecord, ...] | None:
        """Append events of no transition, at least one; None, and nothing written: owner or generation are others (R-ENG-8)."""
        ...

    def last_sequence(self) -> int:
        """Return the ``sequence`` of the newest event of all; 0 without any."""
        ...

    def listener(self) -> EventListener | None:
        """Return what tells of events that other processes write; None: nothing does, and they are found by looking."""
        ...

    def circuit_view(self, keys: Sequence[ResourceKey]) -> Mapping[str, Circuit]:
        """Return the stored circuits among ``keys`` by key string; a missing one is closed."""
        ...

    def circuits(self) -> list[Circuit]:
        """Return every stored circuit."""
        ...

    def change_circuits(self, changes: Sequence[CircuitChange], *, now: datetime) -> list[CircuitTransition]:
        """Apply changes outside a route transition (concrete calls, probes)."""
        ...

    def admit(self, admit: Admit, *, now: datetime) -> tuple[ResourceKey, ...]:
        """Take the probe leases that ``admit`` needs outside a route transition, and return their keys.

        Raises :class:`~kandev_routing_sdk.errors.NotAdmitted` when a key refuses; nothing changes then.
        """
        ...

    def put_circuit(self, before: Circuit, after: Circuit) -> bool:
        """Replace a circuit if it still is ``before`` (manual reset and retry). Return whether it was."""
        ...

    def save_call(self, call: CallRecord) -> None:
        """Insert or update a call's record; an ended one never changes again."""
        ...

    def calls(self, *, limit: int = 50) -> list[CallRecord]:
        """Return calls, newest first."""
        ...

    def call(self, call_id: str) -> CallRecord | None:
        """Return one call."""
        ...

    def interrupt_calls(self, *, now: datetime) -> Interrupted:
        """Mark calls whose owner lease ran out as ``interrupted`` and stop their routes (R-UTL-4)."""
        ...

    def profile(self, profile_id: str) -> StoredProfile | None:
        """Return one stored profile, or None."""
        ...

    def profiles(self) -> list[StoredProfile]:
        """Return every stored profile, in the order of their ids."""
        ...

    def change_profiles(self, plan: ProfilePlan, *, now: datetime) -> list[StoredProfile | None]:
        """Ask ``plan`` what is to be written, and write it, all in one transaction; whoever changes profiles meanwhile waits.

        Returns what each change left, in order. A version goes up with every write, and is never used twice for one id (R-PRO-6).
        Raises :class:`~kandev_routing_sdk.errors.ProfileConflict` when a version is not the expected one, and what ``plan`` raises;
        nothing changes then.
        """
        ...

    def profile_users(self, profile_id: str, *, limit: int = 20) -> list[Route]:
        """Return routes that are not stopped and were asked for this profile, or run it; newest first (R-PRO-8)."""
        ...

    def installation_key(self, candidate: InstallationKey) -> InstallationKey:
        """Return the stored newest key; store ``candidate`` atomically if there is none yet (R-CIR-3)."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


class EventListener(Protocol):
    """Hears of new events from other processes."""

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call ``heard`` once it listens, and for what may be a new event, until cancelled. Raises StoreError when it cannot."""
        ...


class ProfileSource(Protocol):
    """Where profiles come from (R-PRO-1). Whatever changes of a profile changes its ``version``: by that an edit is noticed."""

    def get(self, profile_id: str) -> Profile | None:
        """Return a profile as it is now, or None."""
        ...

    def all(self) -> Mapping[str, Profile]:
        """Return every profile by id."""
        ...


class ProfileReferences(Protocol):
    """A host's own references to profiles: its tasks, agents, defaults (R-PRO-8)."""

    def __call__(self, profile_id: str) -> Sequence[Dependent]:
        """Return who refers to the profile. Whatever it raises blocks the change that it was asked for."""
        ...


class SecretResolver(Protocol):
    """Turns a secret reference into its value at launch time. Values are never stored."""

    def resolve(self, reference: str) -> str:
        """Return the value; raises :class:`~kandev_routing_sdk.errors.SecretUnavailable`, naming the reference only."""
        ...


class Operation(StrEnum):
    """What a host's :class:`Authorise` is asked about; the list is closed.

    The subject: a logical profile's id for ``session.start`` and ``call.run``, a session's id for what is done to one, a
    profile's id for ``profile.write``, a circuit's key for ``circuit.*``, ids with spaces between (``*``: all) for
    ``credentials.changed``.
    """

    SESSION_START = "session.start"
    SESSION_PROMPT = "session.prompt"
    SESSION_ACT = "session.act"
    SESSION_STOP = "session.stop"
    CALL = "call.run"
    PROFILE_WRITE = "profile.write"
    CIRCUIT_RESET = "circuit.reset"
    CIRCUIT_RETRY = "circuit.retry"
    CREDENTIALS_CHANGED = "credentials.changed"


class Authorise(Protocol):
    """Lets what somebody asked for happen, or raises to refuse it, best a :class:`~kandev_routing_sdk.errors.NotPermitted`.

    Asked before anything is written or started for it, on the calling task or thread: a host's context variables say who asks. It
    must not block. What it raises reaches the caller as it is; any answer but None, a coroutine too, is refused as a mistake.
    """

    def __call__(self, action: str, subject: str, /) -> None:
        """Return, or raise. ``action`` is an :class:`Operation`."""
        ...


def allow(_action: str, _subject: str, /) -> None:
    """Let everything happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuationRequest:
    """What a source of the continuation is asked about: a session whose next agent knows nothing of what was done in it."""

    session_id: str
    cwd: Path
    """Where the session's agents work."""
    generation: int
    """That of the agent that stopped."""
    profile_id: str | None
    """Whose it was."""
    prompt_number: int
    """Of the request that the next agent gets; earlier ones have lower numbers."""
    request: str = field(repr=False)
    """The request itself. It is put before the note, and need not be given again."""
    since: datetime
    """When the session began."""
    clean: Callable[[str], str] = field(repr=False)
    """Takes secrets out of a text. What a source gives is cleaned anyway; one that cuts texts cleans them first."""
    newest_events: Callable[[Sequence[EventKind], int], Sequence[EventRecord]] = field(repr=False)
    """Return so many of the session's newest events of these kinds, in order. Reads the store, and raises as it does."""


class ContinuationSource(Protocol):
    """Knows something of the work that an agent's successor continues (R-CON-3). A host's own may have a ``name``, to be called by.

    Example::

        class TaskSource:
            name = "task board"

            def describe(self, request):
                task = board.task_of(request.session_id)
                return ContinuationPart(task_description=task.text, plan=task.plan)
    """

    def describe(self, request: ContinuationRequest) -> ContinuationPart | None:
        """Return what is known; None when that is nothing.

        Called in a thread of its own before a successor is chosen for good. It must not change anything: it may be asked more than
        once. What it raises, and an answer that takes longer than ten seconds, only mean that its part is missing, and the
        successor is told so.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """An agent that can take a prompt."""

    native_session_id: str | None = None
    fresh: bool = False
    """It was to go on with a native session, offers no way to do so, and made a new one (R-CON-2)."""
    capabilities: dict[str, JsonValue] = field(default_factory=dict)


class Downstream(Protocol):
    """One agent process (group) for one attempt. Everything it says goes through the adapter's extractor into the turn."""

    @property
    def reaped(self) -> bool:
        """Whether no process of this attempt can act any more."""
        ...

    @property
    def stale_frames(self) -> int:
        """How many messages were dropped that were not of this attempt (R-EVI-4)."""
        ...

    async def start(self, turn: TurnRecord) -> Ready | None:
        """Get ready for a prompt: over ACP spawn, initialise and make a session; headless, nothing.

        None: it failed, and ``turn`` holds the evidence (``turn.ended``). Never raises for what an agent does.
        """
        ...

    async def prompt(self, text: str, turn: TurnRecord) -> None:
        """Send the prompt and return when the agent is quiet: headless after EOF and reap, ACP after the response and a short
        bounded quiet period. ``turn`` then holds everything. Never raises for what an agent does.
        """
        ...

    async def cancel(self) -> None:
        """Ask the agent to end the running turn (ACP ``session/cancel``, headless a signal); :meth:`prompt` returns soon after."""
        ...

    async def stop(self) -> None:
        """End and reap the whole process group: EOF, TERM, KILL, each bounded. Idempotent, and shielded from cancellation."""
        ...

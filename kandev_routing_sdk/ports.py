"""What the upper floors need from the outside: the store and the host's own pieces, as small protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import Circuit, FailureFact, ResourceKey
from kandev_routing_sdk.events import EventDraft, EventRecord
from kandev_routing_sdk.evidence.model import Effects, Evidence
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.policy import Decision
from kandev_routing_sdk.profiles import Profile
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark

__all__ = [
    "Admit",
    "AttemptRecord",
    "CallRecord",
    "CircuitChange",
    "CircuitFailed",
    "CircuitHandedBack",
    "CircuitSucceeded",
    "CircuitTransition",
    "Commit",
    "Committed",
    "Downstream",
    "Interrupted",
    "ProfileSource",
    "Ready",
    "SecretResolver",
    "SelectionRecord",
    "Store",
]


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One dispatch of a prompt to one candidate under one generation. The row is inserted with its decision and then updated up to
    ``settled``; after that it never changes (R-ENG-11).
    """

    attempt_id: str
    session_id: str
    generation: int
    ordinal: int
    """1 for the first attempt of the session, then 2, 3, …"""
    prompt_number: int
    execution_profile_id: str
    profile_version: int
    family: str
    mark: DispatchMark
    resource_keys: tuple[ResourceKey, ...]
    """The keys it was launched with: health is booked to these, never to "current" ones (R-CIR-5)."""
    provider_id: str | None
    model_id: str | None
    catalogue_version: str
    created_at: datetime
    lease_token: str | None = None
    """The probe lease this attempt holds, if it is one."""
    process_group: int | None = None
    process_started_at: datetime | None = None
    outcome: AttemptOutcome | None = None
    stop_reason: str | None = None
    served_model: str | None = None
    effects: Effects | None = None
    evidence: Evidence | None = None
    classification: Classification | None = None
    decision: Decision | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    inner_retries: int = 0
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AttemptQuery:
    """Which past attempts are wanted; None narrows nothing."""

    session_id: str | None = None
    attempt_id: str | None = None
    family: str | None = None
    since: datetime | None = None
    """Made then or later."""


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """What was seen and said of an attempt, as far as this version can read its row (R-CLS-6)."""

    attempt_id: str
    session_id: str
    ordinal: int
    execution_profile_id: str
    family: str
    catalogue_version: str
    created_at: datetime | None
    outcome: AttemptOutcome | None
    effects: Effects | None
    evidence: Evidence | None
    classification: Classification | None
    unreadable: tuple[str, ...] = ()
    """The fields that hold something which is not what it must be; they are None here."""
    position: tuple[int, str] = (0, "")
    """Where it stands among all, for the next page."""


@dataclass(frozen=True, slots=True)
class SelectionRecord:
    """One walk over the candidates. A generation has exactly one (design §6, 3)."""

    generation: int
    chosen_profile_id: str | None
    walk: tuple[dict[str, JsonValue], ...]
    """Each candidate in order, with its verdict and reason."""


@dataclass(frozen=True, slots=True)
class CircuitFailed:
    """A qualifying failure of the resource ``key``."""

    key: ResourceKey
    fact: FailureFact
    uniform: float
    """Jitter, in [0, 1)."""


@dataclass(frozen=True, slots=True)
class CircuitSucceeded:
    """The provider answered; closes the circuit only for the holder of its lease."""

    key: ResourceKey
    token: str


@dataclass(frozen=True, slots=True)
class CircuitHandedBack:
    """A neutral end: the lease goes back, everything else unchanged."""

    key: ResourceKey
    token: str


CircuitChange = CircuitFailed | CircuitSucceeded | CircuitHandedBack


@dataclass(frozen=True, slots=True)
class Admit:
    """Commit only if every key is closed or its probe lease can be taken; all or none, in key order (R-CIR-8)."""

    keys: tuple[ResourceKey, ...]
    token: str
    owner: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class CircuitTransition:
    """A circuit that changed its state in a commit; for telemetry and for the caller's progress."""

    before: Circuit | None
    after: Circuit


@dataclass(frozen=True, slots=True)
class Commit:
    """One transition of one session, all in one transaction or not at all."""

    before: Route | None
    """None creates the session; otherwise the compare-and-swap is on its ``session_id`` and ``revision``."""
    after: Route
    """``revision`` is set by the store."""
    now: datetime
    selection: SelectionRecord | None = None
    new_attempt: AttemptRecord | None = None
    update_attempt: AttemptRecord | None = None
    events: tuple[EventDraft, ...] = ()
    circuits: tuple[CircuitChange, ...] = ()
    admit: Admit | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit made true."""

    route: Route
    transitions: tuple[CircuitTransition, ...] = ()
    leased: tuple[ResourceKey, ...] = ()
    """Keys whose probe lease was taken for ``Admit.token``."""
    events: tuple[EventRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One utility call (R-UTL-4). Holds no prompt and no answer."""

    call_id: str
    session_id: str
    logical_profile_id: str
    started_at: datetime
    execution_profile_id: str | None = None
    family: str | None = None
    provider_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    outcome: str | None = None
    """None while it runs; ``interrupted`` after a crash."""
    exit_code: int | None = None
    code: str | None = None
    attempts: int = 0
    deadline: datetime | None = None
    ended_at: datetime | None = None
    summary: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Calls whose process died."""

    calls: int
    attempts: tuple[AttemptRecord, ...]
    """Their attempts that never settled: whose agents may still run."""


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

    def sessions(self, *, states: Sequence[State] | None = None, limit: int = 100) -> list[Route]:
        """Return routes, newest first."""
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

    def attempts(self, session_id: str) -> list[AttemptRecord]:
        """Return all attempts of a session in order."""
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

    def circuit_view(self, keys: Sequence[ResourceKey]) -> Mapping[str, Circuit]:
        """Return the stored circuits among ``keys`` by key string; a missing one is closed."""
        ...

    def circuits(self) -> list[Circuit]:
        """Return every stored circuit."""
        ...

    def change_circuits(self, changes: Sequence[CircuitChange], *, now: datetime) -> list[CircuitTransition]:
        """Apply changes outside a route transition (concrete calls, probes)."""
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

    def installation_key(self, candidate: InstallationKey) -> InstallationKey:
        """Return the stored newest key; store ``candidate`` atomically if there is none yet (R-CIR-3)."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


class ProfileSource(Protocol):
    """Where profiles come from (R-PRO-1)."""

    def get(self, profile_id: str) -> Profile | None:
        """Return a profile as it is now, or None."""
        ...

    def all(self) -> Mapping[str, Profile]:
        """Return every profile by id."""
        ...


class SecretResolver(Protocol):
    """Turns a secret reference into its value at launch time. Values are never stored."""

    def resolve(self, reference: str) -> str:
        """Return the value; raises :class:`~kandev_routing_sdk.errors.SecretUnavailable`, naming the reference only."""
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """An agent that can take a prompt."""

    native_session_id: str | None = None
    capabilities: dict[str, JsonValue] = field(default_factory=dict)


class Downstream(Protocol):
    """One agent process (group) for one attempt. Everything it says goes through the adapter's extractor into the turn."""

    @property
    def reaped(self) -> bool:
        """Whether no process of this attempt can act any more."""
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

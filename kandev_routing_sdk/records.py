"""What is written down of routes, calls and health: the values that go into the store and come out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import Circuit, FailureFact, ResourceKey
from kandev_routing_sdk.events import EventDraft, EventRecord
from kandev_routing_sdk.evidence.model import Effects, Evidence
from kandev_routing_sdk.policy import Decision
from kandev_routing_sdk.profiles import Profile
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark, ProfileKind


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
    owner_id: str | None = None
    """Who launched it; begins with the executor namespace in which its processes can be seen."""
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


class DecisionSort(StrEnum):
    """What was decided."""

    SELECTION = "selection"
    """Who is next: a walk over the candidates."""
    POLICY = "policy"
    """What follows a failure."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision with everything it was made from, as JSON: making it again gives the same answer (R-ENG-11).

    What is in ``inputs`` is :mod:`kandev_routing_sdk.route.past`'s to say.
    """

    sort: DecisionSort
    inputs: dict[str, JsonValue]
    answer: dict[str, JsonValue]
    attempt_id: str | None = None
    """The failed attempt, whose evidence and classification are the rest of a policy's inputs."""
    revision: int = 0
    """Of the transition that it led to. Set by the store."""
    at: datetime | None = None
    """When it was written. Set by the store."""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """A person's action that was carried out; a repeated id gets this again (R-ENG-7)."""

    action_id: str
    action: str
    expected_generation: int
    revision: int = 0
    """Of the transition it made. Set by the store."""


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """The exact text that an attempt's agent was given: the user's request and the note behind it (R-CON-3).

    Of sessions only: a call's prompt is never stored (R-UTL-4).
    """

    attempt_id: str
    session_id: str
    text: str = field(repr=False)
    at: datetime | None = None
    """When it was about to leave. Set by the store."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A circuit that keeps a session where it is."""

    key: str
    until_closed: bool = False
    """Only its closing counts, not that it may be probed."""


class Claim(StrEnum):
    """Why a session may be taken by whoever comes first."""

    DUE = "due"
    """Its deadline passed."""
    LOST = "lost"
    """Its owner's lease ran out."""
    RECOVERED = "recovered"
    """Something it waits for closed, or may be probed now."""


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
    early: bool = False
    """A person asked: deadlines do not refuse, a live lease of somebody else does (R-ENG-6)."""


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
    decision: DecisionRecord | None = None
    action: ActionRecord | None = None
    waits_for: tuple[Wait, ...] | None = ()
    """The circuits that keep the session where ``after`` is. They replace what it waited for before; None leaves that as it is."""
    prompt: PromptRecord | None = None
    """What the agent of ``update_attempt`` is about to be given."""


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


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A profile as the store keeps it (R-PRO-1)."""

    profile_id: str
    kind: ProfileKind
    version: int
    profile: Profile | None
    """None: this version cannot read what was written."""
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """One write of one profile (R-PRO-6)."""

    profile_id: str
    expected: int | None
    """The version that is replaced; None: there is no such profile."""
    profile: Profile | None
    """As it will be; its version is the store's to say. None: it is deleted."""


ProfilePlan = Callable[[Mapping[str, StoredProfile]], Sequence[ProfileChange]]
"""Says what is to be written, from all the profiles that are stored. Does nothing else: it may be asked again."""

"""What a utility call returns, tells while it runs, and raises (R-UTL-2, R-UTL-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.errors import RoutingError
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.evidence.updates import AgentUpdate, Usage
from kandev_routing_sdk.policy import Decision, PolicyDocument
from kandev_routing_sdk.route.select import WalkEntry
from kandev_routing_sdk.types import AttemptOutcome, ProfileKind


class CallOutcome(StrEnum):
    """How a call ended; each has one exit code (R-CLI-3)."""

    SUCCESS = "success"
    FAILED = "failed"
    WAITING = "waiting"
    ACTION_REQUIRED = "action_required"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def exit_code(self) -> int:
        """The process exit code of ``kandev-routing run``; a cancel by SIGTERM is 143 there."""
        return _EXIT_CODES[self]


_EXIT_CODES: Final[Mapping[CallOutcome, int]] = {
    CallOutcome.SUCCESS: 0,
    CallOutcome.FAILED: 1,
    CallOutcome.WAITING: 75,
    CallOutcome.ACTION_REQUIRED: 79,
    CallOutcome.CANCELLED: 130,
    CallOutcome.TIMED_OUT: 124,
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that a selection passed over, and why (R-ENG-3)."""

    profile_id: str
    """Of the candidate."""
    reason: str
    """Stable word: ``disabled``, ``missing``, ``circuit_open``, ``excluded``, ``not_launchable``, …"""
    detail: str
    """One sentence for a person."""
    until: datetime | None = None
    """When it can be chosen again, if that is known."""


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """One attempt of a call."""

    ordinal: int
    """1 for the first attempt, then 2, 3, …"""
    generation: int
    """Of the route: each choice of a candidate takes the next one."""
    execution_profile_id: str
    """The concrete profile that ran."""
    family: str
    """Its agent family."""
    outcome: AttemptOutcome
    automatic: bool
    """Whether automatic recovery was allowed after it (R-SAFE-1)."""
    inner_retries: int
    """How often the agent tried again by itself."""
    effects: Effects
    """What is known to have been done: whether the prompt arrived, output, thinking, tools, and whether all of it was seen."""
    provider_id: str | None = None
    """The upstream service that was addressed."""
    model: str | None = None
    """The one that really answered, or the one that was asked for."""
    usage: Usage | None = None
    """Tokens, as the agent reports them."""
    classification: Classification | None = None
    """What a failure was."""
    decision: Decision | None = None
    """What the policy made of it."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The same shape for concrete and dynamic profiles."""

    call_id: str
    """``utility:…``, unique."""
    outcome: CallOutcome
    """How it ended."""
    exit_code: int
    """That of ``kandev-routing run``."""
    text: str
    """The answer; of a call that did not succeed, the sanitised partial output."""
    stop_reason: str | None
    """In the agent's words."""
    logical_profile_id: str
    """What was called."""
    execution_profile_id: str | None
    """The concrete profile that ran last."""
    family: str | None
    """Its agent family."""
    provider_id: str | None
    """The upstream service that it addressed."""
    model: str | None
    """The one that really answered."""
    usage: Usage | None
    """Tokens of the last attempt."""
    attempts: tuple[AttemptReport, ...]
    """All of them, in order."""
    deadline: datetime | None
    """When to try again, if that is known."""
    duration_s: float
    """Seconds, waits included."""
    rejected: tuple[Rejected, ...] = ()
    """The last selection's rejected candidates."""
    reason: str | None = None
    """Stable word for why it did not succeed."""


# Progress --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CandidateSkipped:
    """Selection passed over a candidate."""

    rejected: Rejected


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A candidate was chosen, committed, and is being launched."""

    ordinal: int
    generation: int
    profile_id: str
    label: str
    provider_id: str | None
    model: str | None
    is_probe: bool = False
    """It tests a circuit whose deadline passed."""


@dataclass(frozen=True, slots=True)
class AgentSaid:
    """An update of the agent itself."""

    ordinal: int
    update: AgentUpdate


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt ended; after a failure with its classification and the decision that follows."""

    report: AttemptReport


@dataclass(frozen=True, slots=True)
class Waiting:
    """The policy waits inside the call."""

    profile_id: str
    until: datetime
    reason: str
    ordinal: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """A shared circuit opened, closed or was extended."""

    scope: str
    label: str
    """Safe words for the resource: provider, model or profile id."""
    state: str
    code: str | None
    until: datetime | None
    action_required: bool = False


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call's result is known."""

    result: CallResult


Progress: TypeAlias = (
    CandidateSkipped | AttemptStarted | AgentSaid | AttemptEnded | Waiting | CircuitChanged | CallEnded
)


# Errors ----------------------------------------------------------------------------------------------------------------------


class CallFailed(RoutingError):
    """A utility call ended without success. ``result`` carries attempts, classification and partial output."""

    code = "call_failed"
    exit_code = 1
    message: str
    result: CallResult

    def __init__(self, message: str, result: CallResult) -> None:
        super().__init__(message, result)
        self.message, self.result = message, result

    def __str__(self) -> str:
        return self.message


class CallNoCandidate(CallFailed):
    """No candidate is enabled, compatible and launchable; nothing was started."""

    code = "call_no_candidate"
    exit_code = 69


class AnswerUnrecorded(CallFailed):
    """An agent answered, and that could not be written down. ``result.text`` is the whole answer; the work was done."""

    code = "answer_unrecorded"
    exit_code = 73


class CallWaiting(CallFailed):
    """Nobody can answer now, and somebody can at ``result.deadline``."""

    code = "call_waiting"
    exit_code = 75


class CallActionRequired(CallFailed):
    """A person has to act, or effects are possible; nothing was repeated."""

    code = "call_action_required"
    exit_code = 79


class CallTimedOut(CallFailed):
    """The caller's ``timeout`` passed."""

    code = "call_timed_out"
    exit_code = 124


class CallCancelled(CallFailed):
    """The caller cancelled; never a failure of an agent, charges no circuit."""

    code = "call_cancelled"
    exit_code = 130


# The walk --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explanation:
    """The selection walk without claiming anything (R-ENG-3)."""

    profile_id: str
    """What was asked about."""
    kind: ProfileKind
    """Whether it is dynamic."""
    enabled: bool
    """False: the feature flag is off, and a dynamic profile would be refused."""
    walk: tuple[WalkEntry, ...]
    """Each candidate in order, with its one reason."""
    chosen_profile_id: str | None
    """Who would be taken now; None: nobody."""
    earliest: datetime | None
    """When some candidate recovers by itself, if nobody is free now."""
    policies: Mapping[str, PolicyDocument] = field(default_factory=dict)
    """Each candidate's policy, by profile id."""
    argv: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each launchable candidate would be started with, secrets masked."""

"""A route as a value: what the state machine reads and writes, and what the store keeps of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.evidence.model import UtcDatetime
from kandev_routing_sdk.policy import Context, Decision
from kandev_routing_sdk.types import ErrorClass


class State(StrEnum):
    """Where a route stands (R-ENG-1)."""

    SELECTING = "selecting"
    STARTING = "starting"
    ACTIVE = "active"
    REROUTE_PENDING = "reroute_pending"
    SWITCHING = "switching"
    RETRY_WAIT = "retry_wait"
    WAITING_FOR_RESET = "waiting_for_reset"
    RETRYING = "retrying"
    WAITING = "waiting"
    ACTION_REQUIRED = "action_required"
    STOPPED = "stopped"


class Trigger(StrEnum):
    """What may happen to a route. *evaluate*'s four answers are four triggers, so that the table stays a table."""

    CANDIDATE_COMMITTED = "candidate_committed"
    NOBODY_RECOVERY_KNOWN = "nobody_recovery_known"
    NOBODY_PERSON_NEEDED = "nobody_person_needed"
    OWNER_LOST_UNDISPATCHED = "owner_lost_undispatched"
    """The owner died; the attempt's mark proves that nothing left, or there is no attempt."""
    OWNER_LOST_AMBIGUOUS = "owner_lost_ambiguous"
    READY = "ready"
    FAILED_WAIT = "failed_wait"
    FAILED_RETRY = "failed_retry"
    FAILED_SKIP = "failed_skip"
    FAILED_STOP = "failed_stop"
    """Policy says stop, or the failure is unsafe, unclassified, empty, or of capability discovery."""
    ADAPTER_EXCEPTION = "adapter_exception"
    RESUME_FAILED = "resume_failed"
    """The agent could not go on with its native session, and nothing was sent: a fresh one takes its place (R-CON-2)."""
    CANDIDATE_REMOVED = "candidate_removed"
    CANDIDATE_RESTORED = "candidate_restored"
    PROMPT = "prompt"
    PROCESS_GONE = "process_gone"
    TURN_SUCCEEDED = "turn_succeeded"
    TURN_CANCELLED = "turn_cancelled"
    SETTLED = "settled"
    """No turn runs: a pending reroute is enforced now."""
    LATE_EFFECT = "late_effect"
    """An effect mark of the settled attempt arrived before the next dispatch: retry and switch are revoked."""
    HANDOVER_FAILED = "handover_failed"
    """The continuation could not be built or kept, or the predecessor could not be fenced."""
    DUE = "due"
    """The deadline passed and the candidate's keys admit it (R-CIR-8)."""
    DUE_NOT_ADMITTED = "due_not_admitted"
    RECOVERED_EARLY = "recovered_early"
    """A circuit this route waits for closed before its deadline."""
    NO_RECOVERY_LEFT = "no_recovery_left"
    SETTINGS_CHANGED = "settings_changed"
    """Settings, credentials or a circuit changed."""
    RETRY_NOW = "retry_now"
    RESUME = "resume"
    """A person lets a concrete profile go on in its own native session (R-POL-7)."""
    START_FRESH = "start_fresh"
    """The same in a new native session, which is told what is known."""
    SKIP_NOW = "skip_now"
    CANCEL_WAIT = "cancel_wait"
    STOP = "stop"
    STOP_SESSION = "stop_session"
    FLAG_OFF = "flag_off"
    FLAG_ON = "flag_on"


class Effect(StrEnum):
    """What the conductor does after a step was committed, in this order. The table lists them; it runs none."""

    SELECT = "select"
    BUILD_CONTINUATION = "build_continuation"
    """Build the package, if an earlier attempt of the session is to be continued; it is committed with the candidate."""
    STOP_DOWNSTREAM = "stop_downstream"
    """Stop and reap the agent, if one lives; nothing that follows starts before (R-CON-8)."""
    LAUNCH = "launch"
    SEND_PROMPT = "send_prompt"
    ARM_DEADLINE = "arm_deadline"
    """Arm ``route.deadline``, if there is one."""
    DISARM_DEADLINE = "disarm_deadline"
    SETTLE = "settle"
    """No turn is running: step ``settled`` at once."""


class _Open(StrEnum):
    """Words of which a newer version may have written more: such a one stays as it is, and is no member."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        word = str.__new__(cls, value)
        word._name_ = word._value_ = value
        return word


class Reason(_Open):
    """Why a route is where it is. An enum, never a sentence (R-CON-6). One that this version does not know is no member."""

    STARTED = "started"
    PROVIDER_FAILURE = "provider_failure"
    RESET_WAIT = "reset_wait"
    RETRY_SCHEDULED = "retry_scheduled"
    RECOVERY_EXHAUSTED = "recovery_exhausted"
    UNSAFE_EFFECTS = "unsafe_effects"
    UNCLASSIFIED = "unclassified"
    EMPTY_ANSWER = "empty_answer"
    CAPABILITY_FAILURE = "capability_failure"
    ADAPTER_FAILURE = "adapter_failure"
    CANDIDATE_REMOVED = "candidate_removed"
    NO_ELIGIBLE_CANDIDATE = "no_eligible_candidate"
    AMBIGUOUS_DISPATCH = "ambiguous_dispatch"
    ATTEMPT_CAP = "attempt_cap"
    HANDOVER_FAILED = "handover_failed"
    DYNAMIC_ROUTING_DISABLED = "dynamic_routing_disabled"
    USER_ACTION = "user_action"
    DEADLINE_DUE = "deadline_due"
    RECOVERED = "recovered"
    SETTINGS_CHANGED = "settings_changed"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    CALL_ENDED = "call_ended"


class EventKind(_Open):
    """What happened to a session (R-CON-6). A kind that this version does not know is no member: pass it over."""

    ROUTE_CHANGING = "session.route_changing"
    ROUTE_CHANGED = "session.route_changed"
    CAPABILITIES_REPLACED = "session.capabilities_replaced"
    ROUTE_WAITING = "session.route_waiting"
    ROUTE_PENDING = "session.route_pending"
    TURN_STARTED = "session.turn_started"
    TURN_ENDED = "session.turn_ended"
    TURN_FAILED = "session.turn_failed"
    ROUTE_STOPPED = "session.route_stopped"
    USER_MESSAGE = "session.user_message"
    """A message of the user's is kept: in the transaction that parks it (R-CON-10)."""
    TURN_OUTPUT = "session.turn_output"
    """What the agent said in a turn. Of no transition: written while the turn runs."""


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event about to be written in the transaction that causes it."""

    kind: EventKind
    reason: Reason
    params: dict[str, JsonValue] = field(default_factory=dict)


class _Frozen(BaseModel):
    """Never changes, and holds nothing that has no name here."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Visit(_Frozen):
    """Budgets of one candidate inside a round, per class (R-ENG-5)."""

    profile_id: str
    retries_used: dict[ErrorClass, int] = Field(default_factory=dict)
    reset_waits_used: tuple[ErrorClass, ...] = ()


class Round(_Frozen):
    """One pass over the candidates inside a cycle."""

    excluded: tuple[str, ...] = ()
    """Candidates that had their visit in this round; none is visited twice."""
    visits: tuple[Visit, ...] = ()
    skip_once: tuple[str, ...] = ()
    """Left out of the next selection only (``skip_now``, R-ENG-7)."""

    def visit(self, profile_id: str) -> Visit:
        """Return what was used of this candidate's budgets."""
        return next((v for v in self.visits if v.profile_id == profile_id), Visit(profile_id=profile_id))


class Route(_Frozen):
    """The durable state of one logical session's route.

    ``generation`` goes up with each committed choice; ``revision`` with each committed transition (the store's compare-and-swap).
    """

    session_id: str
    kind: Literal["session", "utility"] = "session"
    logical_profile_id: str
    context: Context = Context.DYNAMIC
    """Who decides after a failure: ``interactive`` for a session of a concrete profile, and for nothing else (R-POL-7)."""
    cwd: str | None = None
    """Absolute folder in which the session's agents work, for whichever process goes on with it."""
    profile_version: int = 1
    state: State = State.SELECTING
    generation: int = 0
    revision: int = 0
    execution_profile_id: str | None = None
    """The current candidate; kept through waits and stops for attribution."""
    attempt_id: str | None = None
    """The current attempt (the last one while none runs)."""
    turn_running: bool = False
    prompt_number: int = 0
    attempts_in_turn: int = 0
    """Counts towards the cap (R-ENG-5); a person's action renews it."""
    round: Round = Round()
    prior_state: State | None = None
    """Where ``dynamic_routing_disabled`` came from; set means that the feature flag is off."""
    prior_reason: Reason | None = None
    """The reason that belongs to ``prior_state``."""
    removal_pending: bool = False
    """The candidate was removed while starting; enforced on ready."""
    pinned_profile_id: str | None = None
    """The next selection may take only this candidate (``retry_now`` from ``action_required``)."""
    probe_early: bool = False
    """A person asked for the next try: whoever makes it may ask a resource before it is due (R-ENG-6)."""
    deadline: UtcDatetime | None = None
    may_be_back: bool = False
    """``interactive``, ``action_required``: what failed may work again, which is said and not tried (R-POL-7)."""
    decision: Decision | None = None
    """The policy decision that led here, with its snapshot and pending outcome."""
    classification: Classification | None = None
    reason: Reason = Reason.STARTED
    parked_prompt: str | None = None
    """The user's message, until it was answered; never lost (R-CON-10)."""
    continuation: str | None = None
    """The rendered continuation package that rides on the next prompt to another candidate (R-SAFE-5)."""
    potentially_effectful: bool = False
    """Some attempt of this turn was not provably without effects (R-SAFE-4)."""
    native_session_id: str | None = None
    native_profile_id: str | None = None
    """The only profile that ``native_session_id`` may ever be given to (R-CON-2)."""
    owner_id: str | None = None
    owner_until: UtcDatetime | None = None
    created_at: UtcDatetime
    updated_at: UtcDatetime

"""The words of the table: what a row may ask, write and name as its next state. What they do is in ``guards`` and ``writes``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kandev_routing_sdk.route.model import Effect, EventKind, Reason, State


class Guard(StrEnum):
    """A condition on the route and the facts. All guards of a row must hold."""

    IDLE = "no turn running"
    TURN_RUNNING = "turn running"
    SETTLED = "turn settled"
    PROMPT_PARKED = "a prompt is parked"
    NO_PROMPT = "no prompt is parked"
    ATTEMPTS_LEFT = "attempts left"
    CAP_REACHED = "attempt cap reached"
    KEPT = "candidate still wanted"
    REMOVED = "candidate removed meanwhile"
    LISTED = "candidate is still one"
    UNLISTED = "candidate is none any more"
    EFFECTFUL = "the turn may have had effects"
    NOT_EFFECTFUL = "the turn had no effects"
    SAFE = "passes the effect gate"
    UNSAFE = "does not pass the effect gate"
    NEW_DEADLINE = "a new deadline within bounds"
    THEN_SKIP = "beyond the bound, exhausted: skip"
    THEN_STOP = "beyond the bound, exhausted: stop"
    LEAVES_BY_ITSELF = "cause and effects allow it (R-ENG-6)"
    DYNAMIC = "dynamic profile"
    CONCRETE = "concrete profile"
    UNTOLD = "not told yet"
    FLAG_WAS_ON = "flag was on"
    FLAG_WAS_OFF = "flag was off"


class Write(StrEnum):
    """What a row changes in the route, besides its state, reason and time. Applied in the order of the row."""

    NEW_GENERATION = "new_generation"
    """Generation + 1: candidate, attempt, profile version and continuation of the facts."""
    NEW_ATTEMPT = "new_attempt"
    """Same generation, next attempt."""
    REDO_ATTEMPT = "redo_attempt"
    """Same generation; the next attempt if the facts name one, else the same one, from which nothing left."""
    NEW_ROUND = "new_round"
    NEW_CYCLE = "new_cycle"
    """The next user turn: new round, attempts from zero."""
    CLOSE_CYCLE = "close_cycle"
    """The turn is over: rounds, counts, marks and the kept failure go."""
    PARK_PROMPT = "park_prompt"
    """Keep the new prompt, after one that is parked already."""
    DROP_PROMPT = "drop_prompt"
    DROP_CONTINUATION = "drop_continuation"
    """It was delivered with a prompt that was answered."""
    EXCLUDE_CURRENT = "exclude_current"
    SKIP_CURRENT_ONCE = "skip_current_once"
    PIN_CURRENT = "pin_current"
    CLEAR_PIN = "clear_pin"
    """What a person asked of the next try is over: whom, and how early."""
    PROBE_EARLY = "probe_early"
    """A person asked for the next try of this candidate; until it starts."""
    RECORD_FAILURE = "record_failure"
    USE_RETRY = "use_retry"
    USE_RESET_WAIT = "use_reset_wait"
    SET_DEADLINE = "set_deadline"
    CLEAR_DEADLINE = "clear_deadline"
    MARK_EFFECTFUL = "mark_effectful"
    MARK_UNLESS_CLEAN = "mark_unless_clean"
    RENEW_CAP = "renew_cap"
    START_TURN = "start_turn"
    END_TURN = "end_turn"
    BIND_SESSION = "bind_session"
    FORGET_SESSION = "forget_session"
    MAY_BE_BACK = "may_be_back"
    """What failed may work again; a person is told, until the route goes on."""
    REMEMBER_REMOVAL = "remember_removal"
    FORGET_REMOVAL = "forget_removal"
    KEEP_PRIOR = "keep_prior"
    RESTORE_PRIOR = "restore_prior"
    RELEASE_OWNER = "release_owner"


class Goes(StrEnum):
    """A next state that is not a fixed one."""

    NOWHERE = "same state"
    BACK = "the state before the flag went off"


@dataclass(frozen=True, slots=True)
class Row:
    """One transition."""

    to: State | Goes
    reason: Reason | None = None
    """Unless the facts give one; None keeps the route's."""
    when: tuple[Guard, ...] = ()
    writes: tuple[Write, ...] = ()
    effects: tuple[Effect, ...] = ()
    events: tuple[EventKind, ...] = ()

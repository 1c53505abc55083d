"""THE TABLE (R-ENG-1): every transition there is, as data. What is not listed refuses and changes nothing.

A row says where to go, under which guards, what is written, which effects follow the commit, and which events tell of it. Of the
rows of one pair at most one matches; when none does, the pair refuses. ``step`` reads the table, the documentation draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.route.model import Effect, EventKind, Reason, State, Trigger
from kandev_routing_sdk.route.rows import Goes, Guard, Row, Write

S, T, G, W, E, K, R = State, Trigger, Guard, Write, Effect, EventKind, Reason
_Rows = dict[Trigger, tuple[Row, ...]]

ATTEMPT_CAP: Final = 20
"""Attempts of one user turn, until a person renews them (R-ENG-5)."""

_FAIL: Final = (W.RECORD_FAILURE, W.MARK_UNLESS_CLEAN, W.END_TURN, W.BIND_SESSION)
_RESELECT: Final = (E.STOP_DOWNSTREAM, E.BUILD_CONTINUATION, E.SELECT)
_SAID: Final = (K.USER_MESSAGE,)
"""With every prompt that is parked."""
_RELAUNCH: Final = (E.DISARM_DEADLINE, E.STOP_DOWNSTREAM, E.LAUNCH)


def _person(
    reason: Reason, *, when: tuple[Guard, ...] = (), writes: tuple[Write, ...] = (), events: tuple[EventKind, ...] = ()
) -> Row:
    """A person is needed: nothing runs on, nothing is armed."""
    return Row(
        S.ACTION_REQUIRED,
        reason,
        when,
        (*writes, W.CLEAR_DEADLINE, W.CLEAR_PIN, W.FORGET_REMOVAL),
        (E.DISARM_DEADLINE, E.STOP_DOWNSTREAM),
        (*events, K.ROUTE_WAITING),
    )


def _switch(
    reason: Reason, *, when: tuple[Guard, ...] = (), writes: tuple[Write, ...] = (), events: tuple[EventKind, ...] = ()
) -> Row:
    """Another candidate is to be found, and told what went before."""
    return Row(
        S.SWITCHING,
        reason,
        when,
        (*writes, W.CLEAR_DEADLINE, W.FORGET_REMOVAL),
        (E.DISARM_DEADLINE, *_RESELECT),
        (*events, K.ROUTE_CHANGING),
    )


def _reselect(reason: Reason, *writes: Write, when: tuple[Guard, ...] = (), events: tuple[EventKind, ...] = ()) -> Row:
    """Leaving ``waiting`` or ``action_required`` starts a new round of the cycle."""
    away = (W.NEW_ROUND, *writes, W.CLEAR_DEADLINE)
    return Row(S.SELECTING, reason, when, away, (E.DISARM_DEADLINE, *_RESELECT), events)


def _fresh(*guards: Guard) -> _Rows:
    """The same profile in a new native session, which is told what is known: its person asked for that (R-POL-7)."""
    row = _reselect(R.USER_ACTION, W.RENEW_CAP, W.FORGET_SESSION, when=(*guards, G.CONCRETE))
    return {T.START_FRESH: (row,)}


def _prompt_to_another(*guards: Guard) -> Row:
    """The next turn begins without the candidate, which was removed or disabled while nothing ran (R-ENG-4)."""
    parked = (W.NEW_CYCLE, W.PARK_PROMPT)
    return _switch(R.CANDIDATE_REMOVED, when=(*guards, G.UNLISTED), writes=parked, events=_SAID)


def _late_effect() -> _Rows:
    return {T.LATE_EFFECT: (_person(R.UNSAFE_EFFECTS, writes=(W.MARK_EFFECTFUL,)),)}


def _selecting() -> _Rows:
    """The same in ``switching``."""
    wait = (W.SET_DEADLINE, W.CLEAR_PIN)
    return {
        T.CANDIDATE_COMMITTED: (
            Row(S.STARTING, None, (G.ATTEMPTS_LEFT,), (W.NEW_GENERATION,), (E.LAUNCH,)),
            _person(R.ATTEMPT_CAP, when=(G.CAP_REACHED,)),
        ),
        T.NOBODY_RECOVERY_KNOWN: (
            Row(S.WAITING, R.NO_ELIGIBLE_CANDIDATE, (G.NOT_EFFECTFUL,), wait, (E.ARM_DEADLINE,), (K.ROUTE_WAITING,)),
            # A person asked for this try, and not for one that comes by itself at some later time (R-ENG-6).
            _person(R.NO_ELIGIBLE_CANDIDATE, when=(G.EFFECTFUL,)),
        ),
        T.NOBODY_PERSON_NEEDED: (_person(R.NO_ELIGIBLE_CANDIDATE),),
        T.HANDOVER_FAILED: (_person(R.HANDOVER_FAILED, writes=(W.MARK_UNLESS_CLEAN,)),),
        T.OWNER_LOST_UNDISPATCHED: (Row(Goes.NOWHERE, effects=_RESELECT),),
        **_late_effect(),
    }


def _failures(*guards: Guard, events: tuple[EventKind, ...] = ()) -> _Rows:
    """*evaluate*: what the policy says of a failure, within the effect gate and the attempt cap."""
    left = (*guards, G.ATTEMPTS_LEFT)
    away = (*_FAIL, W.EXCLUDE_CURRENT)
    armed = (E.STOP_DOWNSTREAM, E.ARM_DEADLINE)
    capped = _person(R.ATTEMPT_CAP, when=(*guards, G.CAP_REACHED, G.SAFE), writes=_FAIL, events=events)
    unsafe = _person(R.UNSAFE_EFFECTS, when=(*guards, G.UNSAFE), writes=_FAIL, events=events)

    def wait(to: State, reason: Reason, use: Write) -> tuple[Row, ...]:
        told = (*events, K.ROUTE_WAITING)
        return (
            # Not guarded by SAFE: a resume guarantee may stand in for "no output", for the same candidate (R-SAFE-2).
            Row(to, reason, (*left, G.KEPT), (*_FAIL, use, W.SET_DEADLINE), armed, told),
            # As in reroute_pending: the prompt is carried on, and the policy of a candidate that is gone does not count.
            _switch(R.CANDIDATE_REMOVED, when=(*left, G.REMOVED, G.SAFE), writes=away, events=events),
            replace(unsafe, when=(*left, G.REMOVED, G.UNSAFE)),
            replace(capped, when=(*guards, G.CAP_REACHED)),
        )

    return {
        T.FAILED_WAIT: wait(S.WAITING_FOR_RESET, R.RESET_WAIT, W.USE_RESET_WAIT),
        T.FAILED_RETRY: wait(S.RETRY_WAIT, R.RETRY_SCHEDULED, W.USE_RETRY),
        T.FAILED_SKIP: (
            _switch(R.PROVIDER_FAILURE, when=(*left, G.SAFE), writes=away, events=events),
            capped,
            unsafe,
        ),
        T.FAILED_STOP: (
            _person(R.RECOVERY_EXHAUSTED, when=(*guards, G.SAFE), writes=_FAIL, events=events),
            unsafe,
        ),
    }


def _starting() -> _Rows:
    """The same in ``retrying``."""
    changed = (K.ROUTE_CHANGED, K.CAPABILITIES_REPLACED)
    prompt, bind = (G.KEPT, G.PROMPT_PARKED), W.BIND_SESSION
    return {
        T.READY: (
            Row(S.ACTIVE, None, prompt, (bind, W.START_TURN), (E.SEND_PROMPT,), (*changed, K.TURN_STARTED)),
            Row(S.ACTIVE, None, (G.KEPT, G.NO_PROMPT), (bind,), (), changed),
            Row(
                S.REROUTE_PENDING,
                R.CANDIDATE_REMOVED,
                (G.REMOVED,),
                (bind, W.FORGET_REMOVAL),
                (E.SETTLE,),
                (*changed, K.ROUTE_PENDING),
            ),
        ),
        **_failures(),
        T.ADAPTER_EXCEPTION: (_switch(R.ADAPTER_FAILURE, writes=(W.RECORD_FAILURE, W.EXCLUDE_CURRENT)),),
        T.RESUME_FAILED: (Row(Goes.NOWHERE, writes=(W.FORGET_SESSION,)),),
        T.CANDIDATE_REMOVED: (Row(Goes.NOWHERE, writes=(W.REMEMBER_REMOVAL,)),),
        T.OWNER_LOST_UNDISPATCHED: (
            Row(Goes.NOWHERE, None, (G.ATTEMPTS_LEFT,), (W.REDO_ATTEMPT,), (E.STOP_DOWNSTREAM, E.LAUNCH)),
            _person(R.ATTEMPT_CAP, when=(G.CAP_REACHED,)),
        ),
        T.OWNER_LOST_AMBIGUOUS: (_person(R.AMBIGUOUS_DISPATCH, writes=(W.MARK_EFFECTFUL,)),),
        **_late_effect(),
    }


def _active() -> _Rows:
    idle, running = (G.IDLE,), (G.TURN_RUNNING,)
    next_turn = (W.CLOSE_CYCLE, W.PARK_PROMPT, W.NEW_ATTEMPT, W.START_TURN, W.PROBE_EARLY)
    answered = (W.END_TURN, W.BIND_SESSION, W.CLOSE_CYCLE, W.DROP_PROMPT, W.DROP_CONTINUATION)
    cancelled = (W.END_TURN, W.DROP_PROMPT, W.RENEW_CAP, W.MARK_UNLESS_CLEAN)
    redo, relaunch = (W.END_TURN, W.REDO_ATTEMPT), (E.STOP_DOWNSTREAM, E.LAUNCH)
    return {
        T.PROMPT: (
            Row(S.ACTIVE, R.USER_ACTION, (*idle, G.LISTED), next_turn, (E.SEND_PROMPT,), _SAID),
            _prompt_to_another(*idle),
        ),
        T.PROCESS_GONE: (Row(S.STARTING, None, idle, (W.REDO_ATTEMPT,), relaunch),),
        T.CANDIDATE_REMOVED: (
            Row(S.REROUTE_PENDING, R.CANDIDATE_REMOVED, idle, (), (E.SETTLE,), (K.ROUTE_PENDING,)),
            Row(S.REROUTE_PENDING, R.CANDIDATE_REMOVED, running, (), (), (K.ROUTE_PENDING,)),
        ),
        T.TURN_SUCCEEDED: (Row(S.ACTIVE, R.SUCCEEDED, running, answered, (), (K.TURN_ENDED,)),),
        **_failures(*running, events=(K.TURN_FAILED,)),
        T.TURN_CANCELLED: (Row(S.ACTIVE, R.CANCELLED, running, cancelled, (), (K.TURN_ENDED,)),),
        T.OWNER_LOST_UNDISPATCHED: (
            Row(S.STARTING, None, (*running, G.ATTEMPTS_LEFT), redo, relaunch),
            _person(R.ATTEMPT_CAP, when=(*running, G.CAP_REACHED), writes=(W.END_TURN,)),
        ),
        T.OWNER_LOST_AMBIGUOUS: (_lost_turn(),),
    }


def _lost_turn() -> Row:
    return _person(
        R.AMBIGUOUS_DISPATCH,
        when=(G.TURN_RUNNING,),
        writes=(W.MARK_EFFECTFUL, W.END_TURN),
        events=(K.TURN_FAILED,),
    )


def _reroute_pending() -> _Rows:
    running, failed = (G.TURN_RUNNING,), (K.TURN_FAILED,)
    away = (*_FAIL, W.EXCLUDE_CURRENT)
    failure = (
        _switch(R.CANDIDATE_REMOVED, when=(*running, G.SAFE, G.ATTEMPTS_LEFT), writes=away, events=failed),
        _person(R.ATTEMPT_CAP, when=(*running, G.SAFE, G.CAP_REACHED), writes=_FAIL, events=failed),
        _person(R.UNSAFE_EFFECTS, when=(*running, G.UNSAFE), writes=_FAIL, events=failed),
    )
    answered = (W.END_TURN, W.BIND_SESSION, W.CLOSE_CYCLE, W.DROP_PROMPT, W.DROP_CONTINUATION)
    again = (K.ROUTE_PENDING,)
    return {
        T.TURN_SUCCEEDED: (_switch(R.CANDIDATE_REMOVED, when=running, writes=answered, events=(K.TURN_ENDED,)),),
        T.SETTLED: (_switch(R.CANDIDATE_REMOVED, when=(G.IDLE,), writes=(W.EXCLUDE_CURRENT,)),),
        T.FAILED_WAIT: failure,
        T.FAILED_RETRY: failure,
        T.FAILED_SKIP: failure,
        T.FAILED_STOP: failure,
        T.CANDIDATE_RESTORED: (
            Row(S.ACTIVE, R.SETTINGS_CHANGED, running, (), (), again),
            Row(S.ACTIVE, R.SETTINGS_CHANGED, (G.IDLE, G.NO_PROMPT), (), (), again),
            Row(
                S.ACTIVE,
                R.SETTINGS_CHANGED,
                (G.IDLE, G.PROMPT_PARKED),
                (W.START_TURN,),
                (E.SEND_PROMPT,),
                (*again, K.TURN_STARTED),
            ),
        ),
        T.OWNER_LOST_UNDISPATCHED: (
            _switch(R.CANDIDATE_REMOVED, when=running, writes=(W.END_TURN, W.EXCLUDE_CURRENT)),
        ),
        T.OWNER_LOST_AMBIGUOUS: (_lost_turn(),),
    }


def _timed() -> _Rows:
    """``retry_wait`` and ``waiting_for_reset``."""
    again = (W.CLEAR_DEADLINE, W.NEW_ATTEMPT)
    by_hand = (W.RENEW_CAP, W.USE_RETRY, W.PROBE_EARLY, *again)
    next_turn = (W.NEW_CYCLE, W.PARK_PROMPT, W.PROBE_EARLY, *again)
    return {
        T.DUE: (
            Row(S.RETRYING, R.DEADLINE_DUE, (G.ATTEMPTS_LEFT,), again, _RELAUNCH),
            _person(R.ATTEMPT_CAP, when=(G.CAP_REACHED,)),
        ),
        T.DUE_NOT_ADMITTED: (
            Row(
                Goes.NOWHERE,
                None,
                (G.NEW_DEADLINE,),
                (W.SET_DEADLINE,),
                (E.ARM_DEADLINE,),
                (K.ROUTE_WAITING,),
            ),
            _switch(R.RECOVERY_EXHAUSTED, when=(G.THEN_SKIP,), writes=(W.EXCLUDE_CURRENT,)),
            _person(R.RECOVERY_EXHAUSTED, when=(G.THEN_STOP,)),
        ),
        T.RETRY_NOW: (Row(S.RETRYING, R.USER_ACTION, (), by_hand, _RELAUNCH),),
        T.SKIP_NOW: (_switch(R.USER_ACTION, when=(G.DYNAMIC,), writes=(W.RENEW_CAP, W.EXCLUDE_CURRENT)),),
        **_fresh(),
        T.CANCEL_WAIT: (_person(R.USER_ACTION),),
        T.CANDIDATE_REMOVED: (_switch(R.CANDIDATE_REMOVED, writes=(W.EXCLUDE_CURRENT,)),),
        T.PROMPT: (Row(S.RETRYING, R.USER_ACTION, (G.LISTED,), next_turn, _RELAUNCH, _SAID), _prompt_to_another()),
        **_late_effect(),
    }


def _waiting_for_reset() -> _Rows:
    timed = _timed()
    early = tuple(replace(row, reason=R.RECOVERED) if row.to is S.RETRYING else row for row in timed[T.DUE])
    return {**timed, T.RECOVERED_EARLY: early}


def _waiting() -> _Rows:
    rearm = (E.ARM_DEADLINE,)
    return {
        T.DUE: (_reselect(R.DEADLINE_DUE),),
        T.RECOVERED_EARLY: (_reselect(R.RECOVERED),),
        T.DUE_NOT_ADMITTED: (Row(Goes.NOWHERE, None, (G.NEW_DEADLINE,), (W.SET_DEADLINE,), rearm, (K.ROUTE_WAITING,)),),
        T.SETTINGS_CHANGED: (_reselect(R.SETTINGS_CHANGED),),
        T.NO_RECOVERY_LEFT: (_person(R.NO_ELIGIBLE_CANDIDATE),),
        T.RETRY_NOW: (_reselect(R.USER_ACTION, W.RENEW_CAP, W.PROBE_EARLY),),
        T.SKIP_NOW: (_reselect(R.USER_ACTION, W.RENEW_CAP, W.SKIP_CURRENT_ONCE),),
        T.CANCEL_WAIT: (_person(R.USER_ACTION),),
        T.PROMPT: (_reselect(R.USER_ACTION, W.NEW_CYCLE, W.PARK_PROMPT, events=_SAID),),
        **_late_effect(),
    }


def _action_required() -> _Rows:
    on = (G.FLAG_WAS_ON,)
    skip = (W.NEW_ROUND, W.RENEW_CAP, W.SKIP_CURRENT_ONCE)
    marked = (W.MARK_EFFECTFUL,)
    routed, watched = (*on, G.DYNAMIC), (*on, G.CONCRETE)
    return {
        T.SETTINGS_CHANGED: (
            _reselect(R.SETTINGS_CHANGED, when=(*on, G.LEAVES_BY_ITSELF)),
            # Nobody replays what was shown: the person is told that it may work now (R-POL-7).
            Row(Goes.NOWHERE, None, (*watched, G.UNTOLD), (W.MAY_BE_BACK,), (), (K.ROUTE_WAITING,)),
        ),
        T.RETRY_NOW: (_reselect(R.USER_ACTION, W.RENEW_CAP, W.PIN_CURRENT, W.PROBE_EARLY, when=routed),),
        T.RESUME: (_reselect(R.USER_ACTION, W.RENEW_CAP, when=watched),),
        **_fresh(*on),
        T.SKIP_NOW: (_switch(R.USER_ACTION, when=routed, writes=skip),),
        T.CANCEL_WAIT: (Row(Goes.NOWHERE, when=on),),
        # What the unsafe attempts of the turn may have done stays marked: the next agent is told (R-SAFE-4).
        T.PROMPT: (_reselect(R.USER_ACTION, W.NEW_CYCLE, W.PARK_PROMPT, when=on, events=_SAID),),
        T.LATE_EFFECT: (Row(Goes.NOWHERE, R.UNSAFE_EFFECTS, on, marked, (), (K.ROUTE_WAITING,)),),
        T.FLAG_ON: (
            Row(Goes.BACK, None, (G.FLAG_WAS_OFF,), (W.RESTORE_PRIOR,), (E.ARM_DEADLINE,), (K.ROUTE_WAITING,)),
        ),
    }


def _anywhere(state: State) -> _Rows:
    stop = Row(
        S.STOPPED,
        R.USER_ACTION,
        (),
        (W.END_TURN, W.CLEAR_DEADLINE, W.CLEAR_PIN, W.RELEASE_OWNER),
        (E.DISARM_DEADLINE, E.STOP_DOWNSTREAM),
        (K.ROUTE_STOPPED,),
    )
    off = Row(
        S.ACTION_REQUIRED,
        R.DYNAMIC_ROUTING_DISABLED,
        (G.FLAG_WAS_ON,),
        (W.KEEP_PRIOR,),
        (E.DISARM_DEADLINE, E.STOP_DOWNSTREAM),
        (K.ROUTE_WAITING,),
    )
    known = (Row(Goes.NOWHERE, when=(G.FLAG_WAS_OFF,)),) if state is S.ACTION_REQUIRED else ()
    return {T.STOP: (replace(stop, when=(G.SETTLED,)),), T.STOP_SESSION: (stop,), T.FLAG_OFF: (off, *known)}


def _table() -> dict[tuple[State, Trigger], tuple[Row, ...]]:
    rows: dict[State, _Rows] = {
        S.SELECTING: _selecting(),
        S.STARTING: _starting(),
        S.ACTIVE: _active(),
        S.REROUTE_PENDING: _reroute_pending(),
        S.SWITCHING: _selecting(),
        S.RETRY_WAIT: _timed(),
        S.WAITING_FOR_RESET: _waiting_for_reset(),
        S.RETRYING: _starting(),
        S.WAITING: _waiting(),
        S.ACTION_REQUIRED: _action_required(),
    }
    return {(s, t): of_pair for s, of_state in rows.items() for t, of_pair in (of_state | _anywhere(s)).items()}


TABLE: Final[Mapping[tuple[State, Trigger], tuple[Row, ...]]] = MappingProxyType(_table())

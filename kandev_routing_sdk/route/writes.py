"""The writes of the table, as functions from one route to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

from kandev_routing_sdk.errors import IllegalTransition, UsageError
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import Round, Route, Trigger, Visit
from kandev_routing_sdk.route.rows import Write
from kandev_routing_sdk.types import ErrorClass

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Move:
    """What a write may look at besides the route that is being built."""

    before: Route
    trigger: Trigger
    facts: Facts


def apply(write: Write, route: Route, move: Move) -> Route:
    """Return ``route`` with ``write`` done. Raises UsageError when a fact that it needs is missing."""
    return _WRITES[write](route, move)


def _with(route: Route, **changes: object) -> Route:
    return route.model_copy(update=changes)


def _need(value: _T | None, name: str, move: Move) -> _T:
    if value is None:
        raise UsageError(f"facts.{name}: {move.trigger} cannot be stepped without it; give it")
    return value


def _new_generation(route: Route, move: Move) -> Route:
    profile_id = _need(move.facts.profile_id, "profile_id", move)
    if profile_id in (*route.round.excluded, *route.round.skip_once):
        # No candidate is visited twice in a round (R-ENG-5), whoever chose it.
        raise IllegalTransition(move.before.state, f"{move.trigger} of an excluded candidate")
    kept = route.native_session_id if route.native_profile_id == profile_id else None
    return _new_attempt(
        _with(
            route,
            generation=route.generation + 1,
            execution_profile_id=profile_id,
            profile_version=move.facts.profile_version or route.profile_version,
            continuation=move.facts.continuation or route.continuation,
            native_session_id=kept,
            native_profile_id=profile_id if kept else None,
            round=route.round.model_copy(update={"skip_once": ()}),
            pinned_profile_id=None,
            removal_pending=False,
        ),
        move,
    )


def _new_attempt(route: Route, move: Move) -> Route:
    attempt_id = _need(move.facts.attempt_id, "attempt_id", move)
    return _with(route, attempt_id=attempt_id, attempts_in_turn=route.attempts_in_turn + 1)


def _redo_attempt(route: Route, move: Move) -> Route:
    route = _with(route, continuation=move.facts.continuation or route.continuation)
    fresh = move.facts.attempt_id is not None and move.facts.attempt_id != route.attempt_id
    return _new_attempt(route, move) if fresh else route


def _new_round(route: Route, _move: Move) -> Route:
    return _with(route, round=Round(), may_be_back=False)


def _new_cycle(route: Route, _move: Move) -> Route:
    return _with(route, round=Round(), attempts_in_turn=0)


def _close_cycle(route: Route, _move: Move) -> Route:
    return _with(
        route,
        round=Round(),
        attempts_in_turn=0,
        potentially_effectful=False,
        decision=None,
        classification=None,
    )


def _park_prompt(route: Route, move: Move) -> Route:
    prompt = _need(move.facts.prompt, "prompt", move)
    parked = prompt if route.parked_prompt is None else f"{route.parked_prompt}\n\n{prompt}"
    return _with(route, parked_prompt=parked, prompt_number=route.prompt_number + 1)


def _exclude_current(route: Route, _move: Move) -> Route:
    current = route.execution_profile_id
    if current is None or current in route.round.excluded:
        return route
    excluded = (*route.round.excluded, current)
    return _with(route, round=route.round.model_copy(update={"excluded": excluded}))


def _skip_current_once(route: Route, _move: Move) -> Route:
    skipped = () if route.execution_profile_id is None else (route.execution_profile_id,)
    return _with(route, round=route.round.model_copy(update={"skip_once": skipped}))


def _pin_current(route: Route, _move: Move) -> Route:
    return _with(route, pinned_profile_id=route.execution_profile_id)


def _record_failure(route: Route, move: Move) -> Route:
    return _with(route, decision=move.facts.decision, classification=move.facts.classification, probe_early=False)


def _visit(route: Route, visit: Visit) -> Route:
    others = tuple(v for v in route.round.visits if v.profile_id != visit.profile_id)
    return _with(route, round=route.round.model_copy(update={"visits": (*others, visit)}))


def _budget(route: Route, move: Move) -> tuple[Visit, ErrorClass]:
    decision = _need(route.decision, "decision", move)
    profile_id = _need(route.execution_profile_id, "profile_id", move)
    return route.round.visit(profile_id), decision.error_class


def _use_retry(route: Route, move: Move) -> Route:
    visit, error_class = _budget(route, move)
    used = {**visit.retries_used, error_class: visit.retries_used.get(error_class, 0) + 1}
    return _visit(route, visit.model_copy(update={"retries_used": used}))


def _use_reset_wait(route: Route, move: Move) -> Route:
    visit, error_class = _budget(route, move)
    used = tuple(dict.fromkeys((*visit.reset_waits_used, error_class)))
    return _visit(route, visit.model_copy(update={"reset_waits_used": used}))


def _set_deadline(route: Route, move: Move) -> Route:
    decided = None if move.facts.decision is None else move.facts.decision.deadline
    return _with(route, deadline=_need(move.facts.deadline or decided, "deadline", move))


def _mark_unless_clean(route: Route, move: Move) -> Route:
    return _with(
        route, potentially_effectful=route.potentially_effectful or not (move.facts.automatic or move.facts.clean)
    )


def _bind_session(route: Route, move: Move) -> Route:
    if move.facts.native_session_lost:
        return _with(route, native_session_id=None, native_profile_id=None)
    if move.facts.native_session_id is None:
        return route
    return _with(route, native_session_id=move.facts.native_session_id, native_profile_id=route.execution_profile_id)


def _forget_session(route: Route, move: Move) -> Route:
    """The next agent starts afresh, and is told what went before."""
    told = move.facts.continuation or route.continuation
    return _with(route, native_session_id=None, native_profile_id=None, continuation=told)


def _keep_prior(route: Route, move: Move) -> Route:
    return _with(route, prior_state=move.before.state, prior_reason=move.before.reason)


def _restore_prior(route: Route, _move: Move) -> Route:
    return _with(route, reason=route.prior_reason or route.reason, prior_state=None, prior_reason=None)


def _set(**changes: object) -> Callable[[Route, Move], Route]:
    return lambda route, _move: _with(route, **changes)


_WRITES: Final[Mapping[Write, Callable[[Route, Move], Route]]] = MappingProxyType(
    {
        Write.NEW_GENERATION: _new_generation,
        Write.NEW_ATTEMPT: _new_attempt,
        Write.REDO_ATTEMPT: _redo_attempt,
        Write.NEW_ROUND: _new_round,
        Write.NEW_CYCLE: _new_cycle,
        Write.CLOSE_CYCLE: _close_cycle,
        Write.PARK_PROMPT: _park_prompt,
        Write.DROP_PROMPT: _set(parked_prompt=None),
        Write.DROP_CONTINUATION: _set(continuation=None),
        Write.EXCLUDE_CURRENT: _exclude_current,
        Write.SKIP_CURRENT_ONCE: _skip_current_once,
        Write.PIN_CURRENT: _pin_current,
        Write.CLEAR_PIN: _set(pinned_profile_id=None, probe_early=False),
        Write.PROBE_EARLY: _set(probe_early=True),
        Write.RECORD_FAILURE: _record_failure,
        Write.USE_RETRY: _use_retry,
        Write.USE_RESET_WAIT: _use_reset_wait,
        Write.SET_DEADLINE: _set_deadline,
        Write.CLEAR_DEADLINE: _set(deadline=None),
        Write.MARK_EFFECTFUL: _set(potentially_effectful=True),
        Write.MARK_UNLESS_CLEAN: _mark_unless_clean,
        Write.RENEW_CAP: _set(attempts_in_turn=0),
        Write.START_TURN: _set(turn_running=True, probe_early=False),
        Write.END_TURN: _set(turn_running=False),
        Write.BIND_SESSION: _bind_session,
        Write.FORGET_SESSION: _forget_session,
        Write.MAY_BE_BACK: _set(may_be_back=True),
        Write.REMEMBER_REMOVAL: _set(removal_pending=True),
        Write.FORGET_REMOVAL: _set(removal_pending=False),
        Write.KEEP_PRIOR: _keep_prior,
        Write.RESTORE_PRIOR: _restore_prior,
        Write.RELEASE_OWNER: _set(owner_id=None, owner_until=None),
    }
)

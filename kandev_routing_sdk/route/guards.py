"""The guards of the table, as predicates, and the row that they pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.policy import Context
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import Reason, Route, State, Trigger
from kandev_routing_sdk.route.rows import Guard, Row
from kandev_routing_sdk.route.table import ATTEMPT_CAP, TABLE

IN_FLIGHT: Final = frozenset({State.SELECTING, State.STARTING, State.SWITCHING, State.RETRYING})
"""Somebody is at work for the session; such a state always has a live owner, or reconciliation moves it."""

ACTIONS: Final = (
    Trigger.RETRY_NOW,
    Trigger.RESUME,
    Trigger.START_FRESH,
    Trigger.SKIP_NOW,
    Trigger.CANCEL_WAIT,
    Trigger.STOP,
)
"""What a person may ask for; fenced by the generation (R-ENG-7)."""

_LEAVES_BY_ITSELF: Final = frozenset({Reason.NO_ELIGIBLE_CANDIDATE, Reason.RECOVERY_EXHAUSTED})


def is_settled(route: Route) -> bool:
    """Whether no user turn is on its way: none runs, and none waits for a launch that is under way (R-ENG-7)."""
    return not route.turn_running and (route.state not in IN_FLIGHT or route.parked_prompt is None)


def holds(guard: Guard, route: Route, facts: Facts) -> bool:
    """Return whether ``guard`` holds."""
    return _GUARDS[guard](route, facts)


def matching(route: Route, trigger: Trigger, facts: Facts) -> Row | None:
    """Return the row that fits, or None: the pair refuses."""
    rows = TABLE.get((route.state, trigger), ())
    return next((row for row in rows if all(holds(guard, route, facts) for guard in row.when)), None)


def valid_actions(route: Route) -> tuple[Trigger, ...]:
    """Return what a person can do now (R-ENG-6)."""
    return tuple(action for action in ACTIONS if matching(route, action, Facts()) is not None)


def is_at_rest(route: Route) -> bool:
    """Whether nobody has to be at work for the route: it waits, for a time, a person or a prompt, or is over."""
    moves = route.state in IN_FLIGHT or route.state is State.REROUTE_PENDING
    return not route.turn_running and not moves


def leaves_by_itself(route: Route) -> bool:
    """Whether a change of settings, credentials or health takes the route out of ``action_required`` (R-ENG-6).

    Never a concrete profile's: what was shown to its person is not replayed unasked (R-POL-7).
    """
    dynamic = route.context is Context.DYNAMIC
    return dynamic and route.reason in _LEAVES_BY_ITSELF and not route.potentially_effectful


def is_watched(route: Route) -> bool:
    """Whether a person is told when what failed may work again, instead of the route going on by itself (R-POL-7)."""
    return route.context is Context.INTERACTIVE and route.state is State.ACTION_REQUIRED


def attempts_left(route: Route) -> int:
    """Return how many attempts this user turn still has (R-ENG-5)."""
    return max(0, ATTEMPT_CAP - route.attempts_in_turn)


def _pending(route: Route) -> str | None:
    return None if route.decision is None else route.decision.pending_outcome


# A cap that is reached stays reached however far past it a stored route is.
_GUARDS: Final[Mapping[Guard, Callable[[Route, Facts], bool]]] = MappingProxyType(
    {
        Guard.IDLE: lambda r, _: not r.turn_running,
        Guard.TURN_RUNNING: lambda r, _: r.turn_running,
        Guard.SETTLED: lambda r, _: is_settled(r),
        Guard.PROMPT_PARKED: lambda r, _: r.parked_prompt is not None,
        Guard.NO_PROMPT: lambda r, _: r.parked_prompt is None,
        Guard.ATTEMPTS_LEFT: lambda r, _: r.attempts_in_turn < ATTEMPT_CAP,
        Guard.CAP_REACHED: lambda r, _: r.attempts_in_turn >= ATTEMPT_CAP,
        Guard.KEPT: lambda r, _: not r.removal_pending,
        Guard.REMOVED: lambda r, _: r.removal_pending,
        Guard.LISTED: lambda _, f: not f.candidate_gone,
        Guard.UNLISTED: lambda _, f: f.candidate_gone,
        Guard.EFFECTFUL: lambda r, _: r.potentially_effectful,
        Guard.NOT_EFFECTFUL: lambda r, _: not r.potentially_effectful,
        Guard.SAFE: lambda _, f: f.automatic,
        Guard.UNSAFE: lambda _, f: not f.automatic,
        Guard.NEW_DEADLINE: lambda _, f: f.deadline is not None,
        Guard.THEN_SKIP: lambda r, f: f.deadline is None and _pending(r) == "skip",
        Guard.THEN_STOP: lambda r, f: f.deadline is None and _pending(r) != "skip",
        Guard.LEAVES_BY_ITSELF: lambda r, _: leaves_by_itself(r),
        Guard.DYNAMIC: lambda r, _: r.context is not Context.INTERACTIVE,
        Guard.CONCRETE: lambda r, _: r.context is Context.INTERACTIVE,
        Guard.UNTOLD: lambda r, _: not r.may_be_back,
        Guard.FLAG_WAS_ON: lambda r, _: r.prior_state is None,
        Guard.FLAG_WAS_OFF: lambda r, _: r.prior_state is not None,
    }
)

"""From a settled route to the call's outcome, exit code and one clear sentence (R-CLI-3). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.results import (
    AttemptReport,
    CallActionRequired,
    CallCancelled,
    CallFailed,
    CallNoCandidate,
    CallOutcome,
    CallResult,
    CallTimedOut,
    CallWaiting,
)
from kandev_routing_sdk.route.model import Reason, Route, State
from kandev_routing_sdk.route.select import Selection, Verdict
from kandev_routing_sdk.types import AttemptOutcome, Code, ErrorClass

_FINAL_CODES: Final = frozenset(
    {Code.TASK_ERROR, Code.CONTENT_REFUSED, Code.CONTEXT_EXHAUSTED, Code.PERMISSION_DENIED_BY_USER}
)
"""Nothing to retry and nothing to act on: the same prompt would end the same way anywhere."""
_NOT_HEALTH: Final = frozenset({"missing", "disabled", "incompatible", "cross_scope", "not_launchable"})
_EX_UNAVAILABLE: Final = 69


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a call ended."""

    outcome: CallOutcome
    exit_code: int
    deadline: datetime | None
    reason: str | None


def conclude(
    route: Route, reports: Sequence[AttemptReport], selection: Selection | None, ended: CallOutcome | None
) -> Conclusion:
    """Return how a call ended. ``ended``: the caller's own timeout or cancel, which wins over anything the route says."""
    last = reports[-1] if reports else None
    if ended is not None:
        return Conclusion(ended, ended.exit_code, None, ended.value)
    if last is not None and last.outcome is AttemptOutcome.SUCCESS:
        return _as(CallOutcome.SUCCESS, None, None)
    deadline = _deadline(route, last, selection)
    if last is not None and last.classification is not None and last.classification.code in _FINAL_CODES:
        return _as(CallOutcome.FAILED, None, last.classification.code)
    if (
        last is None
        and selection is not None
        and selection.walk
        and all(s.reason in _NOT_HEALTH for s in selection.walk)
    ):
        return Conclusion(CallOutcome.FAILED, _EX_UNAVAILABLE, None, Reason.NO_ELIGIBLE_CANDIDATE)
    if route.state is State.ACTION_REQUIRED and last is not None and not last.automatic:
        return _as(CallOutcome.ACTION_REQUIRED, None, route.reason)
    if deadline is not None:
        return _as(CallOutcome.WAITING, deadline, route.reason)
    return _as(CallOutcome.ACTION_REQUIRED, None, route.reason)


def _as(outcome: CallOutcome, deadline: datetime | None, reason: str | None) -> Conclusion:
    return Conclusion(outcome, outcome.exit_code, deadline, reason)


def _deadline(route: Route, last: AttemptReport | None, selection: Selection | None) -> datetime | None:
    """The earliest moment at which some candidate may answer again."""
    known = [route.deadline, selection.earliest if selection else None]
    if route.state is State.ACTION_REQUIRED and last is not None and last.classification is not None:
        known.append(last.classification.due_at(route.updated_at))
    return min((d for d in known if d is not None), default=None)


def failure_of(result: CallResult) -> CallFailed:
    """Return the exception for a call that did not succeed, with one sentence that says what to do."""
    if result.exit_code == _EX_UNAVAILABLE:
        reasons = "; ".join(f"{r.profile_id}: {r.detail}" for r in result.rejected)
        return CallNoCandidate(f"no candidate of {result.logical_profile_id!r} can be launched: {reasons}", result)
    match result.outcome:
        case CallOutcome.TIMED_OUT:
            return CallTimedOut(f"no answer within the timeout{_who(result)}; nothing was repeated", result)
        case CallOutcome.CANCELLED:
            return CallCancelled("cancelled; the agent was stopped", result)
        case CallOutcome.WAITING:
            when = f" at {result.deadline.isoformat(timespec='seconds')}" if result.deadline else ""
            return CallWaiting(f"no agent can answer now{_cause(result)}; try again{when}", result)
        case CallOutcome.ACTION_REQUIRED:
            return CallActionRequired(_needs_person(result), result)
        case _:
            return CallFailed(f"the agent could not do it{_cause(result)}", result)


def _needs_person(result: CallResult) -> str:
    last = result.attempts[-1] if result.attempts else None
    if last is not None and last.effects.any_activity:
        return (
            f"stopped for a person{_cause(result)}: work may already have been done, so nothing was repeated; "
            "look at what it did, then run again"
        )
    if last is not None and not last.automatic:
        return f"stopped for a person{_cause(result)}: this does not prove that repeating is safe; look at it, then run again"
    # who was tried in this very call is told by its cause already
    reasons = "; ".join(f"{r.profile_id}: {r.detail}" for r in result.rejected if r.reason != Verdict.EXCLUDED)
    return f"a person has to act{_cause(result)}{f' ({reasons})' if reasons else ''}{_way_out(result, last)}"


def _way_out(result: CallResult, last: AttemptReport | None) -> str:
    """What to do about the cause, and how a dynamic profile learns that it was done (R-CIR-7)."""
    found = None if last is None else last.classification
    advice = f": {CODES[found.code].advice}" if found is not None else ""
    dynamic = last is not None and last.execution_profile_id != result.logical_profile_id
    shut = any(r.reason == Verdict.ACTION_REQUIRED for r in result.rejected) or (
        dynamic and found is not None and found.error_class is ErrorClass.HARD
    )
    told = "kandev-routing circuits retry KEY lets the next call try again; kandev-routing circuits lists the keys"
    return f"{advice}{' Then ' if advice else '; once it is done, '}{told}" if shut else advice.rstrip(".")


def _who(result: CallResult) -> str:
    return f" from {result.execution_profile_id!r}" if result.execution_profile_id else ""


def _cause(result: CallResult) -> str:
    last = result.attempts[-1] if result.attempts else None
    if last is None or last.classification is None:
        return ""
    excerpt = last.classification.safe_excerpt
    said = f": {' '.join(excerpt.split())[:200]}" if excerpt else ""
    return f" ({last.execution_profile_id}: {last.classification.code}{said})"

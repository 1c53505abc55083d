"""What a successor is told (R-CON-3, R-CON-4). Built from what is durably known before anything is launched (R-SAFE-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.conductor.tasks import abandoned, in_thread
from kandev_routing_sdk.continuation import Gathered, gather
from kandev_routing_sdk.errors import RoutingError
from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.ports import ContinuationRequest
from kandev_routing_sdk.records import AttemptRecord, PromptRecord
from kandev_routing_sdk.results import AttemptReport
from kandev_routing_sdk.route.continuation import (
    BARE_NOTE,
    Cleaner,
    ContinuationPackage,
    join_prompt,
    note_limit,
    render_note,
)
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.route.parts import ContinuationPart, merged
from kandev_routing_sdk.route.table import ATTEMPT_CAP
from kandev_routing_sdk.telemetry import get_logger, problem_fields
from kandev_routing_sdk.types import AttemptOutcome

_log = get_logger(__name__)
_NOTHING: Final = Gathered()


class HandoverFailed(Exception):
    """The continuation could not be built: nothing may be launched that needs it (R-SAFE-5)."""


class Handover:
    """Builds the notes of one route."""

    def __init__(self, engine: Engine, reports: Sequence[AttemptReport]) -> None:
        self._engine, self._reports = engine, reports

    async def note(self, route: Route, prepared: Prepared, others: Sequence[Prepared] = ()) -> str | None:
        """Return the note that rides on the next prompt to ``prepared``; None for the first agent of a session, and for one that
        goes on with its own native session and so knows what was, if nothing was done unseen.

        ``others``: candidates whose secrets must not be in it either. Raises :class:`HandoverFailed` when it cannot be built, and
        errors of the store.
        """
        resumes = prepared.plan.resumed and not route.potentially_effectful
        if resumes or is_first(route, self._reports):
            return None
        clean = _cleaner(prepared, others)
        try:
            if not needs_history(route, self._reports):
                return _rendered(route, self._reports, prepared, clean, _NOTHING)
            attempts = await in_thread(self._engine.store.attempts, route.session_id, newest=ATTEMPT_CAP)
            found = await self._gathered(route, clean)
            known = merged([found.part, of_attempts(attempts)])
            # cleaning texts of some size takes a while
            return await in_thread(_rendered, route, self._reports, prepared, clean, Gathered(known, found.missing))
        except RoutingError:
            raise
        except Exception as problem:
            _log.error("a continuation could not be built", extra=problem_fields(problem, session_id=route.session_id))
            raise HandoverFailed from problem

    async def own_note(self, route: Route, prepared: Prepared) -> str | None:
        """Return :meth:`note` for the route's own candidate, in a process that knows nothing. There is always one."""
        try:
            return await self.note(route, prepared)
        except HandoverFailed:
            return BARE_NOTE

    async def _gathered(self, route: Route, clean: Cleaner) -> Gathered:
        if not self._engine.continuation:
            return _NOTHING
        session_id, store = route.session_id, self._engine.store
        request = ContinuationRequest(
            session_id=session_id,
            cwd=Path(route.cwd or "."),
            generation=route.generation,
            profile_id=route.execution_profile_id,
            prompt_number=route.prompt_number,
            request=route.parked_prompt or "",
            since=route.created_at,
            clean=clean,
            newest_events=lambda kinds, limit: store.newest_events(session_id, kinds, limit),
        )
        return await abandoned(gather, self._engine.continuation, request)


def prompt_of(route: Route, request: str | None = None) -> str:
    """Return the exact prompt of the route's agent: the request (a call's, or what is parked with the route), then the note."""
    return join_prompt(route.parked_prompt or "" if request is None else request, route.continuation)


def kept_prompt(route: Route, attempt: AttemptRecord) -> PromptRecord | None:
    """Return what is stored of a session's prompt with the mark that it is about to leave; nothing ever of a call's (R-UTL-4)."""
    return PromptRecord(attempt.attempt_id, route.session_id, prompt_of(route)) if route.kind == "session" else None


def is_first(route: Route, reports: Sequence[AttemptReport]) -> bool:
    """Whether nobody was asked anything in this session yet."""
    return not reports and (route.prompt_number <= 1 or route.execution_profile_id is None)


def needs_history(route: Route, reports: Sequence[AttemptReport]) -> bool:
    """Whether there is work to be continued. Where provably nothing happened, there is no history to tell, and none is made up; a
    call has none ever (R-CON-10).
    """
    happened = route.potentially_effectful or any(effect_refusal(r.effects) is not None for r in reports)
    return route.kind == "session" and (happened or route.prompt_number > 1)


def of_attempts(attempts: Sequence[AttemptRecord]) -> ContinuationPart:
    """Return what the attempts since the last answer may have done, and nobody saw the end of (R-CON-10)."""
    open_ones: list[str] = []
    for attempt in attempts:
        if attempt.outcome is AttemptOutcome.SUCCESS:
            open_ones.clear()
        elif (why := effect_refusal(attempt.effects)) is not None:
            who = f"attempt {attempt.ordinal} ({attempt.execution_profile_id})"
            open_ones.append(f"whatever {who} did: it ended as {attempt.outcome or 'unsettled'}, and {why}")
    return ContinuationPart(must_verify=tuple(open_ones))


def _cleaner(prepared: Prepared, others: Sequence[Prepared]) -> Cleaner:
    cleaners = [other.cleaner for other in others if other is not prepared]

    def clean(text: str) -> str:
        for cleaner in cleaners:
            text = cleaner.known_only(text)
        return prepared.cleaner.text(text)

    return clean


def _rendered(
    route: Route, reports: Sequence[AttemptReport], prepared: Prepared, clean: Cleaner, found: Gathered
) -> str:
    limit = note_limit(prepared.plan.context_tokens, route.parked_prompt or "")
    return render_note(package_of(route, reports, prepared.profile.id, found), clean=clean, limit=limit)


def package_of(
    route: Route, reports: Sequence[AttemptReport], successor: str, found: Gathered = _NOTHING
) -> ContinuationPackage:
    """Return what is known: of the attempts for this prompt, and what was ``found`` of the work before.

    For a later prompt a fresh agent is told that there was work before it, and what an earlier one may have done that nobody saw
    the end of: with a new message nothing of that is over (R-SAFE-4).
    """
    part = asdict(found.part)
    if not reports:
        failed = route.classification
        return ContinuationPackage(
            **part,
            missing=found.missing,
            from_profile=route.execution_profile_id or "" if route.potentially_effectful else "",
            failure_code=failed.code if failed else None,
            failure_class=failed.error_class if failed else None,
            potentially_effectful=route.potentially_effectful,
            same_agent=successor == route.execution_profile_id,
        )
    last = reports[-1]
    happened = any(effect_refusal(r.effects) is not None for r in reports)
    return ContinuationPackage(
        **part,
        missing=found.missing,
        from_profile=last.execution_profile_id,
        reason=route.reason,
        failure_code=last.classification.code if last.classification else None,
        failure_class=last.classification.error_class if last.classification else None,
        nothing_happened=not happened,
        potentially_effectful=happened or route.potentially_effectful,
        earlier_work=route.kind == "session" and route.prompt_number > 1,
        same_agent=successor == last.execution_profile_id,
    )

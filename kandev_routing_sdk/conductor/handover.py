"""What a successor is told (R-CON-3, R-CON-4). Built from what is durably known before anything is launched (R-SAFE-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.route.parts import ContinuationPart, merged
from kandev_routing_sdk.route.table import ATTEMPT_CAP
from kandev_routing_sdk.telemetry import get_logger, problem_fields
from kandev_routing_sdk.types import AttemptOutcome, DispatchMark

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Past:
    """What was done in a session before this request, or may have been for it."""

    part: ContinuationPart = field(default_factory=ContinuationPart)
    missing: tuple[str, ...] = ()
    worked: bool = False
    """Whether anything was, as far as anybody can know."""


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
            if not may_have_past(route, self._reports):
                return _rendered(package_of(route, self._reports, prepared.profile.id), route, prepared, clean)
            attempts = await in_thread(self._engine.store.attempts, route.session_id, newest=ATTEMPT_CAP)
            past = await self._past(route, attempts, clean)
            package = package_of(route, self._reports, prepared.profile.id, past)
            if package.same_agent and package.nothing_happened and not package.earlier_work:
                return None  # it has nothing to know
            # cleaning texts of some size takes a while
            return await in_thread(_rendered, package, route, prepared, clean)
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

    async def _past(self, route: Route, attempts: Sequence[AttemptRecord], clean: Cleaner) -> Past:
        if not (route.potentially_effectful or have_worked(attempts)):
            return Past()
        found = await self._gathered(route, clean)
        return Past(merged([found.part, of_attempts(attempts)]), found.missing, worked=True)

    async def _gathered(self, route: Route, clean: Cleaner) -> Gathered:
        if not self._engine.continuation:
            return Gathered()
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


def may_have_past(route: Route, reports: Sequence[AttemptReport]) -> bool:
    """Whether there may be work to be continued: none where provably nothing happened, and never in a call (R-CON-10)."""
    happened = route.potentially_effectful or any(_did(r) for r in reports)
    return route.kind == "session" and (happened or route.prompt_number > 1)


def _did(report: AttemptReport) -> bool:
    """Whether it answered, or may have done something."""
    return report.outcome is AttemptOutcome.SUCCESS or effect_refusal(report.effects) is not None


def have_worked(attempts: Sequence[AttemptRecord]) -> bool:
    """Whether any of a session's newest attempts answered, or was not provably without effects. Of older ones that is supposed."""
    older = bool(attempts) and attempts[0].ordinal > 1
    return older or any(a.outcome is AttemptOutcome.SUCCESS or _doubt(a) is not None for a in attempts)


def _doubt(attempt: AttemptRecord) -> str | None:
    """Why it may have done something; a claimed one was never given its prompt."""
    return None if attempt.mark is DispatchMark.CLAIMED else effect_refusal(attempt.effects)


def of_attempts(attempts: Sequence[AttemptRecord]) -> ContinuationPart:
    """Return what the attempts since the last answer may have done, and nobody saw the end of (R-CON-10)."""
    open_ones: list[str] = []
    for attempt in attempts:
        if attempt.outcome is AttemptOutcome.SUCCESS:
            open_ones.clear()
        elif (why := _doubt(attempt)) is not None:
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


def _rendered(package: ContinuationPackage, route: Route, prepared: Prepared, clean: Cleaner) -> str:
    limit = note_limit(prepared.plan.context_tokens, route.parked_prompt or "")
    return render_note(package, clean=clean, limit=limit)


def package_of(
    route: Route, reports: Sequence[AttemptReport], successor: str, past: Past | None = None
) -> ContinuationPackage:
    """Return what is known: of the attempts for this prompt, and of the ``past``.

    For a later prompt a fresh agent is told that there was work before it, and what an earlier one may have done that nobody saw
    the end of: with a new message nothing of that is over (R-SAFE-4).
    """
    past = past or Past()
    answered = bool(reports) and reports[-1].outcome is AttemptOutcome.SUCCESS
    last, failed = (None if answered or not reports else reports[-1]), route.classification
    if last is not None:
        failed = last.classification
    happened = not answered and any(effect_refusal(r.effects) is not None for r in reports)
    before = route.execution_profile_id if last is None else last.execution_profile_id
    clean_so_far = not happened and not route.potentially_effectful and (last is not None or not past.worked)
    return ContinuationPackage(
        **asdict(past.part),
        missing=past.missing,
        from_profile=(before or "") if before != successor or clean_so_far else "",
        reason=route.reason if reports or route.state is State.SWITCHING else None,
        failure_code=failed.code if failed else None,
        failure_class=failed.error_class if failed else None,
        nothing_happened=clean_so_far,
        potentially_effectful=happened or route.potentially_effectful,
        earlier_work=past.worked,
        same_agent=successor == before,
    )

"""Moves a session, here or for a worker, and shows where it is then. What is refused shows the authoritative snapshot (R-ENG-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from kandev_routing_sdk.cli.going import on_router
from kandev_routing_sdk.cli.output import (
    SCHEMA_VERSION,
    Interrupted,
    error_document,
    error_line,
    moment,
    note,
    print_json,
    print_text,
    silent,
)
from kandev_routing_sdk.cli.progress import Narrator
from kandev_routing_sdk.cli.snapshots import document, exit_code_of, show, state_words
from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.errors import IllegalTransition, NotAdmitted, PreconditionFailed
from kandev_routing_sdk.evidence.updates import TextDelta
from kandev_routing_sdk.results import AgentSaid, AttemptEnded, AttemptStarted, Progress
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.router import Router
from kandev_routing_sdk.settings import Settings
from kandev_routing_sdk.types import AttemptOutcome

Move = Callable[[Router, Callable[[Progress], None]], Awaitable[Snapshot]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a command is told what came of it."""

    here: bool = False
    as_json: bool = False
    quiet: bool = False
    only_id: bool = False
    """Print the session's id and nothing beside it, for the next command."""


class _Listener:
    """Tells the progress of a session that goes on here, and keeps the answer."""

    def __init__(self, settings: Settings, form: Form) -> None:
        names = {i: p.name for i, p in settings.profiles.items()}
        quiet = form.quiet or not form.here
        self._narrator = Narrator(silent if quiet else note, names, SystemClock().now)
        self._parts: list[str] = []
        self.answer: str | None = None

    def __call__(self, progress: Progress) -> None:
        match progress:
            case AttemptStarted():
                self._parts, self.answer = [], None
            case AgentSaid(_, TextDelta(text)):
                self._parts.append(text)
            case AttemptEnded(report) if report.outcome is AttemptOutcome.SUCCESS:
                self.answer = "".join(self._parts)
            case _:
                pass
        self._narrator(progress)


def move(settings: Settings, session_id: str | None, step: Move, form: Form) -> int:
    """Make a move, show where the session is, and return the exit code.

    ``session_id``: None for a session that the move begins.
    """
    listener = _Listener(settings, form)
    open_router = partial(Router.open, settings=settings)
    try:
        done = on_router(open_router, lambda router: step(router, listener))
    except PreconditionFailed as refused:
        if session_id is None:
            raise
        return _show_refusal(refused, _stored(settings, session_id), form)
    if done.value is None:
        if session_id is None:
            note("kandev-routing sessions lists what was begun; a worker goes on with it, or a person says how", "dim")
            raise Interrupted(done.exit_code - 128)
        _show(_stored(settings, session_id), None, form, exit_code=done.exit_code)
        error_line("interrupted; the session was left to others, as it is shown")
        return done.exit_code
    exit_code = exit_code_of(done.value) if form.here else 0
    _show(done.value, listener.answer, form, exit_code=exit_code)
    return exit_code


def _stored(settings: Settings, session_id: str) -> Snapshot:
    with Router.open(settings=settings, read_only=True) as router:
        return router.sessions.snapshot(session_id)


def _show(snapshot: Snapshot, answer: str | None, form: Form, *, exit_code: int) -> None:
    if form.as_json:
        result: dict[str, object] = {"schema_version": SCHEMA_VERSION, "session": document(snapshot)}
        if form.here:
            result["text"] = answer
        print_json({**result, "exit_code": exit_code})
    elif form.here and answer is not None:
        print_text(answer)
        _note(form, f"{snapshot.session_id} is {snapshot.state}: {state_words(snapshot)}", "green")
    elif form.only_id:
        print_text(snapshot.session_id)
        if exit_code:
            error_line(f"{snapshot.session_id} is {snapshot.state}: {state_words(snapshot)}{_see(snapshot)}")
        else:
            _note(form, f"kept for kandev-routing worker{_see(snapshot)}", "dim")
    else:
        show(snapshot, SystemClock().now())


def _see(snapshot: Snapshot) -> str:
    return f"; kandev-routing sessions show {snapshot.session_id}"


def _note(form: Form, text: str, style: str) -> None:
    if not form.quiet:
        note(text, style)


def _show_refusal(refused: PreconditionFailed, snapshot: Snapshot, form: Form) -> int:
    text = _refusal(refused, snapshot)
    if form.as_json:
        refusal = error_document(refused.code, text, refused.exit_code)
        print_json({**refusal, "session": document(snapshot)})
    else:
        show(snapshot, SystemClock().now())
        error_line(text)
    return refused.exit_code


def _refusal(refused: PreconditionFailed, snapshot: Snapshot) -> str:
    """Return why nothing was done, with the way out."""
    match refused:
        case IllegalTransition():
            can = (
                f"what can be done is {', '.join(snapshot.actions)}" if snapshot.actions else "nothing can be done now"
            )
            return f"a session that is {snapshot.state} takes no {refused.trigger}; {can}"
        case NotAdmitted():
            when = f" until {moment(refused.until, SystemClock().now())}" if refused.until else ""
            other = ", or take skip_now" if "skip_now" in snapshot.actions else ""
            return (
                f"another session has the next try of a resource that this agent needs{when}; nothing was changed: "
                f"try again then{other}"
            )
        case _:
            return str(refused)

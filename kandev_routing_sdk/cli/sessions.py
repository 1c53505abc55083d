"""``sessions``: durable conversations that outlive their process: begun, looked at, gone on with, ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import (
    AsJson,
    Globals,
    Here,
    Profile,
    Prompt,
    PromptFile,
    Quiet,
    SessionId,
    WorkFolder,
    check_profile,
    examples,
    globals_of,
    read_prompt,
)
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, block, note, one_line, print_json, print_text, table
from kandev_routing_sdk.errors import UsageError

if TYPE_CHECKING:
    from kandev_routing_sdk.events import EventRecord
    from kandev_routing_sdk.records import AttemptRecord, PromptRecord
    from kandev_routing_sdk.results import Progress
    from kandev_routing_sdk.route.snapshot import Snapshot
    from kandev_routing_sdk.router import Router

EPILOGUE: Final = examples(
    "kandev-routing sessions",
    'kandev-routing sessions start frontier "Fix the failing test"',
    "kandev-routing sessions show SESSION --why        what was decided, and from what",
    'kandev-routing sessions prompt SESSION "Now the docs"',
)
_DEFAULT_LIMIT: Final = 50
_PAGE: Final = 500

app: typer.Typer = typer.Typer(
    help="Begin, show, go on with and end sessions.",
    epilog=EPILOGUE,
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def sessions(context: typer.Context, as_json: AsJson = False) -> None:
    """List the newest sessions."""
    if context.invoked_subcommand is None:
        _list(globals_of(context), limit=_DEFAULT_LIMIT, before=None, states=None, as_json=as_json)


# Reading ---------------------------------------------------------------------------------------------------------------------


@app.command(
    "list",
    epilog=examples(
        "kandev-routing sessions list --state action_required       who waits for a person",
        "kandev-routing sessions list --limit 20 --before SESSION    the next page",
    ),
)
def list_sessions(
    context: typer.Context,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="How many.")] = _DEFAULT_LIMIT,
    before: Annotated[
        str | None,
        typer.Option(metavar="SESSION", help="Only those begun before this one: the next page.", show_default=False),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only those in this state; may be given again.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first."""
    _list(globals_of(context), limit=limit, before=before, states=state, as_json=as_json)


def _list(options: Globals, *, limit: int, before: str | None, states: list[str] | None, as_json: bool) -> None:
    from kandev_routing_sdk.cli.snapshots import COLUMNS, STATES, document, row
    from kandev_routing_sdk.clock import SystemClock
    from kandev_routing_sdk.route.model import State

    for state in states or ():
        if state not in STATES:
            raise UsageError(f"--state: there is no state {state!r}; states are {', '.join(STATES)}")
    wanted = [State(state) for state in states] if states else None
    with options.router(read_only=True, required=False) as router:
        found = router.sessions.list(states=wanted, before=before, limit=limit + 1)
    more, found = len(found) > limit, found[:limit]
    following = found[-1].session_id if more else None
    if as_json:
        listed = [document(s) for s in found]
        print_json({"schema_version": SCHEMA_VERSION, "sessions": listed, "next_before": following})
    elif not found:
        print_text("there is no session yet" if wanted is None and before is None else "there is no such session")
    else:
        now = SystemClock().now()
        styles = ["yellow" if s.state == State.ACTION_REQUIRED else "" for s in found]
        table(COLUMNS, [row(s, now) for s in found], styles)
        if following is not None:
            note(f"there are more: kandev-routing sessions list --before {following}", "dim")


@app.command(
    epilog=examples(
        "kandev-routing sessions show SESSION",
        "kandev-routing sessions show SESSION --why        each decision with what it was made from, made again",
        "kandev-routing sessions show SESSION --events --json | jq .events",
        "kandev-routing sessions show SESSION --prompts    what each agent was given, to the letter",
    )
)
def show(
    context: typer.Context,
    *,
    session: SessionId,
    why: Annotated[
        bool, typer.Option("--why", help="Each decision with all that it was made from, and made again from that.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Every event of the session, in order.")] = False,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="The exact text that each attempt's agent was given.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where a session is, why, and what can be done about it."""
    from kandev_routing_sdk.cli import snapshots
    from kandev_routing_sdk.cli import why as past
    from kandev_routing_sdk.clock import SystemClock

    with globals_of(context).router(read_only=True, required=False) as router:
        snapshot = router.sessions.snapshot(session)
        attempts = router.sessions.attempts(session)
        decisions = router.sessions.why(session) if why else []
        happened = _events(router, session) if events else []
        given = router.sessions.prompts(session) if prompts else []
    if as_json:
        result: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "session": snapshots.document(snapshot),
            "history": [snapshots.attempt_document(a) for a in attempts],
        }
        if why:
            result["decisions"] = past.documents(decisions)
        if events:
            result["events"] = [_event_document(e) for e in happened]
        if prompts:
            result["prompts"] = _prompt_documents(given, attempts)
        print_json(result)
        return
    if not why and not events and not prompts:
        snapshots.show(snapshot, SystemClock().now(), attempts)
        return
    print_text(f"{snapshot.session_id} ({snapshot.logical_profile_id}): {snapshot.state} ({snapshot.reason})")
    if why:
        past.show(decisions)
    if events:
        print_text("")
        for event in happened:
            print_text(_event_line(event))
    for told in _prompt_documents(given, attempts):
        print_text("")
        print_text(f"Attempt {told['ordinal']}, {told['execution_profile_id']}, was given at {told['at']}:")
        print_text(block(told["text"]))


def _prompt_documents(given: Sequence[PromptRecord], attempts: Sequence[AttemptRecord]) -> list[dict[str, Any]]:
    from kandev_routing_sdk.cli.document import utc

    by_id = {attempt.attempt_id: attempt for attempt in attempts}
    return [
        {
            "attempt_id": prompt.attempt_id,
            "ordinal": by_id[prompt.attempt_id].ordinal,
            "execution_profile_id": by_id[prompt.attempt_id].execution_profile_id,
            "at": utc(prompt.at) if prompt.at is not None else None,
            "text": prompt.text,
        }
        for prompt in given
        if prompt.attempt_id in by_id  # those of an attempt that began since they were read come next time
    ]


def _events(router: Router, session_id: str) -> list[EventRecord]:
    found: list[EventRecord] = []
    while page := router.events(session_id=session_id, after=found[-1].sequence if found else 0, limit=_PAGE):
        found += page
    return found


_SAID: Final = frozenset({"session.user_message", "session.turn_output"})


def _shown(event: EventRecord) -> dict[str, Any]:
    """An event's parameters, without the words of a prompt or an answer: of those, how many characters there are."""
    if event.kind not in _SAID and not {"text", "title"} & event.params.keys():
        return event.params
    words = sum(len(str(event.params.get(name, ""))) for name in ("text", "title"))
    return {name: v for name, v in event.params.items() if name not in {"text", "title"}} | {"characters": words}


def _event_document(event: EventRecord) -> dict[str, Any]:
    from kandev_routing_sdk.cli.document import utc

    return {
        "sequence": event.sequence,
        "at": utc(event.at),
        "kind": event.kind.value,
        "generation": event.generation,
        "reason": event.reason.value,
        "params": _shown(event),
    }


def _event_line(event: EventRecord) -> str:
    from kandev_routing_sdk.cli.snapshots import written

    told = {name: value for name, value in _shown(event).items() if value not in (None, [], {})}
    facts = ", ".join(f"{name.replace('_', ' ')} {_fact(value)}" for name, value in told.items())
    line = f"{written(event.at)}  {event.kind.value} ({event.reason.value}), generation {event.generation}"
    return one_line(f"{line}{f': {facts}' if facts else ''}", 500)


def _fact(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | dict) else str(value)


# Changing --------------------------------------------------------------------------------------------------------------------


@app.command(
    epilog=examples(
        'kandev-routing sessions start frontier "Fix the failing test"        a worker does it',
        'kandev-routing sessions start frontier "Fix the failing test" --here',
        "git diff | kandev-routing sessions start frontier --json -",
    )
)
def start(
    context: typer.Context,
    *,
    profile: Profile,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    cwd: WorkFolder = None,
    here: Here = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Begin a session with its first prompt and print its id.

    A worker goes on with it; with --here, this process does until it rests.
    """
    settings = globals_of(context).settings()
    check_profile(settings, profile)
    text = read_prompt(prompt, prompt_file)
    from kandev_routing_sdk.cli.moving import Form, move
    from kandev_routing_sdk.settings import working_directory

    folder = cwd or working_directory()

    async def step(router: Router, tell: Callable[[Progress], None]) -> Snapshot:
        return await router.sessions.start(profile, text, cwd=folder, here=here, on_progress=tell)

    form = Form(here=here, as_json=as_json, quiet=quiet, only_id=True)
    raise typer.Exit(move(settings, None, step, form))


@app.command(
    "prompt",
    epilog=examples(
        'kandev-routing sessions prompt SESSION "Now the docs"',
        "kandev-routing sessions prompt SESSION --prompt-file next.md --here",
    ),
)
def prompt_session(
    context: typer.Context,
    *,
    session: SessionId,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    here: Here = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Give a session its next prompt, once the last one is settled."""
    settings = globals_of(context).settings()
    text = read_prompt(prompt, prompt_file)
    from kandev_routing_sdk.cli.moving import Form, move

    async def step(router: Router, tell: Callable[[Progress], None]) -> Snapshot:
        return await router.sessions.prompt(session, text, here=here, on_progress=tell)

    raise typer.Exit(move(settings, session, step, Form(here=here, as_json=as_json, quiet=quiet)))


@app.command(epilog=examples("kandev-routing sessions stop SESSION"))
def stop(context: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """End a session for good, whatever it is doing: its turn is cancelled, its agent ended, nothing charged."""
    settings = globals_of(context).settings()
    from kandev_routing_sdk.cli.moving import Form, move

    async def step(router: Router, _: Callable[[Progress], None]) -> Snapshot:
        return await router.sessions.stop(session)

    raise typer.Exit(move(settings, session, step, Form(as_json=as_json)))

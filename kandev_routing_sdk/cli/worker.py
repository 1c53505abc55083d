"""``worker``: goes on with sessions until it is told to stop (R-DUR-4)."""

from __future__ import annotations

import signal
from dataclasses import asdict
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, note, print_json, print_text, silent, span

if TYPE_CHECKING:
    from kandev_routing_sdk.cli.progress import Narrator
    from kandev_routing_sdk.results import Progress
    from kandev_routing_sdk.router import Router
    from kandev_routing_sdk.scheduler import WorkerOptions, WorkerReport
    from kandev_routing_sdk.settings import Settings

EPILOGUE: Final = examples(
    "kandev-routing worker",
    "kandev-routing worker --max-sessions 32 --grace 120",
    "kandev-routing worker --until-idle --json        from a timer: what is due now, then end",
)
_REMEMBERED: Final = 1024
"""Sessions whose progress is told with what was told of them before; the one that was silent the longest is forgotten first."""


def worker(
    context: typer.Context,
    *,
    max_sessions: Annotated[int, typer.Option(metavar="N", min=1, help="How many sessions it drives at once.")] = 8,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.05, max=3600, help="Between two looks for something to do.")
    ] = 1.0,
    grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="What a stopping worker gives running turns before it ends them."),
    ] = 30.0,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End once there is nothing to do now.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only the closing report.")] = False,
) -> None:
    """Go on with sessions: those begun for a worker, those that are due, and those whose owner died.

    Any number of workers may share a database. SIGTERM or Ctrl-C: take nothing new, let running turns end, then end; once more:
    end the agents now and leave their sessions to others.
    """
    settings = globals_of(context).settings()
    from kandev_routing_sdk.scheduler import WorkerOptions

    options = WorkerOptions(max_sessions=max_sessions, poll_s=poll, grace_s=grace, until_idle=until_idle)
    raise typer.Exit(_work(settings, options, as_json=as_json, quiet=quiet))


def _work(settings: Settings, options: WorkerOptions, *, as_json: bool, quiet: bool) -> int:
    import anyio

    from kandev_routing_sdk.cli.going import on_router
    from kandev_routing_sdk.router import Router
    from kandev_routing_sdk.scheduler import WorkerReport

    say = silent if quiet else note
    report, stop = WorkerReport(), anyio.Event()
    teller = _Teller(settings, quiet=quiet)

    def heard(number: int) -> bool:
        if stop.is_set():
            say(f"{signal.Signals(number).name} again: ending the agents now", "yellow")
            return True
        stop.set()
        say(f"{signal.Signals(number).name}: taking nothing new; running turns have {span(options.grace_s)}", "yellow")
        return False

    async def run(router: Router) -> WorkerReport:
        say(_greeting(settings, options), "dim")
        return await router.run_worker(
            max_sessions=options.max_sessions,
            poll_s=options.poll_s,
            grace_s=options.grace_s,
            until_idle=options.until_idle,
            stop=stop,
            on_progress=teller,
            report=report,
        )

    done = on_router(partial(Router.open, settings=settings), run, heard)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "worker": asdict(report), "exit_code": done.exit_code})
    else:
        print_text(_closing(report))
    return done.exit_code


class _Teller:
    """Tells what becomes of many sessions at once, each line with its session."""

    def __init__(self, settings: Settings, *, quiet: bool) -> None:
        self._names = {i: p.name for i, p in settings.profiles.items()}
        self._quiet = quiet
        self._of = lru_cache(_REMEMBERED)(self._narrator)

    def __call__(self, session_id: str, progress: Progress) -> None:
        if not self._quiet:
            self._of(session_id)(progress)

    def _narrator(self, session_id: str) -> Narrator:
        from kandev_routing_sdk.cli.progress import Narrator
        from kandev_routing_sdk.clock import SystemClock

        def say(text: str, style: str) -> None:
            note(f"{session_id}  {text}", style)

        return Narrator(say, self._names, SystemClock().now)


def _greeting(settings: Settings, options: WorkerOptions) -> str:
    off = (
        ""
        if settings.dynamic_agent_routing
        else "; dynamic routing is turned off, so sessions of dynamic profiles wait"
    )
    looks = "until there is nothing to do" if options.until_idle else f"looking every {span(options.poll_s)}"
    return f"worker: up to {options.max_sessions} sessions at once, {looks}{off}"


def _closing(report: WorkerReport) -> str:
    parts = [
        f"{report.claimed} taken",
        f"{report.settled} came to rest",
        f"{report.given_up} left to others",
        f"{report.probes} resource{'' if report.probes == 1 else 's'} asked",
    ]
    if report.interrupted_calls:
        calls = report.interrupted_calls
        parts.append(f"{calls} call{'' if calls == 1 else 's'} of dead processes closed")
    return f"worker: {', '.join(parts)}"

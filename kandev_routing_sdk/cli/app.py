"""The command line's shape: global options and one line a command."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kandev_routing_sdk.cli import (
    action,
    calls,
    circuits,
    classify,
    db,
    demo,
    doctor,
    explain,
    guard,
    init,
    profiles,
    replay,
    run,
    sessions,
    worker,
)
from kandev_routing_sdk.cli.common import Globals, examples

_EPILOGUE: Final = examples(
    "kandev-routing demo                      see a failover with scripted agents, nothing to configure",
    "kandev-routing init                      write a kandev-routing.toml from the agents found here",
    'kandev-routing run frontier "Fix the failing test"',
    "kandev-routing explain frontier          who would be taken now, and why",
)

app: typer.Typer = typer.Typer(
    name="kandev-routing",
    help="Get a prompt done by the first of an ordered list of agent profiles that can do it, and never twice.",
    epilog=_EPILOGUE,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same on a terminal and in a pipe, and no import of rich for it
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"kandev-routing {version('kandev-routing-sdk')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="The configuration file.", show_default=False)
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The state database, sqlite:///… or postgresql+psycopg://…", show_default=False
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log to standard error; show tracebacks.")] = False,
    version: Annotated[  # noqa: ARG001  # acts in its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Set up what every command shares."""
    context.obj = Globals(config, store, debug)


app.command(epilog=run.EPILOGUE)(run.run)
app.command(epilog=explain.EPILOGUE)(explain.explain)
app.command(epilog=guard.EPILOGUE)(guard.guard)
app.command(epilog=classify.EPILOGUE)(classify.classify)
app.command(epilog=replay.EPILOGUE)(replay.replay)
app.add_typer(sessions.app, name="sessions")
app.command(epilog=action.EPILOGUE)(action.action)
app.command(epilog=worker.EPILOGUE)(worker.worker)
app.add_typer(profiles.app, name="profiles")
app.add_typer(circuits.app, name="circuits")
app.add_typer(calls.app, name="calls")
app.add_typer(db.app, name="db")
app.command(epilog=doctor.EPILOGUE)(doctor.doctor)
app.command(epilog=init.EPILOGUE)(init.init)
app.command(epilog=demo.EPILOGUE)(demo.demo)

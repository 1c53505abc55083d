"""``action``: what a person does to a session that the person saw (R-ENG-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Here, Quiet, SessionId, examples, globals_of

if TYPE_CHECKING:
    from kandev_routing_sdk.results import Progress
    from kandev_routing_sdk.route.snapshot import Snapshot
    from kandev_routing_sdk.router import Router

EPILOGUE: Final = examples(
    "kandev-routing action SESSION retry_now --generation 3",
    "kandev-routing action SESSION resume --generation 3",
    "kandev-routing action SESSION skip_now --generation 3 --here",
    "kandev-routing action SESSION stop --generation 3 --json",
)


def action(
    context: typer.Context,
    *,
    session: SessionId,
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION", help="retry_now, resume, start_fresh, skip_now, cancel_wait or stop.", show_default=False
        ),
    ],
    generation: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="The generation of the snapshot that you saw.", show_default=False),
    ],
    revision: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Also its revision: not even a timer may have moved it.", show_default=False
        ),
    ] = None,
    action_id: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="An id of yours: repeated, it is carried out once.", show_default=False
        ),
    ] = None,
    here: Here = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Act on a session as you saw it, and show what it is now.

    Exits with 80, and changes nothing, if it has moved on since or does not take this action; what it is now is shown then, too.
    """
    settings = globals_of(context).settings()
    from kandev_routing_sdk.cli.moving import Form, move

    async def step(router: Router, tell: Callable[[Progress], None]) -> Snapshot:
        return await router.sessions.act(
            session,
            action,
            expected_generation=generation,
            expected_revision=revision,
            action_id=action_id,
            here=here,
            on_progress=tell,
        )

    raise typer.Exit(move(settings, session, step, Form(here=here, as_json=as_json, quiet=quiet)))

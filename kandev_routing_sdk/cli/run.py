"""``run``: get one prompt done."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kandev_routing_sdk.cli.common import (
    AsJson,
    Profile,
    Prompt,
    PromptFile,
    Quiet,
    WorkFolder,
    check_profile,
    examples,
    globals_of,
    read_prompt,
)
from kandev_routing_sdk.cli.output import note, print_json, print_text, silent

if TYPE_CHECKING:
    from kandev_routing_sdk.cli.calling import Order
    from kandev_routing_sdk.settings import Settings

EPILOGUE: Final = examples(
    'kandev-routing run frontier "Fix the failing test"',
    "git diff | kandev-routing run frontier --timeout 600 -",
    "kandev-routing run frontier --prompt-file task.md --json > result.json",
    'kandev-routing run frontier "…" --dry-run        who would be started, and how; starts nothing',
)


def run(
    context: typer.Context,
    *,
    profile: Profile,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="For everything, policy waits included; default: no limit.", show_default=False
        ),
    ] = None,
    cwd: WorkFolder = None,
    as_json: AsJson = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show who would be started and how; start and write nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Get one prompt done by the first candidate that can, and print its answer.

    Progress and attribution go to standard error.
    """
    options = globals_of(context)
    if dry_run:
        from kandev_routing_sdk.cli.explain import show

        show(options, profile, cwd, as_json=as_json, with_argv=True)
        return
    settings = options.settings()  # a configuration that cannot be used is told before standard input is waited for
    names = check_profile(settings, profile)
    text = read_prompt(prompt, prompt_file)
    from kandev_routing_sdk.cli.calling import Order

    order = Order(profile, text, cwd, timeout)
    raise typer.Exit(_run(settings, names, order, as_json=as_json, quiet=quiet))


def _run(settings: Settings, names: Mapping[str, str], order: Order, *, as_json: bool, quiet: bool) -> int:
    from kandev_routing_sdk.cli.calling import call
    from kandev_routing_sdk.cli.document import result_document
    from kandev_routing_sdk.cli.output import error_line
    from kandev_routing_sdk.cli.progress import Narrator, attribution
    from kandev_routing_sdk.clock import SystemClock
    from kandev_routing_sdk.router import Router

    narrator = Narrator(silent if quiet else note, names, SystemClock().now)
    ended = call(partial(Router.open, settings=settings), order, narrator)
    if as_json:
        print_json(result_document(ended.result, ended.exit_code))
    elif ended.failure is None:
        print_text(ended.result.text)
    if ended.failure is not None:
        error_line(str(ended.failure))
        if ended.result.text and not as_json:
            note(f"its unfinished output ({len(ended.result.text)} characters) is not shown; --json prints it")
    elif not quiet:
        note(attribution(ended.result, names), "green")
    return ended.exit_code

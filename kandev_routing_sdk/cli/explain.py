"""``explain``: the walk over the candidates, with a reason for each."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Globals, Profile, examples, globals_of
from kandev_routing_sdk.cli.output import note, print_json, print_text, table

if TYPE_CHECKING:
    from kandev_routing_sdk.results import Explanation
    from kandev_routing_sdk.route.select import WalkEntry

EPILOGUE: Final = examples(
    "kandev-routing explain frontier",
    "kandev-routing explain frontier --json | jq .walk",
)


def explain(
    context: typer.Context,
    profile: Profile,
    cwd: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the agents would work; default: here.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show who would be taken now and why, candidate by candidate. Starts nothing and writes nothing."""
    show(globals_of(context), profile, cwd, as_json=as_json)


def show(options: Globals, profile: str, cwd: Path | None, *, as_json: bool, with_argv: bool = False) -> None:
    """Print the walk. ``with_argv``: also what each candidate would be started with, secrets masked."""
    from kandev_routing_sdk.cli.document import explanation_document
    from kandev_routing_sdk.cli.words import policy_words

    with options.router(read_only=True) as router:
        found = router.explain(profile, cwd=cwd)
    words = {i: policy_words(p) for i, p in found.policies.items()}
    if as_json:
        print_json(explanation_document(found, words))
        return
    _walk(found, words)
    _conclusion(found)
    if with_argv:
        for profile_id, argv in found.argv.items():
            print_text(f"{profile_id} would be started as: {shlex.join(argv)}")


def _walk(found: Explanation, words: dict[str, str]) -> None:
    from kandev_routing_sdk.cli.words import verdict_words
    from kandev_routing_sdk.clock import SystemClock

    now = SystemClock().now()
    rows = [
        (
            str(entry.position + 1),
            entry.profile_id,
            _agent(entry),
            entry.reason,
            verdict_words(entry, now),
            words.get(entry.profile_id, ""),
        )
        for entry in found.walk
    ]
    styles = ["green" if e.chosen else "" if e.eligible else "yellow" for e in found.walk]
    table(("#", "candidate", "agent", "verdict", "why", "when it fails"), rows, styles)


def _agent(entry: WalkEntry) -> str:
    family = entry.family if entry.transport is None else f"{entry.family} ({entry.transport})"
    return ", ".join(part for part in (family, entry.provider_id, entry.model_id) if part)


def _conclusion(found: Explanation) -> None:
    from kandev_routing_sdk.cli.output import moment
    from kandev_routing_sdk.clock import SystemClock

    if found.chosen_profile_id is not None:
        print_text(f"{found.profile_id}: {found.chosen_profile_id} would be taken")
    elif found.earliest is not None:
        print_text(
            f"{found.profile_id}: nobody is free; the first may be back {moment(found.earliest, SystemClock().now())}"
        )
    else:
        print_text(f"{found.profile_id}: nobody is free, and none comes back by itself")
    if not found.enabled:
        note(
            "dynamic agent routing is turned off, so a run would be refused: set dynamic_agent_routing = true under [features]",
            "yellow",
        )

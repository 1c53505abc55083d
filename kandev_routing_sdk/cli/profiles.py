"""``profiles``: those of the configuration and of the store, and what is done with the stored ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Globals, Profile, complete_profile, examples, globals_of, read_text
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, error_document, one_line, print_json, print_text, table

if TYPE_CHECKING:
    from kandev_routing_sdk.policy import PolicyDocument
    from kandev_routing_sdk.profile_store import ProfileEntry
    from kandev_routing_sdk.profiles import Dependent

EPILOGUE: Final = examples(
    "kandev-routing profiles",
    "kandev-routing profiles import team.toml          store what a file declares; again, it changes nothing",
    "kandev-routing profiles export > team.toml",
    "kandev-routing profiles disable fable",
)

app: typer.Typer = typer.Typer(
    help="Show profiles, and keep them in the store.",
    epilog=EPILOGUE,
    invoke_without_command=True,
    rich_markup_mode=None,
)

Confirm = Annotated[
    bool, typer.Option("--confirm", help="Go on although others refer to it; nothing of theirs is changed.")
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-version", metavar="N", min=1, help="Only if it still is at this version.", show_default=False
    ),
]


@app.callback()
def profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """List every profile, declared or stored."""
    if context.invoked_subcommand is None:
        _list(globals_of(context), as_json=as_json)


@app.command("list", epilog=examples("kandev-routing profiles list --json | jq .profiles"))
def list_profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """List every profile, declared or stored."""
    _list(globals_of(context), as_json=as_json)


def _list(options: Globals, *, as_json: bool) -> None:
    with options.router(read_only=True, required=False) as router:
        found = router.profiles.list()
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "profiles": [document(entry) for entry in found]})
    elif not found:
        print_text("there is no profile yet: write one into the configuration, or import a file")
    else:
        rows = [
            (e.id, e.kind.value, e.profile.name, e.origin.value, _version(e), _of(e), e.reason or "") for e in found
        ]
        styles = ["" if e.selectable else "dim" for e in found]
        table(("id", "kind", "name", "origin", "version", "agents", "not selectable"), rows, styles)


@app.command(epilog=examples("kandev-routing profiles show frontier", "kandev-routing profiles show sol --json"))
def show(context: typer.Context, profile: Profile, as_json: AsJson = False) -> None:
    """Show a profile, and who refers to it."""
    with globals_of(context).router(read_only=True, required=False) as router:
        entry, dependents = router.profiles.get(profile), router.profiles.dependents(profile)
    if as_json:
        print_json(
            {
                "schema_version": SCHEMA_VERSION,
                "profile": document(entry),
                "dependents": [dependent._asdict() for dependent in dependents],
            }
        )
        return
    for label, text in _facts(entry, dependents):
        print_text(f"{label:<12} {one_line(text, 500)}")


@app.command(
    "import",
    epilog=examples("kandev-routing profiles import team.toml", "kandev-routing profiles import - < team.toml"),
)
def import_profiles(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A configuration file, or - for standard input.", show_default=False)
    ],
    confirm: Confirm = False,
    as_json: AsJson = False,
) -> None:
    """Store the profiles of a configuration file, all or nothing; what is stored and not in the file stays."""
    text = read_text(file)
    source = "standard input" if file == "-" else file
    with globals_of(context).router(required=False) as router:
        report = router.profiles.import_text(text, source=source, confirm=confirm)
    if as_json:
        parts = {"created": report.created, "updated": report.updated, "unchanged": report.unchanged}
        print_json({"schema_version": SCHEMA_VERSION, **{name: list(ids) for name, ids in parts.items()}})
        return
    for word, ids in (("created", report.created), ("updated", report.updated), ("unchanged", report.unchanged)):
        for profile_id in ids:
            print_text(f"{profile_id}: {word}")


@app.command(
    epilog=examples("kandev-routing profiles export > all.toml", "kandev-routing profiles export frontier > team.toml")
)
def export(
    context: typer.Context,
    profile: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROFILE]...",
            help="Profiles' ids; default: all.",
            autocompletion=complete_profile,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a new file instead of standard output.", show_default=False),
    ] = None,
) -> None:
    """Print a configuration file of these profiles and their candidates; importing it gives the same."""
    from kandev_routing_sdk.errors import UsageError

    with globals_of(context).router(read_only=True, required=False) as router:
        text = router.profiles.export(profile or None)
    if output is None:
        print_text(text.rstrip("\n"))
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{output} is there already, and is not overwritten; choose another name") from None
    except OSError as problem:
        raise UsageError(f"{output} cannot be written: {problem.strerror}; choose another place") from None


@app.command(epilog=examples("kandev-routing profiles delete sol", "kandev-routing profiles delete sol --confirm"))
def delete(
    context: typer.Context,
    profile: Profile,
    confirm: Confirm = False,
    expected_version: Expected = None,
    as_json: AsJson = False,
) -> None:
    """Delete a stored profile that nobody refers to."""
    with _conflict_told(as_json=as_json), globals_of(context).router(required=False) as router:
        router.profiles.delete(profile, expected_version=expected_version, confirm=confirm)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "deleted": profile})
    else:
        print_text(f"{profile}: deleted")


@app.command(epilog=examples("kandev-routing profiles enable sol"))
def enable(
    context: typer.Context, profile: Profile, expected_version: Expected = None, as_json: AsJson = False
) -> None:
    """Let a stored profile be used again."""
    with _conflict_told(as_json=as_json), globals_of(context).router(required=False) as router:
        _written(router.profiles.enable(profile, expected_version=expected_version), "enabled", as_json=as_json)


@app.command(epilog=examples("kandev-routing profiles disable sol"))
def disable(
    context: typer.Context,
    profile: Profile,
    confirm: Confirm = False,
    expected_version: Expected = None,
    as_json: AsJson = False,
) -> None:
    """Keep a stored profile, that nobody refers to, from being used."""
    with _conflict_told(as_json=as_json), globals_of(context).router(required=False) as router:
        entry = router.profiles.disable(profile, expected_version=expected_version, confirm=confirm)
        _written(entry, "disabled", as_json=as_json)


@contextmanager
def _conflict_told(*, as_json: bool) -> Iterator[None]:
    """With ``--json``, show a profile that somebody else wrote meanwhile as it is now (R-PRO-6)."""
    from kandev_routing_sdk.profiles import ProfileConflict

    try:
        yield
    except ProfileConflict as conflict:
        if not as_json:
            raise
        refusal = error_document(conflict.code, str(conflict), conflict.exit_code)
        print_json({**refusal, "current": None if conflict.current is None else _masked(dict(conflict.current))})
        raise typer.Exit(conflict.exit_code) from None


def _written(entry: ProfileEntry, word: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "profile": document(entry)})
    else:
        print_text(f"{entry.id}: {word}, now at version {entry.version}")


def document(entry: ProfileEntry) -> dict[str, Any]:
    """Return a profile as JSON, with what its environment says under names that announce a secret left out."""
    from kandev_routing_sdk.cli.document import utc

    return {
        **_masked(entry.document()),
        "origin": entry.origin.value,
        "selectable": entry.selectable,
        "reason": entry.reason,
        "updated_at": utc(entry.updated_at),
    }


def _masked(found: dict[str, Any]) -> dict[str, Any]:
    from kandev_routing_sdk.evidence.secret_names import without_secrets

    return found | {"env": without_secrets(found["env"])} if "env" in found else found


def _version(entry: ProfileEntry) -> str:
    """Its version, if that is a count."""
    return "" if entry.updated_at is None else str(entry.version)


def _of(entry: ProfileEntry) -> str:
    """Whom it stands for: its agent and model, or its candidates."""
    from kandev_routing_sdk.profiles import DynamicProfile

    if isinstance(entry.profile, DynamicProfile):
        return ", ".join(c.profile_id for c in entry.profile.candidates)
    return " ".join(part for part in (entry.profile.family, entry.profile.model) if part)


def _facts(entry: ProfileEntry, dependents: tuple[Dependent, ...]) -> Iterator[tuple[str, str]]:
    from kandev_routing_sdk.profiles import DynamicProfile

    profile = entry.profile
    yield "profile", f"{entry.id}, version {entry.version}, {entry.origin}"
    yield "kind", entry.kind.value
    yield "name", profile.name
    for label in ("description", "scope"):
        text = getattr(profile, label)
        if text:
            yield label, text
    yield "selectable", "yes" if entry.selectable else f"no: {entry.reason}"
    if isinstance(profile, DynamicProfile):
        for number, candidate in enumerate(profile.candidates, 1):
            off = "" if candidate.enabled else ", not enabled"
            yield f"candidate {number}", f"{candidate.profile_id}{off}: {_policy(candidate.policy)}"
    else:
        yield "agent", _of(entry)
        for label in ("transport", "mode", "cwd", "fallback_model"):
            if getattr(profile, label):
                yield label, str(getattr(profile, label))
    for dependent in dependents:
        yield "used by", str(dependent)


def _policy(policy: PolicyDocument) -> str:
    parts = []
    for name in ("transient", "hard"):
        of = getattr(policy, name)
        steps = [f"up to {of.retry.max_retries} retries"] if of.retry.enabled else []
        steps += [f"waits up to {of.wait_for_reset.max_wait_seconds} s"] if of.wait_for_reset.enabled else []
        parts.append(f"{name}: {', '.join([*steps, f'then {of.on_exhausted}' if steps else of.on_exhausted])}")
    return "; ".join(parts)

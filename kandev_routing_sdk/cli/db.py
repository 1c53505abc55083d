"""``db``: the schema of the state database (R-DUR-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, print_json, print_text

if TYPE_CHECKING:
    from kandev_routing_sdk.store.migrate import Schema

EPILOGUE: Final = examples("kandev-routing db status", "kandev-routing db upgrade")
EXIT_PENDING: Final = 1

app: typer.Typer = typer.Typer(
    help="Look at the state database's schema, and bring it up to date.",
    epilog=EPILOGUE,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    epilog=examples("kandev-routing db status", "kandev-routing db status --check || kandev-routing db upgrade")
)
def status(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help=f"Exit with {EXIT_PENDING} if anything is to be done.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which schema the state database has, and what is to be done. Changes nothing."""
    found = _schema(globals_of(context).settings(required=False).store_url)
    exit_code = EXIT_PENDING if check and found.pending else 0
    if as_json:
        print_json({**_document(found), "exit_code": exit_code})
    elif not found.pending:
        print_text(f"{found.label}: schema {found.version}, up to date")
    else:
        has = f"schema {found.version}" if found.version else "no schema yet"
        print_text(f"{found.label}: {has}; to be done: {', '.join(found.pending)} (kandev-routing db upgrade)")
    raise typer.Exit(exit_code)


@app.command(
    epilog=examples("kandev-routing db upgrade", "kandev-routing db upgrade --store postgresql+psycopg://db/routing")
)
def upgrade(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring the state database's schema up to date, or make one. May be run by many at once, and again."""
    from kandev_routing_sdk.store import open_store
    from kandev_routing_sdk.store.migrate import HEAD

    url = globals_of(context).settings(required=False).store_url
    before = _schema(url)
    made = before.pending  # refuses a newer one before anything is touched
    open_store(url).close()
    after = _schema(url)
    if as_json:
        print_json({**_document(after), "previous_version": before.version, "applied": list(made)})
    elif not made:
        print_text(f"{after.label}: schema {after.version}, nothing to be done")
    elif before.version is None:
        print_text(f"{after.label}: schema {HEAD} was made")
    else:
        print_text(f"{after.label}: schema {before.version} became {after.version}")


def _schema(url: str) -> Schema:
    from kandev_routing_sdk.store import SqlStore

    with SqlStore(url, read_only=True) as store:
        return store.schema()


def _document(found: Schema) -> dict[str, Any]:
    from kandev_routing_sdk.store.migrate import HEAD

    return {
        "schema_version": SCHEMA_VERSION,
        "database": found.label,
        "version": found.version,
        "newest_version": HEAD,
        "pending": list(found.pending),
    }

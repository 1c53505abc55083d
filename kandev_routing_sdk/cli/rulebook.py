"""The rules that a command classifies with: neutral, installed, and those of files that are to be tried (R-CLS-6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from kandev_routing_sdk.cli.output import note
from kandev_routing_sdk.errors import CatalogueError, UsageError

if TYPE_CHECKING:
    from kandev_routing_sdk.catalogue.classify import Catalogue
    from kandev_routing_sdk.catalogue.rules import RuleSource

RuleFiles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="FILE",
        help="Rules to try beside those that are installed, TOML; may be given again.",
        show_default=False,
    ),
]


def load_catalogue(files: Sequence[str]) -> Catalogue:
    """Return the catalogue of this installation with the rules of ``files``; says on standard error which plugin has none.

    Raises:
        CatalogueError: a file cannot be read or may not load, as if an adapter had brought it (R-CLS-4).
    """
    from kandev_routing_sdk.opening import load_rules

    registry, catalogue = load_rules(extra=[_source(file) for file in files])
    for plugin in registry.broken:
        note(f"plugin {plugin.name!r} brings no rules: {plugin.problem}", "yellow")
    return catalogue


def _source(file: str) -> RuleSource:
    from kandev_routing_sdk.catalogue.rules import RuleSource

    try:
        return RuleSource(name=file, text=Path(file).read_text("utf-8-sig"))
    except OSError as problem:
        raise CatalogueError(
            f"{file} cannot be read: {problem.strerror}; name a TOML file of rules with --rules"
        ) from None
    except UnicodeDecodeError as problem:
        raise CatalogueError(f"{file} is not UTF-8 text (byte {problem.start}); convert it to UTF-8") from None


def one_form(*, as_json: bool, jsonl: bool) -> None:
    """Refuse to print in two forms at once; raises :class:`~kandev_routing_sdk.errors.UsageError`."""
    if as_json and jsonl:
        raise UsageError("--json prints one document, --jsonl one a line; give one of the two")

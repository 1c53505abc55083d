"""``init``: a starter configuration from the agents that are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, note, print_json, print_text
from kandev_routing_sdk.errors import ConfigError

if TYPE_CHECKING:
    from kandev_routing_sdk.plugins import Registry
    from kandev_routing_sdk.spec.adapter import FoundAgent

EPILOGUE: Final = examples(
    "kandev-routing init",
    "kandev-routing init --path ~/.config/kandev-routing/kandev-routing.toml",
)


class ConfigExists(ConfigError):
    """There is a configuration already, and nothing was written."""

    code = "config_exists"


def init(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where; default: kandev-routing.toml here.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented kandev-routing.toml from the agents found on this machine. Starts none of them."""
    from kandev_routing_sdk.cli.agents import found_agents
    from kandev_routing_sdk.cli.starter import FRONTIER, starter
    from kandev_routing_sdk.plugins import load_registry
    from kandev_routing_sdk.settings.load import FILE_NAME

    named = globals_of(context).config
    target = path or (Path(named) if named else Path(FILE_NAME))
    registry = load_registry()
    found = found_agents(registry, os.environ)
    usable = _one_each(found)
    labels = {family: adapter.label for family, adapter in registry.adapters.items()}
    _write(target, starter(usable, labels), force=force)
    if as_json:
        profiles = [a.family for a in usable] + ([FRONTIER] if usable else [])
        print_json({"schema_version": SCHEMA_VERSION, "path": str(target), "profiles": profiles, "exit_code": 0})
        return
    _tell(target, registry, found, usable)


def _one_each(found: list[FoundAgent]) -> list[FoundAgent]:
    """The first executable of each family."""
    first: dict[str, FoundAgent] = {}
    for agent in found:
        if agent.executable:
            first.setdefault(agent.family, agent)
    return list(first.values())


def _write(target: Path, text: str, *, force: bool) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigExists(
            f"{target} exists already and was left alone; replace it with --force, or choose another with --path"
        ) from None
    except OSError as problem:
        raise ConfigError(f"{target} cannot be written: {problem.strerror}; choose another place with --path") from None


def _tell(target: Path, registry: Registry, found: list[FoundAgent], usable: list[FoundAgent]) -> None:
    print_text(f"wrote {target}")
    for agent in usable:
        print_text(f"  {agent.family}: {agent.executable}")
    for agent in found:
        if not agent.executable and all(u.family != agent.family for u in usable):
            note(f"  {agent.family}: not found{f'; {agent.hint}' if agent.hint else ''}", "yellow")
    for broken in registry.broken:
        note(f"  plugin {broken.name} could not be loaded: {broken.problem}", "yellow")
    if usable:
        print_text('next: kandev-routing explain frontier, then kandev-routing run frontier "…"')
    else:
        note(
            "no agent was found: the file holds commented-out examples; install an agent and run init --force again",
            "yellow",
        )

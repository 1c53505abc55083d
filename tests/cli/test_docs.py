"""The reference names every command, option and exit code, and the help of each has examples (R-CLI-1, R-CLI-3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kandev_routing_sdk import errors, results
from kandev_routing_sdk.cli.app import app
from kandev_routing_sdk.cli.entry import EXIT_READER_GONE, hoisted
from kandev_routing_sdk.errors import RoutingError
from kandev_routing_sdk.results import CallOutcome
from tests.cli._world import Ran, World

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text("utf-8")
HEADINGS = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, (*path, name))


COMMANDS = {" ".join(("kandev-routing", *path)): command for path, command in _commands(typer.main.get_command(app))}


def _section(name: str) -> str:
    """The part of the page that is about a command, its subcommands' parts left out."""
    heading = "Global options" if name == "kandev-routing" else name
    match = re.search(rf"^#+ {re.escape(heading)}$", PAGE, re.MULTILINE)
    assert match, name
    rest = PAGE[match.end() :]
    end = re.search(r"^## |^### kandev-routing ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"kandev-routing"}))
def test_every_command_has_its_heading(name: str) -> None:
    assert name in HEADINGS


def test_no_heading_is_of_a_command_that_is_not_there() -> None:
    assert {h for h in HEADINGS if h.startswith("kandev-routing ")} == set(COMMANDS) - {"kandev-routing"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_and_argument_is_in_its_section(name: str) -> None:
    section = _section(name)
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "argument":
            wanted = parameter.name.upper()
            assert re.search(rf"`{wanted}`|{name} .*\b{wanted}\b", section), wanted
        else:
            wanted = next(o for o in parameter.opts if o.startswith("--"))
            assert re.search(rf"`{wanted}( [A-Z]+)?`", section), wanted


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_help_has_examples(here: Callable[..., Ran], name: str) -> None:
    ran = here(*name.split()[1:], "--help")
    assert (0, "") == (ran.code, ran.err), ran
    assert "Examples:\n" in ran.out
    assert f"  {name}" in ran.out or f"| {name}" in ran.out


def _children(root: type[RoutingError]) -> Iterator[type[RoutingError]]:
    yield root
    for child in root.__subclasses__():
        yield from _children(child)


def test_every_exit_code_is_in_the_table() -> None:
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    ours = {e.exit_code for e in _children(RoutingError) if e.__module__ in {errors.__name__, results.__name__}}
    assert rows == ours | {o.exit_code for o in CallOutcome} | {143, EXIT_READER_GONE}


# The edge's own rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["run", "p", "x", "--config", "c.toml"], ["--config", "c.toml", "run", "p", "x"]),
        (["run", "--store=sqlite:///x", "--debug", "p"], ["--store=sqlite:///x", "--debug", "run", "p"]),
        (["run", "p", "--", "--debug"], ["run", "p", "--", "--debug"]),
        (["run", "--config"], ["run", "--config"]),
    ],
)
def test_global_options_may_stand_anywhere(given: list[str], expected: list[str]) -> None:
    assert expected == hoisted(given)


def test_help_is_shown_when_nothing_is_asked(here: Callable[..., Ran]) -> None:
    ran = here()
    assert (2, "") == (ran.code, ran.out)
    assert "Usage: kandev-routing" in ran.err
    assert "Commands:" in ran.err


def test_help_loads_nothing_heavy(world: World) -> None:
    """R-PRF-4: a command pays only for what it uses."""
    import subprocess
    import sys

    code = "import sys; from kandev_routing_sdk.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=world.environ())
    loaded = {name.partition(".")[0] for name in ran.stderr.split()}
    assert set() == loaded & {
        "acp",
        "alembic",
        "anyio",
        "asyncio",
        "cryptography",
        "pydantic",
        "rich",
        "sqlalchemy",
        "sqlmodel",
    }


def test_a_shell_can_complete_profiles(world: World) -> None:
    world.agent("sol")
    world.agent("solo")
    world.configure()
    environ = {"_KANDEV_ROUTING_COMPLETE": "complete_bash", "COMP_WORDS": "kandev-routing run so", "COMP_CWORD": "2"}
    ran = world.run(env=environ)
    assert ["sol", "solo"] == ran.out.split(), ran

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import typer.main

from kandev_routing_sdk.catalogue.rules import RuleSource
from kandev_routing_sdk.cli import main
from kandev_routing_sdk.cli.app import app
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.spec.adapter import AgentAdapter
from tests.cli._world import Ran, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="session")
def made_once() -> tuple[object, object]:
    """What every command of a process of its own makes anew: the installed adapters with their rules, and its own options."""
    return load_rules(), typer.main.get_command(app)


@pytest.fixture
def quick(made_once: tuple[object, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of many commands in one process: that costs each of them more than all the rest."""
    rules, command = made_once

    def load(
        adapters: Sequence[AgentAdapter] = (), *, plugins: bool = True, extra: Sequence[RuleSource] = ()
    ) -> object:
        return load_rules(adapters, plugins=plugins, extra=extra) if adapters or extra or not plugins else rules

    monkeypatch.setattr("kandev_routing_sdk.opening.load_rules", load)
    monkeypatch.setattr("kandev_routing_sdk.cli.app.app", command)


@pytest.fixture
def here(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Ran]]:
    """The command line in this very process: as :meth:`World.run`, but many times faster."""
    monkeypatch.chdir(world.folder)
    monkeypatch.syspath_prepend(world.plugins)
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, stdin: str = "") -> Ran:
        file = world.folder.parent / "stdin"
        file.write_text(stdin, "utf-8")
        with file.open(encoding="utf-8") as opened:
            monkeypatch.setattr("sys.stdin", opened)
            capfd.readouterr()
            code = main(arguments)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    yield run
    for plugin in world.plugins.glob("*.py"):  # another test's plugin of this name is another one
        sys.modules.pop(plugin.stem, None)

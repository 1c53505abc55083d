"""Reads a script and keeps its log. Standard library only: this runs in the scripted agent.

The log is the witness: one JSON object a line, appended under a lock by however many processes run the script. The Nth prompt
over all of them gets the Nth entry of ``prompts``; the last entry is for every further one.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

Step = dict[str, Any]


class Script:
    """One script file and its log."""

    def __init__(self, path: Path) -> None:
        text = path.read_text("utf-8")
        self._data: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        self._log = Path(self._data.get("log", path.with_suffix(".log.jsonl")))
        self.effects: Path = Path(self._data.get("effects", path.with_suffix(".effects.txt")))

    def steps(self, moment: str) -> list[Step]:
        """Return the steps of ``start``, ``initialize``, ``authenticate``, ``session``, ``load``, ``resume`` or ``set``."""
        return list(self._data.get(moment, ()))

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # a script holds any JSON
        """Return a plain setting of the script."""
        return self._data.get(name, default)

    def next_prompt(self, prompt: str, **facts: Any) -> list[Step]:  # noqa: ANN401
        """Log a prompt and return its steps."""
        with self._locked() as log:
            log.seek(0)
            number = 1 + sum(1 for line in log if '"event": "prompt"' in line)
            self._write(log, "prompt", number=number, prompt=prompt, **facts)
        answers: list[list[Step]] = self._data.get("prompts", [])
        return list(answers[min(number, len(answers)) - 1]) if answers else []

    def log(self, event: str, **facts: Any) -> None:  # noqa: ANN401
        """Append a line to the log."""
        with self._locked() as log:
            self._write(log, event, **facts)

    def _write(self, log: IO[str], event: str, **facts: Any) -> None:  # noqa: ANN401
        entry = {
            "event": event,
            "time": time.time(),  # noqa: TID251  # another process: no Clock reaches it
            "pid": os.getpid(),
            "cwd": str(Path.cwd()),
            "argv": sys.argv[1:],
            "env": sorted(os.environ),
            **facts,
        }
        log.write(json.dumps(entry) + "\n")
        log.flush()

    @contextmanager
    def _locked(self) -> Iterator[IO[str]]:
        with self._log.open("a+", encoding="utf-8") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            yield log

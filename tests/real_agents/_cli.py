"""Runs an agent CLI as a host would: a group of its own, the prompt on stdin, every line kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests._processes import group_members

CLAUDE_ARGUMENTS = (
    "-p",
    "--output-format=stream-json",
    "--verbose",
    "--strict-mcp-config",
    "--model=claude-sonnet-4-5",
    "--allowedTools=Bash",
)
CODEX_ARGUMENTS = ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-")

OPENCODE_ARGUMENTS = ("run", "--format=json")


@dataclass(frozen=True)
class RawRun:
    """What a CLI did."""

    events: tuple[dict[str, Any], ...]
    stderr: str
    exit_code: int
    """Negative: the number of the signal that ended it."""
    seconds: float

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("type") == kind]

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]


@contextmanager
def started(argv: Sequence[str], env: Mapping[str, str], cwd: Path, prompt: str) -> Iterator[subprocess.Popen[bytes]]:
    """A CLI with its prompt written and stdin closed (both CLIs read it to its end before they begin)."""
    process = subprocess.Popen(
        argv, env=dict(env), cwd=cwd, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            assert process.stdin is not None
            process.stdin.write(prompt.encode())
            process.stdin.close()
            process.stdin = None
            yield process
        finally:
            if process.poll() is None or group_members(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


def run(argv: Sequence[str], env: Mapping[str, str], cwd: Path, prompt: str = "Say hello.") -> RawRun:
    """Run a CLI to its end, at most for two minutes."""
    began = time.monotonic()
    with started(argv, env, cwd, prompt) as process:
        out, err = process.communicate(timeout=120)
        events = tuple(json.loads(line) for line in out.decode().splitlines())
        return RawRun(events, err.decode(), process.returncode, time.monotonic() - began)


def run_for_output(argv: Sequence[str]) -> str:
    """The stripped stdout of a command that must succeed."""
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

"""Runs one short command and reads what it says, bounded in bytes and time; nothing of it is left behind (R-CON-11)."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kandev_routing_sdk.continuation.budget import Budget
from kandev_routing_sdk.process.group import signal_group

_CHUNK: Final = 65_536
_REAP_S: Final = 2.0
"""How long the end of a killed command is waited for."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said on standard output."""

    output: bytes
    whole: bool
    """It ended by itself and all of it is there."""
    ok: bool
    """And it ended well."""


NOTHING: Final = Said(b"", whole=False, ok=False)


def run(argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], most: int, budget: Budget) -> Said:
    """Run ``argv`` until it ends, has said ``most`` bytes, or its time is over. Blocks.

    Its process group is killed and reaped before this returns. A command that cannot be started says nothing.
    """
    if not budget.left:
        return NOTHING
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=dict(environ),
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return NOTHING
    try:
        output, whole = _read(child, most, budget)
        if whole:
            with suppress(subprocess.TimeoutExpired):
                child.wait(budget.left)
        return Said(output, whole and child.returncode is not None, whole and child.returncode == 0)
    finally:
        _end(child)


def _read(child: subprocess.Popen[bytes], most: int, budget: Budget) -> tuple[bytes, bool]:
    assert child.stdout is not None  # noqa: S101  # it was asked for
    chunks: list[bytes] = []
    room, pipe = most, child.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while room > 0 and selector.select(budget.left):
            chunk = os.read(pipe, min(_CHUNK, room))
            if not chunk:
                return b"".join(chunks), True
            chunks.append(chunk)
            room -= len(chunk)
    return b"".join(chunks), False


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.stdout is not None:
        child.stdout.close()
    if child.returncode is not None:
        return  # reaped: its number may be another's by now
    signal_group(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_REAP_S)

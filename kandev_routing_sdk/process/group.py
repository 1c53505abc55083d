"""Process groups: who is in one, and how one is ended. Only groups that the SDK started are ever signalled.

``/proc`` is asked where there is one; elsewhere the kernel's answer to signal 0 must do.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from kandev_routing_sdk.process.limits import DEFAULT_LIMITS, ProcessLimits

ATTEMPT_MARKER: Final = "KANDEV_ROUTING_ATTEMPT"
"""Environment variable of every agent process; its value is the attempt id (R-ENG-8)."""

_PROC: Final = Path("/proc")
_START_TOLERANCE_S: Final = 3.0
"""``/proc`` counts whole ticks from a boot time in whole seconds."""
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What ``/proc/<pid>/stat`` says."""

    pid: int
    state: str
    group: int
    session: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether it can still act: zombies and the dying cannot."""
        return self.state not in {"Z", "X", "x"}


def has_proc() -> bool:
    """Whether this system shows its processes in ``/proc``."""
    return (_PROC / "self" / "stat").exists()


def read_stat(pid: int) -> ProcessStat | None:
    """Return what is known of ``pid``; None when there is no such process."""
    try:
        raw = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the name in parentheses may hold spaces and parentheses itself
    fields = raw.rpartition(")")[2].split()
    try:
        return ProcessStat(pid, fields[0], int(fields[2]), int(fields[3]), int(fields[19]))
    except (IndexError, ValueError):
        return None


def live_members(group: int) -> list[ProcessStat]:
    """Return the processes of ``group`` that can still act (blocking: reads ``/proc``)."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            stat = read_stat(int(entry.name))
            if stat is not None and stat.group == group and stat.alive:
                found.append(stat)
    return found


def group_is_empty(group: int) -> bool:
    """Whether no live process of ``group`` remains (blocking)."""
    if has_proc():
        return not live_members(group)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # macOS says so for a group of zombies only
        return True
    return False


def signal_group(group: int, number: int) -> bool:
    """Send a signal to all of ``group``; whether anybody got it. The caller knows that the group is ours."""
    if group <= 1:
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


async def wait_until_empty(group: int, timeout_s: float) -> bool:
    """Wait, bounded, until no live process of ``group`` remains."""
    empty = False
    with anyio.move_on_after(timeout_s):
        while not empty:
            empty = await anyio.to_thread.run_sync(group_is_empty, group)
            await anyio.sleep(0 if empty else _POLL_S)
    return empty


def _started_at(stat: ProcessStat) -> float | None:
    """Epoch seconds at which a process started."""
    with suppress(OSError, ValueError, IndexError):
        for line in (_PROC / "stat").read_text("ascii", "replace").splitlines():
            if line.startswith("btime "):
                return int(line.split()[1]) + stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return None


def _carries(pid: int, marker: bytes) -> bool:
    with suppress(OSError):
        return marker in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return False


def _verdict(group: int, started_at: datetime | None, attempt_id: str) -> bool | None:
    """Whether ``group`` is the attempt's: True it is, False it is gone (or its number is another's now), None unknown."""
    if not has_proc():
        return False if group_is_empty(group) else None
    members = live_members(group)
    if not members:
        return False
    marker = f"{ATTEMPT_MARKER}={attempt_id}".encode()
    if any(_carries(member.pid, marker) for member in members):
        return True
    leader = read_stat(group)
    began = _started_at(leader) if leader is not None else None
    if began is None or started_at is None:
        return None
    return abs(began - started_at.timestamp()) <= _START_TOLERANCE_S


async def reap_group(
    process_group: int, started_at: datetime | None, attempt_id: str, *, limits: ProcessLimits = DEFAULT_LIMITS
) -> bool:
    """End what a dead owner left behind (R-ENG-8, R-CON-11).

    Signals only when a member carries the attempt's marker, or the leader started when the attempt did. Returns whether no process
    of the attempt's group is left; False when that cannot be proven, and then nothing may be dispatched.
    """
    gone = False
    with anyio.CancelScope(shield=True):
        verdict = await anyio.to_thread.run_sync(_verdict, process_group, started_at, attempt_id)
        if verdict:
            signal_group(process_group, signal.SIGTERM)
            if not await wait_until_empty(process_group, limits.term_grace_s):
                signal_group(process_group, signal.SIGKILL)
            gone = await wait_until_empty(process_group, limits.kill_grace_s)
        else:
            gone = verdict is False
    return gone

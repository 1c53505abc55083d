"""Which processes belong to an attempt, and how they are ended. Only what the SDK started is ever signalled.

An agent's process group is not enough: tools run in sessions of their own (Claude Code and Codex start every command so), and a
killed agent leaves them running. They inherit the attempt's marker in their environment, and they are descendants. ``/proc`` is
asked where there is one; elsewhere the kernel's answer to signal 0 to the group must do.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
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

PARENT_MARKER: Final = "KANDEV_ROUTING_PARENT"
"""Environment variable of every agent process; names the process that started it, so that attempt ids need not be unique over
everything that runs on a machine (tests with made-up ids run side by side)."""

_PROC: Final = Path("/proc")
_START_TOLERANCE_S: Final = 3.0
"""``/proc`` counts whole ticks from a boot time in whole seconds."""
_POLL_S: Final = 0.02
_SHORT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""This process cannot look: that is no sign of nobody being there."""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What ``/proc/<pid>/stat`` says."""

    pid: int
    state: str
    parent: int
    group: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether it can still act: zombies and the dying cannot."""
        return self.state not in {"Z", "X", "x"}


def has_proc() -> bool:
    """Whether this system shows its processes in ``/proc``."""
    return (_PROC / "self" / "stat").exists()


def read_stat(pid: int) -> ProcessStat | None:
    """Return what is known of ``pid``; None when there is no such process. Raises ``OSError`` when it cannot be looked at."""
    # as it is, without a path, a text and a buffer: each look reads hundreds of these, and each agent is looked for several times
    try:
        with open(f"{_PROC}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  # as above
            raw = file.read()
    except OSError as problem:
        if problem.errno in _SHORT:
            raise
        return None
    # the name in parentheses may hold spaces and parentheses itself
    fields = raw.rpartition(b")")[2].split()
    try:
        return ProcessStat(pid, fields[0].decode("ascii"), int(fields[1]), int(fields[2]), int(fields[19]))
    except (IndexError, ValueError):
        return None


def live_processes() -> list[ProcessStat]:
    """Return every process that can act (blocking: reads ``/proc``). Raises ``OSError`` when that cannot be found out."""
    stats = (read_stat(int(name)) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208  # as above
    return [stat for stat in stats if stat is not None and stat.alive]


def live_members(group: int) -> list[ProcessStat]:
    """Return the processes of ``group`` that can still act (blocking)."""
    return [stat for stat in live_processes() if stat.group == group]


def markers(attempt_id: str) -> dict[str, str]:
    """Return what every agent process that this process starts carries (blocking)."""
    me = None
    with suppress(OSError):  # told apart from others less well
        me = read_stat(os.getpid())
    return {ATTEMPT_MARKER: attempt_id, PARENT_MARKER: f"{os.getpid()}.{me.start_ticks if me else 0}"}


def carries(pid: int, marks: Mapping[str, str]) -> bool:
    """Whether a process was started with these markers (blocking)."""
    environ = _environ(pid)
    return bool(marks) and all(f"{name}={value}".encode() in environ for name, value in marks.items())


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"{_PROC}/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123  # see read_stat
            return file.read().split(b"\0")
    except OSError as problem:
        if problem.errno in _SHORT:
            raise
        return []


def marked_attempts() -> set[str]:
    """Return the ids of all attempts of which some process of this machine lives (blocking; nobody where there is no ``/proc``)."""
    begins = f"{ATTEMPT_MARKER}=".encode()
    found: list[bytes] = []
    with suppress(OSError):  # whom this look did not find, another one may
        pids = [stat.pid for stat in live_processes()] if has_proc() else []
        found += (entry for pid in pids for entry in _environ(pid) if entry.startswith(begins))
    return {entry[len(begins) :].decode("utf-8", "replace") for entry in found}


def signal_group(group: int, number: int) -> bool:
    """Send a signal to all of ``group``; whether anybody got it. The caller knows that the group is ours."""
    if group <= 1:
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


def kill_process(stat: ProcessStat) -> None:
    """Kill exactly the process that was looked at, never another one that got its number since."""
    try:
        pidfd = os.pidfd_open(stat.pid)
    except (AttributeError, OSError):
        return
    try:
        with suppress(OSError):
            now = read_stat(stat.pid)
            if now is not None and now.start_ticks == stat.start_ticks:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


class Kin:
    """The processes of one attempt: its group, those that carry its markers, and every descendant seen so far.

    ``own_group``: whether the group's number is known to be still ours, so that it may be signalled. ``since``: when the first of
    them started, in ticks; nobody older is looked at.
    """

    def __init__(self, group: int, marks: Mapping[str, str], *, own_group: bool = True, since: int = 0) -> None:
        self._group = group
        self._marks = marks
        self._own_group = own_group
        self._since = since
        self._seen: set[tuple[int, int]] = set()

    def look(self) -> list[ProcessStat]:
        """Return those that can still act (blocking); nobody where there is no ``/proc``.

        Raises ``OSError`` when this process cannot look: it has no file descriptor left, or no memory.
        """
        if self._own_group and (leader := read_stat(self._group)) is not None:
            self._since = leader.start_ticks
        processes = [s for s in live_processes() if s.start_ticks >= self._since] if has_proc() else []
        family = {self._group} if self._own_group else set()
        found: dict[int, ProcessStat] = {}
        for stat in processes:
            known = (stat.pid, stat.start_ticks) in self._seen
            if known or (self._own_group and stat.group == self._group) or carries(stat.pid, self._marks):
                found[stat.pid] = stat
        fresh = family | found.keys()
        while fresh:
            children = [s for s in processes if s.parent in fresh and s.pid not in found]
            found.update((s.pid, s) for s in children)
            fresh = {s.pid for s in children}
        found.pop(os.getpid(), None)
        self._seen |= {(s.pid, s.start_ticks) for s in found.values()}
        return list(found.values())

    def kill(self, found: Sequence[ProcessStat]) -> None:
        """Kill the group, and the others one by one."""
        if self._own_group:
            signal_group(self._group, signal.SIGKILL)
        for stat in found:
            if not self._own_group or stat.group != self._group:
                kill_process(stat)

    def kill_and_look(self) -> bool:
        """Kill whoever is left; whether nobody was, as far as that can be seen (blocking)."""
        if not has_proc():
            return not (self._own_group and signal_group(self._group, signal.SIGKILL))
        try:
            found = self.look()
        except OSError:
            self.kill(())
            return False
        if found:
            self.kill(found)
        return not found


async def end_kin(kin: Kin, timeout_s: float) -> bool:
    """Kill until nobody is left, bounded; whether nobody is."""
    empty = False
    with anyio.move_on_after(timeout_s):
        while not empty:
            empty = await anyio.to_thread.run_sync(kin.kill_and_look)
            await anyio.sleep(0 if empty else _POLL_S)
    return empty


def _booted_at() -> float | None:
    """Epoch seconds from which ticks are counted."""
    with suppress(OSError, ValueError, IndexError):
        for line in (_PROC / "stat").read_text("ascii", "replace").splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
    return None


def _group_is_ours(group: int, started_at: datetime | None, attempt_id: str) -> bool | None:
    """Whether the group is the attempt's: True it is, False it is gone (or its number is another's now), None unknown."""
    if not has_proc():
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return None
        return None
    try:
        return _carries_or_began(group, started_at, attempt_id)
    except OSError:
        return None


def _carries_or_began(group: int, started_at: datetime | None, attempt_id: str) -> bool | None:
    members = live_members(group)
    if not members:
        return False
    if any(carries(member.pid, {ATTEMPT_MARKER: attempt_id}) for member in members):
        return True
    if any(entry.startswith(f"{ATTEMPT_MARKER}=".encode()) for entry in _environ(group)):
        return False  # another attempt's: the number is only the same (in a container, every agent's may be)
    leader, booted = read_stat(group), _booted_at()
    if leader is None or booted is None or started_at is None:
        return None
    began = booted + leader.start_ticks / os.sysconf("SC_CLK_TCK")
    return abs(began - started_at.timestamp()) <= _START_TOLERANCE_S


def _may_act(group: int) -> bool:
    try:
        return bool(live_members(group))
    except OSError:
        return True


async def reap_group(
    process_group: int | None, started_at: datetime | None, attempt_id: str, *, limits: ProcessLimits = DEFAULT_LIMITS
) -> bool:
    """End what a dead owner left behind (R-ENG-8, R-CON-11).

    ``process_group`` None: it was never written down, and only the marker tells; ``started_at`` may then be any earlier time.
    The group is signalled only when a member carries the attempt's marker, or its leader started when the attempt did; whoever else
    carries the marker is ended, too. Returns whether no process of the attempt is left; False when that cannot be proven, and then
    nothing may be dispatched.
    """
    gone = False
    with anyio.CancelScope(shield=True):
        ours: bool | None = False if has_proc() else None
        if process_group is not None:
            ours = await anyio.to_thread.run_sync(_group_is_ours, process_group, started_at, attempt_id)
        # whoever carries the marker, however the wall clock was set since: nobody else has it
        kin = Kin(process_group or 0, {ATTEMPT_MARKER: attempt_id}, own_group=ours is True, since=0)
        if ours and process_group is not None:
            with suppress(OSError):
                await anyio.to_thread.run_sync(kin.look)
            # time to end its tools by itself
            signal_group(process_group, signal.SIGTERM)
            with anyio.move_on_after(limits.term_grace_s):
                while await anyio.to_thread.run_sync(_may_act, process_group):  # noqa: ASYNC110  # not our child: no event
                    await anyio.sleep(_POLL_S)
        if await end_kin(kin, limits.kill_grace_s):
            gone = ours is not None
    return gone

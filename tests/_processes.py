"""Looks at processes from outside, by means other than the package's own, so that the one can contradict the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def live_processes() -> dict[int, tuple[int, int]]:
    """The parent and the process group of each live process. A zombie has an id, but lives no more."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
                state, parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                if state != "Z":
                    found[int(folder.name)] = int(parent), int(group)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    return pid in live_processes()


def group_members(group: int) -> list[int]:
    """The live processes of a process group."""
    return [pid for pid, (_, its_group) in live_processes().items() if its_group == group]


def child_groups(parent: int) -> set[int]:
    """The process groups of a process's live children."""
    return {group for its_parent, group in live_processes().values() if its_parent == parent}


def descendants(ancestor: int) -> set[int]:
    """The live children of a process, and theirs."""
    processes = live_processes()
    found, fresh = set[int](), {ancestor}
    while fresh:
        fresh = {pid for pid, (parent, _) in processes.items() if parent in fresh}
        found |= fresh
    return found


def wait_for(check: Callable[[], T], seconds: float = 30.0) -> T:
    """Return the first true answer; fail after ``seconds`` without one."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found

"""Taking turns at an SQLite database (R-PRF-6).

SQLite keeps no queue: whoever waits for its lock looks again after ever longer pauses, and those who just came win. With eight
processes that write all the time, the unluckiest waited hundreds of times longer than most. The kernel does queue for ``flock``, so
those who want to write line up there first, on the database's folder (which adds no file, and touches none of SQLite's own locks).

Only the order depends on it: whoever does not get its turn in time goes ahead without one, and SQLite's lock decides as ever.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path


def line_up(folder: Path, timeout_s: float) -> int | None:
    """Wait for a turn, at most ``timeout_s`` seconds, and return what :func:`leave` takes; None: go ahead without one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None  # a folder that may be entered but not read: no turns there
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _Waiter(descriptor).wait(timeout_s)
    except OSError:
        os.close(descriptor)  # a file system without such locks
        return None
    return descriptor


def leave(descriptor: int) -> None:
    """Let the next one have its turn."""
    # Unlocked before it is closed: a forked child may hold a copy of the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


class _Waiter:
    """Stands in the kernel's queue on a thread of its own, since a place in it cannot be given a time limit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._given_up = False
        self._got = False

    def wait(self, timeout_s: float) -> int | None:
        threading.Thread(target=self._stand, name="kandev-routing-turn", daemon=True).start()
        try:
            self._answered.wait(timeout_s)
        except BaseException:
            if self._give_up():
                leave(self._descriptor)
            raise
        return self._descriptor if self._give_up() else None

    def _give_up(self) -> bool:
        """Wait no longer; return whether the turn came nevertheless."""
        with self._lock:
            self._given_up = True
            return self._got

    def _stand(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError:
            os.close(self._descriptor)
            self._answered.set()
            return
        with self._lock:
            self._got = not self._given_up
        if self._got:
            self._answered.set()
        else:
            leave(self._descriptor)

"""A warm process that forks workers: each is a real process, and none has to import anything.

It is started as ``python -m tests._nursery``, has one thread and no event loop, and speaks JSON lines: a list of jobs
comes in, their process ids go out, and when all have ended how each one did (a wait status). A job with ``kill_after_s`` is killed
(SIGKILL) when it lasts longer. One with ``"play": "call"`` is for :mod:`tests.routes._calling`, others for
:mod:`tests.sessions._worker`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
LONGEST_S = 60.0
"""No worker of the campaign is meant to live so long; it is killed, and the test fails."""


class Nursery:
    """The side that has jobs; see :func:`nursery`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._running = False

    def _answer(self) -> list[int]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery is gone"
        found: list[int] = json.loads(line)
        return found

    def start(self, jobs: Sequence[dict[str, Any]]) -> list[int]:
        """Fork a worker for each job; return their process ids."""
        if self._running:
            self.wait()  # for those of a test that failed
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(jobs)) + "\n")
        self._process.stdin.flush()
        self._running = True
        return self._answer()

    def wait(self) -> list[int]:
        """Wait for the workers that were started; return their exit codes, negative for a signal."""
        self._running = False
        return [os.waitstatus_to_exitcode(status) for status in self._answer()]

    def run(self, *jobs: dict[str, Any]) -> list[int]:
        """Start and wait."""
        self.start(jobs)
        return self.wait()


@contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery for the length of the block."""
    command = [sys.executable, "-m", "tests._nursery"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    """Fork until nobody has jobs any more."""
    # what workers use is imported once, here
    import alembic.command  # noqa: F401
    import anyio._backends._asyncio  # noqa: F401
    import psycopg  # noqa: F401
    import tenacity  # noqa: F401

    import kandev_routing_sdk.acp  # noqa: F401
    from kandev_routing_sdk.acp.downstream import AcpDownstream  # noqa: F401
    from kandev_routing_sdk.store import open_store
    from tests.routes._calling import run_call
    from tests.sessions._worker import run_job

    plays = {"session": run_job, "call": run_call}
    # what is made at its first use, too
    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/warm.db") as store:
        store.sessions()
        store.circuits()
    for line in sys.stdin:
        jobs = json.loads(line)
        pids = []
        for job in jobs:
            pid = os.fork()
            if pid == 0:
                try:
                    plays[job.get("play", "session")](job)
                finally:
                    os._exit(0)
            pids.append(pid)
        _tell(pids)
        _tell(_outlive(jobs, pids))


def _outlive(jobs: Sequence[dict[str, Any]], pids: Sequence[int]) -> list[int]:
    began = time.monotonic()
    limits = [job.get("kill_after_s", LONGEST_S) for job in jobs]
    ends = {os.pidfd_open(pid): number for number, pid in enumerate(pids)}
    statuses = [0] * len(pids)
    poll = select.poll()
    for descriptor in ends:
        poll.register(descriptor, select.POLLIN)
    while ends:
        left = max(0.0, min(began + limits[number] for number in ends.values()) - time.monotonic())
        ended = {descriptor for descriptor, _ in poll.poll(left * 1000)}
        for descriptor, number in list(ends.items()):
            if descriptor in ended:
                poll.unregister(descriptor)
                os.close(descriptor)
                statuses[number] = os.waitpid(pids[number], 0)[1]
                del ends[descriptor]
            elif time.monotonic() - began >= limits[number]:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                limits[number] += LONGEST_S
    return statuses


def _tell(numbers: Sequence[int]) -> None:
    print(json.dumps(list(numbers)), flush=True)


if __name__ == "__main__":
    main()

"""One agent process in its own group: both pipes drained, its input written aside, and always ended (R-CON-11).

The leader is reaped only after the last signal to its group: while it is unreaped, no other process can get its number, so the
group that is signalled is ours. (asyncio's own processes are reaped at once, and on Python 3.11 their ``wait`` hangs for as long
as a grandchild holds a pipe.)
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from kandev_routing_sdk.clock import Clock
from kandev_routing_sdk.process.group import Kin, end_kin, has_proc, markers, signal_group
from kandev_routing_sdk.process.limits import DEFAULT_LIMITS, ProcessLimits
from kandev_routing_sdk.process.lines import Line, LineSplitter
from kandev_routing_sdk.process.spawn import Launch

LineHandler = Callable[[Line], Awaitable[None]]

_CHUNK: Final = 64 * 1024
_POLL_S: Final = 0.02
_PATIENCE: Final = 10
"""How many times ``pipe_grace_s`` the output of a group that is gone may take to be read."""
_LAST_ROUNDS: Final = 20
"""Looks for what is left of a group when there is no time to wait between them."""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How the leader ended; exactly one of both is set, or none when it could not be found out."""

    code: int | None
    signal: str | None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"the agent's process was killed by {self.signal}"
        return f"the agent's process exited with code {self.code}"


def exit_status(returncode: int | None) -> ExitStatus:
    """Translate ``subprocess``'s return code."""
    if returncode is None or returncode >= 0:
        return ExitStatus(returncode, None)
    with suppress(ValueError):
        return ExitStatus(None, signal.Signals(-returncode).name)
    return ExitStatus(None, f"signal {-returncode}")


class Child:
    """A running agent. Made by :meth:`spawn`; every one must be given to :meth:`stop`."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        marks: Mapping[str, str],
        started_at: datetime,
        limits: ProcessLimits,
        on_stdout: LineHandler,
        on_stderr: LineHandler,
    ) -> None:
        self._popen = popen
        self._kin = Kin(popen.pid, marks)
        self.process_group: Final = popen.pid
        self.started_at: Final = started_at
        self._limits = limits
        self.failure: BaseException | None = None
        """What a line handler raised; the process is then ended."""
        self.flooded: bool = False
        """Whether it said more than the total bound."""
        self.interrupted_drain: bool = False
        """Whether a pipe was still open when reading stopped: something may have been said unheard."""
        self._total = 0
        self._outbox: deque[tuple[bytes, bool]] = deque()
        """What waits to be written, and whether it may be lost."""
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._close_when_written = False
        self._written = self._due = 0
        """How much was written to it, and up to where it has to read."""
        self._deaf = asyncio.Event()
        self._exited = asyncio.Event()
        self._ending: asyncio.Task[ExitStatus] | None = None
        self._empty = False
        self._pipes = [p for p in (popen.stdin, popen.stdout, popen.stderr) if p is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        assert popen.stdin is not None  # noqa: S101  # all three are pipes
        assert popen.stdout is not None  # noqa: S101
        assert popen.stderr is not None  # noqa: S101
        self._stdin_fd: int | None = popen.stdin.fileno()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(
            self._stdin_fd, self._input_closed
        )  # nothing to read: it is called when the other end is closed
        self._writer = asyncio.create_task(self._write(), name="agent stdin")
        self._stdout = asyncio.create_task(self._read(popen.stdout.fileno(), on_stdout), name="agent stdout")
        self._stderr = asyncio.create_task(
            self._read(popen.stderr.fileno(), on_stderr, pieces=True), name="agent stderr"
        )
        self._waiter = asyncio.create_task(self._wait_exit(), name="agent exit")

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        cwd: Path,
        attempt_id: str,
        clock: Clock,
        on_stdout: LineHandler,
        on_stderr: LineHandler,
        limits: ProcessLimits = DEFAULT_LIMITS,
    ) -> Child:
        """Start ``argv`` in a session of its own, marked with ``attempt_id``, and drain it from the first byte on.

        Handlers run one at a time per pipe, in order. Raises :class:`~kandev_routing_sdk.errors.LaunchError` (nothing was started).
        """
        started_at = clock.now()
        marks = await anyio.to_thread.run_sync(markers, attempt_id)
        launch = Launch(argv, {**environ, **marks}, cwd)
        try:
            popen = await anyio.to_thread.run_sync(launch)
        except asyncio.CancelledError:
            launch.abandon()  # a process that was started must be known
            raise
        assert popen is not None  # noqa: S101  # it was not abandoned
        return cls(popen, marks=marks, started_at=started_at, limits=limits, on_stdout=on_stdout, on_stderr=on_stderr)

    # Standard input -----------------------------------------------------------------------------------------------------

    def send(self, data: bytes, *, droppable: bool = False) -> bool:
        """Queue ``data`` for standard input; never blocks.

        False when it can no longer be written or, ``droppable``, when the agent does not read what waits already.
        """
        if self._stdin_fd is None or self._close_when_written:
            if not droppable:
                self._deaf.set()
            return False
        if droppable and self._outbox_bytes + len(data) > self._limits.outbox_bytes:
            return False
        self._outbox.append((data, droppable))
        self._outbox_bytes += len(data)
        self._wake.set()
        return True

    def close_stdin(self) -> None:
        """Close standard input once everything queued is written."""
        self._close_when_written = True
        self._wake.set()

    async def _write(self) -> None:
        fd = self._stdin_fd
        assert fd is not None  # noqa: S101  # set by the constructor
        try:
            while self._outbox or not self._close_when_written:
                if not self._outbox:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                data, droppable = self._outbox[0]
                view = memoryview(data)
                if not droppable:
                    self._due = self._written + len(data)
                while view:
                    try:
                        count = os.write(fd, view)
                        view = view[count:]
                        self._written += count
                    except BlockingIOError:
                        await anyio.wait_writable(fd)
                self._outbox.popleft()
                self._outbox_bytes -= len(data)
        except OSError:
            # the agent closed its end: what it says on the other pipes and its exit tell why
            if not all(droppable for _, droppable in self._outbox):
                self._deaf.set()
            self._outbox.clear()
        except asyncio.CancelledError:
            self._stdin_fd = None
            raise  # left open: an agent that reads its end goes, and nobody has looked at its tools yet
        self._stdin_fd = None
        self._close_input()

    def _input_closed(self) -> None:
        """The agent closed its end: what it had not read by then it never will."""
        fd = self._pipes[0].fileno()
        self._loop.remove_reader(fd)
        try:
            unread = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
        except OSError:  # not every system tells; the next write does
            return
        if self._written - unread < self._due:
            self._deaf.set()

    def _close_input(self) -> None:
        pipe = self._pipes[0]
        if not pipe.closed:
            self._loop.remove_reader(pipe.fileno())
            pipe.close()

    # Standard output and error ------------------------------------------------------------------------------------------

    async def _read(self, fd: int, handler: LineHandler, *, pieces: bool = False) -> None:
        splitter = LineSplitter(self._limits.line_bytes, pieces=pieces)
        try:
            while chunk := await self._chunk(fd):
                self._total += len(chunk)
                if self._total > self._limits.total_bytes:
                    self._give_up(flooded=True)
                    return
                for line in splitter.feed(chunk):
                    await handler(line)
            for line in splitter.flush():
                await handler(line)
        except asyncio.CancelledError:
            self.interrupted_drain = True
            raise
        except BaseException as exc:  # noqa: BLE001  # kept for the driver, which raises or records it
            self.failure = self.failure or exc
            self._give_up()

    async def _chunk(self, fd: int) -> bytes:
        while True:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(fd)
                continue
            except OSError:
                return b""
            # an agent that never pauses must not keep the loop for itself
            await asyncio.sleep(0)
            return chunk

    def _give_up(self, *, flooded: bool = False) -> None:
        self.flooded = self.flooded or flooded
        self.interrupted_drain = True
        signal_group(self.process_group, signal.SIGKILL)

    # The end ------------------------------------------------------------------------------------------------------------

    async def _wait_exit(self) -> None:
        """Set ``_exited`` when the leader is a zombie, without reaping it."""
        pidfd = None
        try:
            with suppress(AttributeError, OSError):
                pidfd = os.pidfd_open(self.process_group)
            while not self._leader_ended():
                if pidfd is not None:
                    await anyio.wait_readable(pidfd)
                else:
                    await anyio.sleep(_POLL_S)
        finally:
            if pidfd is not None:
                os.close(pidfd)
            self._exited.set()

    def _leader_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.process_group, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True  # somebody else in this program waits for all children

    @property
    def ended(self) -> bool:
        """Whether the leader has exited."""
        return self._exited.is_set()

    async def wait_exited(self) -> None:
        """Wait until the leader has exited (its children may live on)."""
        await self._exited.wait()

    async def wait_deaf(self) -> None:
        """Wait until the agent closed its standard input before it had read all that must not be lost."""
        await self._deaf.wait()

    async def wait_stdout_end(self) -> None:
        """Wait until standard output is at its end (or reading it failed)."""
        await asyncio.wait([self._stdout])

    async def wait_quiet(self) -> None:
        """Wait until the leader has exited and both pipes are at their end; children that hold one are ended after a grace."""
        await self._exited.wait()
        for _ in range(_PATIENCE):
            if await self._drained(self._limits.pipe_grace_s):
                return
            if not has_proc() or await self._look():
                break
            # nobody is left to say more: on a busy machine, what was said is only not read yet
        self.interrupted_drain = True
        signal_group(self.process_group, signal.SIGKILL)
        await self._drained(self._limits.pipe_grace_s)

    async def _drained(self, timeout_s: float) -> bool:
        _, pending = await asyncio.wait([self._stdout, self._stderr], timeout=timeout_s)
        return not pending

    async def interrupt(self) -> None:
        """Send SIGINT to the group, as a terminal would."""
        await self._look()
        if self._ending is None:
            signal_group(self.process_group, signal.SIGINT)

    async def stop(self, *, at_once: bool = False) -> ExitStatus:
        """End and reap the whole group, and tools in sessions of their own: EOF, TERM, KILL, each wait bounded.

        ``at_once``: KILL only, for an agent that must not do another thing. Idempotent. Finishes also when the caller is cancelled
        meanwhile, by whatever means; the cancellation is then raised.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._stop(at_once=at_once), name="agent stop")
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not self._ending.done():
                try:
                    await asyncio.wait({self._ending})
                except asyncio.CancelledError as exc:
                    cancelled = exc
        if cancelled is not None:
            raise cancelled
        return self._ending.result()

    @property
    def gone(self) -> bool:
        """After :meth:`stop`: whether the group was seen empty."""
        return self._empty

    async def _stop(self, *, at_once: bool) -> ExitStatus:
        try:
            return await self._end(at_once=at_once)
        except asyncio.CancelledError:
            self._end_at_once()  # the event loop is being closed (a second Ctrl-C): nothing can be waited for any more
            raise

    def _end_at_once(self) -> None:
        for _ in range(_LAST_ROUNDS):
            if self._kin.kill_and_look():
                self._empty = True
                break
        if self._popen.poll() is None:
            self._popen.returncode = -signal.SIGKILL
        self._close_input()
        for pipe in self._pipes:
            pipe.close()

    async def _end(self, *, at_once: bool) -> ExitStatus:
        limits = self._limits
        await self._look()
        if at_once:
            await self._kill()
        else:
            await self._ask_to_go()
        # Its children, too, when it left by itself. The leader is not reaped yet: the number of the group is still ours.
        empty = await end_kin(self._kin, limits.kill_grace_s)
        await self._drained(limits.pipe_grace_s)
        await self._cancel_tasks()
        returncode = self._popen.poll() if self.ended else None
        if returncode is None:
            self._popen.returncode = -signal.SIGKILL  # unkillable (uninterruptible sleep): no warning can help
        self._close_input()
        for pipe in self._pipes:
            pipe.close()
        self._empty = empty
        return exit_status(returncode)

    async def _ask_to_go(self) -> None:
        self.close_stdin()
        if await self._exits_within(self._limits.eof_grace_s):
            return
        self._writer.cancel()
        await self._look()
        self._close_input()
        # agents end their tools' sessions at SIGTERM, but not when they are killed
        signal_group(self.process_group, signal.SIGTERM)
        if not await self._exits_within(self._limits.term_grace_s):
            await self._look()
            await self._kill()

    async def _kill(self) -> None:
        signal_group(self.process_group, signal.SIGKILL)
        await self._exits_within(self._limits.kill_grace_s)

    async def _look(self) -> bool:
        """Remember the descendants while they can be told by their parents; whether anybody is alive, or may be."""
        try:
            return bool(await anyio.to_thread.run_sync(self._kin.look))
        except OSError:
            return True

    async def _exits_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), seconds)
        return self.ended

    async def _cancel_tasks(self) -> None:
        tasks = (self._writer, self._stdout, self._stderr, self._waiter)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Starts an agent's process, in a session and group of its own (R-CON-11)."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kandev_routing_sdk.errors import ExecutableNotFound, LaunchError
from kandev_routing_sdk.process.group import signal_group


def _popen(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # the caller ends it: see `stop`
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            cwd=cwd,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError as exc:
        where = (
            f"the folder {cwd.name!r} to start it in does not exist" if exc.filename == str(cwd) else "there is none"
        )
        raise ExecutableNotFound(
            f"the agent's executable {Path(argv[0]).name!r} could not be started: {where}"
        ) from exc
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "its arguments cannot be passed on"
        where = f"the folder {cwd.name!r}: " if isinstance(exc, OSError) and exc.filename == str(cwd) else ""
        raise LaunchError(
            f"the agent's executable {Path(argv[0]).name!r} could not be started: {where}{reason}"
        ) from exc


class Launch:
    """Starts a process in a thread; one that nobody waits for any more is ended there.

    A caller may be cancelled by other means than anyio's (``asyncio.timeout``): no shield holds that off.
    """

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> None:
        self._how = (argv, environ, cwd)
        self._lock = threading.Lock()
        self._abandoned = False
        self._popen: subprocess.Popen[bytes] | None = None

    def __call__(self) -> subprocess.Popen[bytes] | None:
        """Start it; None when that is not wanted any more."""
        with self._lock:
            if not self._abandoned:
                self._popen = _popen(*self._how)
            return self._popen

    def abandon(self) -> None:
        """End what was started, or start nothing (blocking for as long as a start takes)."""
        with self._lock:
            self._abandoned = True
            if self._popen is not None:
                signal_group(self._popen.pid, signal.SIGKILL)
                self._popen.wait()
                for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                    if pipe is not None:
                        pipe.close()

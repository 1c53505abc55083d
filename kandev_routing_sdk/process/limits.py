"""How much an agent may say, and how long it may take to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Bounds on one agent process. Waits are real seconds: a process does not follow a test's clock."""

    line_bytes: int = 1024 * 1024
    """A longer line of standard output is cut here and flagged, its rest is thrown away unread; one of standard error comes in
    pieces of this size."""
    total_bytes: int = 512 * 1024 * 1024
    """Of standard output and standard error together; an agent that says more is ended."""
    outbox_bytes: int = 4 * 1024 * 1024
    """Answers waiting for an agent that does not read; more are dropped. Prompts do not count."""
    eof_grace_s: float = 2.0
    """From closing standard input to SIGTERM."""
    term_grace_s: float = 3.0
    """From SIGTERM to SIGKILL."""
    kill_grace_s: float = 5.0
    """From SIGKILL until the group is given up as unkillable."""
    pipe_grace_s: float = 1.0
    """How long pipes may stay open after the leader exited, before its children are ended."""
    linger_s: float = 30.0
    """How long a headless agent may live on after it said that its turn is over."""
    cancel_grace_s: float = 5.0
    """From the interrupt (or ``session/cancel``) to the end of the process."""
    handshake_s: float = 300.0
    """ACP: from the spawn to a session."""
    quiet_max_s: float = 5.0
    """ACP: the longest quiet period after the response, whatever still comes."""
    garbage_lines: int = 1000
    """ACP: lines on standard output that are no messages; an agent that prints more is ended."""


DEFAULT_LIMITS: Final = ProcessLimits()

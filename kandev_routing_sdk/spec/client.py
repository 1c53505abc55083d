"""What a host does for an agent that asks its client: permissions, files, terminals (R-EVI-3, R-SAFE-1).

A host passes these to ``Router.open(permissions=…, client=…)``. Only agents that speak the Agent Client Protocol ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pydantic import JsonValue

PERMISSION: Final = "session/request_permission"
READ_FILE: Final = "fs/read_text_file"
WRITE_FILE: Final = "fs/write_text_file"
TERMINAL_REQUESTS: Final = frozenset(
    {"terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}
)
CLIENT_REQUESTS: Final = frozenset({READ_FILE, WRITE_FILE, *TERMINAL_REQUESTS})
"""What an agent may ask its client to do. Each is a mark of its turn, whatever the answer is."""
CLIENT_EFFECTS: Final = frozenset({WRITE_FILE, "terminal/create", "terminal/kill"})
"""Those of them that change something; the others are activity."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose agent asks. The same for everything that one attempt asks."""

    session_id: str
    """The logical session, or the call."""
    generation: int
    profile_id: str
    """The concrete profile that runs."""
    cwd: Path
    """Absolute folder in which it works."""


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One of the answers that an agent offers. ``kind``: ``allow_once``, ``allow_always``, ``reject_once``, ``reject_always``, or
    a word of the agent's own.
    """

    option_id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """An agent asks leave for a tool. Texts are masked as everything is that leaves the router (R-EVI-5)."""

    asker: Asker
    tool_id: str
    title: str
    kind: str
    """``read``, ``edit``, ``execute``, … as the agent says; may be empty."""
    options: tuple[PermissionOption, ...]
    details: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    """The rest of what the agent says of the tool: its raw input, places, content."""


class PermissionHandler(Protocol):
    """A host's own answer to :class:`PermissionRequest`, given to ``Router.open(permissions=…)``.

    It runs on the router's event loop, as a task beside the turn. The profile's ``permissions.default`` answers instead when it
    returns None or something that was not offered, raises, or takes longer than the client's ``permission_s``. When the turn ends
    or is cancelled meanwhile, the agent is told that the request was cancelled, and the task is.
    """

    async def __call__(self, request: PermissionRequest) -> str | None:
        """Return the ``option_id`` of the answer, or None."""
        ...


@dataclass(frozen=True, slots=True)
class FileRead:
    """An agent wants to see a text file: ``limit`` lines from line ``line`` (1 is the first) on, or all."""

    asker: Asker
    path: str
    line: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class FileWrite:
    """An agent wants to create a text file, or replace what it holds."""

    asker: Asker
    path: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TerminalRequest:
    """An agent asks something of a terminal. ``method`` is one of ``terminal/create``, ``terminal/output``,
    ``terminal/wait_for_exit``, ``terminal/kill`` and ``terminal/release``; ``params`` are the protocol's.
    """

    asker: Asker
    method: str
    params: Mapping[str, JsonValue] = field(repr=False)


class ReadTextFile(Protocol):
    """Reads a file for an agent. ``FileNotFoundError`` and ``PermissionError`` are told to it as such, others as a failure."""

    async def __call__(self, request: FileRead) -> str:
        """Return the text; more than a million characters are refused."""
        ...


class WriteTextFile(Protocol):
    """Writes a file for an agent; errors as for :class:`ReadTextFile`."""

    async def __call__(self, request: FileWrite) -> None:
        """Write it."""
        ...


class Terminal(Protocol):
    """Runs commands for an agent. The host ends what it started when the session is over; errors as for :class:`ReadTextFile`."""

    async def __call__(self, request: TerminalRequest) -> Mapping[str, JsonValue]:
        """Return the result as the protocol has it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCapabilities:
    """What a host offers to its agents, given to ``Router.open(client=…)``. What is None is not offered, and refused.

    An agent that is offered files or a terminal may use them instead of its own tools: what it does then is the host's to see.
    """

    read_text_file: ReadTextFile | None = None
    write_text_file: WriteTextFile | None = None
    terminal: Terminal | None = None
    permission_s: float = 300.0
    """Seconds for an answer to a permission request."""
    file_s: float = 60.0
    """Seconds for a file; a terminal has until the turn ends."""


NOTHING_OFFERED: Final = ClientCapabilities()


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


@dataclass(frozen=True, slots=True)
class HostSide:
    """Who answers the agent of one attempt, and for whom it is."""

    asker: Asker | None = None
    """None: nobody; what is asked is answered by default."""
    permissions: PermissionHandler | None = None
    offers: ClientCapabilities = NOTHING_OFFERED
    clean: Callable[[JsonValue], JsonValue] = field(default=_as_it_is, repr=False)


NOBODY: Final = HostSide()

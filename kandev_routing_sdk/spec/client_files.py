"""The files below an agent's folder, as a client offers them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from anyio import to_thread

from kandev_routing_sdk.spec.client import ClientCapabilities, FileRead, FileWrite

_MAX_BYTES: Final = 16 * 1024 * 1024
_OPEN: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def local_files(*, write: bool = False) -> ClientCapabilities:
    """Offer the files below the folder in which an agent works, to read and, with ``write``, to write.

    A path that leads out of it, by ``..`` or a link, is refused. That keeps an agent to its folder; it is no sandbox for one that
    has other tools. Add a terminal, or other time limits, with ``dataclasses.replace``.
    """
    return ClientCapabilities(read_text_file=read_file, write_text_file=write_file if write else None)


async def read_file(request: FileRead) -> str:
    """Return the lines. Raises OSError; PermissionError for what is not a file below the folder."""
    return await to_thread.run_sync(_read, request, abandon_on_cancel=True)


async def write_file(request: FileWrite) -> None:
    """Create or replace the file. Raises as :func:`read_file`."""
    await to_thread.run_sync(_write, request)  # not given up half-way


def _read(request: FileRead) -> str:
    handle = os.open(_below(request.asker.cwd, request.path), os.O_RDONLY | _OPEN)
    with os.fdopen(handle, "rb") as file:
        _check(file.fileno())
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise PermissionError(f"{request.path}: longer than {_MAX_BYTES} bytes")
    text = data.decode("utf-8", "replace")
    if request.line is None and request.limit is None:
        return text
    first = max(request.line or 1, 1) - 1
    lines = text.splitlines(keepends=True)[first:]
    return "".join(lines if request.limit is None else lines[: max(request.limit, 0)])


def _write(request: FileWrite) -> None:
    handle = os.open(_below(request.asker.cwd, request.path), os.O_WRONLY | os.O_CREAT | _OPEN, 0o666)
    with os.fdopen(handle, "wb") as file:
        _check(file.fileno())  # before anything of it is cut off
        file.truncate(0)
        file.write(request.text.encode("utf-8", "replace"))


def _below(cwd: Path, path: str) -> Path:
    """Return the real path. The last part is opened without following a link, so that it stays what was looked at."""
    folder, found = cwd.resolve(), (cwd / path).resolve()
    if not found.is_relative_to(folder):
        raise PermissionError(f"{path}: not below the agent's folder")
    return found


def _check(handle: int) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise PermissionError("not a regular file")

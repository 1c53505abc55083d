"""Finds an agent's executable without starting it; for :meth:`AgentAdapter.plan` and :meth:`AgentAdapter.discover`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kandev_routing_sdk.errors import ExecutableNotFound


def find_executable(name: str, environ: Mapping[str, str], cwd: Path | None = None) -> str | None:
    """Return the absolute path of an executable file, or None.

    Args:
        name: looked up on the child's ``PATH``; with a slash it is a path, relative to ``cwd``; ``~`` is the user's home.
        environ: the environment that the agent will get (R-RUN-3): its ``PATH`` may be another than this process's.
        cwd: where the agent will work; default: this process's directory.
    """
    # Asked of the text: as a Path, ``./acme`` is ``acme``, and would be looked up.
    if "/" in name or name.startswith("~"):
        try:
            path = (cwd or Path()) / Path(name).expanduser()
        except RuntimeError:
            return None  # the home of nobody
        return str(path.absolute()) if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())


def require_executable(name: str, environ: Mapping[str, str], cwd: Path | None = None, *, hint: str) -> str:
    """Like :func:`find_executable`, for a launch.

    Raises:
        ExecutableNotFound: there is no such executable; ``hint`` is the way out.
    """
    found = find_executable(name, environ, cwd)
    if found is None:
        raise ExecutableNotFound(f"no executable {name!r} on this machine; {hint}")
    return found

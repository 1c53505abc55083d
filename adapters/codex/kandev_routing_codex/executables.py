"""Finds the executable without starting it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kandev_routing_sdk.spec import ExecutableNotFound


def find(name: str, environ: Mapping[str, str], cwd: Path) -> str | None:
    """Return the absolute path of ``name``: looked up on the child's PATH, or relative to ``cwd`` if it has a slash."""
    expanded = Path(name).expanduser() if name.startswith("~") else Path(name)
    if expanded.parent != Path():
        path = cwd / expanded
        return str(path.absolute()) if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())


def require(name: str, environ: Mapping[str, str], cwd: Path, hint: str) -> str:
    """Like :func:`find`.

    Raises:
        ExecutableNotFound: there is no such executable; ``hint`` is the way out.
    """
    found = find(name, environ, cwd)
    if found is None:
        raise ExecutableNotFound(f"no executable {name!r} on this machine; {hint}")
    return found

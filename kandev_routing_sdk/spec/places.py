"""Where an agent finds what is its user's own, and how such a place is named in a descriptor (R-CIR-3)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home that an agent with this environment will use: ``HOME``, else the one of this process's user."""
    return Path(environ.get("HOME") or _own_home())


def place_of(path: str | Path) -> str:
    """Return a path as a locator: links followed, below the user's own home relative to it (``~/…``), else whole.

    The user's own home is the one that the system knows, whatever ``HOME`` says: an agent with another ``HOME`` has other logins,
    and one with the usual ``HOME`` written out has the usual ones.
    """
    place = Path(os.path.realpath(path))
    try:
        return f"~/{place.relative_to(os.path.realpath(_own_home()))}"
    except ValueError:
        return str(place)


def _own_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a user that the system does not know, as in containers
        return os.environ.get("HOME") or "/"

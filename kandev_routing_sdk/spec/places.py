"""Where an agent finds what is its user's own, and how such a place is named in a descriptor (R-CIR-3)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from kandev_routing_sdk.profiles import ConcreteProfile


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home that an agent with this environment will use: ``HOME``, else the one of this process's user."""
    return Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def place_of(path: str | Path, profile: ConcreteProfile, environ: Mapping[str, str]) -> str:
    """Return a path as a locator: below the agent's home relative to it (``~/…``), so that it names no user; else as it is.

    A profile that sets ``HOME`` itself means another home than ``~`` does elsewhere, so its paths stay whole.
    """
    if "HOME" not in profile.env:
        try:
            return f"~/{Path(path).relative_to(home_of(environ))}"
        except ValueError:
            pass  # it is elsewhere
    return str(path)

"""The zone in which Codex prints local times: the C library's rules, without asking the C library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

_FOLDER: Final = "zoneinfo/"


def local_zone(environ: Mapping[str, str], etc: Path = Path("/etc")) -> str | None:
    """Return the IANA name of the child's zone; None when it cannot be told."""
    if "TZ" in environ:
        return _known(_below_folder(environ["TZ"].removeprefix(":")) or "UTC")
    link = etc / "localtime"
    try:
        target = str(link.readlink())
    except FileNotFoundError:
        return "UTC"
    except OSError:
        target = ""
    if _FOLDER in target:
        return _known(_below_folder(target))
    try:
        return _known((etc / "timezone").read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return None


def _below_folder(path: str) -> str:
    return path.rpartition(_FOLDER)[2]


def _known(name: str) -> str | None:
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):  # no such zone, or a rule such as ``CET-1CEST``
        return None

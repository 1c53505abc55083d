"""The parts of Claude's settings files that decide whom it talks to, and as whom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from kandev_routing_sdk.spec import JsonValue

MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """What several files say together, later ones winning."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_source: Mapping[str, str | None] = field(default_factory=dict)
    """Which file a variable comes from; None: from the command line, which is no place to name."""
    model: str | None = None
    api_key_helper: str | None = None
    """The file that names the helper; the helper's command line is not read."""
    default_mode: str | None = None
    readable: bool = True
    """False: one of the files is there and cannot be understood, so nothing can be proven."""


def read_settings(
    config_dir: Path,
    cwd: Path,
    args: Sequence[str],
    managed: Sequence[Path] = MANAGED,
    sources: Sequence[JsonValue] | None = None,
) -> Settings:
    """Read the files in Claude's own order: user, project, local, ``--settings``, managed.

    ``sources``: which of the first three it is told to read, default all; ``--setting-sources`` in ``args`` says so too.
    """
    documents: list[tuple[str | None, Mapping[str, JsonValue] | None]] = []
    folder = cwd / ".claude"
    files = {
        "user": config_dir / "settings.json",
        "project": folder / "settings.json",
        "local": folder / "settings.local.json",
    }
    told = [name.strip() for value in _flag_values(args, "--setting-sources") for name in value.split(",")]
    wanted = told or (files if sources is None else sources)
    documents += [(str(path), _read(path)) for name, path in files.items() if name in wanted and path.is_file()]
    documents += [_given(value, cwd) for value in _flag_values(args, "--settings")]
    documents += [(str(path), _read(path)) for path in _with_parts(managed) if path.is_file()]
    env: dict[str, str] = {}
    env_source: dict[str, str | None] = {}
    model = helper = mode = None
    for source, document in documents:
        content = document or {}
        own = content.get("env")
        for name, value in own.items() if isinstance(own, dict) else ():
            env[name], env_source[name] = str(value), source
        chosen = content.get("model")
        model = chosen if isinstance(chosen, str) else model
        permissions = content.get("permissions")
        chosen = permissions.get("defaultMode") if isinstance(permissions, dict) else None
        mode = chosen if isinstance(chosen, str) else mode
        if content.get("apiKeyHelper"):
            helper = source or ""
    readable = all(document is not None for _, document in documents)
    return Settings(env, env_source, model, helper, mode, readable)


def _with_parts(managed: Sequence[Path]) -> list[Path]:
    """Each managed file, then those of the folder beside it (``managed-settings.d``), by name."""
    return [path for file in managed for path in (file, *sorted(file.with_suffix(".d").glob("*.json")))]


def _flag_values(args: Sequence[str], flag: str) -> list[str]:
    found = [argument.partition("=")[2] for argument in args if argument.startswith(f"{flag}=")]
    return found + [value for name, value in pairwise(args) if name == flag]


def _given(value: str, cwd: Path) -> tuple[str | None, Mapping[str, JsonValue] | None]:
    if value.lstrip().startswith("{"):
        return None, _parse(value)
    return str(cwd / value), _read(cwd / value)


def _read(path: Path) -> Mapping[str, JsonValue] | None:
    try:
        return _parse(path.read_text("utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def _parse(text: str) -> Mapping[str, JsonValue] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None

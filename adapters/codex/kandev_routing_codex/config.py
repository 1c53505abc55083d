"""The parts of Codex's configuration that decide whom it talks to, and as whom."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

SYSTEM: Final = Path("/etc/codex/config.toml")
_MAX_BYTES: Final = 1024 * 1024
_CONFIG_FLAGS: Final = ("-c", "--config")
_PROFILE_FLAGS: Final = ("-p", "--profile")
_PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Config:
    """What the files and the command line say together."""

    values: Table
    overridden: frozenset[str]
    """Dotted keys that the profile's own command line sets."""
    readable: bool = True
    """False: one of the files is there and cannot be understood, so nothing can be proven."""

    def text(self, name: str) -> str:
        """Return a top-level text, or nothing."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def table(self, *path: str) -> Table:
        """Return a table, or an empty one."""
        found: Any = self.values
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}


def read_config(home: Path, args: Sequence[str], given: Table | None = None, system: Path = SYSTEM) -> Config:
    """Read the files in Codex's own order, then what is ``given`` beside them, then ``-c`` of ``args``; later ones win."""
    layers = [_read(system)]
    chosen = flag_values(args, _PROFILE_FLAGS)
    if "--ignore-user-config" not in args:
        layers.append(_read(home / "config.toml"))
    layers += [_read(home / f"{name}.config.toml") for name in chosen if _PROFILE_NAME.fullmatch(name)]
    values: dict[str, Any] = {}
    for layer in layers:
        values = merged(values, layer or {})
    legacy = chosen[-1] if chosen else values.get("profile")
    profiles = values.get("profiles")
    if isinstance(legacy, str) and isinstance(profiles, dict) and isinstance(profiles.get(legacy), dict):
        values = merged(values, profiles[legacy])
    values = merged(values, given or {})
    own = dict(overrides(args))
    for key, value in own.items():
        values = merged(values, nested(key, value))
    return Config(values, frozenset(own), readable=all(layer is not None for layer in layers))


def overrides(args: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Return the dotted key and the value of every ``-c``."""
    for argument in flag_values(args, _CONFIG_FLAGS):
        key, _, text = argument.partition("=")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip().strip("\"'")
        yield key.strip(), value


def flag_values(args: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return a flag's values in the order given: ``-c x``, ``-cx``, ``--config x``, ``--config=x``."""
    found: list[str] = []
    for before, argument in pairwise(["", *args]):
        if before in flags:
            found.append(argument)
            continue
        for flag in flags:
            if flag.startswith("--") and argument.startswith(f"{flag}="):
                found.append(argument[len(flag) + 1 :])
            elif not flag.startswith("--") and argument.startswith(flag) and argument != flag:
                found.append(argument[len(flag) :].removeprefix("="))
    return found


def _read(path: Path) -> Table | None:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None


def nested(key: str, value: Any) -> Table:  # noqa: ANN401
    """Return a dotted key as the tables that it names."""
    head, _, rest = key.partition(".")
    return {head: nested(rest, value) if rest else value}


def merged(below: Table, above: Table) -> dict[str, Any]:
    """Lay one configuration over another."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result

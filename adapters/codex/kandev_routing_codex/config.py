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
    """Dotted keys that the profile's own command line sets, those within its tables too."""
    readable: bool = True
    """False: one of the files is there and cannot be understood, so nothing can be proven."""
    layers: tuple[tuple[Path | None, Table], ...] = ()
    """What each source says by itself. None: it is no file, but the command line or the environment."""

    def text(self, name: str) -> str:
        """Return a top-level text, or nothing."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def count(self, name: str) -> int | None:
        """Return a top-level positive number, or nothing."""
        value = self.values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def table(self, *path: str) -> Table:
        """Return a table, or an empty one."""
        found = _at(self.values, path)
        return found if isinstance(found, Mapping) else {}

    def holder(self, *path: str) -> Path | None:
        """Return the file that alone says what is at ``path``; None when it is no file, or not alone."""
        holders = [source for source, values in self.layers if _at(values, path) is not None]
        return holders[0] if len(holders) == 1 else None


def read_config(home: Path, args: Sequence[str], given: Table | None = None, system: Path = SYSTEM) -> Config:
    """Read the files in Codex's own order, then what is ``given`` beside them, then ``-c`` of ``args``; later ones win."""
    files = [system]
    chosen = flag_values(args, _PROFILE_FLAGS)
    if "--ignore-user-config" not in args:
        files.append(home / "config.toml")
    files += [home / f"{name}.config.toml" for name in chosen if _PROFILE_NAME.fullmatch(name)]
    read = [(path, _read(path)) for path in files]
    layers: list[tuple[Path | None, Table]] = [(path, values or {}) for path, values in read]
    values = _together(layers)
    legacy = chosen[-1] if chosen else values.get("profile")
    profiles = values.get("profiles")
    if isinstance(legacy, str) and isinstance(profiles, dict) and isinstance(profiles.get(legacy), dict):
        layers.append((None, profiles[legacy]))
    own = dict(overrides(args))
    layers += [(None, layer) for layer in (given or {}, *(nested(key, value) for key, value in own.items()))]
    readable = all(values is not None for _, values in read)
    return Config(_together(layers), frozenset(_dotted(own)), readable, tuple(layers))


def _dotted(values: Table, prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")


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


def _together(layers: Sequence[tuple[Path | None, Table]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for _, layer in layers:
        values = merged(values, layer)
    return values


def _at(values: Table, path: Sequence[str]) -> Any:  # noqa: ANN401  # a value of TOML
    found: Any = values
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _read(path: Path) -> Table | None:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None


def nested(key: str, value: Any) -> Table:  # noqa: ANN401  # a value of TOML
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

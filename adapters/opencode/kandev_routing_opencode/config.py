"""The parts of OpenCode's configuration that decide whom it talks to, and as whom, in OpenCode's own order of files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kandev_routing_opencode.jsonc import merged, read_jsonc
from kandev_routing_sdk.spec import JsonValue, as_object, as_text, home_of

MANAGED: Final = (Path("/etc/opencode"), Path("/Library/Application Support/opencode"))
INLINE: Final = "OPENCODE_CONFIG_CONTENT"
_TRUE: Final = frozenset({"1", "true"})
_MAX_BYTES: Final = 1024 * 1024
_NAMES: Final = ("opencode.json", "opencode.jsonc")
_VARIABLE: Final = re.compile(r"\{env:([^}]+)\}")
_REFERENCE: Final = re.compile(r"\{(env|file):([^}]+)\}")

Table = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of configuration. ``path``: its file; None for the environment."""

    path: Path | None
    values: Table | None
    """None: it is there and cannot be understood."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and the file it was last set in."""

    value: str
    path: Path | None

    @property
    def reference(self) -> tuple[str, str] | None:
        """``("env", NAME)`` or ``("file", path)`` when the value is nothing but such a reference."""
        found = _REFERENCE.fullmatch(self.value.strip())
        return (found[1], found[2]) if found else None

    @property
    def literal(self) -> bool:
        """Whether nothing in the value comes from elsewhere."""
        return _REFERENCE.search(self.value) is None


@dataclass(frozen=True, slots=True)
class Config:
    """What all layers say together, later ones winning."""

    layers: tuple[Layer, ...]
    values: Table
    agent_folders: tuple[Path, ...] = ()
    """Folders in which a file may describe an agent, model included."""

    @property
    def readable(self) -> bool:
        """False: one of the files is there and cannot be understood, so nothing can be proven."""
        return all(layer.values is not None for layer in self.layers)

    def table(self, *path: str) -> Table:
        """Return a table, or an empty one."""
        return _table(self.values, path)

    def setting(self, *path: str) -> Setting | None:
        """Return a text and where it was last set; None when it is not set, or is no text."""
        for layer in reversed(self.layers):
            value = _table(layer.values or {}, path[:-1]).get(path[-1])
            if value is not None:
                return Setting(value, layer.path) if isinstance(value, str) else None
        return None

    def variables(self, provider: str) -> Iterator[str]:
        """Return every variable that the configuration names (``{env:NAME}``) for anything but other providers."""
        others = {name: value for name, value in self.values.items() if name != "provider"}
        for text in _texts({**others, "provider": dict(self.table("provider", provider))}):
            yield from _VARIABLE.findall(text)


def read_config(environ: Mapping[str, str], cwd: Path, inline: str | None, managed: Sequence[Path] = MANAGED) -> Config:
    """Read the layers in OpenCode's own order: global, custom, project, folders, inline, managed.

    Args:
        environ: the child's environment.
        cwd: where the agent will work.
        inline: what ``OPENCODE_CONFIG_CONTENT`` will hold.
        managed: the administrator's folders.
    """
    home, start = home_of(environ), cwd.absolute()
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    project = environ.get("OPENCODE_DISABLE_PROJECT_CONFIG", "").lower() not in _TRUE
    above = [*_upwards(start)] if project else []
    extra = [Path(environ["OPENCODE_CONFIG_DIR"])] if environ.get("OPENCODE_CONFIG_DIR") else []
    folders = [folder / ".opencode" for folder in above] + [home / ".opencode"] + extra
    files = [own / name for name in ("config.json", *_NAMES)]
    files += [start / environ["OPENCODE_CONFIG"]] if environ.get("OPENCODE_CONFIG") else []
    files += [folder / name for folder in reversed(above) for name in _NAMES]
    files += [folder / name for folder in dict.fromkeys(folders) for name in _NAMES]
    layers = [Layer(path, _read(path)) for path in files if path.is_file()]
    if inline:
        layers.append(Layer(None, read_jsonc(inline)))
    layers += [Layer(path, _read(path)) for folder in managed for name in _NAMES if (path := folder / name).is_file()]
    values: JsonValue = {}
    for layer in layers:
        values = merged(values, dict(layer.values or {}))
    return Config(tuple(layers), as_object(values), (own, *folders))


def substituted(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` with its ``{env:NAME}`` replaced, as OpenCode does; a variable that is not set is nothing."""
    return _VARIABLE.sub(lambda found: environ.get(found[1], ""), text)


def chosen_model(config: Config, agent: str | None) -> str | None:
    """Return the ``provider/model`` that an agent uses when nobody names one; None when that cannot be told."""
    name = agent or as_text(config.values.get("default_agent")) or "build"
    for table in ("agents", "agent", "mode"):
        if own := _model(config.table(table, name).get("model")):
            return own
    for folder in config.agent_folders:
        for kind in ("agent", "agents", "mode", "modes"):
            if (folder / kind / f"{name}.md").is_file():
                return None  # such a file may name a model
    return _model(config.values.get("model"))


def context_of(config: Config, model: str | None) -> int | None:
    """Return how many tokens the model takes, where the configuration says that of it (``provider.….models.….limit.context``)."""
    provider, _, name = (model or "").partition("/")
    value = config.table("provider", provider, "models", name, "limit").get("context")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _model(value: JsonValue) -> str | None:
    """Return ``provider/model`` of either way to write it, without the variant."""
    if isinstance(value, dict):
        provider, model = as_text(value.get("providerID")), as_text(value.get("model"))
        return f"{provider}/{model}" if provider and model else None
    return as_text(value).partition("#")[0] or None


def _upwards(start: Path) -> Iterator[Path]:
    """Return the folders from ``start`` to the root of its repository, or of the file system."""
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists():
            return


def _table(values: Table, path: Sequence[str]) -> Table:
    found = values
    for name in path:
        found = as_object(found.get(name))
    return found


def _texts(value: JsonValue | Table) -> Iterator[str]:
    pending: list[JsonValue | Table] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, Mapping):
            pending += current.values()
        elif isinstance(current, list):
            pending += current


def _read(path: Path) -> Table | None:
    try:
        return read_jsonc(path.read_text("utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None

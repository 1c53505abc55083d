"""Every setting, as a table: the code reads it, the docs are held to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """One setting."""

    name: str
    """Path in the file; ``config`` itself is not in the file."""
    environment: str
    flag: str | None
    default: str
    """As a person would write it."""
    help: str


CONFIG: Final = SettingSpec(
    "config",
    "KANDEV_ROUTING_CONFIG",
    "--config",
    "kandev-routing.toml in the working directory or a parent, else in the user's configuration directory",
    "The configuration file.",
)
DYNAMIC: Final = SettingSpec(
    "features.dynamic_agent_routing",
    "KANDEV_FEATURES_DYNAMIC_AGENT_ROUTING",
    None,
    "false",
    "Whether dynamic profiles may run. Read when the router opens.",
)
STORE_URL: Final = SettingSpec(
    "store.url",
    "KANDEV_ROUTING_STORE_URL",
    "--store",
    "an SQLite file, kandev-routing/routing.db, in the user's state directory",
    "Where routes, circuits and calls are kept: sqlite:///… or postgresql+psycopg://…",
)

SETTINGS: Final = (CONFIG, DYNAMIC, STORE_URL)

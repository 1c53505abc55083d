"""Settings: one strict TOML file, the environment, and flags; every value knows where it came from (R-CLI-2)."""

from __future__ import annotations

from kandev_routing_sdk.settings.load import (
    Settings,
    find_config,
    load_settings,
    profile_tables,
    settings_for,
    working_directory,
)
from kandev_routing_sdk.settings.secrets import EnvironmentSecrets
from kandev_routing_sdk.settings.table import SETTINGS, SettingSpec

__all__ = [
    "SETTINGS",
    "EnvironmentSecrets",
    "SettingSpec",
    "Settings",
    "find_config",
    "load_settings",
    "profile_tables",
    "settings_for",
    "working_directory",
]

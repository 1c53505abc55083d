"""Plans launches of OpenCode on a made-up machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kandev_routing_opencode import OpenCodeAdapter
from kandev_routing_sdk.spec import LaunchPlan
from tests.adapters._plans import Machine

ADAPTER = OpenCodeAdapter()
MODEL = "anthropic/claude-sonnet-4-5"


class OpenCodeMachine(Machine):
    """A machine with OpenCode on it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.executable(self.bin / "opencode")
        (self.work / ".git").mkdir()

    def project(self, path: str, text: str) -> Path:
        """A file below the working directory."""
        found = self.work / path
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(text)
        return found

    def launch(self, host: Mapping[str, str] | None = None, *, resume: str | None = None, **fields: Any) -> LaunchPlan:
        """Resolve a launch as the conductor does."""
        return self.plan("opencode", host, resume=resume, **fields)


def config(**values: Any) -> str:
    """A configuration file."""
    return json.dumps(values)


def provider(name: str, **entry: Any) -> str:
    """A configuration file with one provider."""
    return config(provider={name: entry})

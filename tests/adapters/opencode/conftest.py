"""A made-up machine with OpenCode on it, for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.opencode._machine import OpenCodeMachine


@pytest.fixture
def opencode(tmp_path: Path) -> OpenCodeMachine:
    return OpenCodeMachine(tmp_path)

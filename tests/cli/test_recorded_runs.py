"""Recorded runs of the real agents as processes, through the command line in this process (R-EVI, R-CLS, R-SAFE-7)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters._replay import expectations, recording
from tests.cli._world import Ran, World

PLAYER = Path(__file__).parents[1] / "adapters" / "player.py"
RECORDINGS = Path(__file__).parents[1] / "recordings"
RUNS = [
    "claude/headless/success.json",
    "claude/headless/529_overloaded.json",
    "claude-agent-acp/acp/401_invalid_key.json",
    "claude-agent-acp/acp/tool_then_529.json",
    "claude-agent-acp/acp/sigkill_adapter.json",
    "codex/headless/tool_then_500.json",
    "codex-acp/acp/503_unavailable.json",
    "codex-acp/acp/failed_rate_limit.json",
    "codex-acp/acp/success_tool.json",
    "opencode/headless/402_billing.json",
    "opencode/acp/401_invalid_key.json",
    "opencode/headless/hang.json",
]


def _attempt(world: World, here: Callable[..., Ran], name: str) -> dict[str, Any]:
    record = recording(name)
    family = next(f for f in ("claude", "codex", "opencode") if f in record["cli"])
    command = [sys.executable, str(PLAYER), str(RECORDINGS / name)]
    world.profiles["recorded"] = {"family": family, "transport": record["mode"], "command": command}
    world.configure()
    silent = expectations()[name]["outcome"] == "silent"
    ran = here("run", "recorded", "Say hello.", "--json", "--timeout", "6" if silent else "60")
    first: dict[str, Any] = ran.document["attempts"][0]
    return first


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_told_as_it_was(name: str, world: World, here: Callable[..., Ran], quick: None) -> None:
    expected, attempt = expectations()[name], _attempt(world, here, name)
    assert attempt["outcome"] in {expected["outcome"], expected.get("also")}
    if expected["codes"]:
        assert attempt["classification"]["code"] in expected["codes"]
    if expected["automatic"] != "either":
        assert (expected["automatic"] == "yes") is attempt["automatic"]
    if isinstance(expected.get("hint"), int):
        assert expected["hint"] == attempt["classification"]["retry_after_s"]

"""What adapters know of a model's context window (R-CON-3): what the agent's own configuration says."""

from __future__ import annotations

import json

import pytest

from tests.adapters._plans import Machine


@pytest.mark.parametrize(
    ("said", "known"),
    [("128000", 128_000), ("0", None), ("-1", None), ("true", None), ('"128000"', None), ("1.5", None)],
)
def test_codex_reads_it_from_its_configuration(machine: Machine, said: str, known: int | None) -> None:
    machine.file(".codex/config.toml", f"model_context_window = {said}\n")
    assert known == machine.plan("codex").context_tokens


@pytest.mark.parametrize(
    ("limit", "known"), [({"context": 32_000}, 32_000), ({"context": True}, None), ({}, None), ("x", None)]
)
def test_opencode_reads_it_of_the_chosen_model(machine: Machine, limit: object, known: int | None) -> None:
    models = {"qwen/3": {"limit": limit}, "other": {"limit": {"context": 1}}}
    machine.file(".config/opencode/opencode.json", json.dumps({"provider": {"local": {"models": models}}}))
    assert known == machine.plan("opencode", model="local/qwen/3").context_tokens


@pytest.mark.parametrize("family", ["claude", "codex", "opencode"])
def test_nothing_is_known_otherwise(machine: Machine, family: str) -> None:
    assert None is machine.plan(family).context_tokens

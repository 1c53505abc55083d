"""The published JSON Schema of the file (R-CLI-2) says what the reader says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from kandev_routing_sdk.policy.normalise import CLASS_KEYS, POLICY_KEYS, RETRY_KEYS, WAIT_KEYS
from kandev_routing_sdk.profiles import config_schema, parse_profiles
from kandev_routing_sdk.profiles.parse import CANDIDATE_KEYS, CONCRETE_KEYS, DYNAMIC_KEYS
from kandev_routing_sdk.types import Transport

SCHEMA: dict[str, Any] = config_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def keys_of(schema: dict[str, Any]) -> set[str]:
    assert schema["additionalProperties"] is False
    return set(schema["properties"])


def test_it_is_a_schema_and_json() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA == json.loads(json.dumps(SCHEMA))
    assert config_schema() is not config_schema()


def test_it_knows_the_keys_that_the_reader_knows() -> None:
    defs = SCHEMA["$defs"]
    assert set(CONCRETE_KEYS) == keys_of(defs["concrete"])
    assert set(DYNAMIC_KEYS) == keys_of(defs["dynamic"])
    assert set(CANDIDATE_KEYS) == keys_of(defs["candidate"])
    assert set(POLICY_KEYS) == keys_of(defs["policy"])
    assert set(CLASS_KEYS) == keys_of(defs["class_policy"])
    sections = defs["class_policy"]["properties"]
    assert set(RETRY_KEYS) == keys_of(sections["retry"])
    assert set(WAIT_KEYS) == keys_of(sections["wait_for_reset"])
    assert [str(t) for t in Transport] == defs["concrete"]["properties"]["transport"]["enum"]


A: dict[str, Any] = {"family": "codex"}


def dynamic(**candidate: Any) -> dict[str, Any]:
    return {"a": A, "x": {"kind": "dynamic", "candidates": [{"profile": "a", **candidate}]}}


def retry(**section: Any) -> dict[str, Any]:
    return dynamic(policy={"hard": {"retry": section}})


@pytest.mark.parametrize(
    "profiles",
    [
        {"x": A},
        {"a.b_c-d9": {"kind": "concrete", **A}},
        {
            "x": {
                **A,
                "env": {"A": "v", "B": {"secret": "env:C"}},
                "command": ["c"],
                "args": [],
                "transport": "headless",
            }
        },
        {"x": {**A, "options": {"a": [1]}, "mcp": {}, "permissions": {}, "description": "", "scope": "s", "icon": "i"}},
        dynamic(),
        dynamic(enabled=False, policy={}),
        dynamic(policy={"version": 1, "transient": {}, "hard": {"on_exhausted": "stop"}}),
        retry(),
        retry(enabled=False, max_retries=99),
        retry(enabled=True, max_retries=10, initial_interval_seconds=3600),
    ],
)
def test_what_the_reader_takes_the_schema_takes(profiles: dict[str, Any]) -> None:
    assert [] == parse_profiles(profiles, families=None)[1]
    VALIDATOR.validate({"version": 1, "profiles": profiles})


@pytest.mark.parametrize(
    "profiles",
    [
        {"X": A},
        {"x": {}},
        {"x": {"family": "dynamic"}},
        {"x": {"family": "Co dex"}},
        {"x": {**A, "modle": 1}},
        {"x": {**A, "model": ""}},
        {"x": {**A, "kind": "virtual"}},
        {"x": {**A, "enabled": 1}},
        {"x": {**A, "args": "a"}},
        {"x": {**A, "command": []}},
        {"x": {**A, "transport": "ftp"}},
        {"x": {**A, "env": {"1": "v"}}},
        {"x": {**A, "env": {"A": {"secret": "plain"}}}},
        {"x": {**A, "env": {"A": 1}}},
        {"x": {**A, "candidates": []}},
        {"x": {"kind": "dynamic"}},
        {"x": {"kind": "dynamic", "candidates": []}},
        {"x": {"kind": "dynamic", "candidates": [{"profile": "a"}], "model": "m"}, "a": A},
        dynamic(enable=True),
        dynamic(policy={"version": 2}),
        dynamic(policy={"hard": {"on_exhausted": "wait"}}),
        retry(max_retries=3),
        retry(enabled=True),
        retry(enabled=True, max_retries=11, initial_interval_seconds=5),
        retry(enabled=True, max_retries=1, initial_interval_seconds=0),
        retry(enabled=False, max_retries="3"),
        dynamic(policy={"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 604_801}}}),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(profiles: dict[str, Any]) -> None:
    assert parse_profiles(profiles, families=None)[1]
    assert not VALIDATOR.is_valid({"version": 1, "profiles": profiles})


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"version": 2},
        {"version": 1, "feature": {}},
        {"version": 1, "features": {"dynamic_agent_routing": "on"}},
        {"version": 1, "store": {"path": "x"}},
    ],
)
def test_the_other_sections_are_strict_as_well(document: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(document)


def test_a_whole_file_is_accepted() -> None:
    VALIDATOR.validate(
        {
            "version": 1,
            "features": {"dynamic_agent_routing": True},
            "store": {"url": "sqlite:////tmp/routing.db"},
            "profiles": dynamic(),
        }
    )

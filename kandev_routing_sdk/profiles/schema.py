"""The JSON Schema of the configuration file, for editors and for other tools (R-CLI-2).

The reader is stricter: it knows which profiles and families there are. Whatever the schema refuses, the reader refuses too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.policy.document import POLICY_VERSION, RetryPolicy, WaitPolicy
from kandev_routing_sdk.profiles.model import (
    DYNAMIC_FAMILY,
    ENV_NAME,
    FAMILY_ID,
    MAX_ID_CHARS,
    PROFILE_ID,
    SECRET_REFERENCE,
)
from kandev_routing_sdk.types import ProfileKind, Transport

SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TEXT: Final[Mapping[str, JsonValue]] = {"type": "string", "pattern": "\\S"}
_FLAG: Final[Mapping[str, JsonValue]] = {"type": "boolean"}
_WHOLE: Final[Mapping[str, JsonValue]] = {"type": "integer"}


def config_schema() -> dict[str, JsonValue]:
    """Return the schema of a whole configuration file; a fresh value at each call."""
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "kandev-routing configuration",
        **_table(
            {
                "version": {"const": 1},
                "features": _table(
                    {
                        "dynamic_agent_routing": _about(
                            _FLAG, "Whether dynamic profiles may be used. Ships off; read when the router opens."
                        )
                    }
                ),
                "store": _table({"url": _about(_TEXT, "Database URL: sqlite:///… or postgresql+psycopg://…")}),
                "profiles": {
                    "type": "object",
                    "description": "Profile id → profile.",
                    "propertyNames": {"pattern": _ecma(PROFILE_ID), "maxLength": MAX_ID_CHARS},
                    "additionalProperties": {"$ref": "#/$defs/profile"},
                },
            },
            required=("version",),
        ),
        "$defs": {
            "profile": {
                "if": {"properties": {"kind": {"const": str(ProfileKind.DYNAMIC)}}, "required": ["kind"]},
                "then": {"$ref": "#/$defs/dynamic"},
                "else": {"$ref": "#/$defs/concrete"},
            },
            "concrete": _concrete(),
            "dynamic": _dynamic(),
            "candidate": _candidate(),
            "policy": _policy(),
            "class_policy": _class_policy(),
        },
    }


def _concrete() -> dict[str, JsonValue]:
    family: dict[str, JsonValue] = {
        "type": "string",
        "pattern": _ecma(FAMILY_ID),
        "maxLength": MAX_ID_CHARS,
        "not": {"const": DYNAMIC_FAMILY},
    }
    texts: dict[str, JsonValue] = {"type": "array", "items": {"type": "string"}}
    secret: dict[str, JsonValue] = {"type": "string", "pattern": _ecma(SECRET_REFERENCE)}
    return _table(
        {
            **_shared(ProfileKind.CONCRETE),
            "family": _about(family, "Agent family: claude, codex, opencode or a plugin's own."),
            "model": _about(_TEXT, "Model; the agent's own default if left out."),
            "transport": {"enum": [str(t) for t in Transport], "description": "Default: the adapter's best."},
            "command": {
                **texts,
                "minItems": 1,
                "prefixItems": [dict(_TEXT)],
                "description": "Executable and first arguments, instead of the adapter's own search.",
            },
            "args": _about(texts, "More arguments."),
            "env": {
                "type": "object",
                "propertyNames": {"pattern": _ecma(ENV_NAME)},
                "additionalProperties": {
                    "anyOf": [{"type": "string"}, _table({"secret": secret}, required=("secret",))]
                },
                "description": 'Environment: text, or { secret = "env:NAME" }.',
            },
            "cwd": _about(_TEXT, "Working directory."),
            "mode": _about(_TEXT, "The agent's own mode."),
            "options": {"type": "object", "description": "ACP configuration options."},
            "permissions": {"type": "object", "description": "What the agent may do, in its adapter's words."},
            "mcp": {"type": "object", "description": "MCP servers by name."},
            "fallback_model": _about(_TEXT, "Used inside this profile only; never advances a candidate list."),
            "auto_fallback": _about(_FLAG, "The profile changes providers by itself; it can then be no candidate."),
            "office_identity": _about(_FLAG, "The profile is an Office identity; it can then be no candidate."),
        },
        required=("family",),
    )


def _dynamic() -> dict[str, JsonValue]:
    candidates: dict[str, JsonValue] = {
        "type": "array",
        "minItems": 1,
        "items": {"$ref": "#/$defs/candidate"},
        "description": "Concrete profiles in the order in which they are tried.",
    }
    return _table(
        {**_shared(ProfileKind.DYNAMIC), "candidates": candidates},
        required=("kind", "candidates"),
    )


def _shared(kind: ProfileKind) -> dict[str, JsonValue]:
    return {
        "kind": {"const": str(kind)},
        "name": _about(_TEXT, "Name for people, and the only capability label; default: the id."),
        "description": {"type": "string"},
        "icon": dict(_TEXT),
        "scope": _about(_TEXT, "Where the profile may be used; everywhere if left out."),
        "enabled": _about(_FLAG, "Default: true."),
    }


def _candidate() -> dict[str, JsonValue]:
    return _table(
        {
            "profile": {
                "type": "string",
                "pattern": _ecma(PROFILE_ID),
                "maxLength": MAX_ID_CHARS,
                "description": "Id of a concrete profile.",
            },
            "enabled": _about(_FLAG, "Default: true."),
            "policy": {"$ref": "#/$defs/policy"},
        },
        required=("profile",),
    )


def _policy() -> dict[str, JsonValue]:
    part: dict[str, JsonValue] = {"$ref": "#/$defs/class_policy"}
    return _table({"version": {"const": POLICY_VERSION}, "transient": part, "hard": dict(part)})


def _class_policy() -> dict[str, JsonValue]:
    return _table(
        {
            "retry": _section(RetryPolicy.bounds, "Try the same candidate again; each delay doubles, up to a day."),
            "wait_for_reset": _section(WaitPolicy.bounds, "Wait once for a reset that the provider named."),
            "on_exhausted": {
                "enum": ["skip", "stop"],
                "description": "The next candidate, or a person. Default: skip.",
            },
        }
    )


def _section(bounds: Mapping[str, tuple[int, int]], description: str) -> dict[str, JsonValue]:
    """Numbers are bounded, and needed, only while the section is on."""
    bounded: dict[str, JsonValue] = {name: {"minimum": low, "maximum": high} for name, (low, high) in bounds.items()}
    numbers: dict[str, JsonValue] = {name: dict(_WHOLE) for name in bounds}
    return {
        **_table({"enabled": dict(_FLAG), **numbers}),
        "description": description,
        "if": {"properties": {"enabled": {"const": True}}, "required": ["enabled"]},
        "then": {"properties": bounded, "required": list(bounds)},
        "else": {"anyOf": [{"required": ["enabled"]}, {"maxProperties": 0}]},
    }


def _table(properties: dict[str, JsonValue], *, required: tuple[str, ...] = ()) -> dict[str, JsonValue]:
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


def _about(schema: Mapping[str, JsonValue], description: str) -> dict[str, JsonValue]:
    return {**schema, "description": description}


def _ecma(pattern: str) -> str:
    """Return a pattern in the dialect of JSON Schema, where ``$`` is the end of the text and nothing else."""
    return pattern.removesuffix(r"\Z") + "$"

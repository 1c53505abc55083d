"""The command line of a headless Claude, and the environment of either transport's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, LaunchRequest, Shape

MCP_SECRETS: Final = ("env", "headers")
"""Where an MCP server has secrets; they travel on the command line."""

# The policy's retries are the only ones that wait (R-CON-9); silence is bounded too, for it counts as a try.
QUIET: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "API_TIMEOUT_MS": "300000",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "180000",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}
"""Set unless the profile's own ``env`` sets them."""

INHERITS: Final = (
    "ANTHROPIC_*", "CLAUDE_*", "API_TIMEOUT_MS", "MAX_THINKING_TOKENS", "BASH_*_TIMEOUT_MS", "MCP_*TIMEOUT",
    "AWS_*", "CLOUD_ML_REGION", "VERTEX_REGION_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT",
)  # fmt: skip
_CLOUD: Final = ("AWS_*", "CLOUD_ML_REGION", "VERTEX_REGION_*", "GOOGLE_*")
_SWITCHES: Final = (
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
)
_OF_ANOTHER_SESSION: Final = (
    "CLAUDE_AGENT_ACP_PROTOCOL",
    "CLAUDE_CODE_*_FILE_DESCRIPTOR",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_PARENT_SESSION_ID",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
)
"""Name patterns of variables that mean the surrounding session, or something that only its processes have open."""

LOCAL_SERVER: Final[Mapping[str, Shape]] = {"timeout": "number", "alwaysLoad": "switch"}
"""What Claude takes of a server with ``command`` beside what everybody does; over ACP there is no room for it."""
REMOTE_SERVER: Final[Mapping[str, Shape]] = {**LOCAL_SERVER, "headersHelper": "text", "oauth": "any table"}
REMOTE_TYPES: Final = ("http", "sse", "ws")

DEFAULT_MODE: Final = "default"
MODES: Final = (DEFAULT_MODE, "acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan")
OPTION_FLAGS: Final[Mapping[str, str]] = {
    "agent": "--agent",
    "append_system_prompt": "--append-system-prompt",
    "effort": "--effort",
    "max_budget_usd": "--max-budget-usd",
    "max_turns": "--max-turns",
    "setting_sources": "--setting-sources",
    "system_prompt": "--system-prompt",
    "tools": "--tools",
}
"""``options`` of a profile, and the flag each one becomes."""
PERMISSION_KEYS: Final[Mapping[str, str]] = {
    "allow": "allow",
    "ask": "ask",
    "deny": "deny",
    "additional_directories": "additionalDirectories",
}
"""``permissions`` of a profile, and the key of Claude's settings each one becomes: lists of text."""


def arguments(request: LaunchRequest) -> list[str]:
    """Return what follows the command. Values are joined to their flags, so that none is taken for a flag."""
    profile = request.profile
    argv = [
        "-p",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
    ]
    if profile.model:
        argv.append(f"--model={profile.model}")
    if profile.fallback_model:
        argv.append(f"--fallback-model={profile.fallback_model}")
    if profile.mode and profile.mode != DEFAULT_MODE:
        argv.append(f"--permission-mode={profile.mode}")
    if rules := permission_rules(profile):
        argv.append(f"--settings={_json({'permissions': rules})}")
    argv += [f"{OPTION_FLAGS[name]}={_text(value)}" for name, value in profile.options.items()]
    if profile.mcp:
        argv.append(
            f"--mcp-config={_json({'mcpServers': {name: _server(value) for name, value in profile.mcp.items()}})}"
        )
    if request.resume_session_id:
        argv.append(f"--resume={request.resume_session_id}")
    return [*argv, *profile.args]


def _server(value: JsonValue) -> JsonValue:
    """A server with its type: Claude takes one without for a command, also where it has a URL."""
    return {"type": "http", **value} if isinstance(value, dict) and "url" in value else value


def environment(request: LaunchRequest) -> dict[str, str]:
    """Return the child's whole environment."""
    own = request.profile.env
    cloud = any(request.environ.get(name, "0").lower() not in {"", "0", "false"} for name in _SWITCHES)
    kept = {
        name: value
        for name, value in request.environ.items()
        if name in own or not (_matches(name, _OF_ANOTHER_SESSION) or (_matches(name, _CLOUD) and not cloud))
    }
    return kept | {name: value for name, value in QUIET.items() if name not in own}


def permission_rules(profile: ConcreteProfile) -> dict[str, JsonValue]:
    """Return ``permissions`` as Claude's settings have them."""
    return {PERMISSION_KEYS[name]: value for name, value in profile.permissions.items() if name in PERMISSION_KEYS}


def numbered(value: JsonValue) -> int | float | None:
    """Return a number that may be written as text; None when there is none.

    Raises:
        ValueError: it is no number.
    """
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    number = float(value) if isinstance(value, str) else math.nan
    if not math.isfinite(number):
        raise ValueError("no number")
    return int(number) if number.is_integer() else number


def listed(value: JsonValue) -> list[JsonValue] | None:
    """Return a list that may be written as text with commas; None when there is none."""
    if value is None or isinstance(value, list):
        return value
    return [part.strip() for part in str(value).split(",") if part.strip()]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _json(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _text(value: JsonValue) -> str:
    if isinstance(value, list):
        return ",".join(str(entry) for entry in value)
    return value if isinstance(value, str) else json.dumps(value)

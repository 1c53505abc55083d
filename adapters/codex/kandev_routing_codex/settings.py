"""What a profile says, as keys of Codex's configuration. Both transports pass on the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_codex.binding import BUILT_IN, OPENAI
from kandev_routing_codex.config import Config
from kandev_routing_codex.toml import inline
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, Shape

BYPASS: Final = "bypass"
FULL_ACCESS: Final = "danger-full-access"
MODES: Final = ("read-only", "workspace-write", FULL_ACCESS, BYPASS)
UNBOUND: Final = frozenset({FULL_ACCESS, BYPASS, "agent-full-access", "full-access"})
"""Modes without a sandbox, so with the network."""
AGENT_MODES: Final[Mapping[str, str]] = {
    "agent": "workspace-write",
    "agent-full-access": FULL_ACCESS,
    "auto": "workspace-write",
    "full-access": FULL_ACCESS,
}
"""Modes that only the agents over ACP have, the last two those of the older one, and the sandbox of each."""
PERMISSION_PROFILE: Final = "permission-profile:"
"""What the modes begin with that are permission profiles of the user's own."""
PERMISSION_KEYS: Final[Mapping[str, str]] = {
    "network_access": "sandbox_workspace_write.network_access",
    "writable_roots": "sandbox_workspace_write.writable_roots",
}
"""``permissions`` of a profile, and the configuration key each one becomes."""
BOUNDED: Final = "kandev_bounded"
"""Codex refuses to bound the retries of its built-in provider; this one is the same with other bounds."""
API_URL: Final = "https://api.openai.com/v1"

# The policy's retries are the only ones that wait (R-CON-9).
_BOUNDS: Final[Mapping[str, int]] = {
    "request_max_retries": 0,
    "stream_max_retries": 0,
    "stream_idle_timeout_ms": 180_000,
}
_QUIET: Final[Mapping[str, JsonValue]] = {"check_for_update_on_startup": False, "analytics.enabled": False}
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
EFFORT: Final = "model_reasoning_effort"
_MODEL: Final = re.compile(r"(.+)\[([a-z]+)\]")

_ANY_SERVER: Final[Mapping[str, Shape]] = {
    "enabled": "switch",
    "required": "switch",
    "startup_timeout_sec": "number",
    "startup_timeout_ms": "number",
    "tool_timeout_sec": "number",
    "enabled_tools": "list",
    "disabled_tools": "list",
    "default_tools_approval_mode": "text",
    "tools": "any table",
    "supports_parallel_tool_calls": "switch",
    "scopes": "list",
}
LOCAL_SERVER: Final[Mapping[str, Shape]] = {"cwd": "text", "env_vars": "list", **_ANY_SERVER}
"""What Codex's configuration can say of a server with ``command``, beside what everybody says."""
HEADERS: Final[Mapping[str, Shape]] = {"http_headers": "table"}
"""Codex's word for ``headers``; both are understood on both transports."""
REMOTE_SERVER: Final[Mapping[str, Shape]] = {
    **HEADERS,
    "env_http_headers": "table",
    "http_headers_helper": "text",
    "bearer_token_env_var": "text",
    "oauth": "any table",
    "oauth_resource": "text",
    **_ANY_SERVER,
}
SERVER_TYPES: Final = ("http",)

Setting = tuple[str, JsonValue]


def config_arguments(profile: ConcreteProfile) -> tuple[str, ...]:
    """Return everything of the profile that may change the configuration, as arguments."""
    options = (as_flag(setting) for setting in profile.options.items())
    return (*(profile.command or ())[1:], *options, *profile.args)


def provider_of(config: Config, profile: ConcreteProfile) -> str | None:
    """Return the model provider that Codex will use; None for one that it chooses by itself."""
    if any(argument.partition("=")[0] in {"--oss", "--local-provider", "--remote"} for argument in profile.args):
        return None
    return config.text("model_provider") or OPENAI


def named_model(model: str) -> tuple[str, str | None]:
    """Return a model's own name and its effort: ``gpt-5.5``, or with the effort in brackets, as ``codex-acp`` lists its models."""
    found = _MODEL.fullmatch(model)
    return (found[1], found[2]) if found else (model, None)


def model_settings(model: str) -> Iterator[Setting]:
    """What a profile's ``model`` becomes."""
    name, effort = named_model(model)
    yield "model", name
    if effort is not None:
        yield EFFORT, effort


def permission_settings(profile: ConcreteProfile) -> Iterator[Setting]:
    """What the sandbox lets through."""
    return ((PERMISSION_KEYS[name], value) for name, value in profile.permissions.items() if name in PERMISSION_KEYS)


def quiet_settings(config: Config) -> Iterator[Setting]:
    """Neither updates nor analytics, unless the profile says so."""
    return ((key, value) for key, value in _QUIET.items() if key not in config.overridden)


def is_bounded(config: Config, provider: str | None) -> bool:
    """Whether Codex's own provider is replaced by the one with bounds."""
    return provider == OPENAI and "model_provider" not in config.overridden


def bounds(config: Config, provider: str | None, *, key_variable: str | None = None) -> Iterator[Setting]:
    """Bound Codex's own retries. ``key_variable``: where the vendor's API key is, for an agent that would not look there."""
    if is_bounded(config, provider):
        entry: dict[str, JsonValue] = {"name": "OpenAI", "wire_api": "responses", **_BOUNDS}
        entry["env_http_headers"] = {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"}
        url = config.text("openai_base_url")
        if key_variable is None:
            entry["requires_openai_auth"] = True
        else:
            entry["env_key"], url = key_variable, url or API_URL
        if url:
            entry["base_url"] = url
        yield "model_provider", BOUNDED
        yield f"model_providers.{BOUNDED}", entry
    elif provider is not None and provider not in BUILT_IN and _BARE_KEY.fullmatch(provider):
        prefix = f"model_providers.{provider}"
        yield from (
            (f"{prefix}.{key}", value) for key, value in _BOUNDS.items() if f"{prefix}.{key}" not in config.overridden
        )


def as_flag(setting: Setting) -> str:
    """Return ``--config=key=value``: joined, so that no value is taken for a flag."""
    return f"--config={setting[0]}={inline(setting[1])}"

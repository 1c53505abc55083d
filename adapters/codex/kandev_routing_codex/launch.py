"""The command line and the environment of a headless Codex."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_codex.binding import BUILT_IN, OPENAI, named_variables
from kandev_routing_codex.config import Config
from kandev_routing_codex.toml import inline
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, LaunchRequest

INSTALL_HINT: Final = (
    "install Codex (npm install -g @openai/codex) so that it is on PATH, or set `command` in the profile"
)
MCP_SECRETS: Final = ("env", "http_headers", "bearer_token")
"""Where an MCP server has secrets; they travel on the command line."""
INHERITS: Final = ("CODEX_*", "OPENAI_ORGANIZATION", "OPENAI_PROJECT")
BYPASS: Final = "bypass"
MODES: Final = ("read-only", "workspace-write", "danger-full-access", BYPASS)
PERMISSION_KEYS: Final[Mapping[str, str]] = {
    "network_access": "sandbox_workspace_write.network_access",
    "writable_roots": "sandbox_workspace_write.writable_roots",
}
"""``permissions`` of a profile, and the configuration key each one becomes."""
BOUNDED: Final = "kandev_bounded"
"""Codex refuses to bound the retries of its built-in provider; this one is the same with other bounds."""

# The policy's retries are the only ones that wait (R-CON-9).
_BOUNDS: Final[Mapping[str, int]] = {
    "request_max_retries": 0,
    "stream_max_retries": 0,
    "stream_idle_timeout_ms": 180_000,
}
_QUIET: Final[Mapping[str, JsonValue]] = {"check_for_update_on_startup": False, "analytics.enabled": False}
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_OF_ANOTHER_SESSION: Final = frozenset({"CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID"})


def config_arguments(profile: ConcreteProfile) -> tuple[str, ...]:
    """Return everything on the profile's command line that may change the configuration."""
    return (*(profile.command or ())[1:], *_options(profile), *profile.args)


def provider_of(config: Config, profile: ConcreteProfile) -> str | None:
    """Return the model provider that Codex will use; None for one that it chooses by itself."""
    if any(argument.partition("=")[0] in {"--oss", "--local-provider", "--remote"} for argument in profile.args):
        return None
    return config.text("model_provider") or OPENAI


def arguments(request: LaunchRequest, config: Config, provider: str | None) -> list[str]:
    """Return what follows the executable. Values are joined to their flags, so that none is taken for a flag."""
    profile = request.profile
    argv = [*(profile.command or ())[1:], "exec", "--json", "--skip-git-repo-check"]
    if profile.model:
        argv.append(f"--model={profile.model}")
    if profile.mode == BYPASS:
        argv.append("--dangerously-bypass-approvals-and-sandbox")
    elif profile.mode:
        argv.append(_set("sandbox_mode", profile.mode))
    argv += [_set(PERMISSION_KEYS[name], value) for name, value in profile.permissions.items()]
    argv += [_set(f"mcp_servers.{name}", value) for name, value in profile.mcp.items()]
    argv += [_set(key, value) for key, value in _QUIET.items() if key not in config.overridden]
    argv += _bounds(config, provider)
    argv += [*_options(profile), *profile.args]
    return [*argv, *(("resume", request.resume_session_id) if request.resume_session_id else ()), "-"]


def environment(request: LaunchRequest, config: Config, provider: str | None) -> tuple[dict[str, str], frozenset[str]]:
    """Return the child's whole environment, and the values in it that only the configuration's words make secret."""
    own = request.profile.env
    environ = {n: v for n, v in request.environ.items() if n in own or n not in _OF_ANOTHER_SESSION}
    named = {
        name: request.full_environ[name]
        for name in named_variables(config, provider or OPENAI)
        if request.full_environ.get(name)
    }
    return {"RUST_LOG": "error"} | environ | named, frozenset(value for value in named.values())


def _options(profile: ConcreteProfile) -> Iterator[str]:
    return (_set(name, value) for name, value in profile.options.items())


def _bounds(config: Config, provider: str | None) -> list[str]:
    if provider == OPENAI and "model_provider" not in config.overridden:
        entry: dict[str, JsonValue] = {
            "name": "OpenAI",
            "wire_api": "responses",
            "requires_openai_auth": True,
            **_BOUNDS,
        }
        entry["env_http_headers"] = {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"}
        if url := config.text("openai_base_url"):
            entry["base_url"] = url
        return [_set("model_provider", BOUNDED), _set(f"model_providers.{BOUNDED}", entry)]
    if provider is None or provider in BUILT_IN or not _BARE_KEY.fullmatch(provider):
        return []
    prefix = f"model_providers.{provider}"
    return [
        _set(f"{prefix}.{key}", value) for key, value in _BOUNDS.items() if f"{prefix}.{key}" not in config.overridden
    ]


def _set(key: str, value: JsonValue) -> str:
    return f"--config={key}={inline(value)}"

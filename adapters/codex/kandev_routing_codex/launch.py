"""The command line of a headless Codex, and the environment of both transports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kandev_routing_codex.binding import OPENAI, named_variables
from kandev_routing_codex.config import Config
from kandev_routing_codex.settings import (
    BYPASS,
    as_flag,
    bounds,
    permission_settings,
    quiet_settings,
)
from kandev_routing_sdk.spec import LaunchRequest

MCP_SECRETS: Final = ("env", "http_headers", "headers", "bearer_token")
"""Where an MCP server has secrets; headless they travel on the command line."""
INHERITS: Final = ("CODEX_*", "OPENAI_ORGANIZATION", "OPENAI_PROJECT")
_OF_ANOTHER_SESSION: Final = frozenset({"CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID"})


def headless_argv(
    program: Sequence[str], request: LaunchRequest, config: Config, provider: str | None
) -> tuple[str, ...]:
    """Return the whole command line."""
    profile = request.profile
    argv = [*program]
    if profile.model:
        argv.append(f"--model={profile.model}")
    if profile.mode == BYPASS:
        argv.append("--dangerously-bypass-approvals-and-sandbox")
    elif profile.mode:
        argv.append(as_flag(("sandbox_mode", profile.mode)))
    settings = [
        *permission_settings(profile),
        *((f"mcp_servers.{name}", value) for name, value in profile.mcp.items()),
        *quiet_settings(config),
        *bounds(config, provider),
        *profile.options.items(),
    ]
    argv += [*map(as_flag, settings), *profile.args]
    return (*argv, *(("resume", request.resume_session_id) if request.resume_session_id else ()), "-")


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

"""The command line of a headless Codex, and the environment of both transports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kandev_routing_codex.binding import OPENAI, named_variables
from kandev_routing_codex.config import Config
from kandev_routing_codex.settings import (
    BYPASS,
    EFFORT,
    as_flag,
    bounds,
    named_model,
    permission_settings,
    quiet_settings,
)
from kandev_routing_sdk.spec import JsonValue, LaunchRequest

MCP_SECRETS: Final = ("env", "http_headers", "headers", "oauth.client_secret")
"""Where an MCP server has secrets; headless they travel on the command line."""
TOOL_LOG: Final = "codex_core::stream_events_utils=info"
INHERITS: Final = ("CODEX_*", "OPENAI_ORGANIZATION", "OPENAI_PROJECT")
_OF_ANOTHER_SESSION: Final = frozenset({"CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID"})


def headless_argv(
    program: Sequence[str], request: LaunchRequest, config: Config, provider: str | None
) -> tuple[str, ...]:
    """Return the whole command line."""
    profile = request.profile
    argv = [*program]
    model, effort = named_model(profile.model or "")
    if model:
        argv.append(f"--model={model}")
    if profile.mode == BYPASS:
        argv.append("--dangerously-bypass-approvals-and-sandbox")
    elif profile.mode:
        argv.append(as_flag(("sandbox_mode", profile.mode)))
    settings = [
        *(((EFFORT, effort),) if effort else ()),
        *permission_settings(profile),
        *((f"mcp_servers.{name}", _server(value)) for name, value in profile.mcp.items()),
        *quiet_settings(config),
        *profile.options.items(),
        *bounds(config, provider),  # after a whole table of providers, which would replace them
    ]
    argv += [*map(as_flag, settings), *profile.args]
    return (*argv, *(("resume", request.resume_session_id) if request.resume_session_id else ()), "-")


def _server(value: JsonValue) -> JsonValue:
    """A server in Codex's own words: it tells the sort by the keys, and passes over ``headers``."""
    if not isinstance(value, Mapping):
        return value
    return {("http_headers" if key == "headers" else key): entry for key, entry in value.items() if key != "type"}


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


def with_tool_log(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a headless Codex: its log names each tool, also those that its events keep quiet about."""
    return {**environ, "RUST_LOG": f"{environ['RUST_LOG']},{TOOL_LOG}"}

"""How an ACP agent of Codex is launched: it takes its settings from variables, not from its command line (R-PRO-1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os.path import normpath
from typing import Any, Final, NamedTuple

from kandev_routing_codex.binding import API_KEY
from kandev_routing_codex.config import Config, merged, nested, overrides
from kandev_routing_codex.settings import (
    AGENT_MODES,
    BYPASS,
    FULL_ACCESS,
    MODES,
    Setting,
    as_flag,
    bounds,
    config_arguments,
    is_bounded,
    model_settings,
    permission_settings,
    quiet_settings,
)
from kandev_routing_sdk.spec import (
    TYPED_FAILURES,
    AcpSettings,
    ConcreteProfile,
    JsonValue,
    LaunchError,
    LaunchRequest,
    acp_settings,
)

CONFIG: Final = "CODEX_CONFIG"
PROVIDER: Final = "MODEL_PROVIDER"
SIGN_IN: Final = "DEFAULT_AUTH_REQUEST"
"""With it the agent signs in by itself, and writes the login to ``CODEX_HOME``."""
_MODE: Final = "INITIAL_AGENT_MODE"
_QUIET: Final[Mapping[str, str]] = {"NO_BROWSER": "1", "CODEX_ACP_PROMPT_SUGGESTIONS": "false"}
"""It opens no browser, and asks the model for nothing but the prompt (a title apart, which cannot be turned off)."""
_AGENT_MODES: Final[Mapping[str, str]] = {
    "read-only": "read-only",
    "workspace-write": "workspace-write",
    FULL_ACCESS: "agent-full-access",
    BYPASS: "agent-full-access",
}


class AcpLaunch(NamedTuple):
    """What is particular to a launch over ACP."""

    argv: tuple[str, ...]
    environ: dict[str, str]
    settings: AcpSettings


def given_config(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what the environment says already.

    Raises:
        LaunchError: it is no JSON object; the agent would die of it.
    """
    text = environ.get(CONFIG)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise LaunchError(f"{CONFIG} must be a JSON object; correct the variable or remove it")
    return value


def acp_launch(
    program: Sequence[str], request: LaunchRequest, environ: Mapping[str, str], config: Config, provider: str | None
) -> AcpLaunch:
    """Return command line, environment and settings.

    ``codex-acp`` reads :data:`CONFIG` and passes over arguments; the older agent of the same name reads ``-c`` and passes over the
    variable. So both get both, but for what is secret.
    """
    profile = request.profile
    sandbox = _sandbox(request, config)
    key = API_KEY if environ.get(API_KEY) and is_bounded(config, provider) else None
    chosen: list[Setting] = [
        *(model_settings(profile.model) if profile.model else ()),
        ("sandbox_mode", sandbox),
        *((("approval_policy", "never"),) if sandbox == FULL_ACCESS else ()),
        *permission_settings(profile.model_copy(update={"permissions": _absolute(request)})),
        *quiet_settings(config),
    ]
    # the bounds after a whole table of providers, which would replace them where the agent reads the command line
    own = [*chosen, *overrides(config_arguments(profile)), *bounds(config, provider, key_variable=key)]
    values: dict[str, Any] = given_config(environ)
    if environ.get(PROVIDER):
        values = merged(values, {"model_provider": environ[PROVIDER]})
    for name, value in own:
        values = merged(values, nested(name, value))
    child = dict(_QUIET) | {n: v for n, v in environ.items() if n != PROVIDER}
    child[CONFIG] = json.dumps(values, ensure_ascii=False, default=str)
    own_mode = profile.mode if profile.mode and profile.mode not in MODES else None
    if own_mode is None:
        child[_MODE] = _AGENT_MODES[sandbox]
    argv = (*program, *map(as_flag, own))
    return AcpLaunch(argv, child, _settings(profile, request, own_mode))


def _sandbox(request: LaunchRequest, config: Config) -> str:
    """What the agent may touch: as the profile says, else the configuration, else as ``codex exec`` would have it."""
    mode = request.profile.mode
    if mode in MODES:
        return FULL_ACCESS if mode == BYPASS else str(mode)
    if mode is not None and mode in AGENT_MODES:
        return AGENT_MODES[mode]
    if (configured := config.text("sandbox_mode")) in MODES:
        return configured
    trusted = config.table("projects", str(request.cwd.absolute())).get("trust_level")
    return "workspace-write" if trusted == "trusted" else "read-only"


def _absolute(request: LaunchRequest) -> dict[str, JsonValue]:
    """The permissions, with whole paths: the agent's configuration has no base for others."""
    given = dict(request.profile.permissions)
    roots = given.get("writable_roots")
    if isinstance(roots, list):
        given["writable_roots"] = [normpath(request.cwd.absolute() / str(root)) for root in roots]
    return given


def _settings(profile: ConcreteProfile, request: LaunchRequest, own_mode: str | None) -> AcpSettings:
    folders = _absolute(request).get("writable_roots")
    servers = {name: _server(value) for name, value in profile.mcp.items()}
    passed_on = profile.model_copy(update={"mode": own_mode, "model": None, "options": {}, "mcp": servers})
    meta: dict[str, JsonValue] = {"additionalRoots": folders} if folders else {}
    return acp_settings(passed_on, client_meta=TYPED_FAILURES, session_meta=meta)


def _server(value: JsonValue) -> JsonValue:
    """A server as the protocol names its parts."""
    if not isinstance(value, Mapping) or "http_headers" not in value:
        return value
    return {**{k: v for k, v in value.items() if k != "http_headers"}, "headers": value["http_headers"]}

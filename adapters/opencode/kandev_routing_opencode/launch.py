"""The command line, the environment and the inline configuration of OpenCode, headless and over ACP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from kandev_routing_opencode.config import INLINE, Config
from kandev_routing_opencode.jsonc import merged, read_jsonc
from kandev_routing_opencode.providers import KNOWN, Known, vendor_of
from kandev_routing_sdk.spec import (
    ConcreteProfile,
    JsonValue,
    LaunchError,
    LaunchRequest,
    LaunchWay,
    Shape,
    Transport,
    as_text,
    carries_login,
)

INSTALL_HINT: Final = (
    "install OpenCode (npm install -g opencode-ai) so that it is on PATH, or set `command` in the profile"
)
_PACKAGE: Final = ("opencode-ai",)
WAYS: Final = (
    LaunchWay(Transport.HEADLESS, ("opencode", "run", "--format=json"), INSTALL_HINT, _PACKAGE),
    LaunchWay(Transport.ACP, ("opencode", "acp"), INSTALL_HINT, _PACKAGE),
)
"""The best first: only `run --format json` tells the provider's status, headers and body."""
FIRST_SIGN_S: Final = 600.0
"""Seconds of silence after which a turn is given up: OpenCode sleeps without a word for as long as a provider's
``retry-after`` says, however long that is, and nothing in its own configuration bounds it (R-CON-9)."""
MCP_SECRETS: Final = ("env", "environment", "headers", "oauth.clientSecret")
"""Where an MCP server has secrets."""
LOCAL_SERVER: Final[Mapping[str, Shape]] = {
    "environment": "table",
    "cwd": "text",
    "enabled": "switch",
    "timeout": "whole",
}
"""What OpenCode's configuration can say of a server with ``command`` beside what everybody says; ``environment`` is its ``env``."""
REMOTE_SERVER: Final[Mapping[str, Shape]] = {"oauth": "table or false", "enabled": "switch", "timeout": "whole"}
SERVER_KEYS: Final = frozenset({*LOCAL_SERVER, *REMOTE_SERVER})

QUIET: Final[Mapping[str, str]] = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
"""Set unless the profile's own ``env`` sets them."""
INHERITS: Final = ("OPENCODE_*",)
_OF_ANOTHER_SESSION: Final = frozenset(
    {
        "OPENCODE_CALLER",
        "OPENCODE_CLIENT",
        "OPENCODE_PID",
        "OPENCODE_PRINT_LOGS",
        "OPENCODE_PROCESS_ROLE",
        "OPENCODE_ROUTE",
        "OPENCODE_RUN_ID",
        "OPENCODE_TERMINAL",
    }
)
"""What an OpenCode around us set for itself, and logs on standard error, which hold the prompts."""

OPTION_FLAGS: Final[Mapping[str, str]] = {"title": "--title", "variant": "--variant"}
"""``options`` of a headless profile that are text, and the flag each one becomes."""
OPTION_SWITCHES: Final[Mapping[str, str]] = {"pure": "--pure", "thinking": "--thinking"}
"""``options`` of a headless profile that are true or false, and the flag that stands for true."""
DEFAULT_PERMISSION: Final = "default"
"""``permissions.default`` is the answer to whatever OpenCode asks leave for; the others are OpenCode's own permissions."""
_SECRET_TABLES: Final = frozenset({"headers", "environment"})
_SECRET_KEYS: Final = frozenset({"apiKey", "clientSecret"})


def arguments(request: LaunchRequest, transport: Transport) -> list[str]:
    """Return what follows the command that speaks the transport. Values are joined to their flags, so that none is taken for one.

    Thinking is shown unless the profile says otherwise: what is not shown is not observed (R-EVI-3).
    """
    profile = request.profile
    if transport is Transport.ACP:
        return list(profile.args)
    argv = [f"--model={profile.model}"] if profile.model else []
    if profile.mode:
        argv.append(f"--agent={profile.mode}")
    if profile.permissions.get(DEFAULT_PERMISSION) == "allow":
        argv.append("--auto")
    options = {"thinking": True, **profile.options}
    argv += [f"{flag}={options[name]}" for name, flag in OPTION_FLAGS.items() if name in options]
    argv += [flag for name, flag in OPTION_SWITCHES.items() if options.get(name) is True]
    if request.resume_session_id:
        argv.append(f"--session={request.resume_session_id}")
    return [*argv, *profile.args]


def inline_config(request: LaunchRequest, transport: Transport) -> str | None:
    """Return what ``OPENCODE_CONFIG_CONTENT`` has to hold: the profile's permissions and servers, over what it held before.

    Raises:
        LaunchError: it held something that is no configuration.
    """
    profile, given = request.profile, request.environ.get(INLINE)
    own: dict[str, JsonValue] = {}
    permissions = {name: value for name, value in profile.permissions.items() if name != DEFAULT_PERMISSION}
    if permissions:
        own["permission"] = permissions
    if profile.mcp and transport is Transport.HEADLESS:  # over ACP they go with the session
        own["mcp"] = {name: _server(value) for name, value in profile.mcp.items() if isinstance(value, dict)}
    if not own:
        return given
    before = read_jsonc(given) if given else {}
    if before is None:
        raise LaunchError(f"{INLINE} is set to something that is no configuration; correct it or remove the variable")
    return json.dumps(merged(before, own), ensure_ascii=False)


def environment(request: LaunchRequest, config: Config, model: str | None, inline: str | None) -> dict[str, str]:
    """Return the child's whole environment: with the variables that the chosen provider and the configuration need."""
    own = request.profile.env
    environ = {n: v for n, v in request.environ.items() if n in own or n not in _OF_ANOTHER_SESSION}
    needed = tuple(named_variables(config, model))
    environ |= {
        n: v for n, v in request.full_environ.items() if n not in environ and any(fnmatchcase(n, p) for p in needed)
    }
    if inline is not None:
        environ[INLINE] = inline
    return {**QUIET, **environ}


def named_variables(config: Config, model: str | None) -> Iterator[str]:
    """Return name patterns of the variables that OpenCode needs: the chosen provider's own, and those its files name."""
    known = _known(config, model)
    if known is not None:
        yield from (name for name in (known.variable, known.base_url, *known.also) if name)
    provider = provider_of(model)
    listed = config.table("provider", provider).get("env")
    yield from (name for name in (listed if isinstance(listed, list) else []) if isinstance(name, str))
    yield from config.variables(provider)


def secrets_of(config: Config, environ: Mapping[str, str], model: str | None) -> frozenset[str]:
    """Return the values that only the configuration's words make secret (R-EVI-5)."""
    named = {environ[n] for n in config.variables(provider_of(model)) if environ.get(n)}
    known = _known(config, model)
    if known is not None and environ.get(known.variable):
        named.add(environ[known.variable])
    return frozenset(named | {value for value in _kept_secret(dict(config.values)) if value})


def provider_of(model: str | None) -> str:
    """Return the provider of a ``provider/model``; nothing when there is none."""
    return (model or "").partition("/")[0]


def _known(config: Config, model: str | None) -> Known | None:
    provider = provider_of(model)
    vendor = vendor_of(provider, as_text(config.table("provider", provider).get("npm")))
    return None if vendor is None else KNOWN[vendor]


def _kept_secret(value: JsonValue) -> Iterator[str]:
    """Return every key, header and server variable that the configuration itself holds."""
    pending: list[JsonValue] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending += current
        elif isinstance(current, dict):
            for key, entry in current.items():
                if key in _SECRET_TABLES and isinstance(entry, dict):
                    yield from (as_text(text) for text in entry.values())
                elif isinstance(entry, str) and (key in _SECRET_KEYS or carries_login(key)):
                    yield entry
                else:
                    pending.append(entry)


def _server(value: Mapping[str, JsonValue]) -> JsonValue:
    """One entry of ``mcp`` as OpenCode's configuration writes it."""
    own: dict[str, JsonValue] = {"enabled": True, **{key: value[key] for key in value if key in SERVER_KEYS}}
    if "url" in value:
        return {"type": "remote", "url": value["url"], "headers": value.get("headers", {}), **own}
    args = value.get("args")
    command: list[JsonValue] = [value.get("command"), *(args if isinstance(args, list) else [])]
    return {"type": "local", "command": command, "environment": value.get("env", {}), **own}


def own_model(profile: ConcreteProfile, model: str | None) -> str | None:
    """Return the model's own name, without the provider it is asked of: what a provider knows it by."""
    chosen = profile.model or model
    return (chosen.partition("/")[2] or chosen) if chosen else None

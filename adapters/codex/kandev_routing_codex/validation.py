"""What a Codex profile may say. What cannot be passed on to the CLI is a problem, never silently ignored (R-PRO-7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_codex.settings import MODES, PERMISSION_KEYS
from kandev_routing_codex.toml import inline
from kandev_routing_codex.ways import WAYS
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, Problem, Transport, acp_problems, asked_transport

_KEY: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_CONFIG_FLAGS: Final = ("-c", "--config")
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_RESERVED: Final[Mapping[str, str]] = {
    "exec": "the adapter sets it",
    "resume": "sessions are the router's",
    "fork": "sessions are the router's",
    "review": "the adapter runs prompts only",
    "--json": "the adapter sets it",
    "--experimental-json": "the adapter sets it",
    "--skip-git-repo-check": "the adapter sets it",
    "-m": "use `model`",
    "--model": "use `model`",
    "-s": "use `mode`",
    "--sandbox": "use `mode`",
    "--dangerously-bypass-approvals-and-sandbox": 'use `mode = "bypass"`',
    "-C": "use `cwd`",
    "--cd": "use `cwd`",
    "-": "the prompt goes to standard input",
    "--": "the prompt goes to standard input",
    "--ephemeral": "sessions are the router's",
}
_OWN_OPTIONS: Final[Mapping[str, str]] = {
    "model": "use `model`",
    "sandbox_mode": "use `mode`",
    "mcp_servers": "use `mcp`",
    "profile": 'use `args = ["--profile=…"]`',
}


_ANSWER: Final = "default"
_ANSWERS: Final = ("allow", "reject")
_SERVER_KEYS: Final = frozenset({"command", "args", "env", "url", "type", "headers", "http_headers"})
"""What the Agent Client Protocol can say of a server."""


def problems(profile: ConcreteProfile) -> Iterator[Problem]:
    """Return what is wrong with a profile: for the transport it asks for, else for the one that takes most of it."""
    transport = asked_transport(profile, WAYS)
    ways = [transport] if transport is not None else [way.transport for way in WAYS]
    yield from min(([*_problems(profile, way)] for way in ways), key=len)


def first_problem(profile: ConcreteProfile, transport: Transport) -> Problem | None:
    """Return the first thing that keeps a profile from being driven in this way."""
    return next(_problems(profile, transport), None)


def _problems(profile: ConcreteProfile, transport: Transport) -> Iterator[Problem]:
    over_acp = transport is Transport.ACP
    if profile.model is not None and (not profile.model.strip() or profile.model.startswith("-")):
        yield Problem("model", 'must name a model, such as "gpt-5.5"')
    if profile.fallback_model is not None:
        yield Problem("fallback_model", "Codex has none; remove it and add a second candidate instead", "unsupported")
    if profile.mode is not None and profile.mode not in MODES:
        yield from _other_mode(profile, over_acp=over_acp)
    if profile.command is not None and not profile.command:
        yield Problem("command", "must begin with an executable; remove it to use the one from PATH")
    yield from _arguments(profile, over_acp=over_acp)
    for name, value in profile.options.items():
        yield from _option(name, value)
    for name, value in profile.permissions.items():
        yield from _permission(name, value, over_acp=over_acp)
    yield from _servers(profile, over_acp=over_acp)


def _other_mode(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    known = f"Codex has no mode {profile.mode!r}; choose one of {', '.join(MODES)}"
    if not over_acp:
        yield Problem("mode", known)
    elif profile.transport is not Transport.ACP or not str(profile.mode).strip():
        yield Problem("mode", f'{known}, or add transport = "acp" to name one of the agent\'s own')


def _arguments(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    value_follows = False
    for index, argument in enumerate(profile.args):
        flag = argument.partition("=")[0]
        if over_acp:
            if not (value_follows or argument.startswith(_CONFIG_FLAGS)):
                yield Problem(
                    f"args[{index}]",
                    'codex-acp takes no flags but --config=key=value; use `options`, or transport = "headless"',
                    "unsupported",
                )
            value_follows = argument in _CONFIG_FLAGS
        elif flag in _RESERVED:
            yield Problem(f"args[{index}]", f"{flag} cannot be given here: {_RESERVED[flag]}")


def _servers(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    for name, value in profile.mcp.items():
        if not _SERVER_NAME.fullmatch(name):
            yield Problem(f"mcp.{name}", "a server's name may have letters, digits, - and _ only")
        if not isinstance(value, dict) or not _writable(value):
            yield Problem(f"mcp.{name}", 'must be a table, such as { command = "server", args = [] } or { url = "…" }')
        elif over_acp:
            for key in value:
                if key not in _SERVER_KEYS:
                    yield Problem(
                        f"mcp.{name}.{key}",
                        'cannot be said over ACP; remove it or use transport = "headless"',
                        "unsupported",
                    )
    if over_acp:
        yield from acp_problems(profile.model_copy(update={"options": {}, "permissions": {}}))


def _option(name: str, value: JsonValue) -> Iterator[Problem]:
    owner = _OWN_OPTIONS.get(name.partition(".")[0])
    if owner is not None:
        yield Problem(f"options.{name}", f"cannot be given here: {owner}")
    elif not _KEY.fullmatch(name):
        yield Problem(f"options.{name}", 'must be a key of Codex\'s configuration, such as "model_reasoning_effort"')
    elif not _writable(value):
        yield Problem(f"options.{name}", "must be a value that TOML can hold")


def _permission(name: str, value: JsonValue, *, over_acp: bool) -> Iterator[Problem]:
    if name == _ANSWER:
        if value not in _ANSWERS:
            yield Problem(f"permissions.{name}", 'must be "allow" or "reject": the answer to what Codex asks leave for')
        elif value == "allow" and not over_acp:
            yield Problem(
                f"permissions.{name}",
                'nobody is asked headless; choose another `mode`, or transport = "acp"',
                "unsupported",
            )
    elif name not in PERMISSION_KEYS:
        known = ", ".join((_ANSWER, *PERMISSION_KEYS))
        yield Problem(f"permissions.{name}", f"is not passed on by this adapter; known are {known}", "unknown")
    elif name == "network_access" and not isinstance(value, bool):
        yield Problem(f"permissions.{name}", "must be true or false")
    elif name == "network_access" and value and over_acp:
        yield Problem(
            f"permissions.{name}",
            'codex-acp keeps the network closed in its sandbox; use transport = "headless", or mode "danger-full-access"',
            "unsupported",
        )
    elif name == "writable_roots" and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        yield Problem(f"permissions.{name}", 'must be a list of folders, such as ["../shared"]')


def _writable(value: JsonValue) -> bool:
    try:
        inline(value)
    except ValueError:
        return False
    return True

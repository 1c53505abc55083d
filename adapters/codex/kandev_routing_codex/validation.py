"""What a Codex profile may say. What cannot be passed on to the CLI is a problem, never silently ignored (R-PRO-7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kandev_routing_codex.settings import (
    AGENT_MODES,
    EFFORT,
    HEADERS,
    LOCAL_SERVER,
    MODES,
    PERMISSION_KEYS,
    PERMISSION_PROFILE,
    REMOTE_SERVER,
    SERVER_TYPES,
    UNBOUND,
    named_model,
)
from kandev_routing_codex.toml import inline
from kandev_routing_codex.ways import WAYS
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, Problem, Transport, asked_transport, server_problems

_KEY: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_CONFIG_FLAGS: Final = ("-c", "--config")
_ASSIGNMENT: Final = re.compile(r"\s*[^-=\s][^=]*=.*", re.DOTALL)
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
    effort = named_model(profile.model or "")[1]
    if effort is not None and profile.options.get(EFFORT, effort) != effort:
        yield Problem(f"options.{EFFORT}", f"contradicts `model`, which says [{effort}]; keep one of them")
    for name, value in profile.permissions.items():
        yield from _permission(name, value, over_acp=over_acp, unbound=profile.mode in UNBOUND)
    yield from _servers(profile, over_acp=over_acp)


def _other_mode(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    mode = str(profile.mode)
    known = f"Codex has no mode {mode!r}; choose one of {', '.join(MODES)}"
    if mode in AGENT_MODES or (mode.startswith(PERMISSION_PROFILE) and mode != PERMISSION_PROFILE):
        if profile.transport is not Transport.ACP:
            yield Problem("mode", f'{known}, or add transport = "acp", for it is one of the agent\'s own')
    elif over_acp:
        own = ", ".join((*AGENT_MODES, f"{PERMISSION_PROFILE}<name>"))
        yield Problem("mode", f'{known}; with transport = "acp" also {own}')
    else:
        yield Problem("mode", known)


def _arguments(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    if over_acp:
        yield from _acp_arguments(profile.args)
        return
    for index, argument in enumerate(profile.args):
        flag = argument.partition("=")[0]
        if flag in _RESERVED:
            yield Problem(f"args[{index}]", f"{flag} cannot be given here: {_RESERVED[flag]}")


def _acp_arguments(args: Sequence[str]) -> Iterator[Problem]:
    """Settings only, each whole: what is something else would be passed over by the agent, or read as another key."""
    flag = ""
    for index, argument in enumerate(args):
        joined, flag_before = argument.startswith("--config="), flag
        flag = argument if argument in _CONFIG_FLAGS and not flag_before else ""
        value = argument if flag_before else argument.removeprefix("--config=") if joined else None
        if value is not None and not _ASSIGNMENT.fullmatch(value):
            yield Problem(f"args[{index}]", f"{value!r} is no setting; write --config=key=value")
        elif value is None and not flag:
            yield Problem(
                f"args[{index}]",
                'codex-acp takes no flags but --config=key=value; use `options`, or transport = "headless"',
                "unsupported",
            )
    if flag:
        yield Problem(f"args[{len(args) - 1}]", f"{flag} has no value; write --config=key=value")


def _servers(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    for name, value in profile.mcp.items():
        if not _SERVER_NAME.fullmatch(name):
            yield Problem(f"mcp.{name}", "a server's name may have letters, digits, - and _ only")
        for key in ("tools", "oauth"):
            if isinstance(value, dict) and not _writable(value.get(key, {})):
                yield Problem(f"mcp.{name}.{key}", "must be a value that TOML can hold")
        if isinstance(value, dict) and "headers" in value and "http_headers" in value:
            yield Problem(f"mcp.{name}.http_headers", "says the same as `headers`; keep one of them")
    if over_acp:
        headless = {*LOCAL_SERVER, *REMOTE_SERVER} - {*HEADERS}
        yield from server_problems(profile, remote=HEADERS, types=SERVER_TYPES, headless_only=headless)
    else:
        yield from server_problems(profile, local=LOCAL_SERVER, remote=REMOTE_SERVER, types=SERVER_TYPES)


def _option(name: str, value: JsonValue) -> Iterator[Problem]:
    owner = _OWN_OPTIONS.get(name.partition(".")[0])
    if owner is not None:
        yield Problem(f"options.{name}", f"cannot be given here: {owner}")
    elif not _KEY.fullmatch(name):
        yield Problem(f"options.{name}", 'must be a key of Codex\'s configuration, such as "model_reasoning_effort"')
    elif not _writable(value):
        yield Problem(f"options.{name}", "must be a value that TOML can hold")


def _permission(name: str, value: JsonValue, *, over_acp: bool, unbound: bool) -> Iterator[Problem]:
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
    elif name == "network_access" and value and over_acp and not unbound:
        yield Problem(
            f"permissions.{name}",
            'codex-acp keeps the network closed in its sandbox; use transport = "headless", or mode = "danger-full-access"',
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

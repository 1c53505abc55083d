"""What a Codex profile may say. What cannot be passed on to the CLI is a problem, never silently ignored (R-PRO-7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_codex.launch import MODES, PERMISSION_KEYS
from kandev_routing_codex.toml import inline
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, Problem, Transport

_KEY: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
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


def problems(profile: ConcreteProfile) -> Iterator[Problem]:
    """Return what is wrong with a profile of this family."""
    if profile.transport not in {None, Transport.HEADLESS}:
        yield Problem(
            "transport", 'this version drives Codex headless only; remove it or write "headless"', "unsupported"
        )
    if profile.model is not None and (not profile.model.strip() or profile.model.startswith("-")):
        yield Problem("model", 'must name a model, such as "gpt-5.5"')
    if profile.fallback_model is not None:
        yield Problem("fallback_model", "Codex has none; remove it and add a second candidate instead", "unsupported")
    if profile.mode is not None and profile.mode not in MODES:
        yield Problem("mode", f"Codex has no mode {profile.mode!r}; choose one of {', '.join(MODES)}")
    if profile.command is not None and not profile.command:
        yield Problem("command", "must begin with an executable; remove it to use `codex` from PATH")
    yield from _arguments(profile)
    for name, value in profile.options.items():
        yield from _option(name, value)
    for name, value in profile.permissions.items():
        yield from _permission(name, value)
    yield from _servers(profile)


def _arguments(profile: ConcreteProfile) -> Iterator[Problem]:
    for index, argument in enumerate(profile.args):
        flag = argument.partition("=")[0]
        if flag in _RESERVED:
            yield Problem(f"args[{index}]", f"{flag} cannot be given here: {_RESERVED[flag]}")


def _servers(profile: ConcreteProfile) -> Iterator[Problem]:
    for name, value in profile.mcp.items():
        if not _SERVER_NAME.fullmatch(name):
            yield Problem(f"mcp.{name}", "a server's name may have letters, digits, - and _ only")
        if not isinstance(value, dict) or not _writable(value):
            yield Problem(f"mcp.{name}", 'must be a table, such as { command = "server", args = [] } or { url = "…" }')


def _option(name: str, value: JsonValue) -> Iterator[Problem]:
    owner = _OWN_OPTIONS.get(name.partition(".")[0])
    if owner is not None:
        yield Problem(f"options.{name}", f"cannot be given here: {owner}")
    elif not _KEY.fullmatch(name):
        yield Problem(f"options.{name}", 'must be a key of Codex\'s configuration, such as "model_reasoning_effort"')
    elif not _writable(value):
        yield Problem(f"options.{name}", "must be a value that TOML can hold")


def _permission(name: str, value: JsonValue) -> Iterator[Problem]:
    if name not in PERMISSION_KEYS:
        known = ", ".join(PERMISSION_KEYS)
        yield Problem(f"permissions.{name}", f"is not passed on by this adapter; known are {known}", "unknown")
    elif name == "network_access" and not isinstance(value, bool):
        yield Problem(f"permissions.{name}", "must be true or false")
    elif name == "writable_roots" and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        yield Problem(f"permissions.{name}", 'must be a list of folders, such as ["../shared"]')


def _writable(value: JsonValue) -> bool:
    try:
        inline(value)
    except ValueError:
        return False
    return True

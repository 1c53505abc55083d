"""What a Claude profile may say. What cannot be passed on to the CLI is a problem, never silently ignored (R-PRO-7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_claude.launch import MODES, OPTION_FLAGS, PERMISSION_KEYS
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, Problem, Transport

_RESERVED: Final[Mapping[str, str]] = {
    "-p": "the adapter sets it",
    "--print": "the adapter sets it",
    "--output-format": "the adapter sets it",
    "--input-format": "the adapter sets it",
    "--verbose": "the adapter sets it",
    "--include-partial-messages": "the adapter sets it",
    "--model": "use `model`",
    "--fallback-model": "use `fallback_model`",
    "--permission-mode": "use `mode`",
    "--mcp-config": "use `mcp`",
    "-r": "sessions are the router's",
    "--resume": "sessions are the router's",
    "-c": "sessions are the router's",
    "--continue": "sessions are the router's",
    "--fork-session": "sessions are the router's",
    "--session-id": "sessions are the router's",
    "--no-session-persistence": "sessions are the router's",
    "--from-pr": "sessions are the router's",
    "--bg": "a turn must end with its process",
    "--background": "a turn must end with its process",
    "--cloud": "a turn must end with its process",
    "--": "the prompt goes to standard input",
}


def problems(profile: ConcreteProfile) -> Iterator[Problem]:
    """Return what is wrong with a profile of this family."""
    if profile.transport not in {None, Transport.HEADLESS}:
        yield Problem(
            "transport", 'this version drives Claude headless only; remove it or write "headless"', "unsupported"
        )
    if profile.model is not None and (not profile.model.strip() or profile.model.startswith("-")):
        yield Problem("model", 'must name a model, such as "opus" or "claude-sonnet-4-5"')
    if profile.fallback_model is not None and not profile.fallback_model.strip():
        yield Problem("fallback_model", "must name a model; remove it if there is none")
    if profile.mode is not None and profile.mode not in MODES:
        yield Problem("mode", f"Claude has no mode {profile.mode!r}; choose one of {', '.join(MODES)}")
    if profile.command is not None and not profile.command:
        yield Problem("command", "must begin with an executable; remove it to use `claude` from PATH")
    yield from _arguments(profile)
    for name, value in profile.options.items():
        yield from _option(name, value)
    for name, value in profile.permissions.items():
        yield from _permission(name, value)
    for name, value in profile.mcp.items():
        if not isinstance(value, dict):
            yield Problem(
                f"mcp.{name}",
                'must be a table, such as { command = "server", args = [] } or { type = "http", url = "…" }',
            )


def _arguments(profile: ConcreteProfile) -> Iterator[Problem]:
    for index, argument in enumerate(profile.args):
        flag = argument.partition("=")[0]
        if flag in _RESERVED:
            yield Problem(f"args[{index}]", f"{flag} cannot be given here: {_RESERVED[flag]}")
        if flag == "--settings" and profile.permissions:
            yield Problem(
                f"args[{index}]", "--settings cannot be given together with `permissions`; put them into that file"
            )


def _option(name: str, value: JsonValue) -> Iterator[Problem]:
    if name not in OPTION_FLAGS:
        known = ", ".join(sorted(OPTION_FLAGS))
        yield Problem(
            f"options.{name}",
            f"is not passed on by this adapter; known are {known}; other flags go into `args`",
            "unknown",
        )
    elif value is None or isinstance(value, bool | dict) or (isinstance(value, list) and not _texts(value)):
        yield Problem(f"options.{name}", "must be text, a number or a list of text")


def _permission(name: str, value: JsonValue) -> Iterator[Problem]:
    if name not in PERMISSION_KEYS:
        known = ", ".join(PERMISSION_KEYS)
        yield Problem(f"permissions.{name}", f"is not passed on by this adapter; known are {known}", "unknown")
    elif not _texts(value):
        yield Problem(f"permissions.{name}", 'must be a list of text, such as ["Bash(git log:*)", "Read"]')


def _texts(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)

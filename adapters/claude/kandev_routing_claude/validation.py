"""What a Claude profile may say. What cannot be passed on to the CLI is a problem, never silently ignored (R-PRO-7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_claude.acp_launch import HEADLESS_MODES, TAKEN, flags
from kandev_routing_claude.launch import (
    LOCAL_SERVER,
    MODES,
    OPTION_FLAGS,
    PERMISSION_KEYS,
    REMOTE_SERVER,
    REMOTE_TYPES,
    numbered,
)
from kandev_routing_sdk.spec import ConcreteProfile, JsonValue, Problem, Transport, server_problems

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


_NUMBERS: Final = frozenset({"max_budget_usd", "max_turns"})
_ANSWER: Final = "default"
"""``permissions.default``: the answer over ACP to whatever Claude asks leave for."""


def problems(profile: ConcreteProfile, transport: Transport) -> Iterator[Problem]:
    """Return what is wrong with a profile of this family on a transport."""
    if profile.model is not None and (not profile.model.strip() or profile.model.startswith("-")):
        yield Problem("model", 'must name a model, such as "opus" or "claude-sonnet-4-5"')
    if profile.fallback_model is not None and not profile.fallback_model.strip():
        yield Problem("fallback_model", "must name a model; remove it if there is none")
    if profile.command is not None and not profile.command:
        yield Problem("command", "must begin with an executable; remove it to use the one on PATH")
    yield from _mode(profile.mode, transport)
    yield from _arguments(profile, transport)
    for name, value in profile.options.items():
        yield from _option(name, value)
    for name, value in profile.permissions.items():
        yield from _permission(name, value, transport)
    yield from _servers(profile, transport)


def _mode(mode: str | None, transport: Transport) -> Iterator[Problem]:
    known = [name for name in MODES if transport is Transport.HEADLESS or name not in HEADLESS_MODES]
    if mode is not None and mode not in known:
        yield Problem("mode", f"Claude has no mode {mode!r} over {transport}; choose one of {', '.join(known)}")


def _servers(profile: ConcreteProfile, transport: Transport) -> Iterator[Problem]:
    if transport is Transport.ACP:
        yield from server_problems(profile, headless_only=REMOTE_SERVER)
    else:
        yield from server_problems(profile, local=LOCAL_SERVER, remote=REMOTE_SERVER, types=REMOTE_TYPES)


def _arguments(profile: ConcreteProfile, transport: Transport) -> Iterator[Problem]:
    reserved = _RESERVED if transport is Transport.HEADLESS else {**_RESERVED, **TAKEN}
    for index, argument in enumerate(profile.args):
        flag = argument.partition("=")[0]
        if flag in reserved:
            yield Problem(f"args[{index}]", f"{flag} cannot be given here over {transport}: {reserved[flag]}")
        if flag == "--settings" and profile.permissions:
            yield Problem(
                f"args[{index}]", "--settings cannot be given together with `permissions`; put them into that file"
            )
    if transport is Transport.ACP and not any(argument.partition("=")[0] in reserved for argument in profile.args):
        try:
            flags(profile.args)
        except ValueError as exc:
            yield Problem("args", f"{exc}; write --flag=value, once")


def _option(name: str, value: JsonValue) -> Iterator[Problem]:
    if name not in OPTION_FLAGS:
        known = ", ".join(sorted(OPTION_FLAGS))
        yield Problem(
            f"options.{name}",
            f"is not passed on by this adapter; known are {known}; other flags of Claude go into `args`",
            "unknown",
        )
    elif name in _NUMBERS:
        try:
            numbered(value)
        except ValueError:
            yield Problem(f"options.{name}", "must be a number")
    elif value is None or isinstance(value, bool | dict) or (isinstance(value, list) and not _texts(value)):
        yield Problem(f"options.{name}", "must be text, a number or a list of text")


def _permission(name: str, value: JsonValue, transport: Transport) -> Iterator[Problem]:
    if name == _ANSWER:
        yield from _answer(value, transport)
    elif name not in PERMISSION_KEYS:
        known = ", ".join((*PERMISSION_KEYS, _ANSWER))
        yield Problem(f"permissions.{name}", f"is not passed on by this adapter; known are {known}", "unknown")
    elif not _texts(value):
        yield Problem(f"permissions.{name}", 'must be a list of text, such as ["Bash(git log:*)", "Read"]')


def _answer(value: JsonValue, transport: Transport) -> Iterator[Problem]:
    if value not in ("allow", "reject"):
        yield Problem(
            f"permissions.{_ANSWER}", 'must be "allow" or "reject": the answer to whatever Claude asks leave for'
        )
    elif value == "allow" and transport is Transport.HEADLESS:
        yield Problem(
            f"permissions.{_ANSWER}",
            'headless Claude asks nobody: choose a `mode`, list the tools in `permissions.allow`, or write transport = "acp"',
        )


def _texts(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)

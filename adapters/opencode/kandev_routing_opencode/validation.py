"""What an OpenCode profile may say. What cannot be passed on to the CLI is a problem, never silently ignored (R-PRO-7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kandev_routing_opencode.launch import (
    DEFAULT_PERMISSION,
    LOCAL_SERVER,
    OPTION_FLAGS,
    OPTION_SWITCHES,
    REMOTE_SERVER,
    SERVER_KEYS,
    WAYS,
)
from kandev_routing_sdk.spec import (
    ConcreteProfile,
    JsonValue,
    Problem,
    Transport,
    acp_problems,
    asked_transport,
    server_problems,
)

_MODEL: Final = re.compile(r"[^\s/-][^\s/]*/\S+")
_NAME: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_*-]{0,63}")
_ACTIONS: Final = ("allow", "ask", "deny")
_RESERVED: Final[Mapping[str, str]] = {
    "--format": "the adapter sets it",
    "--model": "use `model`",
    "-m": "use `model`",
    "--agent": "use `mode`",
    "--session": "sessions are the router's",
    "-s": "sessions are the router's",
    "--continue": "sessions are the router's",
    "-c": "sessions are the router's",
    "--fork": "sessions are the router's",
    "--auto": 'use `permissions = { default = "allow" }`',
    "--yolo": 'use `permissions = { default = "allow" }`',
    "--dangerously-skip-permissions": 'use `permissions = { default = "allow" }`',
    "--variant": "use `options`",
    "--thinking": "use `options`",
    "--title": "use `options`",
    "--pure": "use `options`",
    "--dir": "use `cwd`",
    "--cwd": "use `cwd`",
    "--attach": "a turn must end with its process",
    "--password": "a turn must end with its process",
    "-p": "a turn must end with its process",
    "--username": "a turn must end with its process",
    "-u": "a turn must end with its process",
    "--interactive": "nobody sits in front of it",
    "-i": "nobody sits in front of it",
    "--mini": "nobody sits in front of it",
    "--demo": "nobody sits in front of it",
    "--command": "the prompt goes to standard input as it is",
    "--print-logs": "its log holds the prompts",
    "--help": "it would answer no prompt",
    "-h": "it would answer no prompt",
    "--version": "it would answer no prompt",
    "-v": "it would answer no prompt",
    "--": "the prompt goes to standard input",
}


def problems(profile: ConcreteProfile) -> Iterator[Problem]:
    """Return what is wrong with a profile of this family."""
    if profile.model is not None and not _MODEL.fullmatch(profile.model):
        yield Problem("model", 'must name a provider and a model, such as "anthropic/claude-sonnet-4-5"')
    if profile.fallback_model is not None:
        yield Problem("fallback_model", "OpenCode has none; make another candidate of it", "unsupported")
    if profile.mode is not None and (not profile.mode.strip() or profile.mode.startswith("-")):
        yield Problem("mode", 'must name one of OpenCode\'s agents, such as "build" or "plan"')
    if profile.command is not None and not profile.command:
        yield Problem("command", "must begin with an executable; remove it to use `opencode` from PATH")
    yield from _arguments(profile)
    for name, value in profile.permissions.items():
        yield from _permission(name, value)
    own = {name: value for name, value in profile.permissions.items() if name == DEFAULT_PERMISSION}
    over_acp = asked_transport(profile, WAYS) is Transport.ACP
    options = profile.options if over_acp else {}
    yield from acp_problems(profile.model_copy(update={"permissions": own, "options": options, "mcp": {}}))
    if not over_acp:
        for name, value in profile.options.items():
            yield from _option(name, value)
    yield from _servers(profile, over_acp=over_acp)


def _servers(profile: ConcreteProfile, *, over_acp: bool) -> Iterator[Problem]:
    if over_acp:
        yield from server_problems(profile, headless_only=SERVER_KEYS)
        return
    yield from server_problems(profile, local=LOCAL_SERVER, remote=REMOTE_SERVER)
    for name, value in profile.mcp.items():
        if isinstance(value, dict) and "env" in value and "environment" in value:
            yield Problem(f"mcp.{name}.environment", "says the same as `env`; keep one of them")


def _arguments(profile: ConcreteProfile) -> Iterator[Problem]:
    for index, argument in enumerate(profile.args):
        flag = argument.partition("=")[0]
        if flag in _RESERVED:
            yield Problem(f"args[{index}]", f"{flag} cannot be given here: {_RESERVED[flag]}")
        elif not argument.startswith("-"):
            yield Problem(
                f"args[{index}]",
                "would be taken for a part of the prompt; join a value to its flag, as in --file=notes.md",
            )


def _option(name: str, value: JsonValue) -> Iterator[Problem]:
    if name in OPTION_SWITCHES:
        if not isinstance(value, bool):
            yield Problem(f"options.{name}", "must be true or false")
    elif name in OPTION_FLAGS:
        if not isinstance(value, str) or not value.strip():
            yield Problem(f"options.{name}", "must be text")
    else:
        known = ", ".join(sorted((*OPTION_FLAGS, *OPTION_SWITCHES)))
        yield Problem(
            f"options.{name}",
            f"is not passed on by this adapter; known are {known}; other flags go into `args`",
            "unknown",
        )


def _permission(name: str, value: JsonValue) -> Iterator[Problem]:
    if name == DEFAULT_PERMISSION:
        return  # the same over every transport
    if not _NAME.fullmatch(name):
        yield Problem(f"permissions.{name}", 'must be one of OpenCode\'s permissions, such as "edit" or "bash"')
    elif value not in _ACTIONS and not (
        isinstance(value, dict) and value and all(action in _ACTIONS for action in value.values())
    ):
        yield Problem(
            f"permissions.{name}",
            'must be "allow", "ask" or "deny", or a table of such, as in { "git *" = "allow", "*" = "deny" }',
        )

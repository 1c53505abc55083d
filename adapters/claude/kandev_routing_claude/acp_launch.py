"""How a profile is passed on over ACP: to claude-agent-acp, which passes it on to the Claude inside it (R-PRO-7).

Checked against claude-agent-acp 0.101.0: ``_meta.claudeCode.options`` of the request that opens a session are the options of the
Claude Agent SDK, among them its flags (``extraArgs``) and settings; what it sets itself is left out or refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from kandev_routing_claude.acp_extractor import EVENTS
from kandev_routing_claude.launch import DEFAULT_MODE, listed, numbered, permission_rules
from kandev_routing_sdk.spec import AcpSettings, ConcreteProfile, JsonValue, acp_settings

MODE_NAMES: Final[Mapping[str, str]] = {"manual": DEFAULT_MODE}
"""Modes that have another name over ACP."""
HEADLESS_MODES: Final = frozenset({"dontAsk"})
"""Modes that claude-agent-acp does not offer."""
TAKEN: Final[Mapping[str, str]] = {
    "--agent": "use `options.agent`",
    "--allow-dangerously-skip-permissions": "use `mode`",
    "--append-system-prompt": "use `options.append_system_prompt`",
    "--dangerously-skip-permissions": "use `mode`",
    "--disallowedTools": "use `permissions.deny`",
    "--disallowed-tools": "use `permissions.deny`",
    "--effort": "use `options.effort`",
    "--max-budget-usd": "use `options.max_budget_usd`",
    "--max-turns": "use `options.max_turns`",
    "--permission-prompt-tool": "claude-agent-acp sets it",
    "--replay-user-messages": "claude-agent-acp sets it",
    "--setting-sources": "use `options.setting_sources`",
    "--system-prompt": "use `options.system_prompt`",
    "--tools": "use `options.tools`",
}
"""Flags that claude-agent-acp gives to its Claude itself, so that a second one would contradict it."""


def settings(profile: ConcreteProfile, default_mode: str | None) -> AcpSettings:
    """Return how to talk to claude-agent-acp. ``default_mode``: what Claude's settings files choose."""
    meta: dict[str, JsonValue] = {"claudeCode": {"emitRawSDKMessages": list(EVENTS), "options": _options(profile)}}
    if prompt := _system_prompt(profile.options):
        meta["systemPrompt"] = prompt
    # without one it begins in `auto`, where headless it would deny what nobody may allow
    mode = profile.mode or (None if default_mode else DEFAULT_MODE)
    return dataclasses.replace(
        acp_settings(profile, session_meta=meta),
        mode=None if mode is None else MODE_NAMES.get(mode, mode),
        model=None,  # it goes with the session, as it would headless: the picker knows the newest models only
        options={},
    )


def flags(args: Sequence[str]) -> dict[str, str | None]:
    """Return ``args`` as flags with at most one value each.

    Raises:
        ValueError: they are more than that; the message is the rest of a sentence about the first that is.
    """
    found: dict[str, str | None] = {}
    rest = list(args)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or name == "--":
            raise ValueError(f"{name} is no flag with two dashes, and over ACP a flag has one value")
        if name in found:
            raise ValueError(f"{name} stands here twice, and over ACP a flag has one value")
        if not equals and rest and not rest[0].startswith("-"):
            equals, value = "=", rest.pop(0)
        found[name] = value if equals else None
    return found


def _options(profile: ConcreteProfile) -> dict[str, JsonValue]:
    given = profile.options
    options: dict[str, JsonValue] = {
        "model": profile.model,
        "fallbackModel": profile.fallback_model,
        "agent": given.get("agent"),
        "effort": given.get("effort"),
        "maxBudgetUsd": numbered(given.get("max_budget_usd")),
        "maxTurns": numbered(given.get("max_turns")),
        "settingSources": listed(given.get("setting_sources")),
        "tools": listed(given.get("tools")),
        "settings": {"permissions": rules} if (rules := permission_rules(profile)) else None,
        "extraArgs": {name.removeprefix("--"): value for name, value in flags(profile.args).items()} or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _system_prompt(given: Mapping[str, JsonValue]) -> JsonValue:
    own, more = given.get("system_prompt"), given.get("append_system_prompt")
    if own is None:
        return None if more is None else {"append": more}
    return own if more is None else f"{own}\n\n{more}"

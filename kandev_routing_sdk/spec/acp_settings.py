"""What every agent that speaks the Agent Client Protocol takes from a profile in the same way (R-PRO-1, R-PRO-7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec.adapter import AcpSettings
from kandev_routing_sdk.spec.servers import server_problems

PERMISSION: Final = "default"
"""``permissions.default`` of a profile: the answer to whatever the agent asks leave for."""
_ANSWERS: Final = ("allow", "reject")
_NOTHING: Final[Mapping[str, JsonValue]] = MappingProxyType({})


def acp_settings(
    profile: ConcreteProfile,
    *,
    client_meta: Mapping[str, JsonValue] = _NOTHING,
    session_meta: Mapping[str, JsonValue] = _NOTHING,
    auth_method: str | None = None,
) -> AcpSettings:
    """Return how to talk to the agent of a profile that :func:`acp_problems` found nothing wrong with.

    ``mode``, ``model`` and ``options`` (its configuration options) are set when the session is open, ``mcp`` goes with it. Nobody
    need sit in front of a routed agent: what it asks leave for is rejected, as a headless agent would, unless its host answers, or
    ``permissions.default`` is ``"allow"``.
    """
    return AcpSettings(
        client_meta=client_meta,
        session_meta=session_meta,
        auth_method=auth_method,
        mode=profile.mode,
        model=profile.model,
        options=profile.options,
        mcp_servers=tuple(_server(name, value) for name, value in profile.mcp.items() if isinstance(value, dict)),
        permission="allow" if profile.permissions.get(PERMISSION) == "allow" else "reject",
    )


def acp_problems(profile: ConcreteProfile) -> Iterator[Problem]:
    """Return what is wrong with the parts of a profile that :func:`acp_settings` reads."""
    for name, value in profile.options.items():
        if isinstance(value, (dict, list)) or value is None:
            yield Problem(f"options.{name}", "must be text, a number or true/false: an option that the agent offers")
    for name, value in profile.permissions.items():
        if name != PERMISSION:
            yield Problem(f"permissions.{name}", f"is not known over ACP; known is {PERMISSION}", "unknown")
        elif value not in _ANSWERS:
            yield Problem(
                f"permissions.{name}", 'must be "allow" or "reject": the answer to whatever the agent asks leave for'
            )
    yield from server_problems(profile)


def _server(name: str, value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """One entry of ``mcp`` as the protocol writes it."""
    if "url" in value:
        remote = {"type": value.get("type", "http"), "name": name, "url": value["url"]}
        return {**remote, "headers": _pairs(value.get("headers"))}
    return {
        "name": name,
        "command": value.get("command"),
        "args": value.get("args", []),
        "env": _pairs(value.get("env")),
    }


def _pairs(table: JsonValue) -> list[JsonValue]:
    return [{"name": name, "value": value} for name, value in table.items()] if isinstance(table, dict) else []

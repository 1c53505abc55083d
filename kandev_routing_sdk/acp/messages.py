"""What we say over the Agent Client Protocol, as plain JSON. Tests hold it against the protocol's schema."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

from pydantic import JsonValue

from kandev_routing_sdk.spec.acp import Frame, as_object, as_text
from kandev_routing_sdk.spec.adapter import LaunchPlan
from kandev_routing_sdk.spec.client import NOTHING_OFFERED, ClientCapabilities

PROTOCOL_VERSION: Final = 1
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_FOUND: Final = -32002

_CLIENT: Final = "kandev-routing-sdk"


class Call(NamedTuple):
    """A request to send."""

    method: str
    params: dict[str, JsonValue]


def _version() -> str:
    try:
        return version(_CLIENT)
    except PackageNotFoundError:
        return "0"  # run from a source tree that is not installed


_VERSION: Final = _version()


def initialize(plan: LaunchPlan, offers: ClientCapabilities = NOTHING_OFFERED) -> Call:
    """Offer text, and what else the host does: by default no file system and no terminal."""
    files: dict[str, JsonValue] = {
        "readTextFile": offers.read_text_file is not None,
        "writeTextFile": offers.write_text_file is not None,
    }
    capabilities: dict[str, JsonValue] = {"fs": files, "terminal": offers.terminal is not None}
    if plan.acp.client_meta:
        capabilities["_meta"] = dict(plan.acp.client_meta)
    return Call(
        "initialize",
        {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": capabilities,
            "clientInfo": {"name": _CLIENT, "version": _VERSION},
        },
    )


def authenticate(method_id: str) -> Call:
    """Sign in with one of the agent's methods."""
    return Call("authenticate", {"methodId": method_id})


def offers_resume(agent: Frame) -> bool:
    """Whether an agent of these capabilities can go on with a native session."""
    return agent.get("loadSession") is True or _resumes(agent)


def open_session(plan: LaunchPlan, resume_session_id: str | None, agent: Frame) -> Call:
    """A new session, or the native one again, in the way that ``agent`` offers (R-CON-2)."""
    params: dict[str, JsonValue] = {
        "cwd": str(plan.cwd.absolute()),
        "mcpServers": [dict(s) for s in plan.acp.mcp_servers],
    }
    if plan.acp.session_meta:
        params["_meta"] = dict(plan.acp.session_meta)
    if resume_session_id is None:
        return Call("session/new", params)
    params["sessionId"] = resume_session_id
    # a resume is like a load, without a replay of the past
    return Call("session/resume" if _resumes(agent) else "session/load", params)


def _resumes(agent: Frame) -> bool:
    return isinstance(as_object(agent.get("sessionCapabilities")).get("resume"), dict)


def prompt(session_id: str, text: str) -> Call:
    """One prompt of one text block."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return Call("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": clean}]})


def choose_mode(session_id: str, offered: Frame, mode: str) -> Call | None:
    """Set the mode; None when it is set already."""
    option = _option(offered, "mode")
    if option is not None:
        return None if option.get("currentValue") == mode else set_option(session_id, as_text(option.get("id")), mode)
    if as_object(offered.get("modes")).get("currentModeId") == mode:
        return None
    return Call("session/set_mode", {"sessionId": session_id, "modeId": mode})


def choose_model(session_id: str, offered: Frame, model: str) -> Call | None:
    """Set the model; None when it is set already. Agents have two ways; the older one is no longer in the schema."""
    option = _option(offered, "model")
    if option is not None:
        return None if option.get("currentValue") == model else set_option(session_id, as_text(option.get("id")), model)
    if as_object(offered.get("models")).get("currentModelId") == model:
        return None
    return Call("session/set_model", {"sessionId": session_id, "modelId": model})


def set_option(session_id: str, option_id: str, value: JsonValue) -> Call:
    """Set a configuration option."""
    params: dict[str, JsonValue] = {"sessionId": session_id, "configId": option_id}
    if isinstance(value, bool):
        return Call("session/set_config_option", {**params, "type": "boolean", "value": value})
    return Call("session/set_config_option", {**params, "value": str(value)})


def permission_answer(options: JsonValue | None, wanted: str) -> dict[str, JsonValue]:
    """Answer ``session/request_permission``: ``wanted`` is ``allow`` or ``reject``; once rather than always."""
    chosen: dict[str, str] = {}
    for option in options if isinstance(options, list) else []:
        facts = as_object(option)
        kind, option_id = as_text(facts.get("kind")), as_text(facts.get("optionId"))
        if option_id:
            chosen.setdefault(kind, option_id)
    for kind in (f"{wanted}_once", f"{wanted}_always"):
        if kind in chosen:
            return {"outcome": {"outcome": "selected", "optionId": chosen[kind]}}
    return {"outcome": {"outcome": "cancelled"}}


def _option(offered: Frame, category: str) -> Frame | None:
    options = offered.get("configOptions")
    for option in options if isinstance(options, list) else []:
        facts = as_object(option)
        if category in {facts.get("category"), facts.get("id")} and as_text(facts.get("id")):
            return facts
    return None

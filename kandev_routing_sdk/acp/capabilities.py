"""What a session can do (R-CON-7): each part is replaced as a whole, never merged."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.spec.acp import Frame, as_object, as_text

_MAX_ITEMS: Final = 256
_MAX_TEXT: Final = 200


class Capabilities:
    """Models, modes, configuration options and commands as the agent last said them, bounded."""

    def __init__(self) -> None:
        self._parts: dict[str, JsonValue] = {}

    def session(self, result: Frame) -> None:
        """Take the response to ``session/new`` or ``session/load``."""
        models, modes = as_object(result.get("models")), as_object(result.get("modes"))
        self._parts = {
            **self._parts,
            "models": _items(models.get("availableModels")),
            "current_model": as_text(models.get("currentModelId")) or None,
            "modes": _items(modes.get("availableModes")),
            "current_mode": as_text(modes.get("currentModeId")) or None,
            "options": _items(result.get("configOptions")),
            "commands": self._parts.get("commands", []),
        }

    def update(self, update: Frame) -> bool:
        """Take a session update; whether it changed anything."""
        before = dict(self._parts)
        kind = update.get("sessionUpdate")
        if kind == "available_commands_update":
            self._parts["commands"] = _items(update.get("availableCommands"))
        elif kind == "config_option_update":
            self.options(update)
        elif kind == "current_mode_update":
            self._parts["current_mode"] = as_text(update.get("currentModeId")) or None
        return before != self._parts

    def options(self, result: Frame) -> None:
        """Take the options that a change leaves behind."""
        if isinstance(result.get("configOptions"), list):
            self._parts["options"] = _items(result["configOptions"])

    def chose(self, part: str, value: str) -> None:
        """Note that ``current_model`` or ``current_mode`` was set."""
        self._parts[part] = value

    @property
    def value(self) -> dict[str, JsonValue]:
        """All parts."""
        return dict(self._parts)


def _items(value: JsonValue | None) -> list[JsonValue]:
    return [_short(item, depth=3) for item in value[:_MAX_ITEMS]] if isinstance(value, list) else []


def _short(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, dict):
        fields = {k: v for k, v in list(value.items())[:32] if k != "_meta"}
        return {k[:_MAX_TEXT]: _short(v, depth - 1) for k, v in fields.items()} if depth else None
    if isinstance(value, list):
        return [_short(v, depth - 1) for v in value[:_MAX_ITEMS]] if depth else None
    return value

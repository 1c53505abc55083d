"""One line of a headless agent's output as an event."""

from __future__ import annotations

import json

from kandev_routing_sdk.types import JsonValue


def json_event(line: str) -> dict[str, JsonValue] | None:
    r"""Return the JSON object on a line; None when the line is none (R-EVI-6). Never raises.

    Half of a surrogate pair (``\ud83d``), as programs write it that cut a text in the middle of an emoji, becomes a ``?``:
    such text could be neither stored nor shown.
    """
    try:
        event: JsonValue = json.loads(line)
        if "\\ud" in line or "\\uD" in line:
            event = json.loads(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None

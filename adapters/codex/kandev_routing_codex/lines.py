"""One line of output as an event."""

from __future__ import annotations

import json

from kandev_routing_sdk.spec import JsonValue


def event_of(line: str) -> dict[str, JsonValue] | None:
    r"""Return the event on a line; None when it is none.

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

"""Values as ``-c key=value`` takes them."""

from __future__ import annotations

import json

from kandev_routing_sdk.spec import JsonValue


def inline(value: JsonValue) -> str:
    """Return a value as TOML on one line.

    Raises:
        ValueError: TOML has no null.
    """
    if value is None:
        raise ValueError("TOML has no null; remove the key")
    if isinstance(value, list):
        return f"[{', '.join(inline(entry) for entry in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name, ensure_ascii=False)} = {inline(entry)}' for name, entry in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)

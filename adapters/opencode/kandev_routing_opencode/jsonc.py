"""JSON with comments and trailing commas, as OpenCode reads its configuration. Linear, and it never raises."""

from __future__ import annotations

import json
import re
from typing import Final

from kandev_routing_sdk.spec import JsonValue

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)


def read_jsonc(text: str) -> dict[str, JsonValue] | None:
    """Return the object in ``text``; None when it is no object, or cannot be understood. An empty text is an empty object."""
    plain = _TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else " ", text.removeprefix("\ufeff"))
    plain = _TRAILING_COMMA.sub(lambda found: found[1] or "", plain)
    if not plain.strip():
        return {}
    try:
        document: JsonValue = json.loads(plain)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def merged(base: JsonValue, other: JsonValue) -> JsonValue:
    """Return ``base`` with ``other`` laid over it: tables are merged, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(other, dict):
        return other
    return {**base, **{key: merged(base.get(key), value) for key, value in other.items()}}

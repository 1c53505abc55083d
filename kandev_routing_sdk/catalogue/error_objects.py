"""The many shapes of a vendor's error object, brought to one: ``{"error": {"type", "code", "message", "status", …}}``.

Vendors, gateways and SDKs nest one and the same error under ``error``, ``response.error``, ``detail``, ``errors[0]`` or under
nothing at all, and call its parts ``errorType``, ``error_code``, ``status_msg`` or ``__type``. Rules name the one shape only.
Bounded: depth, number of objects, number of members (R-CLS-7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

_MAX_DEPTH: Final = 5
_MAX_OBJECTS: Final = 12
_MAX_MEMBERS: Final = 64
_MAX_ITEMS: Final = 4
_WRAPPERS: Final = frozenset(
    {
        "error",
        "errors",
        "err",
        "detail",
        "details",
        "response",
        "body",
        "data",
        "cause",
        "lasterror",
        "base_resp",
        "result",
        "payload",
        "metadata",
        "msg",
    }
)
"""Members that may hold an error object."""
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__type": "type",
        "errortype": "type",
        "error_type": "type",
        "errorcode": "code",
        "error_code": "code",
        "err_code": "code",
        "errcode": "code",
        "status_code": "code",
        "error_msg": "message",
        "errormessage": "message",
        "error_message": "message",
        "errmsg": "message",
        "status_msg": "message",
        "msg": "message",
    }
)
"""Other names of the parts."""
_PARTS: Final = frozenset({"type", "code", "message"})


def error_objects(document: JsonValue) -> Iterator[JsonValue]:
    """Yield the error objects in ``document``, each as ``{"error": {…}}``, but for the one that stands there in this shape."""
    plain = document.get("error") if isinstance(document, dict) else None
    pending: list[tuple[JsonValue, int]] = [(document, _MAX_DEPTH)]
    found = 0
    while pending and found < _MAX_OBJECTS:
        value, depth = pending.pop(0)
        if isinstance(value, list):
            pending += [(item, depth) for item in value[:_MAX_ITEMS] if isinstance(item, dict)]
        if not isinstance(value, dict) or len(value) > _MAX_MEMBERS:
            continue
        named = None if value is document and isinstance(plain, dict) else _one_shape(value)
        if named is not None and not (value is plain and named == plain):
            found += 1
            yield {"error": named}
        if depth:
            pending += [
                (item, depth - 1)
                for key, item in value.items()
                if isinstance(item, (dict, list)) and key.lower() in _WRAPPERS
            ]


def _one_shape(value: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """Return ``value`` with the usual names of its parts, or None for what is no error object."""
    named: dict[str, JsonValue] = dict(value)
    for key, item in value.items():
        part = _NAMES.get(key.lower())
        if part is not None:
            named.setdefault(part, item)
    if isinstance(value.get("error"), str):
        named.setdefault("message", value["error"])
    kind = named.get("type")
    if isinstance(kind, str) and "#" in kind:
        # AWS: a namespace before the name
        named["type"] = kind.rpartition("#")[2]
    return named if any(isinstance(named.get(part), (str, int)) for part in _PARTS) else None

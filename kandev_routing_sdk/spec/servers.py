"""A profile's MCP servers: what may be said of one, and what of it is secret (R-PRO-7, R-EVI-5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.profiles import ConcreteProfile

Shape = Literal["text", "list", "table", "any table", "table or false", "number", "whole", "switch"]
"""What the value of a server's key has to be."""

_SHAPES: Final[Mapping[str, tuple[Callable[[JsonValue], bool], str]]] = MappingProxyType(
    {
        "text": (lambda value: isinstance(value, str) and bool(value.strip()), "text"),
        "list": (lambda value: isinstance(value, list) and all(isinstance(e, str) for e in value), "a list of text"),
        "table": (
            lambda value: isinstance(value, dict) and all(isinstance(e, str) for e in value.values()),
            "a table of text",
        ),
        "any table": (lambda value: isinstance(value, dict), "a table"),
        "table or false": (lambda value: value is False or isinstance(value, dict), "a table or false"),
        "number": (
            lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0,
            "a number above 0",
        ),
        "whole": (
            lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
            "a whole number above 0",
        ),
        "switch": (lambda value: isinstance(value, bool), "true or false"),
    }
)
_LOCAL: Final[Mapping[str, Shape]] = MappingProxyType({"command": "text", "args": "list", "env": "table"})
_REMOTE: Final[Mapping[str, Shape]] = MappingProxyType({"url": "text", "headers": "table"})
_NONE: Final[Mapping[str, Shape]] = MappingProxyType({})
_STDIO: Final = "stdio"
_EXAMPLE: Final = '{ command = "server", args = [] } or { type = "http", url = "…" }'


class _Words(NamedTuple):
    """What an agent takes of a server over one transport."""

    local: Mapping[str, Shape]
    remote: Mapping[str, Shape]
    types: Collection[str]
    headless_only: Collection[str]


def server_problems(
    profile: ConcreteProfile,
    *,
    local: Mapping[str, Shape] = _NONE,
    remote: Mapping[str, Shape] = _NONE,
    types: Collection[str] = ("http", "sse"),
    headless_only: Collection[str] = (),
) -> Iterator[Problem]:
    """Return what is wrong with the profile's ``mcp``: every key that would not be passed on as it stands is named (R-PRO-7).

    A server is ``command``, ``args``, ``env``, or ``url``, ``headers``; ``type`` may say which. Agents that take more name it:
    ``local`` beside a command, ``remote`` beside a URL, ``types`` of remote servers, and ``headless_only``, the keys for which
    there is no room over this transport.
    """
    words = _Words({**_LOCAL, **local}, {**_REMOTE, **remote}, types, headless_only)
    for name, value in profile.mcp.items():
        path = f"mcp.{name}"
        if isinstance(value, dict):
            yield from _server(path, value, words)
        else:
            yield Problem(path, f"must be a table, such as {_EXAMPLE}")


def _server(path: str, value: Mapping[str, JsonValue], words: _Words) -> Iterator[Problem]:
    local, remote, types, headless_only = words
    both = "command" in value and "url" in value
    here, sort, other = (remote, "url", "command") if "url" in value else (local, "command", "url")
    if both:
        yield Problem(path, "has both `command` and `url`; a server is started or called: keep one of them")
    elif "command" not in value and "url" not in value:
        yield Problem(path, f"has neither `command` nor `url`; write it such as {_EXAMPLE}")
    for key, entry in value.items():
        shape = here.get(key) or local.get(key) or remote.get(key)
        if key == "type":
            known = tuple(types) if sort == "url" else (_STDIO,)
            if entry not in known and not both:
                yield Problem(f"{path}.type", f"must be {' or '.join(map(_quoted, known))} beside `{sort}`")
        elif shape is None:
            yield _unknown(f"{path}.{key}", key, ("type", *local, *remote), headless_only)
        elif key not in here and sort in value and not both:
            yield Problem(f"{path}.{key}", f"belongs to a server with `{other}`, and this one has `{sort}`")
        elif not _SHAPES[shape][0](entry):
            yield Problem(f"{path}.{key}", f"must be {_SHAPES[shape][1]}")


def _unknown(path: str, key: str, known: Collection[str], headless_only: Collection[str]) -> Problem:
    if key in headless_only:
        return Problem(path, 'cannot be said over ACP; remove it or use transport = "headless"', "unsupported")
    return Problem(path, f"is not passed on; known are {', '.join(dict.fromkeys(known))}", "unknown")


def _quoted(text: str) -> str:
    return f'"{text}"'


def mcp_secrets(profile: ConcreteProfile, *keys: str) -> frozenset[str]:
    """Return the values under ``keys`` of every server in the profile's ``mcp``, for :attr:`LaunchPlan.secrets` (R-EVI-5).

    For adapters whose agents get their servers on the command line or in a file, so that nobody but the adapter knows which
    parts hold secrets. A value may be a text, or a table of texts such as ``env`` and ``headers``; others are passed over. A key
    may lead into a table: ``oauth.clientSecret``.
    """
    found: set[str] = set()
    for server in profile.mcp.values():
        for key in keys:
            value: JsonValue = server
            for part in key.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            each = [*value.values()] if isinstance(value, dict) else [value]
            found |= {text for text in each if isinstance(text, str) and text}
    return frozenset(found)

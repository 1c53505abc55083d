"""What is wrong with data that was given to be read, in the words of who wrote it: what both rule files and records say."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from kandev_routing_sdk.evidence.sanitise import Sanitiser

_JSON: Final[Mapping[type, str]] = {
    bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object",
}  # fmt: skip
_TOML: Final[Mapping[type, str]] = {**_JSON, str: "text", dict: "a table"}
_MAX_SHOWN: Final = 64
"""Characters of a key or a value that a sentence quotes."""


def kind(value: object, *, toml: bool = False) -> str:
    """Return what ``value`` is, with its article."""
    if value is None:
        return "null"
    return (_TOML if toml else _JSON).get(type(value), f"a {type(value).__name__}")


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that asks for what was probably meant, or nothing."""
    close = difflib.get_close_matches(name[:_MAX_SHOWN], list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close and close[0] != name else ""


def shown(text: object) -> str:
    """Return what somebody wrote as a sentence can hold it: without secrets (R-EVI-5), short, on one line."""
    clean = " ".join(Sanitiser().text(str(text)[:4096]).split())
    return clean if len(clean) <= _MAX_SHOWN else f"{clean[:_MAX_SHOWN]}…"

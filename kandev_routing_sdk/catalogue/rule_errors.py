"""Why a rule file does not load (R-CLS-4): one sentence that names the file, the rule and the key, in the words of TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from kandev_routing_sdk.catalogue.sentences import kind, near, shown
from kandev_routing_sdk.evidence.model import Signal

_WANTED: Final[Mapping[str, str]] = {
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
"""What a key takes, in the words of TOML instead of Python's."""
_EXAMPLES: Final[Mapping[str, str]] = {
    "released": "the month of the last change, as 2026.11",
    "id": "lower-case words joined by dots, beginning with who ships the rule, as acme.limit.weekly.1",
}
_UNIONS: Final = frozenset({"str", "int", "bool", "dict[str,json-or-python[any=any,json=any]]", "dict[str,any]"})
"""What pydantic adds to a path for each kind of value that a key may take."""


def file_sentence(
    name: str, document: Mapping[str, Any], error: ErrorDetails, models: Mapping[str, type[BaseModel]]
) -> str:
    """Return what is wrong with a rule file.

    Args:
        name: the file's.
        document: what the TOML said.
        error: the first thing wrong.
        models: what may stand in a file, in a rule (``rule``) and in a condition (``structured``).
    """
    path = [p for i, p in enumerate(error["loc"]) if not (i and str(p).lower() in _UNIONS)]
    where, keys = "", models["file"]
    if path[:1] == ["rule"] and len(path) > 1:
        body = document["rule"][int(path[1])]
        label = body.get("id") if isinstance(body, dict) else None
        where, keys = f"rule {shown(label) if isinstance(label, str) else int(path[1]) + 1}: ", models["rule"]
        path = path[2:]
        if path[:1] == ["structured"] and len(path) > 3:  # noqa: PLR2004  (the key, the alternative, the condition)
            keys = models["structured"]
    elif path == ["rule"]:
        return f"{name}: rule: it is {kind(error['input'], toml=True)}; begin each rule with [[rule]]"
    return f"{name}: {where}{_says(path, error, keys)}"


def fixture_sentence(fixture_kind: str, number: int, error: ErrorDetails) -> str:
    """Return what is wrong with a fixture, the ``number``-th of its kind."""
    path = [p for i, p in enumerate(error["loc"]) if not (i and str(p).lower() in _UNIONS)]
    return f"{fixture_kind} fixture {number} is no signal: {_says(path, error, Signal)}"


def _says(path: Sequence[int | str], error: ErrorDetails, keys: type[BaseModel]) -> str:
    type_, given = error["type"], error["input"]
    last = next((str(p) for p in reversed(path) if isinstance(p, str)), "")
    at = ".".join(str(p + 1) if isinstance(p, int) else shown(p) for p in path)
    at = f"{at[:200]}: " if at else ""
    known = [f.alias or n for n, f in keys.model_fields.items()]
    if type_ == "extra_forbidden":
        return f"{at}is an unknown key; remove it{near(last, known)}"
    if type_ == "missing":
        return f"{at}is missing; give it{f', {_EXAMPLES[last]}' if last in _EXAMPLES else ''}"
    if type_ in {"enum", "literal_error"}:
        choices = [c.strip().strip("'") for c in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return f"{at}{shown(given)!r} is none of {', '.join(choices)}{near(str(given), choices)}"
    if type_ == "string_pattern_mismatch":
        return f"{at}it is {shown(given)!r}; write {_EXAMPLES.get(last, 'it otherwise')}"
    if type_ in {"less_than_equal", "greater_than_equal"}:
        return f"{at}it is {shown(given)}; give it a whole number from 0 to 100"
    if type_ in _WANTED:
        return f"{at}it is {kind(given, toml=True)}; give it {_wanted(last, type_)}"
    return f"{at}{error['msg'][:1].lower()}{error['msg'][1:]}, not {kind(given, toml=True)}"


def _wanted(key: str, type_: str) -> str:
    if key == "rule":
        return "a table, which [[rule]] begins"
    if key == "structured":
        return "a list of lists of conditions" if type_ == "tuple_type" else "a table, { at = …, equals = … }"
    if key in {"positive", "negative", "correlation", "redaction"} and type_ != "tuple_type":
        return "text, or a table that is a signal"
    return _WANTED[type_]


def as_toml(value: Any) -> str:  # noqa: ANN401  (any TOML value)
    """Return a value as its author would write it, in one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {as_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


def listed_wrongly(key: str, values: Sequence[str], *, given: bool) -> str | None:
    """Return what is wrong with a list of names, or None: one that is there names something, and nothing twice."""
    if given and not values:
        return f"{key} is empty; name something, or leave it out for all"
    if any(not v.strip() for v in values):
        return f"{key} has an empty name; remove it"
    twice = next((v for i, v in enumerate(values) if v in values[:i]), None)
    return f"{key} names {shown(twice)!r} twice; remove one" if twice is not None else None

"""Strict reading of TOML and JSON tables: everything wrong is collected with its path, nothing is guessed (R-PRO-7).

A message says what is wrong and the way out, and repeats no value but short words that ought to have been one of a list.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

from pydantic import JsonValue

from kandev_routing_sdk.errors import Problem

_T = TypeVar("_T")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_SHOWN_CHARS: Final = 40
MAX_DEPTH: Final = 32
"""How deeply free tables (options, servers) may nest."""


def join(path: str, key: str) -> str:
    """Return the path of ``key`` below ``path``, quoted as TOML would where a dot or a space would be ambiguous."""
    word = key if _BARE.match(key) else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{path}.{word}" if path else word


def shown(word: str) -> str:
    """Return ``word`` quoted, cut to a length that a message can bear."""
    return repr(word if len(word) <= _SHOWN_CHARS else word[: _SHOWN_CHARS - 1] + "…")


def one_of(words: Collection[str]) -> str:
    """Return the words as a list for people."""
    return ", ".join(sorted(words)) or "none"


def suggestion(word: str, known: Collection[str]) -> str:
    """Return ``"; did you mean 'x'?"`` when a known word is near, else an empty text."""
    near = [str(k) for k in difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)]
    # Swapped letters are the commonest slip: "modle" is "model", however near "mode" is.
    near.sort(key=lambda k: sorted(k) != sorted(word))
    return f"; did you mean {shown(near[0])}?" if near else ""


def kind_of(value: object) -> str:
    """Name the type of a value in the words of a configuration file."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case str():
            return "a string"
        case Mapping():
            return "a table"
        case list() | tuple():
            return "a list"
        case _:
            return "a date or time"


class Table:
    """One table under strict reading. Each getter returns a value of the asked type, or None and a problem when it is another.

    Args:
        value: the table.
        path: where it stands.
        problems: where problems are collected.
        keys: every key that is allowed.
        hints: way out for keys that are wrong here but mean something elsewhere.
    """

    def __init__(
        self,
        value: Mapping[str, object],
        path: str,
        problems: list[Problem],
        *,
        keys: Collection[str],
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self._value, self._problems = value, problems
        self.path: str = path
        for key in value:
            if key not in keys:
                way_out = (hints or {}).get(key)
                message = f"unknown key{suggestion(key, keys)}" if way_out is None else way_out
                if way_out is None and "did you mean" not in message:
                    message += f"; remove it or use one of: {one_of(keys)}"
                self.problem(key, message, "unknown_key")

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def at(self, key: str) -> str:
        """Return the path of ``key``."""
        return join(self.path, key)

    def problem(self, key: str | None, message: str, code: str = "invalid") -> None:
        """Record what is wrong with ``key``, or with the table itself."""
        self._problems.append(Problem(self.path if key is None else self.at(key), message, code))

    def text(self, key: str, *, empty: bool = False) -> str | None:
        """Return a string, not empty unless ``empty``, without NUL characters."""
        value = self._typed(key, str, "a string")
        if value is None:
            return None
        if not value.strip() and not empty:
            self.problem(key, "is empty; write a text or remove the key")
            return None
        if "\0" in value:
            self.problem(key, "holds a NUL character; remove it")
            return None
        return value

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        return self._typed(key, bool, "true or false")

    def whole(self, key: str) -> int | None:
        """Return a whole number."""
        return self._typed(key, int, "a whole number")

    def word(self, key: str, words: Collection[str], *, code: str = "unknown_value") -> str | None:
        """Return one of ``words``."""
        value = self._typed(key, str, f"one of: {one_of(words)}")
        if value is not None and value not in words:
            hint = suggestion(value, words)
            self.problem(key, f"unknown value {shown(value)}{hint or f'; use one of: {one_of(words)}'}", code)
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of strings without NUL characters."""
        expected = "a list of strings"
        value = self._sequence(key, expected)
        if value is None:
            return None
        found: list[str] = []
        for index, item in enumerate(value):
            if not isinstance(item, str):
                self._wrong(f"{key}", expected, f"{kind_of(item)} at position {index}")
                return None
            if "\0" in item:
                self.problem(key, f"holds a NUL character at position {index}; remove it")
                return None
            found.append(item)
        return tuple(found)

    def tables(self, key: str) -> list[Mapping[str, object]] | None:
        """Return a list of tables; an item that is none is a problem at its own index, and all of it is refused."""
        if isinstance(self._value.get(key), Mapping):
            self._wrong(key, "a list of tables", f"a table; write [[{self.at(key)}]] with double brackets")
            return None
        value = self._sequence(key, "a list of tables")
        if value is None:
            return None
        found = [item for item in value if isinstance(item, Mapping)]
        for index, item in enumerate(value):
            if not isinstance(item, Mapping):
                self._wrong(key, "a table", kind_of(item), index=index)
        return found if len(found) == len(value) else None

    def table(self, key: str) -> Mapping[str, object] | None:
        """Return a table."""
        value = self._value.get(key)
        if isinstance(value, Mapping):
            return value
        if key in self._value:
            self._wrong(key, "a table", kind_of(value))
        return None

    def free(self, key: str) -> dict[str, JsonValue] | None:
        """Return a table of anything that JSON can say."""
        value = self.table(key)
        if value is None:
            return None
        before = len(self._problems)
        found = {name: self._json(item, join(self.at(key), name), 1) for name, item in value.items()}
        return found if len(self._problems) == before else None

    def _json(self, value: object, path: str, depth: int) -> JsonValue:
        if depth > MAX_DEPTH:
            self._problems.append(Problem(path, f"is nested more than {MAX_DEPTH} deep; flatten it", "too_deep"))
            return None
        if isinstance(value, Mapping):
            return {name: self._json(item, join(path, name), depth + 1) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._json(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float) and value == value and value not in {float("inf"), float("-inf")}:  # noqa: PLR0124  # NaN
            return value
        expected = "expected text, a finite number, true, false, a list or a table"
        self._problems.append(Problem(path, f"{expected}, got {kind_of(value)}; write it as a string", "wrong_type"))
        return None

    def _sequence(self, key: str, expected: str) -> Sequence[object] | None:
        value = self._value.get(key)
        if key not in self._value:
            return None
        if not isinstance(value, list | tuple):
            self._wrong(key, expected, kind_of(value))
            return None
        return value

    def _typed(self, key: str, wanted: type[_T], expected: str) -> _T | None:
        if key not in self._value:
            return None
        value = self._value[key]
        # bool is an int to Python and to nobody else.
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            self._wrong(key, expected, kind_of(value))
            return None
        return value

    def _wrong(self, key: str, expected: str, got: str, *, index: int | None = None) -> None:
        path = self.at(key) if index is None else f"{self.at(key)}[{index}]"
        self._problems.append(Problem(path, f"expected {expected}, got {got}", "wrong_type"))

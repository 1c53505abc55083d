"""Sanitising, before anything is stored, logged, emitted or shown (R-EVI-5).

First the exact secrets of the launch environment, then the shapes of secrets and personal details. Idempotent, linear
in the input, and careful to leave what a person and the classifier need: statuses, times, hashes, names, prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kandev_routing_sdk.evidence.disguise import in_the_clear, joined_up
from kandev_routing_sdk.evidence.known import KnownValues
from kandev_routing_sdk.evidence.linear import well_formed
from kandev_routing_sdk.evidence.secret_names import is_plain, names_identity, names_secret
from kandev_routing_sdk.evidence.shapes import FIRST, MARKER, RULES, marker, without_colours, words_only
from kandev_routing_sdk.types import JsonValue

__all__ = ["EXCERPT_LIMIT", "Sanitiser", "excerpt"]

EXCERPT_LIMIT: Final = 4096
"""Bytes of UTF-8."""

_MAX_ROUNDS: Final = 6
_MAX_DEPTH: Final = 64
_MARKERS: Final = re.compile(f"({MARKER})")
_HOLDERS: Final = frozenset({"account", "customer", "org", "organisation", "organization", "tenant", "workspace"})
_SECRET: Final = marker("secret")
_FLAG: Final = re.compile(r"--?[A-Za-z][\w-]{1,60}")


def excerpt(text: str, limit: int = EXCERPT_LIMIT) -> str:
    """The start of ``text``, at most ``limit`` bytes of UTF-8, cut on a character boundary.

    Sanitise first: a secret cut in half has lost its shape.
    """
    raw = text.encode("utf-8", "replace")
    return raw[: max(limit, 0)].decode("utf-8", "ignore")


class Sanitiser:
    """Replaces secrets and personal details by markers such as ``[redacted:key]``; homes become ``~``.

    Args:
        known: exact secret values of the launch environment. They are removed first, also in their URL-encoded,
            JSON-escaped, HTML, base64 and hex forms and broken over lines. Values under six characters are ignored: they would
            tear ordinary words apart.
    """

    __slots__ = ("_known",)

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = KnownValues(known)

    def __repr__(self) -> str:
        return f"Sanitiser(known=<{len(self._known)} forms>)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Sanitiser holds secrets and is not pickled; make a new one from the launch environment")

    def text(self, s: str) -> str:
        """``s`` without secrets and personal details."""
        s = well_formed(s)
        # Replacing may join what stood apart; a second round that changes nothing proves that nothing is left.
        for _ in range(_MAX_ROUNDS):
            before = s
            s = self._without_known(without_colours(s))
            for rule in FIRST:
                s = rule(s)
            s = _rules(in_the_clear(joined_up(s, words_only), _rules))
            if s == before:
                break
        return s

    def known_only(self, s: str) -> str:
        """``s`` without the known values. For an answer, in which a secret's mere shape may be what was asked for."""
        return self._without_known(well_formed(s))

    def known_until(self, s: str) -> int:
        """Up to where ``s`` may be handed to :meth:`known_only` while more of it is still to come."""
        return self._known.whole_until(s) if self._known else len(s)

    def value(self, v: JsonValue) -> JsonValue:
        """A JSON value with every string in it sanitised, keys too; what a secret's or an id's key holds is replaced.

        Two keys that become the same marker stay apart by a number. Deeper than 64 levels becomes a marker.
        """
        return self._value(v, _MAX_DEPTH)

    def headers(self, h: Mapping[str, str]) -> dict[str, str]:
        """Headers with their names kept, secret and identifying ones replaced whole, all others sanitised."""
        return {self.text(name): str(self._held(name, value, _MAX_DEPTH)) for name, value in h.items()}

    def _without_known(self, s: str) -> str:
        if not self._known:
            return s
        # A value may be called like a marker's word: markers are left as they are.
        parts = _MARKERS.split(s)
        parts[::2] = [self._known.replaced(part, _SECRET) for part in parts[::2]]
        return "".join(parts)

    def _value(self, v: JsonValue, depth: int) -> JsonValue:
        if isinstance(v, str):
            return self.text(v)
        if isinstance(v, (dict, list)) and depth <= 0:
            return marker("depth")
        if isinstance(v, list):
            return list(self._items(v, depth - 1))
        if isinstance(v, dict):
            return self._fields(v, depth - 1)
        return v

    def _items(self, items: list[JsonValue], depth: int) -> Iterator[JsonValue]:
        """The items of a list; in an argument list, what follows a secret's flag is the secret."""
        flagged = False
        for item in items:
            hide = flagged and isinstance(item, str) and not item.startswith("-") and not _MARKERS.fullmatch(item)
            flagged = isinstance(item, str) and _FLAG.fullmatch(item) is not None and names_secret(item)
            yield _SECRET if hide else self._value(item, depth)

    def _fields(self, fields: dict[str, JsonValue], depth: int, below: str | None = None) -> dict[str, JsonValue]:
        """The members of an object; ``below`` is the secret's key that it stands under, if any."""
        pair = fields.get("name", fields.get("key"))
        clean: dict[str, JsonValue] = {}
        for name, value in fields.items():
            key = unique = self.text(name)
            number = 1
            while unique in clean:
                number += 1
                unique = f"{key} ({number})"
            # `{"name": "API_KEY", "value": …}` is how environments and headers are listed.
            label = pair if name == "value" and isinstance(pair, str) else name
            clean[unique] = (
                self._held(label, value, depth) if below is None else self._below(below, label, value, depth)
            )
        return clean

    def _below(self, secret: str, name: str, value: JsonValue, depth: int) -> JsonValue:
        """The value of a key in what stands under a secret's key. Each level is read once: twice would be 2^depth times."""
        if depth <= 0 and value is not None:
            return _SECRET
        held = value if isinstance(value, (dict, list)) else self._held(name, value, depth)
        return self._hidden(secret, held, depth - 1)

    def _held(self, name: str, value: JsonValue, depth: int) -> JsonValue:
        """The value of a key, given what the key says of it."""
        if value is None or isinstance(value, bool) or value == "":
            return value
        if _MARKERS.search(name):
            return self._value(value, depth)  # a key cleaned before: the marker's word is no name
        if names_secret(name):
            return self._hidden(name, value, depth)
        if names_identity(name) and isinstance(value, (str, int)):
            return value if isinstance(value, str) and _MARKERS.fullmatch(value) else marker("id")
        clean = self._value(value, depth)
        if isinstance(clean, dict) and name.lower() in _HOLDERS:
            clean |= {key: marker("id") for key in ("id", "uuid") if isinstance(clean.get(key), (str, int))}
        return clean

    def _hidden(self, name: str, value: JsonValue, depth: int) -> JsonValue:
        if isinstance(value, dict):
            return self._fields(value, depth, below=name)
        if isinstance(value, list):
            return [self._hidden(name, item, depth - 1) if depth > 0 else _SECRET for item in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return value if not value or is_plain(value) or _MARKERS.fullmatch(value) else _SECRET
        # Counts are called tokens too; a number is a secret only where passwords are.
        return _SECRET if any(word in name.lower() for word in ("pass", "pwd", "secret", "otp")) else value


def _rules(s: str) -> str:
    for rule in RULES:
        s = rule(s)
    return s

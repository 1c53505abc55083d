"""Rules that read fields, tried only where what they look at is there (R-CLS-7, R-PRF-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kandev_routing_sdk.catalogue.patterns import compile_rule, to_re2
from kandev_routing_sdk.catalogue.rules import Condition, Rule
from kandev_routing_sdk.catalogue.views import View, find
from kandev_routing_sdk.types import Channel

_Alternative = tuple[int, Rule, tuple[Condition, ...]]
"""One alternative of a rule, and the rule's place in the order of the catalogue."""
_EXIT: Final = frozenset({Channel.EXIT})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")
"""What JSON writes in one way only, but for ``\\u`` escapes."""
_SIMPLE: Final = re.compile(r"(?:[A-Za-z0-9_()|?:^$-]|\[[A-Za-z0-9_.-]+\])+")
"""A pattern of values that JSON writes in one way only; what may stand around a value stands for its ends."""
_RENAMED: Final = frozenset({"error", "type", "code", "message"})
"""Keys that an error object may have under another name (:mod:`kandev_routing_sdk.catalogue.error_objects`)."""
_GATE_OF_OTHERS: Final = (
    # an HTTP status
    r'(?:status|code)\\*"(?:\s|\\+[nrt])*:(?:\s|\\+[nrt])*(?:\\*")?[1-5]\d\d\b',
    # the agent is still trying; a time
    r'willRetry\\*"|(?:reset|retry|wait|available)[^"{}:,]*"',
    # a letter that may be any of these words'
    r"\\u00[2-7][0-9a-f]|\\u212a",
)
"""Why else printed JSON has to be parsed."""


class FieldRules:
    """Structured rules. Immutable."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._regexes: dict[str, Any] = {}
        self._by_key: dict[str, list[_Alternative]] = {}
        self._by_place: dict[str, list[_Alternative]] = {"code": [], "http_status": [], "header": []}
        self._always: list[_Alternative] = []
        self._literals: set[str] = set()
        self._written: set[str] = set()
        self._must_parse = False
        for order, rule in enumerate(rules):
            for alternative in rule.structured:
                for regex in (c.pattern for c in alternative if c.pattern is not None):
                    self._regexes[regex] = compile_rule(to_re2(regex), f"{rule.source}: rule {rule.id}")
                self._index((order, rule, alternative))

    @property
    def gate(self) -> str:
        """RE2 source: a text without it, on a channel other than ``exit``, has no document that any rule or hint reads."""
        if self._must_parse:
            return r"\{"
        numbers = "|".join(sorted(word for word in self._literals if word.isdecimal()))
        words = "|".join(re.escape(word) for word in sorted(self._literals) if not word.isdecimal())
        # behind "#" stands the name of what has a namespace before it
        ours = [rf'[:,\[](?:\s|\\+[nrt])*\\*"?-?(?:{numbers})\b'] * bool(numbers) + [rf'["#](?:{words})\\*"'] * bool(
            words
        )
        return "(?m)" + "|".join([*_GATE_OF_OTHERS, *ours, *sorted(self._written)])

    def matching(self, view: View, *, foreign: bool) -> list[Rule]:
        """Return the rules, of the foreign or the other ones, that may read ``view`` and hold, in catalogue order."""
        held: dict[int, Rule] = {}
        for order, rule, alternative in self._candidates(view):
            if (
                rule.foreign is foreign
                and order not in held
                and rule.reads(view.family, view.channel, view.phase)
                and self._holds(alternative, view)
            ):
                held[order] = rule
        return [held[order] for order in sorted(held)]

    def _index(self, entry: _Alternative) -> None:
        _, rule, conditions = entry
        data = [c for c in conditions if c.at.startswith("data:")]
        if data and rule.channels != _EXIT:
            self._open_for(data)
        # a condition that holds where nothing is cannot be looked up
        keys = [k for k in (c.at[5:].partition(".")[0] for c in data if c.needs_a_value) if _is_key(k)]
        places = [p for p in (c.at.partition(":")[0] for c in conditions if c.needs_a_value) if p in self._by_place]
        if keys:
            self._by_key.setdefault(keys[0], []).append(entry)
        elif places:
            self._by_place[places[0]].append(entry)
        else:
            self._always.append(entry)

    def _open_for(self, data: Sequence[Condition]) -> None:
        """Let texts through to the parser that may hold what ``data`` looks at: its rarest part is enough."""
        values = [words for words in map(_values_of, data) if words]
        simple = [c.regex for c in data if c.regex is not None and _SIMPLE.fullmatch(c.regex)]
        keys = [words for words in map(_key_of, data) if words]
        if values or (keys and not simple):
            self._literals |= min(values or keys, key=lambda words: (len(words), -min(map(len, words))))
        elif simple:
            self._written.add(simple[0].replace("^", r'(?:[":\[,\s]|\\[nr])').replace("$", r'[\\",}\]\s]'))
        else:
            self._must_parse = True

    def _candidates(self, view: View) -> Iterator[_Alternative]:
        for document in view.documents:
            if not isinstance(document, dict):
                continue
            few, many = (self._by_key, document) if len(document) > len(self._by_key) else (document, self._by_key)
            for key in few:
                if key in many:
                    yield from self._by_key[key]
        if view.signal.code is not None:
            yield from self._by_place["code"]
        if view.status is not None:
            yield from self._by_place["http_status"]
        if view.headers:
            yield from self._by_place["header"]
        yield from self._always

    def _holds(self, conditions: Sequence[Condition], view: View) -> bool:
        data = [c for c in conditions if c.at.startswith("data:")]
        if not all(self._true(c, _plain_values(c.at, view)) for c in conditions if c not in data):
            return False
        if not data:
            return True
        return any(all(self._true(c, find(d, tuple(c.at[5:].split(".")))) for c in data) for d in view.documents)

    def _true(self, condition: Condition, values: Iterator[Any]) -> bool:
        present = [v for v in values if v is not None]
        if condition.exists is not None:
            return bool(present) is condition.exists
        if condition.pattern is not None:
            regex = self._regexes[condition.pattern]
            found = any(regex.search(_as_text(v)) is not None for v in present if isinstance(v, (str, int, float)))
            return found is (condition.lacks is None)
        wanted = condition.any_of if condition.any_of is not None else (condition.equals,)
        return any(_same(v, w) for v in present for w in wanted)


def _is_key(part: str) -> bool:
    """Whether a step of a path is a key of an object, nothing else."""
    return part != "*" and not part.isdecimal()


def _values_of(condition: Condition) -> set[str] | None:
    """Return words of which JSON text must hold one as a value for ``condition`` to hold; None: no such words."""
    wanted = condition.any_of if condition.any_of is not None else (condition.equals,)
    if any(isinstance(w, bool) or w is None for w in wanted):
        return None
    words = {str(abs(w)) if isinstance(w, int) else str(w) for w in wanted}
    return words if all(map(_PLAIN.fullmatch, words)) else None


def _key_of(condition: Condition) -> set[str] | None:
    """Return the word that JSON text must hold as a key for ``condition`` to hold; None: no such word."""
    if not condition.needs_a_value:
        return None
    path = condition.at[5:].split(".")
    words = set([part for part in path if _is_key(part)][-1:])
    if path[0] == "error" and not _RENAMED.isdisjoint(words):
        return None
    return words if words and all(map(_PLAIN.fullmatch, words)) else None


def _plain_values(at: str, view: View) -> Iterator[Any]:
    if at == "text":
        yield view.text
    elif at == "code":
        yield view.signal.code
    elif at == "http_status":
        yield view.status
    else:
        yield view.headers.get(at.partition(":")[2].lower())


def _same(value: Any, wanted: Any) -> bool:  # noqa: ANN401  (any JSON scalars)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if not isinstance(value, (str, int, float)):
        return False
    return _as_text(value).lower() == _as_text(wanted).lower()


def _as_text(value: Any) -> str:  # noqa: ANN401  (a JSON scalar)
    return str(value).encode("utf-8", "replace").decode()

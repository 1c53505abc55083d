"""All rules against a signal: one `re2.Set` pass over its words, then only what can have matched (R-CLS-7, R-PRF-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import re2

from kandev_routing_sdk.catalogue.rules import Condition, Rank, Rule
from kandev_routing_sdk.catalogue.views import View, find
from kandev_routing_sdk.errors import CatalogueError

_MAX_MEMORY: Final = 64 * 1024 * 1024
"""Bytes the automata may use: far above what the shipped rules need, so that no input makes them give up."""
_PREFIX: Final = r"^\W*(?:(?:internal error|api error|error|fatal)\s*:\s*)*"
_INTERIM_TYPES: Final = ("api_retry", "retry")


class Mark(Enum):
    """What one pass over the words tells besides rules, so that nothing else has to read them again."""

    INTERIM = r"^\W*(?:reconnecting|retrying)\b"
    """The agent says that it is still trying."""
    TIMED = (
        r"reset|retry|reconnecting|waiting|\bwait|backing off|next attempt|\b(?:try|back|limited|available|unavailable)\b|renew|"
        r"refresh|replenish|regain|restored|lifted|resumes?\b|unlock|cools?[ -]?down|paused|blocked|locked out|suspended|"
        r"(?:cycle|window|period|limit) ends|(?:limit|reached|exceeded)[^|\r\n]{0,80}\||rate-?limit|x-codex-"
    )
    """There may be a timing hint: a superset of what the timing grammar starts from (held by a test)."""
    STATUS = (
        r"(?:api error|unexpected status|last status|http|status|error)[^0-9\n]{0,24}[1-5]\d\d\b|http/[\d.]+\D{0,9}[1-5]\d\d\b|"
        r"(?:api returned|request rejected)\D{0,4}[1-5]\d\d\b"
    )
    """There may be an HTTP status."""
    PROVIDER = r"\bproviders?\b|\bapi error\b|\bupstream\b|\bserver error\b|\bresponding\b|\bmodel\b"
    """It is about a provider, should nothing else tell."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that holds for a signal."""

    rule: Rule
    view: View
    interim: bool
    """The agent was still trying: what it said at its end counts more."""

    @property
    def weight(self) -> tuple[bool, bool, int, int]:
        """What decides between matches, most important first. Equal weights that disagree are a conflict (R-CLS-3)."""
        return (self.rule.rank is not Rank.FOREIGN, not self.interim, self.rule.rank, self.rule.priority)


class Reading(NamedTuple):
    """What there is to one signal. ``view`` is without the lines that are somebody else's, ``whole`` is with them."""

    view: View
    whole: View
    matches: tuple[Match, ...] = ()
    marks: frozenset[Mark] = frozenset()
    """What else the words hold."""


def _options() -> Any:  # noqa: ANN401  (the engine has no stubs)
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return options


def to_re2(pattern: str) -> str:
    """Return ``pattern`` with each space standing for any white space and each apostrophe for the curly one too."""
    out: list[str] = []
    in_class = escaped = False
    for char in pattern:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        elif char == " ":
            out.append(r"\s" if in_class else r"(?:\s+)")
            continue
        elif char == "'":
            out.append("'’" if in_class else "['’]")
            continue
        out.append(char)
    return "(?m)" + "".join(out)


def exact_to_re2(message: str) -> str:
    """Return the pattern of a line that says ``message`` and nothing else, but for a prefix such as ``Error:``."""
    words = re2.escape(message.strip().rstrip(".!")).replace(r"\ ", " ").replace(r"\'", "'")
    return to_re2(rf"{_PREFIX}{words}[.!]?\s*$")


_NO_MARKS: Final[frozenset[Mark]] = frozenset()
_MAY_BE_TIMED: Final = frozenset({Mark.TIMED})


class Matcher:
    """Compiled rules. Immutable once built."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        options = _options()
        self._set = re2.Set.SearchSet(options)
        self._entries: list[Rule | Mark] = []
        self._structured = [r for r in rules if r.structured]
        self._foreign_fields = [r for r in self._structured if r.foreign]
        self._plain_fields = [r for r in self._structured if not r.foreign]
        self._regexes: dict[str, Any] = {}
        for rule in rules:
            for pattern in _patterns(rule):
                self._add(pattern, rule)
            for regex in (c.regex for alternative in rule.structured for c in alternative if c.regex is not None):
                self._regexes[regex] = self._compile(to_re2(regex), rule)
        for mark in Mark:
            self._add(to_re2(mark.value), mark)
        self._set.Compile()

    def read(self, view: View) -> Reading:
        """Return every rule that may read ``view`` and holds for it."""
        found = self._hits(view.text)
        if not found and not view.structured:
            return Reading(view, view)
        if view.documents and (theirs := self._fields(self._foreign_fields, view)):
            return Reading(view, view, tuple(Match(r, view, interim=False) for r in theirs), _MAY_BE_TIMED)
        whole = view
        hits, marks = self._named(found, view) if found else ([], _NO_MARKS)
        theirs = [r for r in hits if r.foreign]
        if theirs:
            timed = marks & _MAY_BE_TIMED
            view, theirs = self._own_lines(view)
            hits, marks = self._named(self._hits(view.text), view)
            marks |= timed
            hits = [r for r in hits if not r.foreign]
        if Mark.STATUS in marks:
            view = view.with_status()
        if view.structured:
            hits += self._fields(self._plain_fields, view)
        interim = Mark.INTERIM in marks or any(_interim_document(d) for d in view.documents)
        matches = tuple(Match(r, view, interim=interim) for r in (*theirs, *dict.fromkeys(hits)))
        return Reading(view, whole, matches, marks)

    def where(self, rule: Rule, text: str) -> int:
        """Return where in ``text`` the words of ``rule`` begin; 0 for a rule that reads fields."""
        found = (self._compile(p, rule).search(text) for p in _patterns(rule))
        return min((f.start() for f in found if f is not None), default=0)

    def _own_lines(self, view: View) -> tuple[View, list[Rule]]:
        """Return ``view`` without the lines that are somebody else's, and the rules that say so."""
        kept: list[str] = []
        theirs: list[Rule] = []
        for line in view.text.splitlines():
            here = [r for r in self._named(self._hits(line), view)[0] if r.foreign] if line.strip() else []
            theirs += here
            if not here:
                kept.append(line)
        return (view.with_words("\n".join(kept)) if theirs else view), list(dict.fromkeys(theirs))

    def _hits(self, text: str) -> list[int]:
        return (self._set.Match(text) or []) if text else []

    def _named(self, found: Sequence[int], view: View) -> tuple[list[Rule], frozenset[Mark]]:
        entries = [self._entries[i] for i in found]
        rules = [e for e in entries if isinstance(e, Rule) and e.reads(view.family, view.channel, view.phase)]
        return rules, frozenset(e for e in entries if isinstance(e, Mark))

    def _fields(self, rules: Sequence[Rule], view: View) -> list[Rule]:
        return [r for r in rules if r.reads(view.family, view.channel, view.phase) and self._holds(r, view)]

    def _holds(self, rule: Rule, view: View) -> bool:
        return any(self._alternative(a, view) for a in rule.structured)

    def _alternative(self, conditions: Sequence[Condition], view: View) -> bool:
        data = [c for c in conditions if c.at.startswith("data:")]
        if not all(self._true(c, self._plain_values(c.at, view)) for c in conditions if c not in data):
            return False
        if not data:
            return True
        return any(all(self._true(c, find(d, tuple(c.at[5:].split(".")))) for c in data) for d in view.documents)

    def _plain_values(self, at: str, view: View) -> Iterator[Any]:
        if at == "text":
            yield view.text
        elif at == "code":
            yield view.signal.code
        elif at == "http_status":
            yield view.status
        else:
            yield view.headers.get(at.partition(":")[2].lower())

    def _true(self, condition: Condition, values: Iterator[Any]) -> bool:
        present = [v for v in values if v is not None]
        if condition.exists is not None:
            return bool(present) is condition.exists
        if condition.regex is not None:
            regex = self._regexes[condition.regex]
            return any(regex.search(_as_text(v)) is not None for v in present if isinstance(v, (str, int, float)))
        wanted = condition.any_of if condition.any_of is not None else (condition.equals,)
        return any(_same(v, w) for v in present for w in wanted)

    def _add(self, pattern: str, entry: Rule | Mark) -> None:
        try:
            self._set.Add(pattern)
        except re2.error:
            # the set does not say why; the engine does
            self._compile(pattern, entry)
            raise
        self._entries.append(entry)

    def _compile(self, pattern: str, entry: Rule | Mark) -> Any:  # noqa: ANN401  (the engine has no stubs)
        try:
            return re2.compile(pattern, _options())
        except re2.error as e:
            reason = e.args[0].decode() if e.args and isinstance(e.args[0], bytes) else str(e)
            where = f"{entry.source}: rule {entry.id}" if isinstance(entry, Rule) else "the catalogue"
            raise CatalogueError(
                f"{where}: the pattern {pattern.removeprefix('(?m)')!r} is not RE2: {reason}"
            ) from None


def _patterns(rule: Rule) -> list[str]:
    return [*map(to_re2, rule.patterns), *map(exact_to_re2, rule.exact)]


def _interim_document(document: Any) -> bool:  # noqa: ANN401  (any JSON)
    return isinstance(document, dict) and (document.get("type") in _INTERIM_TYPES or document.get("willRetry") is True)


def _same(value: Any, wanted: Any) -> bool:  # noqa: ANN401  (any JSON scalars)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if not isinstance(value, (str, int, float)):
        return False
    return _as_text(value).lower() == _as_text(wanted).lower()


def _as_text(value: Any) -> str:  # noqa: ANN401  (a JSON scalar)
    return str(value).encode("utf-8", "replace").decode()

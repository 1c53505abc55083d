"""All rules against a signal: one `re2.Set` pass over its words, then only what can have matched (R-CLS-7, R-PRF-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from kandev_routing_sdk.catalogue.rules import Condition, Rank, Rule
from kandev_routing_sdk.catalogue.views import View, find
from kandev_routing_sdk.errors import CatalogueError

_MAX_MEMORY: Final = 64 * 1024 * 1024
"""Bytes the automata may use: far above what the shipped rules need, so that no input makes them give up."""
_PREFIX: Final = r"^\W*(?:(?:internal error|api error|error|fatal)\s*:\s*)*"
_INTERIM: Final = r"(?m)^\W*(?:reconnecting|retrying)\b"
_INTERIM_TYPES: Final = ("api_retry", "retry")


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


class Matcher:
    """Compiled rules. Immutable once built."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        options = _options()
        self._set = re2.Set.SearchSet(options)
        self._entries: list[Rule | None] = []
        self._structured = [r for r in rules if r.structured]
        self._foreign_fields = [r for r in self._structured if r.foreign]
        self._plain_fields = [r for r in self._structured if not r.foreign]
        self._regexes: dict[str, Any] = {}
        for rule in rules:
            for pattern in (*map(to_re2, rule.patterns), *map(exact_to_re2, rule.exact)):
                self._add(pattern, rule)
            for regex in (c.regex for alternative in rule.structured for c in alternative if c.regex is not None):
                self._regexes[regex] = self._compile(to_re2(regex), rule)
        self._add(_INTERIM, None)
        self._set.Compile()

    def matches(self, view: View) -> list[Match]:
        """Return every rule that may read ``view`` and holds for it."""
        foreign = (
            [r for r in self._foreign_fields if r.reads(view.family, view.channel, view.phase) and self._holds(r, view)]
            if view.documents
            else []
        )
        if foreign:
            return [Match(r, view, interim=False) for r in foreign]
        hits, interim, foreign = self._words(view)
        interim = interim or any(_interim_document(d) for d in view.documents)
        if view.structured and not (foreign and not hits):
            hits += [
                r for r in self._plain_fields if r.reads(view.family, view.channel, view.phase) and self._holds(r, view)
            ]
        return [Match(r, view, interim=interim) for r in (*foreign, *dict.fromkeys(hits))]

    def _words(self, view: View) -> tuple[list[Rule], bool, list[Rule]]:
        """Return the rules that match the words, whether the agent was still trying, and whose words were left out."""
        if not view.text:
            return [], False, []
        found = self._hits(view.text)
        if not found:
            return [], False, []
        rules, interim = self._named(found, view)
        foreign = [r for r in rules if r.foreign]
        if not foreign:
            return rules, interim, []
        kept: list[str] = []
        left_out: list[Rule] = []
        for line in view.text.splitlines():
            here = self._named(self._hits(line), view)[0] if line.strip() else []
            others = [r for r in here if r.foreign]
            left_out += others
            if not others:
                kept.append(line)
        rules, interim = self._named(self._hits("\n".join(kept)), view) if kept else ([], False)
        return [r for r in rules if not r.foreign], interim, list(dict.fromkeys(left_out))

    def _hits(self, text: str) -> list[int]:
        return self._set.Match(text) or []

    def _named(self, found: Sequence[int], view: View) -> tuple[list[Rule], bool]:
        entries = [self._entries[i] for i in found]
        return [r for r in entries if r is not None and r.reads(view.family, view.channel, view.phase)], None in entries

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

    def _add(self, pattern: str, rule: Rule | None) -> None:
        try:
            self._set.Add(pattern)
        except re2.error:
            # the set does not say why; the engine does
            self._compile(pattern, rule)
            raise
        self._entries.append(rule)

    def _compile(self, pattern: str, rule: Rule | None) -> Any:  # noqa: ANN401  (the engine has no stubs)
        try:
            return re2.compile(pattern, _options())
        except re2.error as e:
            reason = e.args[0].decode() if e.args and isinstance(e.args[0], bytes) else str(e)
            where = f"{rule.source}: rule {rule.id}" if rule else "the catalogue"
            raise CatalogueError(
                f"{where}: the pattern {pattern.removeprefix('(?m)')!r} is not RE2: {reason}"
            ) from None


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

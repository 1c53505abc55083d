"""All rules against a signal: one `re2.Set` pass over its words, then only what can have matched (R-CLS-7, R-PRF-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from kandev_routing_sdk.catalogue.echoes import only_quotes, refuses_the_request
from kandev_routing_sdk.catalogue.fields import FieldRules
from kandev_routing_sdk.catalogue.own_words import in_own_words, names_its_speaker
from kandev_routing_sdk.catalogue.patterns import PatternSet, compile_any, exact_to_re2, to_re2
from kandev_routing_sdk.catalogue.rules import Rank, Rule
from kandev_routing_sdk.catalogue.views import View, names_a_status
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.types import Channel, Phase

_OURS: Final = "the catalogue"
_NOTHING: Final[Sequence[int]] = ()
_LINES_AT_ONCE: Final = 32
_LONGEST_BODY: Final = 40
"""Lines that a line of somebody else's may open below it."""
_ABOVE, _BELOW = 1, 4
"""Lines around one of a `wide` rule that are somebody else's, too."""
_WHOLE_TEXT: Final = re.compile(r"\\[Az]|\(\?[a-z]*-[a-z]*m")
"""Looks at where the whole text begins or ends: what is true of a line need not be true of several."""
_INTERIM_TYPES: Final = ("api_retry", "retry")


class Mark(Enum):
    """What one pass over the words tells besides rules, so that nothing else has to read them again."""

    INTERIM = r"^\W*(?:reconnecting|retrying)\b"
    """The agent says that it is still trying."""
    TIMED = (
        r"reset|retry|reconnect|waiting|\bwait|backing off|next attempt|\b(?:try|back|limited|available|unavailable)\b|renew|"
        r"refresh|replenish|regain|restored|lifted|resumes?\b|unlock|cool(?:s|ing)?[ -]?down|paused|locked|suspended|"
        r"(?:cycle|window|period|limit) ends|(?:limit|reached|exceeded)[^|\r\n]{0,80}\||rate-?limit|x-codex-"
    )
    """There may be a timing hint: a superset of what the timing grammar starts from (held by a test)."""
    STATUS = (
        r"(?:api error|unexpected status|last status|http|status|error)[^0-9\n]{0,24}[1-5]\d\d\b|http/[\d.]+\D{0,9}[1-5]\d\d\b|"
        r"(?:api returned|request rejected)\D{0,4}[1-5]\d\d\b|rejected the request|\bupstream \d\d\d\b|\bcapierror"
    )
    """There may be an HTTP status."""
    PROVIDER = (
        r"\bproviders?\b|\bapi error\b|\bupstream\b|\bserver error\b|\bresponding\b|\bmodels?\b|\bapi[ _]retry\b|"
        r"\[retrying\b|\bapi returned\b|\brejected the request\b|\bresource_exhausted\b"
    )
    """It is about a provider, should nothing else tell."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that holds for a signal."""

    rule: Rule
    view: View
    interim: bool
    """The agent was still trying: what it said at its end counts more."""

    @property
    def weight(self) -> tuple[bool, bool, bool, int, int]:
        """What decides between matches, most important first. Equal weights that disagree are a conflict (R-CLS-3).

        What the runtime says of its request comes before a line of standard error, which may be anybody's, and before what was
        only seen from outside.
        """
        view, rule = self.view, self.rule
        said = not view.synthetic and view.channel is not _STDERR and view.channel is not _EXIT
        return (rule.rank is not Rank.FOREIGN, not self.interim, said, rule.rank, rule.priority)


class Reading(NamedTuple):
    """What there is to one signal. ``view`` is without the lines that are somebody else's, ``whole`` is with them."""

    view: View
    whole: View
    matches: tuple[Match, ...] = ()
    marks: frozenset[Mark] = frozenset()
    """What else the words hold."""


_NO_MARKS: Final[frozenset[Mark]] = frozenset()
_STATUS: Final = Mark.STATUS
_INTERIM: Final = Mark.INTERIM
_EXIT: Final = Channel.EXIT
_STDERR: Final = Channel.STDERR
_HTTP: Final = Channel.HTTP
_SENT: Final = Phase.PROMPT_SEND
_STRUCTURE: Final = frozenset({"data", "headers", "code", "http_status"})
_MAY_BE_TIMED: Final = frozenset({Mark.TIMED})


class Matcher:
    """Compiled rules. One may be used from any thread: nothing changes once it is built, but for what is made when first needed."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._fields = FieldRules(rules)
        self._set = PatternSet()
        self._compiled: dict[Rule, Any] = {}
        self._entries: list[Rule | Mark | None] = []
        for rule in rules:
            for pattern in _patterns(rule):
                self._add(pattern, rule)
        for mark in Mark:
            self._add(to_re2(mark.value), mark)
        self._gate = self._set.add(self._fields.gate, _OURS)
        self._entries.append(None)
        self._set.seal()
        self._lines = ForeignLines([r for r in rules if r.foreign])

    def read(self, view: View) -> Reading:
        """Return every rule that may read ``view`` and holds for it. The documents in its words may not be parsed yet."""
        found: Sequence[int] = _NOTHING
        if view.text:
            try:
                found = self._set.hits(view.text)
            except UnicodeEncodeError:
                return self.read(view.well_formed())
        if not found and view.channel is not _EXIT and not view.structured:
            return tuple.__new__(Reading, (view, view, (), _NO_MARKS))
        if self._gate in found or view.channel is _EXIT:
            view = view.with_documents()
        if (view.structured or view.channel is _HTTP) and (theirs := self._fields.matching(view, foreign=True)):
            return Reading(view, view, tuple(Match(r, view, interim=False) for r in theirs), _MAY_BE_TIMED)
        whole = view
        hits, marks = self._named(found, view) if found else ([], _NO_MARKS)
        theirs = []
        if any(r.foreign for r in hits):
            kept, theirs = self._lines.without(view)
            if theirs:
                timed = marks & _MAY_BE_TIMED
                found = self._set.hits(kept) if kept else _NOTHING
                view = view.with_words(kept, documents=self._gate in found or view.channel is _EXIT)
                hits, marks = self._named(found, view)
                marks |= timed
            hits = [r for r in hits if not r.foreign]
        if view.channel is _STDERR:
            hits = [r for r in hits if self._in_own_words(r, view.text)]
        if _STATUS in marks and (view.channel is not _STDERR or in_own_words(view.text, names_a_status, bare=True)):
            view = view.with_status()
        if view.structured and (fields := self._fields.matching(view, foreign=False)) and _is_own_document(view):
            hits += fields
        if view.proves_nothing:
            hits = [r for r in hits if not r.authorises]
        interim = _INTERIM in marks or any(_interim_document(d) for d in view.documents)
        matches = tuple(Match(r, view, interim=interim) for r in (*theirs, *dict.fromkeys(hits)))
        return Reading(view, whole, matches, marks)

    def is_silent(self, signal: Signal, family: str) -> bool:
        """Whether ``signal`` is a line of standard error in which nothing can decide: most are, and one pass tells."""
        text = signal.text
        if not text or "{" in text or signal.model_fields_set & _STRUCTURE or text.startswith("HTTP/"):
            return False
        try:
            found = self._set.hits(text)
        except UnicodeEncodeError:
            return False
        for entry in [self._entries[i] for i in found]:
            if entry is None or entry is _STATUS:
                return False
            if isinstance(entry, Rule) and not entry.foreign and entry.reads(family, _STDERR, signal.phase or _SENT):
                return False
        return True

    def where(self, rule: Rule, text: str) -> int:
        """Return where in ``text`` the words of ``rule`` begin; 0 for a rule that reads fields."""
        words = self._words(rule)
        found = words.search(text) if words is not None else None
        return 0 if found is None else int(found.start())

    def doubt(self, match: Match) -> str | None:
        """Return why the words that decide may be another's, so that nothing automatic may follow them; None for no doubt."""
        view, words = match.view, self._words(match.rule)
        if words is None:
            return None
        if refuses_the_request(view) and only_quotes(view, words):
            return "the provider refuses the request and quotes these words"
        if view.channel is not _STDERR or match.rule.families:
            return None
        if names_its_speaker(view.text, lambda block: words.search(block) is not None):
            return None
        return "the line names no model, vendor or agent: it may be any program's"

    def _in_own_words(self, rule: Rule, text: str) -> bool:
        """Whether ``rule`` holds for a line of standard error about no other service and, if it is bare, one of the agent's own."""
        words = self._words(rule)
        return in_own_words(text, lambda line: words.search(line) is not None, bare=rule.bare)

    def _words(self, rule: Rule) -> Any:  # noqa: ANN401  (the engine has no stubs)
        """Return all patterns of a rule as one, made when they are first needed; None for a rule that reads fields."""
        if rule not in self._compiled:
            patterns = _patterns(rule)
            self._compiled[rule] = compile_any(patterns) if patterns else None
        return self._compiled[rule]

    def _named(self, found: Sequence[int], view: View) -> tuple[list[Rule], frozenset[Mark]]:
        entries = [self._entries[i] for i in found]
        rules = [e for e in entries if isinstance(e, Rule) and e.reads(view.family, view.channel, view.phase)]
        return rules, frozenset(e for e in entries if isinstance(e, Mark))

    def _add(self, pattern: str, entry: Rule | Mark) -> None:
        self._set.add(pattern, _owner(entry) if isinstance(entry, Rule) else _OURS)
        self._entries.append(entry)


class ForeignLines:
    """Finds the lines that are somebody else's (`foreign` rules), line by line, but only near one."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._set = PatternSet()
        self._rules: list[Rule] = []
        self._alone = False
        for rule in rules:
            for pattern in _patterns(rule):
                self._set.add(pattern, _owner(rule))
                self._rules.append(rule)
                self._alone = self._alone or _WHOLE_TEXT.search(pattern) is not None
        self._set.seal()

    def without(self, view: View) -> tuple[str, list[Rule]]:
        """Return the words of ``view`` without the lines that are somebody else's, and the rules that say so."""
        lines = view.text.splitlines()
        found = dict(self._found(lines, view))
        gone: set[int] = set()
        opened = left = 0
        for n, line in enumerate(lines):
            here = found.get(n, ())
            left = _LONGEST_BODY if here else left - 1
            # a body that such a line opens is theirs until it is closed, and so are the lines that are indented below it
            if here or (left > 0 and (opened > 0 or (n - 1 in gone and line[:1].isspace() and not line.isspace()))):
                opened = max(opened, 0) + line.count("{") - line.count("}")
                gone.add(n)
            if any(r.wide for r in here):
                gone.update(range(n - _ABOVE, n + _BELOW + 1))
        kept = [line for n, line in enumerate(lines) if n not in gone]
        return "\n".join(kept), list(dict.fromkeys(r for rules in found.values() for r in rules))

    def _found(self, lines: Sequence[str], view: View) -> Iterator[tuple[int, list[Rule]]]:
        """Yield the number of each line that rules say is somebody else's, with the rules."""
        step = 1 if self._alone else _LINES_AT_ONCE
        for start in range(0, len(lines), step):
            chunk = lines[start : start + step]
            if step > 1 and not self._in("\n".join(chunk), view):
                continue
            for n, line in enumerate(chunk, start):
                if line and not line.isspace() and (here := self._in(line, view)):
                    yield n, here

    def _in(self, text: str, view: View) -> list[Rule]:
        rules = [self._rules[i] for i in self._set.hits(text)]
        return [r for r in rules if r.reads(view.family, view.channel, view.phase)]


def says(rule: Rule, text: str) -> bool:
    """Whether the words of ``rule`` are somewhere in ``text``, whosever they are."""
    patterns = _patterns(rule)
    return bool(patterns) and compile_any(patterns).search(text) is not None


def _is_own_document(view: View) -> bool:
    """Whether what is printed as JSON on standard error stands in a line that is the agent's own: every program logs JSON."""
    printed = view.channel is _STDERR and bool(view.documents) and view.signal.data is None
    return not printed or in_own_words(view.text, lambda block: "{" in block, bare=True)


def _owner(rule: Rule) -> str:
    return f"{rule.source}: rule {rule.id}"


def _patterns(rule: Rule) -> list[str]:
    return [*map(to_re2, rule.patterns), *map(exact_to_re2, rule.exact)]


def _interim_document(document: Any) -> bool:  # noqa: ANN401  (any JSON)
    return isinstance(document, dict) and (document.get("type") in _INTERIM_TYPES or document.get("willRetry") is True)

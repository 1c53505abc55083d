"""Sentences about coming back: "try again in 6m0s", "resets 3pm (Europe/London)" and their kin (R-CLS-5).

A clause counts from its verb. What may stand between the verb and its time depends on the verb: something *resets at*
three, is *blocked until* three, and *was reset at* three is history. The words are read by anchored patterns over a
bounded window, so a text of any size costs linear time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from kandev_routing_sdk.evidence.linear import Pattern, compile_linear
from kandev_routing_sdk.evidence.timing.model import TimingHint, Trust, absolute, relative
from kandev_routing_sdk.evidence.timing.sentence import read_moment
from kandev_routing_sdk.evidence.timing.spans import COLONS, DURATION, colons, duration, numbered

__all__ = ["hints_from_clauses"]

_WINDOW: Final = 160
_BEFORE: Final = 96
_MAX_CLAUSES: Final = 1024

_DONE: Final = "restored|lifted|unlocked|replenished|refreshed|renewed|reset"
_VERB_SOURCE: Final = (
    r"(?i)\b(?:"
    r"(?P<state>unavailable|not (?:yet )?available|paused|blocked|locked(?: out)?|suspended|(?:rate[ -]?)?limited)"
    r"|(?P<own>retrying|reconnecting|waiting|will retry|will reconnect|backing off|next (?:retry|attempt))"
    r"|(?P<again>(?:try|retry)(?: (?:again|your request|the request|this request|later))*|available"
    r"|(?:come|check|be) back(?: online)?|back (?:online|up)|regain(?: access)?)"
    rf"|(?P<reset>resets?|resetting|renews?|refresh(?:es)?|replenish(?:es)?|(?:be|is|are|access|limits?|quota|usage) (?:{_DONE})"
    r"|resumes?|unlocks?|(?:cycle|window|period|limit|cool-?down) ends)"
    r"|(?P<wait>wait)"
    r"|(?P<pause>cool(?:s|ing)?[ -]?down)"
    r")\b"
)
_VERB: Final = compile_linear(_VERB_SOURCE)
_KINDS: Final = tuple(numbered(_VERB_SOURCE).items())
# History, a promise not to, another thing with the same verb: no statement about coming back.
_ANOTHER: Final = compile_linear(
    r"(?i)(?:\b(?:was|were|been|being|got|already|last|previous|previously|connection|socket|stream|peer|password|hard|soft|counter|timer|job|meeting|git"
    r"|factory|gave up|stop|stopped|stops|without|spent|never|no longer|do not|timed out|time-?out"
    r"|failed|unable|cannot|could not|not|after|while|when"
    r"|roll(?:ed|s)?|fall(?:s|ing)?|fell|came|max(?:imum)?|(?:token|page|credentials?|session) (?:is|are)?|caches?)"
    r"|n['\x{2019}]t)\s+(?:(?:to|by|be|for)\s+)?$"
)
_WAS: Final = compile_linear(r"(?i)\b(?:was|were)\s+$")
_TURNS: Final = compile_linear(r"(?i)\b(?:token|cache|page|credentials?|session)\s+$")
# Who else retries on the same screen.
_OTHERS: Final = compile_linear(
    r"(?i)\b(?:npm|pnpm|yarn|bun|pip|uv|curl|wget|git|docker|podman|cargo|apt|apt-get|brew|kubectl|terraform|mcp|lsp"
    r"|database|postgres(?:ql)?|mysql|redis|webpack|gradle|maven|rsync|ssh)\b"
)

_GAP: Final = r"[\s:,\x{2013}\x{2014}\x{b7}\x{2219}*`\"'(-]*"
_FILL: Final = (
    r"(?:(?:again|automatically|the|it|requests?|will be|is|be|you|your|limits?|time|access|usage|quota|online|once|only"
    r"|remaining|left|for)\b" + _GAP + ")*"
)
_COUNT: Final = (
    rf"(?:turn\b{_GAP})?(?:\(?(?:attempt #?\d{{1,5}}(?:\s*(?:/|of)\s*\d{{1,5}})?|\d{{1,3}}/\d{{1,3}}\b)\)?{_GAP})?"
)
_NEAR: Final = (
    r"(?:(?:about|around|approximately|approx\.?|roughly|at least|another|an additional|up to|less than|under|~|<|\x{2248})"
    r"\s*)?"
)
_WAIT: Final = compile_linear(
    rf"(?i)^({_GAP}{_COUNT}(?:waiting\s+)?{_FILL}(?:(?:in|after|for|within|of)\b{_GAP})?{_NEAR}[*`\"']*)"
    rf"(?:({DURATION})(?:,?[ \t]+({COLONS}))?|({COLONS}))"
)
_MOMENT_LINK: Final = compile_linear(
    rf"(?i)^{_GAP}(?:(?:again|at|on|by|after|until|till|from|it|is|are|will be|be|next|back|available|reset|later|this"
    rf"|time|date|around|about|access|limits?|daily|weekly|every(?: day)?|each(?: day)?)\b{_GAP})*"
)
_WAIT_WORD: Final = compile_linear(r"(?i)\b(in|after|for|within|of)\b")
_MOMENT_WORD: Final = compile_linear(r"(?i)\b(at|on|by|after|until|till|from)\b")
# A span that measures something else: an age, a window, a rate, one end of a range.
_MEASURES: Final = compile_linear(
    r"(?i)^(?:\(s\))?(?:\s+(?:ago|old|earlier|of|per|window|session|time-?outs?|interval|period|limits?|cycles?|quota|rolling"
    r"|blocks?|long)\b|[ \t]*(?:-|\x{2013}|to\b|or\b)[ \t]*(?:\d|an?\b|two\b|three\b|few\b|more\b)|/\s?[a-z]|[:.]\d|-[a-z])"
)
_STAMP: Final = compile_linear(r"^(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}:\d\d:\d\d|\d{10})")
_ASIDE: Final = compile_linear(rf"(?i)^[^\r\n(]{{0,64}}\(\s*(?:in\s+|~\s*)(?:about\s+)?({DURATION})\s*[),]")


class _Verb(NamedTuple):
    """What may link a verb to its time. An empty string stands for no preposition at all."""

    waits: frozenset[str]
    moments: frozenset[str]
    trust: int = Trust.RELATIVE_TEXT


_VERBS: Final[Mapping[str, _Verb]] = {
    "own": _Verb(frozenset({"", "in", "after"}), frozenset({"at", "on", "until"}), Trust.OWN_BACKOFF),
    "again": _Verb(frozenset({"in", "after", ":"}), frozenset({"at", "on", "after", "from", "by", "day"})),
    "reset": _Verb(frozenset({"in", "after", "within", ":"}), frozenset({"", "at", "on", "after", "by", "day"})),
    "wait": _Verb(frozenset({"", "for", ":"}), frozenset({"until", "till"})),
    "state": _Verb(frozenset({"for"}), frozenset({"until", "till"})),
    "pause": _Verb(frozenset({"", "for", "of", "in", ":"}), frozenset({"until", "till"})),
}
_PATIENT: Final = frozenset({"waiting", "backing off"})


def hints_from_clauses(text: str, *, observed_at: datetime | None, local_zone: str | None) -> list[TimingHint]:
    """The hints of the clauses of ``text``, in their order."""
    hints: list[TimingHint] = []
    for count, found in enumerate(_VERB.finditer(text)):
        if count >= _MAX_CLAUSES:
            break
        word, start, end = found.group() or "", found.start(), found.end()
        window = text[end : end + _WINDOW]
        if text[start - 1 : start] in {"-", "_", "."} or window[:1] in {"-", "_", "("}:
            continue  # part of a header's or a field's name, read by its grammar; or a function's
        kind = next(name for name, number in _KINDS if found.group(number) is not None)
        before, for_long = text[max(0, start - _BEFORE) : start], window.lstrip()[:4].lower() == "for "
        if _is_about_something_else(kind, word.lower(), before, for_long=for_long):
            continue
        hints += _wait(kind, word, window) or _moment(kind, word, window, observed_at, local_zone)
    return hints


def _is_about_something_else(kind: str, word: str, before: str, *, for_long: bool) -> bool:
    if kind == "state":
        return for_long and bool(_WAS.search(before))  # what was blocked for an hour is free; until 3pm, it still is
    if kind == "own" and _OTHERS.search(before[before.rfind("\n") + 1 :]):
        return True
    return bool(_ANOTHER.search(before)) or (word.startswith(("refresh", "renew")) and bool(_TURNS.search(before)))


def _wait(kind: str, word: str, window: str) -> list[TimingHint]:
    found = _WAIT.match(window)
    if found is None or _MEASURES.match(window[found.end() :]):
        return []
    link = found.group(1) or ""
    if kind != "own" and "/" in link and "attempt" not in link.lower():
        return []  # "retry 1/3 after 2s" may be anybody's log
    if link.endswith(("-", "+", ".")) or not _links(kind, word, link, _VERBS[kind].waits):
        return []
    countdown, days = found.group(4), found.group(3)
    if countdown and _preposition(_WAIT_WORD, link) not in {"in", "for"}:
        return []  # "after 10:30:00" is a time of day
    wait = colons(countdown) if countdown else duration(found.group(2) or "")
    wait = wait + colons(days) if wait and days else wait
    return relative(wait, source="text", written=word + window[: found.end()], trust=_VERBS[kind].trust)


def _moment(
    kind: str, word: str, window: str, observed_at: datetime | None, local_zone: str | None
) -> list[TimingHint]:
    found = _MOMENT_LINK.match(window)
    start = found.end() if found is not None else 0
    link, rest = window[:start], window[start:]
    said = _preposition(_MOMENT_WORD, link)
    if "\n" in link and not said and _STAMP.match(rest):
        return []  # the next line of a log begins with its own time
    hints = _aside(kind, word, rest)
    moment = read_moment(rest, observed_at=observed_at, local_zone=local_zone)
    allowed = _VERBS[kind].moments
    if moment is None or not (said in allowed or (not said and moment.dated and "day" in allowed)):
        return hints
    return hints + absolute(
        moment.instant,
        source="text",
        written=word + window[: start + moment.length],
        zone=moment.zone,
        trust=min(moment.trust, Trust.OWN_BACKOFF) if kind == "own" else moment.trust,
        observed_at=observed_at,
    )


def _aside(kind: str, word: str, rest: str) -> list[TimingHint]:
    """The wait in brackets behind a wall time: "resets 3:05 PM (in 2h 5m)"."""
    found = _ASIDE.match(rest) if kind in {"again", "reset"} and rest[:1].isalnum() else None
    if found is None:
        return []
    written = word + " " + rest[: found.end()]
    return relative(duration(found.group(1) or ""), source="text", written=written, trust=Trust.RELATIVE_TEXT)


def _links(kind: str, word: str, link: str, allowed: frozenset[str]) -> bool:
    said = _preposition(_WAIT_WORD, link)
    if said:
        return said in allowed or (said == "for" and kind == "own" and word.lower() in _PATIENT)
    return ("" in allowed and "\n" not in link) or (":" in allowed and ":" in link)


def _preposition(words: Pattern, link: str) -> str:
    """The last preposition of a link; empty without one."""
    said = ""
    for found in words.finditer(link):
        said = (found.group(1) or "").lower()
    return said

"""The registry: evidence in, one classification out; deterministic, never raises, worst-case linear (R-CLS-1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.catalogue.classification import Classification, HintProvenance
from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.catalogue.fixtures import verify_fixtures
from kandev_routing_sdk.catalogue.hints import FAR, hint_for, is_far
from kandev_routing_sdk.catalogue.judgement import Judgement
from kandev_routing_sdk.catalogue.matcher import Mark, Matcher, Reading
from kandev_routing_sdk.catalogue.rules import Rank, Rule, RuleFile, RuleSource, read_source
from kandev_routing_sdk.catalogue.views import View, is_content, views_of
from kandev_routing_sdk.errors import CatalogueError
from kandev_routing_sdk.evidence.collector import Decisive
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser, excerpt
from kandev_routing_sdk.evidence.timing import TimingHint
from kandev_routing_sdk.types import Channel, Code, Confidence, ErrorClass, Phase

MAX_EXCERPT_BYTES: Final = 4096
_BEFORE_ANY_TASK: Final = frozenset({Phase.AUTH_CHECK, Phase.PROCESS_START, Phase.SESSION_INIT})
# Naming a member of an enum costs as much as reading a hundred characters; here all are named once.
_STDERR: Final = Channel.STDERR
_EXIT: Final = Channel.EXIT
_HTTP: Final = Channel.HTTP
_NOTICE: Final = Channel.AGENT_NOTICE
_PROVIDERS: Final = Code.UNKNOWN_PROVIDER_ERROR
_AGENTS: Final = Code.AGENT_RUNTIME_ERROR
_HIGH: Final = Confidence.HIGH
_LOW: Final = Confidence.LOW
_UNCLASSIFIED: Final = ErrorClass.UNCLASSIFIED
_OF_PROVIDER: Final = Mark.PROVIDER
_FOREIGN: Final = Rank.FOREIGN
_ERROR_STATUS: Final = 400
_SHOWN_LINES: Final = 3
"""Of the lines of standard error: the one that decided and the next ones, or the last ones."""
_LEAD: Final = 512
"""Characters of one endless line that an excerpt shows before the words that decided."""


class Catalogue:
    """Loaded rules. Immutable; one object may be used from any thread."""

    def __init__(self, rule_files: Sequence[RuleFile]) -> None:
        """Build from files that :func:`read_source` checked; use :meth:`load`."""
        by_id: dict[str, Rule] = {}
        for file in rule_files:
            for rule in file.rules:
                if rule.id in by_id:
                    raise CatalogueError(
                        f"{file.name}: rule {rule.id} exists already in {by_id[rule.id].source}; ids are unique, give it another"
                    )
                by_id[rule.id] = rule
        self.rules: tuple[Rule, ...] = tuple(sorted(by_id.values(), key=lambda r: (-r.rank, -r.priority, r.id)))
        self.version: str = _version(rule_files)
        self._matcher = Matcher(self.rules)
        self._sanitiser = Sanitiser()

    @classmethod
    def load(cls, sources: Sequence[RuleSource], *, verify: bool = True) -> Catalogue:
        """Load rule files.

        Args:
            sources: rule files; see :mod:`kandev_routing_sdk.catalogue.rules` for their form.
            verify: also try every fixture. The shipped files are verified by this project's tests, third-party ones
                must be verified when they are loaded.

        Raises:
            CatalogueError: a file, a rule or a fixture is not what it must be (R-CLS-4); one clear sentence.
        """
        catalogue = cls([read_source(s) for s in sources])
        if verify:
            verify_fixtures(catalogue)
        return catalogue

    def decides(self, signal: Signal, family: str) -> Decisive | None:
        """Return what in ``signal`` would decide by itself, which an envelope must not drop (R-EVI-2); None: nothing."""
        if signal.channel is _STDERR and self._matcher.is_silent(signal, family):
            return None
        judged = self.judge(Evidence(family=family, phase=Phase.PROMPT_SEND, signals=(signal,)))
        best = judged.conflict or ((judged.winner,) if judged.winner else ())
        if not best or best[0].rule.foreign:
            return None
        timed = any(Mark.TIMED in r.marks for r in judged.readings)
        return Decisive(" ".join(m.rule.id for m in best), best[0].interim, timed)

    def judge(self, evidence: Evidence) -> Judgement:
        """Return every match and which one decides (R-CLS-3)."""
        read = self._matcher.read
        readings = tuple([read(v) for v in views_of(evidence, documents=False)])
        for reading in readings:
            if reading.matches:
                break
        else:
            return tuple.__new__(Judgement, (readings, None, ()))
        matches = [m for r in readings for m in r.matches]
        top = max(m.weight for m in matches)
        best = [m for m in matches if m.weight == top]
        if best[0].rule.rank is _FOREIGN:
            # noise names the failure only where there was nothing else
            return Judgement(readings, None if any(map(_is_unexplained, readings)) else best[0])
        if len({m.rule.code for m in best}) > 1:
            return Judgement(readings, None, tuple(m for _, m in sorted({m.rule.id: m for m in best}.items())))
        return Judgement(readings, best[0])

    def classify(self, evidence: Evidence, *, sanitised: bool = False) -> Classification:
        """Return what the failure was. What no rule knows, and what rules disagree on, is unclassified (fails closed).

        Args:
            evidence: what was seen.
            sanitised: it went through a collector or :func:`parse_record`; else the excerpt is sanitised here.
        """
        return self.conclude(evidence, self.judge(evidence), sanitised=sanitised)

    def conclude(self, evidence: Evidence, judgement: Judgement, *, sanitised: bool = False) -> Classification:
        """Turn a judgement into the classification."""
        winner = judgement.winner
        rule = winner.rule if winner else None
        hint = hint_for(evidence, judgement.readings, rule)
        code, because = _code(evidence, judgement, hint)
        row = CODES[code]
        confidence = rule.confidence if rule else _LOW
        if confidence is _HIGH and (doubt := self._doubt(judgement)) is not None:
            confidence, because = Confidence.MEDIUM, (*because, doubt)
        error_class = _UNCLASSIFIED if confidence is _LOW else row.error_class
        shown = winner.view if winner else _shown(judgement)
        at = shown.signal.at if shown else None
        clean = _as_it_is if sanitised else self._sanitiser.text
        return Classification.of(
            {
                "code": code,
                "error_class": error_class,
                "confidence": confidence,
                "scope": rule.scope if rule and rule.scope and code is rule.code else row.scope,
                "classifier_rule": rule.id if rule else None,
                "catalogue_version": self.version,
                "provider_id": evidence.provider_id or (rule.provider if rule else None),
                "model_id": evidence.model_id,
                "phase": shown.phase if shown else evidence.phase,
                "occurred_at": at or evidence.observed_at,
                "retry_after": hint.retry_after if hint else None,
                "reset_at": hint.reset_at if hint else None,
                "hint": _provenance(hint, clean) if hint else None,
                "safe_excerpt": self._excerpt(shown, rule, clean),
                "because": because,
            }
        )

    def _doubt(self, judgement: Judgement) -> str | None:
        """Return why what decides is not sure enough to be acted upon, or None."""
        winner = judgement.winner
        if winner is None or not winner.rule.authorises:
            return None
        if _is_beside_the_point(judgement):
            return "the agent's runtime itself says something else"
        return self._matcher.doubt(winner)

    def _excerpt(self, view: View | None, rule: Rule | None, clean: Callable[[str], str]) -> str | None:
        """Return the words to show: all of them, or of more than fit those from the line that decided."""
        if view is None:
            return None
        words = view.text
        if not words and view.signal.data is not None:
            words = _printed(view.signal.data)
        words = clean(words)
        if not words or words.isspace():
            return None
        if (view.joined or len(words) > _LEAD) and rule is not None:
            at = self._matcher.where(rule, words)
            words = words[max(words.rfind("\n", 0, at) + 1, at - _LEAD) :]
        if view.joined:
            words = "\n".join(words.splitlines()[:_SHOWN_LINES] if rule else words.splitlines()[-_SHOWN_LINES:])
        if words.isascii():
            return words if len(words) <= MAX_EXCERPT_BYTES else words[:MAX_EXCERPT_BYTES]
        return words if _fits(words) else excerpt(words, MAX_EXCERPT_BYTES)


def _fits(words: str) -> bool:
    """Whether ``words`` may be shown as they are."""
    try:
        return len(words.encode()) <= MAX_EXCERPT_BYTES
    except UnicodeEncodeError:
        return False


def _as_it_is(text: str) -> str:
    return text


def _provenance(hint: TimingHint, clean: Callable[[str], str]) -> HintProvenance:
    return HintProvenance(source=hint.source, written=clean(hint.written), zone=hint.zone)


def _printed(data: JsonValue) -> str:
    try:
        return json.dumps(data, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to show)"


def automatic(classification: Classification, evidence: Evidence) -> bool:
    """Whether something automatic may follow: classified, sure enough, and safe (R-SAFE-1)."""
    return classification.automatic_refusal(evidence.effects) is None


def _code(evidence: Evidence, judgement: Judgement, hint: TimingHint | None) -> tuple[Code, tuple[str, ...]]:
    winner = judgement.winner
    if judgement.conflict:
        parts = ", ".join(f"{m.rule.id} says {m.rule.code}" for m in judgement.conflict)
        return _PROVIDERS, (f"rules of equal rank disagree: {parts}",)
    if winner is None:
        return _fallback(evidence, judgement.readings), ("no rule matches",)
    rule = winner.rule
    because = [f"{rule.id} matches a signal on {winner.view.channel}"]
    others = sorted({m.rule.id for m in judgement.matches} - {rule.id})
    if others:
        because.append(f"outranks or agrees with: {', '.join(others)}")
    if rule.far_code is not None and is_far(hint, evidence.observed_at):
        because.append(f"{rule.far_code} because the hint is more than {FAR} away")
        return rule.far_code, tuple(because)
    if rule.code is Code.TASK_ERROR and winner.view.phase in _BEFORE_ANY_TASK:
        because.append("nothing was asked of the agent yet")
        return _AGENTS, tuple(because)
    return rule.code, tuple(because)


def _is_beside_the_point(judgement: Judgement) -> bool:
    """Whether a line of standard error decides, where others speak too, although the runtime tells of a failure that no rule knows.

    That failure has a cause of its own; the line may be any tool server's.
    """
    winner = judgement.winner
    if winner is None or winner.view.channel is not _STDERR:
        return False
    return any(
        _is_unexplained(r) and r.view.channel is not _STDERR and r.view.channel is not _EXIT for r in judgement.readings
    )


def _fallback(evidence: Evidence, readings: Sequence[Reading]) -> Code:
    """Name what no rule knows: the provider's, the agent's, or the task's."""
    spoken = False
    for reading in readings:
        view = reading.view
        if view.channel is _HTTP or view.channel is _NOTICE:
            return _PROVIDERS
        if reading.marks and _OF_PROVIDER in reading.marks:
            return _PROVIDERS
        if view.status is not None and view.status >= _ERROR_STATUS:
            return _PROVIDERS
        spoken = spoken or not view.synthetic
    if not spoken and any(is_content(s) for s in evidence.signals):
        return Code.TASK_ERROR
    return _AGENTS


def _is_unexplained(reading: Reading) -> bool:
    """Whether it is a signal with words that no rule, not even one for noise, matched."""
    text = reading.view.text
    return not reading.matches and not reading.view.synthetic and bool(text) and not text.isspace()


def _shown(judgement: Judgement) -> View | None:
    """Return the signal to show when none decided: the conflict's first, else the last that nothing explains."""
    if judgement.conflict:
        return judgement.conflict[0].view
    last = None
    for reading in reversed(judgement.readings):
        if _is_unexplained(reading):
            view = reading.view
            if view.channel is not _STDERR and view.channel is not _EXIT:
                return view
            last = last or view
    if last is not None:
        return last
    views = [v for v in judgement.views if not v.synthetic]
    return next(
        (v for v in reversed(views) if v.channel is not _STDERR and v.channel is not _EXIT),
        views[-1] if views else None,
    )


def _version(rule_files: Sequence[RuleFile]) -> str:
    """Return the month of the newest file and a hash of everything that decides: ``2026.11+ab12cd34`` (R-CLS-6)."""
    content = json.dumps(
        sorted((dict(f.canonical) for f in rule_files), key=lambda c: json.dumps(c, sort_keys=True)),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    released = max((f.released for f in rule_files), default="0000.00")
    return f"{released}+{hashlib.sha256(content.encode()).hexdigest()[:8]}"

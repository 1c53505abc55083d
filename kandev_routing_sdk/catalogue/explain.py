"""Why a classification came out as it did: every rule that was considered, and why each one lost (`classify --explain`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.judgement import Judgement
from kandev_routing_sdk.catalogue.matcher import Reading, says
from kandev_routing_sdk.catalogue.rules import Rule
from kandev_routing_sdk.catalogue.views import View
from kandev_routing_sdk.evidence.model import Evidence

Fate = Literal["won", "agreed", "outranked", "conflict", "unread", "no_match", "not_applicable"]
"""``unread``: its words are there, but where they do not count."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What became of one rule."""

    rule: str
    fate: Fate
    why: str


@dataclass(frozen=True, slots=True)
class CatalogueExplanation:
    """A classification with every rule behind it, the deciding ones first."""

    classification: Classification
    verdicts: tuple[RuleVerdict, ...]
    refusal: str | None
    """Why nothing automatic may follow; None when it may."""

    @property
    def considered(self) -> tuple[RuleVerdict, ...]:
        """The rules that matched."""
        return tuple(v for v in self.verdicts if v.fate not in {"no_match", "not_applicable"})


_ORDER: tuple[Fate, ...] = ("won", "conflict", "agreed", "outranked", "unread", "no_match", "not_applicable")


def explain(catalogue: Catalogue, evidence: Evidence) -> CatalogueExplanation:
    """Classify ``evidence`` and say what became of every rule."""
    judgement = catalogue.judge(evidence)
    classification = catalogue.conclude(evidence, judgement)
    verdicts = [_verdict(rule, judgement) for rule in catalogue.rules]
    return CatalogueExplanation(
        classification=classification,
        verdicts=tuple(sorted(verdicts, key=lambda v: _ORDER.index(v.fate))),
        refusal=classification.automatic_refusal(evidence.effects),
    )


def _verdict(rule: Rule, judgement: Judgement) -> RuleVerdict:
    mine = [m for m in judgement.matches if m.rule is rule]
    if not mine:
        return _unread(rule, judgement.readings) or _absent(rule, judgement.views)
    if any(m.rule is rule for m in judgement.conflict):
        others = ", ".join(m.rule.id for m in judgement.conflict if m.rule is not rule)
        return RuleVerdict(rule.id, "conflict", f"says {rule.code}; of equal rank and in disagreement with {others}")
    winner = judgement.winner
    if winner is not None and winner.rule is rule:
        return RuleVerdict(rule.id, "won", f"says {rule.code} of a signal on {winner.view.channel}")
    if winner is None:
        return RuleVerdict(rule.id, "outranked", f"says {rule.code}; rules that disagree outrank it")
    if winner.rule.code is rule.code:
        return RuleVerdict(rule.id, "agreed", f"says {rule.code} too, as {winner.rule.id} does")
    reason = _lost_to(max(m.weight for m in mine), winner.weight)
    return RuleVerdict(rule.id, "outranked", f"says {rule.code}; {winner.rule.id} {reason}")


def _lost_to(mine: tuple[bool, bool, bool, int, int], best: tuple[bool, bool, bool, int, int]) -> str:
    words = (
        "reads the runtime's own words, this one says that they are somebody else's",
        "is about the end, this one about a try that the agent itself repeated",
        "is what the runtime says of its request, this one only what stands beside it",
        "is of a higher rank",
        "has a higher priority",
    )
    return next((w for w, a, b in zip(words, mine, best, strict=True) if a != b), "comes first by id")


def _unread(rule: Rule, readings: Sequence[Reading]) -> RuleVerdict | None:
    """Return where the words of a rule that did not match stand nevertheless."""
    for reading in readings:
        view = reading.view
        if rule.foreign or not rule.reads(view.family, view.channel, view.phase) or not says(rule, reading.whole.text):
            continue
        if not says(rule, view.text):
            ids = ", ".join(m.rule.id for m in reading.matches if m.rule.foreign)
            return RuleVerdict(rule.id, "unread", f"says {rule.code}, in words that are somebody else's by {ids}")
        if view.proves_nothing:
            return RuleVerdict(rule.id, "unread", f"says {rule.code}; nothing on {view.channel} counts in {view.phase}")
        why = (
            "a phrase that anybody may use, in no line of the agent's own"
            if rule.bare
            else "beside another service's address"
        )
        return RuleVerdict(rule.id, "unread", f"says {rule.code}; {why}")
    return None


def _absent(rule: Rule, views: tuple[View, ...]) -> RuleVerdict:
    if not views:
        return RuleVerdict(rule.id, "not_applicable", "nothing was said by the agent's runtime")
    reasons = [rule.why_not(v.family, v.channel, v.phase) for v in views]
    if all(reasons):
        return RuleVerdict(rule.id, "not_applicable", "; ".join(dict.fromkeys(r for r in reasons if r)))
    return RuleVerdict(rule.id, "no_match", "nothing that it looks for is there")

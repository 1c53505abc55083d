"""Tries every fixture of a catalogue (R-CLS-4)."""

from __future__ import annotations

from typing import Protocol

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.judgement import Judgement
from kandev_routing_sdk.catalogue.rules import Fixture, Rule
from kandev_routing_sdk.errors import CatalogueError
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.types import Code, ErrorClass, Phase


class Verifiable(Protocol):
    """What verifying needs of a catalogue."""

    rules: tuple[Rule, ...]

    def judge(self, evidence: Evidence) -> Judgement:
        """Return every match and which one decides."""
        ...

    def conclude(self, evidence: Evidence, judgement: Judgement) -> Classification:
        """Turn a judgement into the classification."""
        ...


def verify_fixtures(catalogue: Verifiable) -> None:
    """Try every fixture of every rule against the whole catalogue.

    Raises:
        CatalogueError: one does not hold, two rules of equal rank disagree on one, or no fixture reaches its rule.
    """
    for rule in catalogue.rules:
        reached = False
        for fixture in rule.fixtures:
            for signal in fixture.signals:
                found = _check(catalogue, rule, fixture, signal)
                reached = reached or found.classifier_rule == rule.id
        if not reached:
            raise CatalogueError(
                f"{rule.source}: rule {rule.id}: no fixture reaches it, other rules always win; "
                "raise its priority, or remove it"
            )


def _check(catalogue: Verifiable, rule: Rule, fixture: Fixture, signal: Signal) -> Classification:
    evidence = Evidence(
        family=min(rule.families, default="other"),
        phase=min(rule.phases, default=Phase.PROMPT_SEND),
        signals=(signal,),
    )
    judgement = catalogue.judge(evidence)
    found = catalogue.conclude(evidence, judgement)
    matched = any(m.rule is rule for m in judgement.matches)
    problem = None
    if judgement.conflict and fixture.kind in {"positive", "redaction"}:
        names = " and ".join(m.rule.id for m in judgement.conflict)
        problem = f"{names} are of equal rank and disagree"
    elif fixture.kind == "negative" and matched:
        problem = "it matches"
    elif fixture.kind == "correlation" and (
        (matched and not rule.foreign) or found.error_class is not ErrorClass.UNCLASSIFIED
    ):
        problem = f"it is not evidence, but gives {found.code}"
    elif fixture.kind in {"positive", "redaction"} and found.code not in _right(rule):
        problem = f"it gives {found.code} by {found.classifier_rule or 'no rule'}, not {rule.code}"
    elif fixture.kind in {"positive", "redaction"} and not matched:
        problem = f"this rule does not match it; {found.classifier_rule or 'another rule'} gives the same code"
    elif leaked := [s for s in fixture.secrets if s in found.model_dump_json()]:
        problem = f"{len(leaked)} marked secret(s) come out again"
    elif fixture.kind == "redaction" and not fixture.secrets:
        problem = "mark what must not come out with « »"
    if problem:
        raise CatalogueError(
            f"{rule.source}: rule {rule.id}: {fixture.kind} fixture {fixture.label} does not hold: {problem}"
        )
    return found


def _right(rule: Rule) -> set[Code]:
    return {rule.code} if rule.far_code is None else {rule.code, rule.far_code}

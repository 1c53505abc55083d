"""Decisions of the past, made again from what was stored of them (R-ENG-11): the same pure functions, hence the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.replay import Replayed, replay
from kandev_routing_sdk.records import AttemptRecord, DecisionRecord, DecisionSort
from kandev_routing_sdk.route.past import PolicyInputs, SelectionInputs, selection_answer

_UNREADABLE: Final = "what it was made from cannot be read by this version"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDecision:
    """One decision with everything it was made from, and what comes out when it is made again."""

    record: DecisionRecord
    attempt: AttemptRecord | None = None
    """A policy's: the attempt that failed, with its evidence, effects and classification."""
    selection: SelectionInputs | None = None
    """A walk's: the candidates and their circuits as they were seen."""
    policy: PolicyInputs | None = None
    """A policy's: the policy and what was used up of it."""
    again: Mapping[str, JsonValue] | None = None
    """The answer of now; None when it cannot be made again."""
    classified_again: Replayed | None = None
    """A policy's: what the rules of now say of the evidence. It is no part of the decision, which keeps the answer of then."""
    problem: str | None = None
    """Why it cannot be made again."""

    @property
    def same(self) -> bool | None:
        """Whether the answer is the same; None when it cannot be made again."""
        return None if self.again is None else self.again == self.record.answer


def made_again(
    decisions: Iterable[DecisionRecord], attempts: Iterable[AttemptRecord], catalogue: Catalogue
) -> list[PastDecision]:
    """Make every decision again. ``attempts``: all of the session's."""
    by_id = {attempt.attempt_id: attempt for attempt in attempts}
    return [
        _walked(record)
        if record.sort is DecisionSort.SELECTION
        else _judged(record, by_id.get(record.attempt_id or ""), catalogue)
        for record in decisions
    ]


def _walked(record: DecisionRecord) -> PastDecision:
    try:
        inputs = SelectionInputs.from_json(record.inputs)
    except ValueError:  # what is wrong is not said: the message would quote what stands there
        return PastDecision(record=record, problem=_UNREADABLE)
    return PastDecision(record=record, selection=inputs, again=selection_answer(inputs.select()))


def _judged(record: DecisionRecord, attempt: AttemptRecord | None, catalogue: Catalogue) -> PastDecision:
    if attempt is None or attempt.classification is None:
        return PastDecision(
            record=record, attempt=attempt, problem="its attempt, or what was found of it, is not there"
        )
    then, evidence = attempt.classification, attempt.evidence
    anew = None if evidence is None else replay(catalogue, then, evidence)
    try:
        inputs = PolicyInputs.from_json(record.inputs)
    except ValueError:
        return PastDecision(record=record, attempt=attempt, classified_again=anew, problem=_UNREADABLE)
    return PastDecision(
        record=record,
        attempt=attempt,
        policy=inputs,
        again=inputs.evaluate(then, attempt.effects).model_dump(mode="json"),
        classified_again=anew,
    )

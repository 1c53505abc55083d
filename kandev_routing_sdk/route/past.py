"""Decisions that can be made again: what goes into one, as a value that comes back exactly (R-ENG-11).

``sessions show --why`` reads these from the store, and a test makes each decision again from them: the same pure functions, the
same answer. What a policy's inputs lack, the attempt holds: its evidence, effects and classification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from pydantic import JsonValue, TypeAdapter

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import Context, Decision, PolicyDocument, evaluate, interactive
from kandev_routing_sdk.route.model import Round
from kandev_routing_sdk.route.select import CandidateView, Selection, select
from kandev_routing_sdk.types import CircuitState


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionInputs:
    """Everything that a walk over the candidates looks at."""

    candidates: tuple[CandidateView, ...]
    circuits: dict[str, Circuit]
    """The candidates' circuits that were not closed."""
    round: Round
    pinned: str | None
    now: datetime
    early_probe: bool = False

    @classmethod
    def of(  # the arguments of select()
        cls,
        candidates: Sequence[CandidateView],
        circuits: Mapping[str, Circuit],
        *,
        round: Round,  # noqa: A002  # as in select()
        pinned: str | None,
        now: datetime,
        early_probe: bool,
    ) -> SelectionInputs:
        """Return the inputs of a walk, without what it does not look at."""
        health = {key: c for key, c in circuits.items() if c.state is not CircuitState.CLOSED}
        return cls(
            candidates=tuple(candidates),
            circuits=health,
            round=round,
            pinned=pinned,
            now=now,
            early_probe=early_probe,
        )

    def select(self) -> Selection:
        """Walk."""
        return select(
            self.candidates,
            self.circuits,
            round=self.round,
            pinned=self.pinned,
            now=self.now,
            early_probe=self.early_probe,
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return what is stored."""
        return cast("dict[str, JsonValue]", _SELECTION.dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SelectionInputs:
        """Return what was stored. Raises ``ValueError`` when it is not that."""
        return _SELECTION.validate_python(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInputs:
    """What ``evaluate`` looks at besides the attempt."""

    policy: PolicyDocument
    retries_used: int
    reset_wait_used: bool
    now: datetime
    stale: bool
    resume_guarantee: bool
    context: Context = Context.DYNAMIC
    """Of a session: ``dynamic``, or ``interactive``, which has no document of its own (R-POL-7)."""
    uniform: float = 0.0
    """``interactive``: the jitter that was thrown."""

    def evaluate(self, classification: Classification, effects: Effects | None) -> Decision:
        """Decide."""
        if self.context is Context.INTERACTIVE:
            return interactive(
                classification,
                effects=effects,
                retries_used=self.retries_used,
                now=self.now,
                uniform=self.uniform,
                stale=self.stale,
                resume_guarantee=self.resume_guarantee,
            )
        return evaluate(
            self.policy,
            classification,
            effects=effects,
            retries_used=self.retries_used,
            reset_wait_used=self.reset_wait_used,
            now=self.now,
            stale=self.stale,
            resume_guarantee=self.resume_guarantee,
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return what is stored."""
        return cast("dict[str, JsonValue]", _POLICY.dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PolicyInputs:
        """Return what was stored. Raises ``ValueError`` when it is not that."""
        return _POLICY.validate_python(document)


def selection_answer(selection: Selection) -> dict[str, JsonValue]:
    """Return what is stored of a walk's result."""
    return {
        "chosen": None if selection.chosen is None else selection.chosen.profile_id,
        "earliest": None if selection.earliest is None else selection.earliest.isoformat(),
        "walk": list(selection.to_json()),
    }


_SELECTION: Final[TypeAdapter[SelectionInputs]] = TypeAdapter(SelectionInputs)
_POLICY: Final[TypeAdapter[PolicyInputs]] = TypeAdapter(PolicyInputs)

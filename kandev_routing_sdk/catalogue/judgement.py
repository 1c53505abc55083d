"""What the rules say of one envelope, before it becomes a classification."""

from __future__ import annotations

from typing import NamedTuple

from kandev_routing_sdk.catalogue.matcher import Match, Reading
from kandev_routing_sdk.catalogue.views import View


class Judgement(NamedTuple):
    """What the rules say together, before it becomes a classification; kept for explanations."""

    readings: tuple[Reading, ...]
    winner: Match | None = None
    conflict: tuple[Match, ...] = ()
    """Matches of equal weight that disagree; empty, or at least two."""

    @property
    def matches(self) -> tuple[Match, ...]:
        """Every match, in the order of the signals."""
        return tuple(m for r in self.readings for m in r.matches)

    @property
    def views(self) -> tuple[View, ...]:
        """Every signal that may be evidence, as rules read it."""
        return tuple(r.view for r in self.readings)

"""Whose evidence it is (R-EVI-4): that of another attempt, generation or prompt is stale and authorises nothing."""

from __future__ import annotations

from typing import NamedTuple

from kandev_routing_sdk.evidence.model import Evidence


class Correlation(NamedTuple):
    """The attempt that is being judged."""

    session_id: str
    generation: int
    prompt: int
    attempt_id: str


def staleness(evidence: Evidence, current: Correlation) -> str | None:
    """Return why ``evidence`` says nothing of the ``current`` attempt, or None when it is that attempt's.

    What does not say whose it is cannot be told from another's and is stale too.
    """
    for name, wanted in current._asdict().items():
        found = getattr(evidence, name)
        if found is None:
            return f"the evidence names no {name}"
        if found != wanted:
            return f"the evidence is of another {name}"
    return None

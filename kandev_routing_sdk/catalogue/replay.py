"""What another catalogue says of evidence that was judged before, and what that would change (R-CLS-6). Relabels nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.model import Evidence


class Change(StrEnum):
    """What may differ between two answers to one failure, the gravest first."""

    AUTOMATIC = "automatic"
    """Whether anything automatic may follow."""
    CLASS = "class"
    CODE = "code"
    SCOPE = "scope"
    TIMING = "timing"
    """When the cause is expected to be gone; not where that was read."""
    CONFIDENCE = "confidence"
    RULE = "rule"
    """Which rule decides."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Two answers to one failure."""

    then: Classification
    now: Classification
    changes: tuple[Change, ...]
    """What differs, the gravest first; empty when nothing does."""


def replay(catalogue: Catalogue, then: Classification, evidence: Evidence) -> Replayed:
    """Classify ``evidence`` anew and compare with ``then``, which stays as it was recorded."""
    # Sanitised again: whoever wrote the record may have known fewer shapes of secrets.
    now = catalogue.classify(evidence)
    return Replayed(then, now, changes(then, now, evidence))


def changes(then: Classification, now: Classification, evidence: Evidence) -> tuple[Change, ...]:
    """Return what differs between two answers to ``evidence``."""
    pairs = (
        (Change.AUTOMATIC, _may_follow(then, evidence), _may_follow(now, evidence)),
        (Change.CLASS, then.error_class, now.error_class),
        (Change.CODE, then.code, now.code),
        (Change.SCOPE, then.scope, now.scope),
        (Change.TIMING, (then.retry_after, then.reset_at), (now.retry_after, now.reset_at)),
        (Change.CONFIDENCE, then.confidence, now.confidence),
        (Change.RULE, then.classifier_rule, now.classifier_rule),
    )
    return tuple(change for change, before, after in pairs if before != after)


def _may_follow(found: Classification, evidence: Evidence) -> bool:
    return found.automatic_refusal(evidence.effects) is None

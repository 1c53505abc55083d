"""What a failure was (R-CLS-1)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kandev_routing_sdk.evidence.model import UtcDatetime
from kandev_routing_sdk.types import Code, Confidence, ErrorClass, Phase, Scope


class HintProvenance(BaseModel):
    """Where a timing hint came from (R-CLS-5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["header", "field", "text"]
    written: str
    zone: Literal["text", "adapter", "utc", "none"]


class Classification(BaseModel):
    """The answer of the registry. ``because`` says why, for ``explain``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: Code
    error_class: ErrorClass
    confidence: Confidence
    scope: Scope
    classifier_rule: str | None
    """Id of the rule that decided; None when nothing matched."""
    catalogue_version: str
    provider_id: str | None = None
    model_id: str | None = None
    phase: Phase
    occurred_at: UtcDatetime | None = None
    retry_after: timedelta | None = None
    reset_at: UtcDatetime | None = None
    hint: HintProvenance | None = None
    safe_excerpt: str | None = None
    because: tuple[str, ...] = ()
    """Reasons: matched rules, conflicts, why confidence is what it is."""

    def due_at(self, now: datetime) -> datetime | None:
        """When the cause is expected to be gone, from the validated hint, or None."""
        if self.reset_at is not None:
            return self.reset_at
        if self.retry_after is not None:
            return (self.occurred_at or now) + self.retry_after
        return None

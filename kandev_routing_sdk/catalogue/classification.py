"""What a failure was (R-CLS-1)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.evidence.effects import automatic_refusal
from kandev_routing_sdk.evidence.model import Effects, UtcDatetime
from kandev_routing_sdk.types import Code, Confidence, Delivery, ErrorClass, Phase, Scope

_CAUTION: Final = (ErrorClass.UNCLASSIFIED, ErrorClass.HARD, ErrorClass.TRANSIENT)


class HintProvenance(BaseModel):
    """Where a timing hint came from (R-CLS-5)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    source: Literal["header", "field", "text"]
    written: str
    zone: Literal["text", "adapter", "utc", "none"]


class Classification(BaseModel):
    """The answer of the registry. ``because`` says why, for ``explain``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    code: Code
    """The provider-neutral cause."""
    error_class: ErrorClass
    """What may follow from it at all."""
    confidence: Confidence
    """How sure this is; only high confidence authorises anything once a prompt was sent."""
    scope: Scope
    """Which resource it says something about."""
    classifier_rule: str | None
    """Id of the rule that decided; None when nothing matched."""
    catalogue_version: str
    """Of the rules that said so."""
    provider_id: str | None = None
    """The upstream service that failed, if known."""
    model_id: str | None = None
    """The model that the evidence names, if it does."""
    phase: Phase
    """Where in the attempt's life."""
    occurred_at: UtcDatetime | None = None
    """When it was said, if that is known."""
    retry_after: timedelta | None = None
    """Validated hint: not before so long."""
    reset_at: UtcDatetime | None = None
    """Validated hint: not before then."""
    hint: HintProvenance | None = None
    """Where the time came from, as written."""
    safe_excerpt: str | None = None
    """What the provider said, sanitised, at most 4 KiB."""
    because: tuple[str, ...] = ()
    """Reasons: matched rules, conflicts, why confidence is what it is."""

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Make one of all its fields, which are right already: validating would take longer than classifying does (R-PRF-2)."""
        made = cls.__new__(cls)
        # what pydantic's own unpickling does
        put = object.__setattr__
        put(made, "__dict__", fields)
        put(made, "__pydantic_fields_set__", set(_FIELDS))
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    def automatic_refusal(self, effects: Effects | None, *, resume_guarantee: bool = False) -> str | None:
        """Return why nothing automatic may follow this failure, or None when it may (R-SAFE-1, R-CLS-2)."""
        # whoever made it: what a code means is not for its maker to say
        error_class = min(self.error_class, CODES[self.code].error_class, key=_CAUTION.index)
        not_sent = effects is not None and effects.delivery is Delivery.NOT_SENT
        if self.code is Code.AGENT_TRANSPORT_LOST and not not_sent:
            # what a dead transport swallowed cannot be known, however clean the ledger looks
            return "the agent was lost after the prompt may have been sent"
        return automatic_refusal(error_class, self.confidence, effects, resume_guarantee=resume_guarantee)

    def due_at(self, now: datetime) -> datetime | None:
        """When the cause is expected to be gone, from the validated hint, or None."""
        if self.reset_at is not None:
            return self.reset_at
        if self.retry_after is not None:
            return (self.occurred_at or now) + self.retry_after
        return None


_FIELDS: Final = frozenset(Classification.model_fields)

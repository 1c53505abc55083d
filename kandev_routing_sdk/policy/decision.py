"""The answer that every execution context gives to a failure (R-POL-6, R-POL-7): one frozen value, whoever asked."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kandev_routing_sdk.evidence.model import UtcDatetime
from kandev_routing_sdk.policy.document import ClassPolicy, Outcome
from kandev_routing_sdk.types import Code, ErrorClass


class Context(StrEnum):
    """Who decides after a failure (R-POL-7)."""

    DYNAMIC = "dynamic"
    """A dynamic profile: the candidate's own document."""
    INTERACTIVE = "interactive"
    """A concrete profile with a person watching: the same profile for two minutes, then the person."""
    UNATTENDED = "unattended"
    """Office tiers: the same route for half a minute, then the next configured one."""


class DecisionKind(StrEnum):
    """What happens next."""

    WAIT = "wait"
    """Same candidate, once, at the reset that its provider named."""
    RETRY = "retry"
    """Same candidate after a delay; uses one slot of the budget."""
    SKIP = "skip"
    """The next candidate, or route."""
    STOP = "stop"
    """A person decides."""


class Offer(StrEnum):
    """What makes sense for a person to do now. Shown, never done by itself."""

    RETRY_NOW = "retry_now"
    """The same candidate or route at once."""
    SKIP_NOW = "skip_now"
    """The next candidate or route."""
    CANCEL_WAIT = "cancel_wait"
    """Nothing automatic any more."""
    RESUME = "resume"
    """Go on in the agent's own session."""
    START_FRESH = "start_fresh"
    """A new session of the same profile that is told what is known."""
    REMEDY = "remedy"
    """Sign in, pay, configure: the advice that belongs to the code."""


class RouteScope(StrEnum):
    """What of an Office provider a failure says something about (R-OFF-4)."""

    PROVIDER = "provider"
    TIER = "tier"
    MODEL = "model"


class HealthMark(StrEnum):
    """What a failure means for other runs of the same workspace (R-OFF-4, R-OFF-5)."""

    SHORT_RETRY = "same_route_short_retry"
    """One run retries, the others wait for it; nobody is degraded or excluded."""
    DEGRADED = "degraded"
    """Not eligible until a time: the one given, or else the next step of the ladder."""
    ACTION_REQUIRED = "user_action_required"
    """Not eligible until a person acts."""


class RouteHealth(BaseModel):
    """What is to be recorded of an Office route. The caller knows which provider, tier and model it launched."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    mark: HealthMark
    scope: RouteScope
    until: UtcDatetime | None = None
    """End of the short retry's pause, or the provider's own validated reset; None: the ladder, or nobody knows."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mark is HealthMark.SHORT_RETRY and self.until is None:
            raise ValueError("a short retry has a time")
        if self.mark is HealthMark.ACTION_REQUIRED and self.until is not None:
            raise ValueError("what waits for a person has no time")
        return self


class Decision(BaseModel):
    """What follows a failure (R-POL-6). Stored as JSON beside the attempt it judges."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    kind: DecisionKind
    context: Context = Context.DYNAMIC
    error_class: ErrorClass
    code: Code
    ordinal: int | None = None
    """Number of the retry, from 1; only for ``retry``."""
    maximum: int | None = Field(default=None, ge=1)
    """How many retries there are in all; only for ``retry``."""
    deadline: UtcDatetime | None = None
    """When the same candidate is tried again; only for ``wait`` and ``retry``."""
    pending_outcome: Outcome | None = None
    """What follows if that try, and all that may come after it, fails; only for ``wait`` and ``retry``."""
    catalogue_version: str
    policy: ClassPolicy | None = None
    """``dynamic``: the policy that was applied. None when the failure has no class, and where the policy is fixed."""
    health: RouteHealth | None = None
    """``unattended``: what other runs are to know; None when the failure says nothing about the route."""
    offers: tuple[Offer, ...] = ()
    """What a person is offered, the first the most likely."""
    because: tuple[str, ...] = ()
    """Why each earlier step did not apply, in order: ``"retry: budget of 3 used"``."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        same_candidate = self.kind in {DecisionKind.WAIT, DecisionKind.RETRY}
        if same_candidate is (self.deadline is None) or same_candidate is (self.pending_outcome is None):
            raise ValueError("deadline and pending_outcome belong to wait and retry, and to nothing else")
        if (self.kind is DecisionKind.RETRY) is (self.ordinal is None):
            raise ValueError("ordinal belongs to retry, and to nothing else")
        if self.maximum is not None and self.kind is not DecisionKind.RETRY:
            raise ValueError("maximum belongs to retry, and to nothing else")
        if self.health is not None and self.context is not Context.UNATTENDED:
            raise ValueError("health belongs to the unattended context, and to no other")
        return self

"""Policy document v1: what a dynamic profile's owner wants done after each class of failure (R-POL-1, R-POL-2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, model_validator

from kandev_routing_sdk.types import ErrorClass

MIN_RETRIES: Final = 1
MAX_RETRIES: Final = 10
MIN_INTERVAL_SECONDS: Final = 1
MAX_INTERVAL_SECONDS: Final = 3600
MIN_WAIT_SECONDS: Final = 1
MAX_WAIT_SECONDS: Final = 604_800
"""A week."""
MAX_DELAY_SECONDS: Final = 86_400
"""No single retry delay is longer than a day, however often it doubled."""
POLICY_VERSION: Final = 1

Outcome = Literal["skip", "stop"]
"""What follows when nothing is left to try with this candidate: the next one, or a person."""


class Section(BaseModel):
    """A part of a policy that can be off. Off stores zeros, so that equal behaviour is an equal document (R-POL-2)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    bounds: ClassVar[Mapping[str, tuple[int, int]]]
    """Field → least and greatest value while the section is on."""

    enabled: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _off_is_zero(cls, value: object) -> object:
        if isinstance(value, Mapping) and value.get("enabled", False) is False:
            return {k: 0 if k in cls.bounds and type(v) is int else v for k, v in value.items()}
        return value

    @model_validator(mode="after")
    def _within_bounds(self) -> Self:
        for name, (low, high) in self.bounds.items():
            number = getattr(self, name)
            if self.enabled and not low <= number <= high:
                raise ValueError(f"{name} must be from {low} to {high}, got {number}")
        return self


class RetryPolicy(Section):
    """Try the same candidate again: attempt n waits ``initial_interval_seconds · 2^(n-1)``, at most a day."""

    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {
        "max_retries": (MIN_RETRIES, MAX_RETRIES),
        "initial_interval_seconds": (MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS),
    }

    max_retries: StrictInt = 0
    initial_interval_seconds: StrictInt = 0


class WaitPolicy(Section):
    """Wait for a reset that the provider named, if it is at most ``max_wait_seconds`` away."""

    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {"max_wait_seconds": (MIN_WAIT_SECONDS, MAX_WAIT_SECONDS)}

    max_wait_seconds: StrictInt = 0


class ClassPolicy(BaseModel):
    """The policy for one class of failures. The default is to skip to the next candidate at once."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    retry: RetryPolicy = RetryPolicy()
    wait_for_reset: WaitPolicy = WaitPolicy()
    on_exhausted: Outcome = "skip"


class PolicyDocument(BaseModel):
    """One candidate's policy, complete over both classes that may act automatically."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = POLICY_VERSION
    transient: ClassPolicy = ClassPolicy()
    hard: ClassPolicy = ClassPolicy()

    def for_class(self, error_class: ErrorClass) -> ClassPolicy | None:
        """Return the policy of ``error_class``; None for ``unclassified``, which no policy can make automatic (R-POL-8)."""
        match error_class:
            case ErrorClass.TRANSIENT:
                return self.transient
            case ErrorClass.HARD:
                return self.hard
            case ErrorClass.UNCLASSIFIED:
                return None

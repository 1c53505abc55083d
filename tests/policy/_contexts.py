"""What the tests of the execution contexts share: failures, states of the effects, and one way to ask any context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import (
    ClassPolicy,
    Context,
    Decision,
    PolicyDocument,
    RetryPolicy,
    WaitPolicy,
    dynamic,
    interactive,
    unattended,
)
from kandev_routing_sdk.types import Code, Confidence, Delivery, Phase

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOT_SENT: Final = Effects(delivery=Delivery.NOT_SENT, complete=True)
CLEAN: Final = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
STATES: Final[Mapping[str, Effects | None]] = MappingProxyType(
    {
        "n": NOT_SENT,
        "c": CLEAN,
        "s": Effects(delivery=Delivery.SENT, complete=True),
        "?": Effects(delivery=Delivery.UNKNOWN, complete=True),
        "o": CLEAN.model_copy(update={"output": True}),
        "t": CLEAN.model_copy(update={"thinking": True}),
        "k": CLEAN.model_copy(update={"tool_call": True}),
        "e": CLEAN.model_copy(update={"tool_call": True, "tool_effect": True}),
        "i": CLEAN.model_copy(update={"complete": False}),
        "-": None,
    }
)
"""By the letters of contexts.txt."""
_POLICY: Final = ClassPolicy(
    retry=RetryPolicy(enabled=True, max_retries=3, initial_interval_seconds=5),
    wait_for_reset=WaitPolicy(enabled=True, max_wait_seconds=300),
)
DOCUMENT: Final = PolicyDocument(transient=_POLICY, hard=_POLICY)
BUDGET: Final[Mapping[Context, int]] = MappingProxyType(
    {Context.DYNAMIC: 3, Context.INTERACTIVE: 5, Context.UNATTENDED: 3}
)


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def failure(code: Code = Code.PROVIDER_OVERLOADED, **changes: Any) -> Classification:
    row = CODES[code]
    values: dict[str, Any] = {
        "code": code,
        "error_class": row.error_class,
        "confidence": Confidence.HIGH,
        "scope": row.scope,
        "classifier_rule": "test.1",
        "catalogue_version": "7",
        "phase": Phase.PROMPT_SEND,
        "occurred_at": NOW,
    }
    return Classification(**(values | changes))


def _dynamic(classification: Classification, *, uniform: float = 0.5, **given: Any) -> Decision:
    return dynamic(DOCUMENT, classification, reset_wait_used=False, **given)


CONTEXTS: Final[Mapping[Context, Callable[..., Decision]]] = MappingProxyType(
    {Context.DYNAMIC: _dynamic, Context.INTERACTIVE: interactive, Context.UNATTENDED: unattended}
)


def ask(context: Context, classification: Classification, **given: Any) -> Decision:
    """A clean, current failure of which nothing was retried yet, unless it is given otherwise."""
    arguments: dict[str, Any] = {"effects": CLEAN, "retries_used": 0, "now": NOW, "uniform": 0.5}
    return CONTEXTS[context](classification, **(arguments | given))

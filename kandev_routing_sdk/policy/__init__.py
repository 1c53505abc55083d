"""What to do after a classified failure (R-POL): the document, its strict readers and the three execution contexts. Pure."""

from __future__ import annotations

from kandev_routing_sdk.policy.decision import (
    Context,
    Decision,
    DecisionKind,
    HealthMark,
    Offer,
    RouteHealth,
    RouteScope,
)
from kandev_routing_sdk.policy.document import ClassPolicy, PolicyDocument, RetryPolicy, WaitPolicy
from kandev_routing_sdk.policy.evaluate import dynamic, evaluate, retry_delay
from kandev_routing_sdk.policy.interactive import INTERACTIVE_SECONDS, interactive
from kandev_routing_sdk.policy.legacy import normalise_legacy
from kandev_routing_sdk.policy.normalise import parse_policy
from kandev_routing_sdk.policy.unattended import UNATTENDED_SECONDS, route_scope, unattended

__all__ = [
    "INTERACTIVE_SECONDS",
    "UNATTENDED_SECONDS",
    "ClassPolicy",
    "Context",
    "Decision",
    "DecisionKind",
    "HealthMark",
    "Offer",
    "PolicyDocument",
    "RetryPolicy",
    "RouteHealth",
    "RouteScope",
    "WaitPolicy",
    "dynamic",
    "evaluate",
    "interactive",
    "normalise_legacy",
    "parse_policy",
    "retry_delay",
    "route_scope",
    "unattended",
]

"""What to do after a classified failure (R-POL): the document, its strict readers and the evaluator. Pure."""

from __future__ import annotations

from kandev_routing_sdk.policy.document import ClassPolicy, PolicyDocument, RetryPolicy, WaitPolicy
from kandev_routing_sdk.policy.evaluate import Decision, DecisionKind, evaluate, retry_delay
from kandev_routing_sdk.policy.legacy import normalise_legacy
from kandev_routing_sdk.policy.normalise import parse_policy

__all__ = [
    "ClassPolicy",
    "Decision",
    "DecisionKind",
    "PolicyDocument",
    "RetryPolicy",
    "WaitPolicy",
    "evaluate",
    "normalise_legacy",
    "parse_policy",
    "retry_delay",
]

"""Legacy rule maps (R-POL-5)."""

from __future__ import annotations

import pytest

from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument, RetryPolicy, normalise_legacy

SKIP = ClassPolicy(on_exhausted="skip")
STOP = ClassPolicy(on_exhausted="stop")
ONCE = ClassPolicy(
    retry=RetryPolicy(enabled=True, max_retries=1, initial_interval_seconds=5),
    on_exhausted="stop",
)


@pytest.mark.parametrize(("action", "policy"), [("try_next", SKIP), ("stop", STOP), ("retry_same", ONCE)])
def test_one_action_counts_for_both_classes(action: str, policy: ClassPolicy) -> None:
    expected = PolicyDocument(transient=policy, hard=policy)
    assert (expected, []) == normalise_legacy(action, "rules")
    assert (expected, []) == normalise_legacy({"default": action}, "rules")


def test_a_rule_for_a_code_counts_for_its_class_and_outranks_the_default() -> None:
    value = {"default": "stop", "rate_limited": "retry_same", "quota_limited": "try_next", "auth_required": "try_next"}
    assert (PolicyDocument(transient=ONCE, hard=SKIP), []) == normalise_legacy(value, "rules")


def test_what_is_not_named_is_skipped() -> None:
    assert (PolicyDocument(transient=STOP, hard=SKIP), []) == normalise_legacy({"network_unavailable": "stop"}, "rules")
    assert (PolicyDocument(), []) == normalise_legacy({}, "rules")


def test_two_rules_of_one_class_that_differ_are_a_conflict() -> None:
    document, (problem,) = normalise_legacy({"auth_required": "stop", "quota_limited": "try_next"}, "c[0].rules")
    assert document is None
    assert ("c[0].rules.auth_required", "conflict") == (problem.path, problem.code)
    assert "c[0].rules.quota_limited says 'try_next'" in problem.message


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        ("try_nxt", "r", "did you mean 'try_next'?"),
        ("", "r", "use one of: retry_same, stop, try_next"),
        (3, "r", "expected an action or a table of actions, got a whole number"),
        ({"rate_limitd": "stop"}, "r.rate_limitd", "did you mean 'rate_limited'?"),
        ({"rate_limited": "stopp"}, "r.rate_limited", "did you mean 'stop'?"),
        ({"rate_limited": 1}, "r.rate_limited", "got a whole number"),
        ({"task_error": "retry_same"}, "r.task_error", "is never handled automatically; remove the rule"),
    ],
)
def test_each_mistake_is_named(value: object, path: str, says: str) -> None:
    document, (problem,) = normalise_legacy(value, "r")
    assert document is None
    assert path == problem.path
    assert says in problem.message

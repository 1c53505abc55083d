"""From a table to a policy document, with a path for everything that is wrong (R-POL-1, R-POL-2, R-PRO-7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.policy.document import (
    POLICY_VERSION,
    ClassPolicy,
    Outcome,
    PolicyDocument,
    RetryPolicy,
    Section,
    WaitPolicy,
)
from kandev_routing_sdk.policy.reading import Table, join, kind_of

_S = TypeVar("_S", bound=Section)

POLICY_KEYS: Final = ("version", "transient", "hard")
CLASS_KEYS: Final = ("retry", "wait_for_reset", "on_exhausted")
RETRY_KEYS: Final = ("enabled", *RetryPolicy.bounds)
WAIT_KEYS: Final = ("enabled", *WaitPolicy.bounds)


def parse_policy(value: object, path: str, *, complete: bool) -> tuple[PolicyDocument | None, list[Problem]]:
    """Read a policy strictly and return its normalised document, or None and what is wrong.

    Args:
        value: the table as TOML or JSON gave it.
        path: where it stands, for the problems: ``candidates[1].policy``.
        complete: True for the stored form, where a missing version, class or section is a problem; False for a file, where what
            is left out is "disabled".
    """
    problems: list[Problem] = []
    if not isinstance(value, Mapping):
        return None, [Problem(path, f"expected a table, got {kind_of(value)}", "wrong_type")]
    table = Table(value, path, problems, keys=POLICY_KEYS)
    version = table.whole("version")
    if version is not None and version != POLICY_VERSION:
        table.problem(
            "version", f"unsupported policy version {version}; this release reads version 1", "unsupported_version"
        )
    if complete and "version" not in table:
        table.problem("version", "is missing; write version = 1", "missing")
    transient = _parse_class(table, "transient", problems, complete=complete)
    hard = _parse_class(table, "hard", problems, complete=complete)
    if problems:
        return None, problems
    return PolicyDocument(transient=transient, hard=hard), []


def _parse_class(parent: Table, key: str, problems: list[Problem], *, complete: bool) -> ClassPolicy:
    value = parent.table(key)
    if value is None:
        if complete and key not in parent:
            parent.problem(key, "is missing; a stored policy has both transient and hard", "missing")
        return ClassPolicy()
    table = Table(value, parent.at(key), problems, keys=CLASS_KEYS)
    if complete:
        for name in CLASS_KEYS:
            if name not in table:
                table.problem(name, "is missing; a stored policy names every section", "missing")
    word = table.word("on_exhausted", ("skip", "stop"), code="unknown_outcome")
    on_exhausted: Outcome = "stop" if word == "stop" else "skip"
    return ClassPolicy(
        retry=_parse_section(table, "retry", RetryPolicy, problems),
        wait_for_reset=_parse_section(table, "wait_for_reset", WaitPolicy, problems),
        on_exhausted=on_exhausted,
    )


def _parse_section(parent: Table, key: str, kind: type[_S], problems: list[Problem]) -> _S:
    """Read ``retry`` or ``wait_for_reset``. Off needs no numbers and keeps none; on needs all of them, within bounds."""
    off = kind()
    value = parent.table(key)
    if not value:
        return off
    table = Table(value, join(parent.path, key), problems, keys=("enabled", *kind.bounds))
    enabled = table.flag("enabled")
    if "enabled" not in table:
        # Silence would read "three retries" as "none".
        table.problem("enabled", "is missing; write enabled = true or enabled = false", "missing")
    numbers = {name: table.whole(name) for name in kind.bounds}
    if not enabled:
        return off
    before = len(problems)
    for name, (low, high) in kind.bounds.items():
        number = numbers[name]
        if number is None:
            if name not in table:
                table.problem(name, f"is missing; write a whole number from {low} to {high}", "missing")
        elif not low <= number <= high:
            table.problem(name, f"must be from {low} to {high}, got {number}", "out_of_bounds")
    if len(problems) > before or any(number is None for number in numbers.values()):
        return off
    return kind.model_validate({"enabled": True, **numbers})

"""Rule maps from before policy documents, read once and never written back (R-POL-5).

Two shapes: one action for everything (``"try_next"``), or a table of code → action, whose key ``default`` is for the codes it does
not name::

    {"default": "try_next", "rate_limited": "retry_same", "auth_required": "stop"}
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.policy.document import ClassPolicy, PolicyDocument, RetryPolicy
from kandev_routing_sdk.policy.reading import Table, join, kind_of, one_of, shown, suggestion
from kandev_routing_sdk.types import Code, ErrorClass

DEFAULT_KEY: Final = "default"
RETRY_SAME_SECONDS: Final = 5

ACTIONS: Final[Mapping[str, ClassPolicy]] = MappingProxyType(
    {
        "try_next": ClassPolicy(on_exhausted="skip"),
        "stop": ClassPolicy(on_exhausted="stop"),
        "retry_same": ClassPolicy(
            retry=RetryPolicy(enabled=True, max_retries=1, initial_interval_seconds=RETRY_SAME_SECONDS),
            on_exhausted="stop",
        ),
    }
)


def normalise_legacy(value: object, path: str) -> tuple[PolicyDocument | None, list[Problem]]:
    """Return the policy document that means the same, or None and what is wrong.

    A rule for a code counts for the whole class of the code and outranks the default. Two rules of one class that differ cannot
    be kept apart by a document of classes and are a problem, as is a rule for a code that nothing automatic may follow. A class
    that neither a rule nor a default names gets the default policy, ``try_next``.
    """
    if isinstance(value, str):
        if value in ACTIONS:
            return PolicyDocument(transient=ACTIONS[value], hard=ACTIONS[value]), []
        return None, [Problem(path, _unknown_action(value), "unknown_action")]
    if not isinstance(value, Mapping):
        return None, [Problem(path, f"expected an action or a table of actions, got {kind_of(value)}", "wrong_type")]

    problems: list[Problem] = []
    table = Table(value, path, problems, keys=(DEFAULT_KEY, *Code))
    default = table.word(DEFAULT_KEY, ACTIONS, code="unknown_action") or "try_next"
    chosen: dict[ErrorClass, tuple[str, str]] = {}
    for code in (c for c in Code if c in table):
        action = table.word(code, ACTIONS, code="unknown_action")
        error_class = CODES[code].error_class
        if error_class is ErrorClass.UNCLASSIFIED:
            table.problem(code, "is never handled automatically; remove the rule", "unclassified_code")
        elif action is not None:
            first_code, first_action = chosen.setdefault(error_class, (code, action))
            if first_action != action:
                table.problem(
                    code,
                    f"says {action!r} while {join(path, first_code)} says {first_action!r}, and both are {error_class} errors;"
                    " give them the same action",
                    "conflict",
                )
    if problems:
        return None, problems
    actions = {c: ACTIONS[chosen[c][1] if c in chosen else default] for c in (ErrorClass.TRANSIENT, ErrorClass.HARD)}
    return PolicyDocument(transient=actions[ErrorClass.TRANSIENT], hard=actions[ErrorClass.HARD]), []


def _unknown_action(word: str) -> str:
    return f"unknown action {shown(word)}{suggestion(word, ACTIONS) or f'; use one of: {one_of(ACTIONS)}'}"

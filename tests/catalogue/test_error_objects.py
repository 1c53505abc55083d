"""One error, whatever its vendor nests it in and calls its parts."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.catalogue.error_objects import error_objects
from kandev_routing_sdk.types import JsonValue

SHAPES: list[tuple[JsonValue, dict[str, Any]]] = [
    ({"type": "overloaded_error", "message": "Overloaded"}, {"type": "overloaded_error", "message": "Overloaded"}),
    ({"error": "Rate limited", "status": 429}, {"message": "Rate limited", "status": 429}),
    ({"detail": {"code": "deactivated_workspace"}}, {"code": "deactivated_workspace"}),
    ({"errors": [{"code": 7003, "message": "no route"}]}, {"code": 7003, "message": "no route"}),
    ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, {"code": 1002, "message": "rate limit"}),
    ({"__type": "com.amazon#ThrottlingException", "message": "slow"}, {"type": "ThrottlingException", "message": "slow"}),
    ({"type": "response.failed", "response": {"error": {"code": "x"}}}, {"code": "x"}),
    ({"error": {"message": "no", "metadata": {"error": {"code": "inner"}}}}, {"code": "inner"}),
    ({"error": {"error_code": "A", "error_msg": "b"}}, {"code": "A", "message": "b"}),
    ([{"error": {"errorCode": 3}}], {"code": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("document", "parts"), SHAPES)
def test_every_shape_becomes_the_one(document: JsonValue, parts: dict[str, Any]) -> None:
    found = [e["error"] for e in error_objects(document) if isinstance(e, dict)]
    assert any(isinstance(e, dict) and parts.items() <= e.items() for e in found), found


@pytest.mark.parametrize(
    "document",
    [
        {"error": {"type": "x", "message": "y"}},
        {"type": "error", "error": {"type": "x"}},
        {"exit_code": 1, "signal": None},
        {"item": {"type": "agent_message", "text": "x"}},
        [1, "x", None],
        "error",
        {},
    ],
)
def test_what_is_in_the_one_shape_or_no_error_gives_nothing_more(document: JsonValue) -> None:
    assert [] == list(error_objects(document))


def test_it_is_bounded() -> None:
    """Depth and number: R-CLS-7."""
    deep: JsonValue = {"code": "bottom"}
    for _ in range(50):
        deep = {"error": deep}
    assert [] == list(error_objects(deep))
    wide: JsonValue = {"errors": [{"error": {"code": n, "errors": [{"code": n}] * 99}} for n in range(99)]}
    assert 12 >= len(list(error_objects(wide)))
    many: JsonValue = {"code": 1, **{str(n): {"code": n} for n in range(99)}}
    assert [] == list(error_objects(many))

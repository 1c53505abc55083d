"""What sources give, made one (R-CON-3)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.route.parts import ContinuationPart, earlier_messages, merged


def test_nothing_makes_nothing() -> None:
    assert ContinuationPart() == merged([]) == merged([ContinuationPart(), ContinuationPart(plan=" ")])


def test_parts_come_one_after_the_other_and_nothing_comes_twice() -> None:
    first = ContinuationPart(plan="1. rename", completed=("a", "b"), messages_left_out=3)
    second = ContinuationPart(plan="2. test", completed=("b", "c"), task_description="the task")
    both = merged([first, second, first])
    assert (
        ContinuationPart(
            plan="1. rename\n\n2. test", completed=("a", "b", "c"), task_description="the task", messages_left_out=3
        )
        == both
    )


def test_every_field_is_merged() -> None:
    part = ContinuationPart(**{f.name: _some(f.default) for f in dataclasses.fields(ContinuationPart)})
    assert part == merged([part]) == merged([ContinuationPart(), part])


def _some(default: object) -> Any:
    return ("x",) if default == () else "x" if default == "" else 7


@pytest.mark.parametrize(
    ("messages", "request_text", "left"),
    [
        (["first", "second"], "second", ["first"]),
        (["first", "second", "third"], "second\n\nthird", ["first"]),
        (["again", "again"], "again", ["again"]),
        (["first "], "first", []),
        (["first", "second"], "something else", ["first", "second"]),
        (["first", ""], "first", ["first", ""]),
        ([], "first", []),
    ],
    ids=["the last", "carried on with the next", "said twice", "blanks", "unknown", "empty", "none"],
)
def test_the_request_is_no_earlier_message(messages: list[str], request_text: str, left: list[str]) -> None:
    """R-CON-10: a request that was not answered is parked, and the next one is put behind it."""
    assert tuple(left) == earlier_messages(messages, request_text)


@given(st.lists(st.text(), max_size=5), st.text())
def test_earlier_messages_are_the_first_ones(messages: list[str], request_text: str) -> None:
    left = earlier_messages(messages, request_text)
    assert list(left) == messages[: len(left)]

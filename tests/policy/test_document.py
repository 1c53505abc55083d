"""Policy document v1 and its strict reader (R-POL-1, R-POL-2, R-PRO-7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument, RetryPolicy, WaitPolicy, parse_policy
from kandev_routing_sdk.types import ErrorClass

STORED: dict[str, Any] = PolicyDocument().model_dump(mode="json")


def read(value: object, *, complete: bool = False) -> PolicyDocument:
    document, problems = parse_policy(value, "p", complete=complete)
    assert [] == problems
    assert document is not None
    return document


def wrong(value: object, *, complete: bool = False) -> list[Problem]:
    document, problems = parse_policy(value, "p", complete=complete)
    assert document is None
    assert problems
    return problems


def test_every_class_that_may_act_has_a_policy() -> None:
    document = PolicyDocument(hard=ClassPolicy(on_exhausted="stop"))
    assert (document.transient, document.hard, None) == tuple(document.for_class(c) for c in ErrorClass)


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (RetryPolicy, {"max_retries": 0, "initial_interval_seconds": 5}),
        (RetryPolicy, {"max_retries": 11, "initial_interval_seconds": 5}),
        (RetryPolicy, {"max_retries": 1, "initial_interval_seconds": 0}),
        (RetryPolicy, {"max_retries": 1, "initial_interval_seconds": 3601}),
        (RetryPolicy, {"max_retries": True, "initial_interval_seconds": 5}),
        (RetryPolicy, {"max_retries": "3", "initial_interval_seconds": 5}),
        (WaitPolicy, {"max_wait_seconds": 0}),
        (WaitPolicy, {"max_wait_seconds": 604_801}),
    ],
)
def test_no_model_exists_out_of_bounds(section: type[RetryPolicy | WaitPolicy], values: dict[str, Any]) -> None:
    """R-POL-2: a host that builds documents itself meets the same bounds."""
    with pytest.raises(ValidationError):
        section.model_validate({"enabled": True, **values})


def test_a_disabled_section_stores_zeros() -> None:
    """R-POL-2."""
    assert RetryPolicy() == RetryPolicy(enabled=False, max_retries=99, initial_interval_seconds=7)
    assert WaitPolicy() == WaitPolicy(max_wait_seconds=7)
    with pytest.raises(ValidationError):
        RetryPolicy.model_validate({"enabled": False, "max_retries": "many"})


def test_an_empty_file_form_is_the_default() -> None:
    assert PolicyDocument() == read({})
    assert PolicyDocument() == read({"transient": {"retry": {}}, "hard": {}})


def test_a_file_may_leave_out_what_is_disabled() -> None:
    document = read({"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 300}}})
    assert WaitPolicy(enabled=True, max_wait_seconds=300) == document.hard.wait_for_reset
    assert ClassPolicy() == document.transient


def test_a_section_switched_off_in_a_file_keeps_no_numbers() -> None:
    switched_off = {"enabled": False, "max_retries": 999, "initial_interval_seconds": -4}
    assert PolicyDocument() == read({"transient": {"retry": switched_off}})


def test_a_stored_document_is_read_back() -> None:
    assert PolicyDocument() == read(STORED, complete=True)


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        ({"transiet": {}}, "p.transiet", "did you mean 'transient'?"),
        ({"zzz": {}}, "p.zzz", "use one of: hard, transient, version"),
        ({"transient": 3}, "p.transient", "expected a table, got a whole number"),
        ({"version": 2}, "p.version", "unsupported policy version 2"),
        ({"version": True}, "p.version", "expected a whole number, got true or false"),
        ({"hard": {"on_exhausted": "skp"}}, "p.hard.on_exhausted", "did you mean 'skip'?"),
        ({"hard": {"on_exhausted": "abc"}}, "p.hard.on_exhausted", "use one of: skip, stop"),
        ({"hard": {"retry": {"enabled": "yes"}}}, "p.hard.retry.enabled", "expected true or false, got a string"),
        ({"hard": {"retry": {"max_retries": 3}}}, "p.hard.retry.enabled", "write enabled = true or enabled = false"),
        (
            {"hard": {"retry": {"enabled": True, "initial_interval_seconds": 5}}},
            "p.hard.retry.max_retries",
            "is missing; write a whole number from 1 to 10",
        ),
        (
            {"hard": {"retry": {"enabled": True, "max_retries": 11, "initial_interval_seconds": 5}}},
            "p.hard.retry.max_retries",
            "must be from 1 to 10, got 11",
        ),
        (
            {"hard": {"retry": {"enabled": True, "max_retries": 1.5, "initial_interval_seconds": 5}}},
            "p.hard.retry.max_retries",
            "expected a whole number, got a number with a fraction",
        ),
        (
            {"transient": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 604_801}}},
            "p.transient.wait_for_reset.max_wait_seconds",
            "must be from 1 to 604800, got 604801",
        ),
        ({"transient": {"retries": {}}}, "p.transient.retries", "did you mean 'retry'?"),
        ([], "p", "expected a table, got a list"),
    ],
)
def test_each_mistake_is_named_with_its_path_and_the_way_out(value: object, path: str, says: str) -> None:
    """R-PRO-7."""
    (problem,) = wrong(value)
    assert path == problem.path
    assert says in problem.message


def test_every_mistake_is_named_at_once() -> None:
    value = {"version": 9, "transient": {"on_exhausted": 1}, "hard": {"retry": {"enabled": True}}}
    assert [
        "p.version",
        "p.transient.on_exhausted",
        "p.hard.retry.max_retries",
        "p.hard.retry.initial_interval_seconds",
    ] == [p.path for p in wrong(value)]


@pytest.mark.parametrize("key", ["version", "transient", "hard"])
def test_a_stored_document_is_complete(key: str) -> None:
    """R-PRO-7: a missing class is a problem in the stored form."""
    (problem,) = wrong({k: v for k, v in STORED.items() if k != key}, complete=True)
    assert (f"p.{key}", "missing") == (problem.path, problem.code)


@pytest.mark.parametrize("key", ["retry", "wait_for_reset", "on_exhausted"])
def test_a_stored_class_is_complete(key: str) -> None:
    hard = {k: v for k, v in STORED["hard"].items() if k != key}
    (problem,) = wrong(STORED | {"hard": hard}, complete=True)
    assert (f"p.hard.{key}", "missing") == (problem.path, problem.code)


_retry = st.one_of(
    st.just(RetryPolicy()),
    st.builds(
        RetryPolicy,
        enabled=st.just(True),
        max_retries=st.integers(min_value=1, max_value=10),
        initial_interval_seconds=st.integers(min_value=1, max_value=3600),
    ),
)
_wait = st.one_of(
    st.just(WaitPolicy()),
    st.builds(WaitPolicy, enabled=st.just(True), max_wait_seconds=st.integers(min_value=1, max_value=604_800)),
)
_class = st.builds(ClassPolicy, retry=_retry, wait_for_reset=_wait, on_exhausted=st.sampled_from(["skip", "stop"]))
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "version",
                    "transient",
                    "hard",
                    "retry",
                    "wait_for_reset",
                    "on_exhausted",
                    "enabled",
                    "max_retries",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(document=st.builds(PolicyDocument, transient=_class, hard=_class))
def test_what_is_stored_is_read_back_the_same(document: PolicyDocument) -> None:
    assert document == read(document.model_dump(mode="json"), complete=True)


@given(value=_json, complete=st.booleans())
def test_nothing_crashes_the_reader(value: object, complete: bool) -> None:
    """R-PRO-7: either a document or problems, each with a path; never an exception."""
    document, problems = parse_policy(value, "p", complete=complete)
    assert (document is None) is bool(problems)
    assert all(p.path.startswith("p") and p.message for p in problems)

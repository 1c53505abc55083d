"""Structured output (R-UTL-5): what agents put around their JSON, and what is no answer to the question."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from kandev_routing_sdk import AnswerMismatch, CallOutcome, CallResult, StructuredOutput, UsageError


class Finding(BaseModel):
    line: int = Field(ge=1)
    severity: Literal["low", "high"] = "low"


class Review(BaseModel):
    summary: str
    findings: list[Finding]


@dataclass
class Point:
    x: int
    y: int


REVIEW = Review(summary="Good {enough}.", findings=[Finding(line=7)])
SAID = REVIEW.model_dump_json()
SHAPES = st.lists(st.dictionaries(st.text(), st.integers(-(2**40), 2**40), max_size=3), max_size=4)


def answer(text: str) -> CallResult:
    """A call whose agent said so."""
    return CallResult(
        call_id="utility:1",
        outcome=CallOutcome.SUCCESS,
        exit_code=0,
        text=text,
        stop_reason="end_turn",
        logical_profile_id="frontier",
        execution_profile_id="sol",
        family="scripted",
        provider_id=None,
        model=None,
        usage=None,
        attempts=(),
        deadline=None,
        duration_s=1.0,
    )


@pytest.mark.parametrize(
    "text",
    [
        SAID,
        f"\n  {SAID}\n",
        f"```json\n{SAID}\n```",
        f"Here it is:\n```\n{json.dumps(json.loads(SAID), indent=2)}\n```\nIs there anything else?",
        f"Sure! {SAID} I hope that this helps.",
        f'The shape is\n```json\n{{"type": "object"}}\n```\nand the answer\n```json\n{SAID}\n```',
    ],
)
def test_an_answer_is_found_in_what_is_around_it(text: str) -> None:
    assert REVIEW == StructuredOutput(Review).read(answer(text))


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        (list[int], "The primes are [2, 3, 5].", [2, 3, 5]),
        (bool, "true", True),
        (str, '"yes"', "yes"),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    ],
)
def test_a_shape_is_whatever_pydantic_reads(shape: type[object], text: str, expected: object) -> None:
    assert expected == StructuredOutput(shape).read(answer(text))


@given(SHAPES, st.sampled_from(["{}", "```json\n{}\n```", "Of course.\n\n```\n{}\n```\n", " {} "]))
def test_what_was_meant_is_what_is_read(value: list[dict[str, int]], around: str) -> None:
    text = around.replace("{}", json.dumps(value))
    assert value == StructuredOutput(list[dict[str, int]]).read(answer(text))


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("It looks good.", [("answer", "json_invalid")]),
        ("", [("answer", "json_invalid")]),
        ('{"summary": "cut in its midd', [("answer", "json_invalid")]),
        ("[" * 100_000, [("answer", "json_invalid")]),
        ("{}", [("answer.summary", "missing"), ("answer.findings", "missing")]),
        ("[1]", [("answer", "model_type")]),
        ('{"summary": "\ud800", "findings": [{"line": 0}]}', [("answer.findings.0.line", "greater_than_equal")]),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(AnswerMismatch) as refused:
        StructuredOutput(Review).read(answer(text))
    assert problems == [(p.path, p.code) for p in refused.value.problems]
    assert text == refused.value.result.text, "nothing of the answer is lost"
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(refused.value) == str(again)


def test_a_mismatch_names_who_and_what() -> None:
    mismatch = AnswerMismatch(answer("{}"), ())
    assert "the answer of 'sol' has not the shape" in str(mismatch)
    nobody = replace(mismatch.result, execution_profile_id=None)
    assert "the answer of 'frontier'" in str(AnswerMismatch(nobody, ()))
    with pytest.raises(AnswerMismatch) as refused:
        StructuredOutput(list[int]).read(answer(json.dumps(["x"] * 20)))
    assert str(refused.value.told).endswith("; and 12 more")


def test_the_prompt_asks_for_the_shape_and_shows_what_was_wrong() -> None:
    output = StructuredOutput(Review)
    asked = output.prompt("Review it.")
    assert asked.startswith("Review it.\n\n"), "the task stays first"
    assert json.dumps(output.schema) in asked
    assert {"summary", "findings"} == set(output.schema["required"])
    with pytest.raises(AnswerMismatch) as refused:
        output.read(answer('{"summary": "no"}' + " " * 20_000))
    again = output.prompt("Review it.", after=refused.value)
    assert again.startswith(asked)
    assert "An earlier answer could not be used (answer.findings: Field required)" in again
    assert '{"summary": "no"}' in again
    assert again.endswith("[…cut]")


@pytest.mark.parametrize("shape", [Callable[[], int], type("Plain", (), {})])
def test_what_has_no_schema_is_refused_at_once(shape: type[object]) -> None:
    with pytest.raises(UsageError, match="no JSON Schema can be made of"):
        StructuredOutput(shape)

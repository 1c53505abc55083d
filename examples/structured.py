"""Structured output: ask for JSON of a shape, check it, ask again with what was wrong, and give up plainly.

Usage: python structured.py PROFILE FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from kandev_routing_sdk import Router, RoutingError

TRIES = 3
Shape = TypeVar("Shape", bound=BaseModel)


class Finding(BaseModel):
    """One thing to mend."""

    line: int = Field(ge=1)
    severity: Literal["low", "medium", "high"]
    what: str


class Review(BaseModel):
    """What a reviewer thinks of a file."""

    summary: str
    findings: list[Finding]


class NoSuchShape(Exception):
    """The agents answered, and no answer had the shape that was asked for."""


def ask(router: Router, profile: str, task: str, shape: type[Shape]) -> Shape:
    """Return the answer to ``task`` as a ``shape``.

    Each try is a call of its own, and to its agent the task is new: it must be one that only reads.

    Raises:
        NoSuchShape: after :data:`TRIES` answers.
        RoutingError: an agent could not answer at all; asking for another shape would not help.
    """
    schema = json.dumps(shape.model_json_schema())
    prompt = f"{task}\n\nChange nothing. Answer with one JSON object and nothing else. Its JSON Schema:\n{schema}"
    wrong = ""
    for _ in range(TRIES):
        result = router.route_once(profile, prompt + wrong, timeout=600)
        try:
            return shape.model_validate_json(_object(result.text))
        except ValidationError as problem:
            told = "; ".join(f"{_path(error['loc'])}: {error['msg']}" for error in problem.errors())
            wrong = f"\n\nYour last answer could not be used ({told}). It was:\n{result.text}"
            print(f"{result.execution_profile_id}: {told}", file=sys.stderr)
    raise NoSuchShape(f"{TRIES} answers, and none of them has the right shape")


def _object(text: str) -> str:
    """The JSON in an answer: models like to put a fence, or a sentence, around it."""
    return text[text.find("{") : text.rfind("}") + 1]


def _path(loc: tuple[int | str, ...]) -> str:
    return ".".join(map(str, loc)) or "answer"


def main(profile: str, file: Path) -> None:
    """Print a review of a file, the worst first."""
    task = f"Review this file.\n\n{file.read_text('utf-8')}"
    with Router.open() as router:
        review = ask(router, profile, task, Review)
    print(review.summary)
    for finding in sorted(review.findings, key=lambda f: ["high", "medium", "low"].index(f.severity)):
        print(f"{file}:{finding.line}: {finding.severity}: {finding.what}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except (RoutingError, NoSuchShape, OSError) as problem:
        sys.exit(str(problem))

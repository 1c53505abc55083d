"""Structured output: ask for JSON of a shape, check it, ask again with what was wrong, and give up plainly.

Usage: python structured.py PROFILE FILE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from kandev_routing_sdk import AnswerMismatch, Router, RoutingError, StructuredOutput

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


def ask(router: Router, profile: str, task: str, shape: type[Shape]) -> Shape:
    """Return the answer to ``task`` as a ``shape``.

    Each try is a call of its own, and to its agent the task is new: it must be one that only reads.

    Raises:
        AnswerMismatch: of the last of :data:`TRIES` answers.
        RoutingError: an agent could not answer at all; asking for another shape would not help.
    """
    output, mismatch, tried = StructuredOutput(shape), None, 0
    while True:
        result = router.route_once(profile, output.prompt(task, after=mismatch), timeout=600)
        try:
            return output.read(result)
        except AnswerMismatch as wrong:
            print(f"{result.execution_profile_id}: {wrong.told}", file=sys.stderr)
            mismatch, tried = wrong, tried + 1
            if tried == TRIES:
                raise


def main(profile: str, file: Path) -> None:
    """Print a review of a file, the worst first."""
    task = f"Review this file, and change nothing.\n\n{file.read_text('utf-8')}"
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
    except (RoutingError, OSError) as problem:
        sys.exit(str(problem))

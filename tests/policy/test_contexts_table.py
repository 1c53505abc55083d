"""Every code × context × phase × effect state has exactly one asserted cell (R-POL-7); the expectations are in contexts.txt."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from kandev_routing_sdk.policy import Context, Decision, DecisionKind, HealthMark
from kandev_routing_sdk.types import Code, Phase
from tests.policy._contexts import BUDGET, STATES, ask, failure

HINTS = {"none": None, "30s": timedelta(seconds=30), "2h": timedelta(hours=2)}
RETRIES = ("left", "used")


class Cell(NamedTuple):
    context: Context
    phase: Phase
    hint: str
    retries: str
    code: Code
    state: str


def read(text: str) -> Iterator[tuple[Cell, str]]:
    """Each cell with its letter. What is no grid, head or comment is an error."""
    head: tuple[Context, list[Phase], list[str], list[str]] | None = None
    columns: list[str] = []
    for line in text.splitlines():
        if not line or line.startswith("# ") or line == "#":
            continue
        if found := re.fullmatch(r"\[(\w+) \| ([\w ]+) \| ([\w ]+) \| ([\w ]+)\]", line):
            phases = list(Phase) if found[2] == "any" else [Phase(word) for word in found[2].split()]
            head, columns = (Context(found[1]), phases, found[3].split(), found[4].split()), []
        elif line.startswith(" "):
            columns = line.split()
        else:
            assert head is not None, line
            code, *letters = line.split()
            for column, letter in zip(columns, letters, strict=True):
                for phase, hint, retries in itertools.product(*head[1:]):
                    yield Cell(head[0], phase, hint, retries, Code(code), column), letter


ROWS = list(read((Path(__file__).parent / "contexts.txt").read_text("utf-8")))
TABLE = dict(ROWS)
WANTED = {Cell(*cell) for cell in itertools.product(Context, Phase, HINTS, RETRIES, Code, STATES)}


def letter_of(decision: Decision) -> str:
    """The answer as the table writes it; KeyError for one that the table has no letter for."""
    mark = decision.health.mark if decision.health else None
    letters = {
        (Context.DYNAMIC, DecisionKind.RETRY, None): "R",
        (Context.DYNAMIC, DecisionKind.WAIT, None): "W",
        (Context.DYNAMIC, DecisionKind.SKIP, None): "N",
        (Context.DYNAMIC, DecisionKind.STOP, None): ".",
        (Context.INTERACTIVE, DecisionKind.RETRY, None): "R",
        (Context.INTERACTIVE, DecisionKind.STOP, None): ".",
        (Context.UNATTENDED, DecisionKind.RETRY, HealthMark.SHORT_RETRY): "R",
        (Context.UNATTENDED, DecisionKind.RETRY, None): "L",
        (Context.UNATTENDED, DecisionKind.SKIP, HealthMark.DEGRADED): "D",
        (Context.UNATTENDED, DecisionKind.SKIP, HealthMark.ACTION_REQUIRED): "A",
        (Context.UNATTENDED, DecisionKind.SKIP, None): "U",
        (Context.UNATTENDED, DecisionKind.STOP, HealthMark.DEGRADED): "d",
        (Context.UNATTENDED, DecisionKind.STOP, HealthMark.ACTION_REQUIRED): "a",
        (Context.UNATTENDED, DecisionKind.STOP, None): ".",
    }
    return letters[decision.context, decision.kind, mark]


def decided(cell: Cell) -> Decision:
    classification = failure(cell.code, phase=cell.phase, retry_after=HINTS[cell.hint])
    used = 0 if cell.retries == "left" else BUDGET[cell.context]
    return ask(cell.context, classification, effects=STATES[cell.state], retries_used=used)


def test_every_cell_is_there_once() -> None:
    assert [] == [cell for cell, times in Counter(cell for cell, _ in ROWS).items() if times > 1]
    assert set() == WANTED - TABLE.keys()
    assert set() == TABLE.keys() - WANTED


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("context", list(Context))
def test_every_cell_holds(context: Context, code: Code) -> None:
    cells = [cell for cell in TABLE if cell.context is context and cell.code is code]
    assert {cell: TABLE[cell] for cell in cells} == {cell: letter_of(decided(cell)) for cell in cells}


def test_the_table_itself_knows_no_automatic_step_after_an_effect() -> None:
    """R-SAFE-1, R-POL-8: whoever edits the table cannot get past this."""
    assert [] == [cell for cell, letter in ROWS if cell.state not in {"n", "c"} and letter not in {".", "d", "a"}]


def test_every_answer_says_what_it_judged() -> None:
    """R-POL-6: kind, class, code, catalogue version; and why, wherever an earlier step was passed over."""
    for cell in TABLE:
        decision = decided(cell)
        assert (cell.context, cell.code, "7") == (decision.context, decision.code, decision.catalogue_version)
        assert failure(cell.code).error_class is decision.error_class
        assert decision.because or decision.kind in {DecisionKind.RETRY, DecisionKind.WAIT}

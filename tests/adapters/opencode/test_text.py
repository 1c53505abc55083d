"""Text that a retry says again is shown once, and no honest text is lost (R-CON-9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_opencode.text import RetriedText

PIECES = ["Partial answer, ", "still going ", "and then"]


def shown(*pieces: str) -> str:
    text = RetriedText()
    return "".join([*(text.piece("msg", piece) for piece in pieces), text.rest()])


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (PIECES * 6, "".join(PIECES)),
        ([*PIECES, *PIECES[:1], *PIECES, *PIECES[:2], *PIECES, " more"], "".join(PIECES) + " more"),
        ([PIECES[0], *PIECES], "".join(PIECES)),
        ([PIECES[0]] * 4 + PIECES[1:], "".join(PIECES)),
        (["Partial answer, still", "Partial answer, still going", " on"], "Partial answer, still going on"),
        (["Yes, yes. ", "Yes, ", "it is."], "Yes, yes. Yes, it is."),
        (["ha ", "ha ", "ha "], "ha ha ha "),
        (["Hello", " world ", "Hello", " again"], "Hello world Hello again"),
    ],
)
def test_retries_are_told_from_repetition(pieces: list[str], expected: str) -> None:
    assert expected == shown(*pieces)


def test_messages_are_told_apart_and_one_without_an_id_is_always_shown() -> None:
    text = RetriedText()
    assert ["Half an answer, "] * 4 == [text.piece(m, "Half an answer, ") for m in ("a", "b", "", "")]


def test_only_the_last_messages_are_remembered_and_none_loses_its_text() -> None:
    text = RetriedText()
    shown_pieces = [text.piece("first", "well, "), text.piece("first", "well, ")]
    shown_pieces += [text.piece(f"msg_{number}", "x") for number in range(20)]
    assert sorted("well, well, " + "x" * 20) == sorted("".join([*shown_pieces, text.rest()]))


WORDS = st.lists(st.text("abcd ", min_size=1, max_size=9), max_size=8)


@given(WORDS)
def test_a_text_that_never_begins_again_is_shown_as_it_is(pieces: list[str]) -> None:
    unique = [f"{number}:{piece}" for number, piece in enumerate(pieces)]
    assert "".join(unique) == shown(*unique)


@given(st.lists(st.text("abcd ", min_size=5, max_size=9), min_size=4, max_size=8), st.integers(1, 5))
def test_a_whole_retry_is_never_shown_again(pieces: list[str], times: int) -> None:
    unique = [f"{number}:{piece}" for number, piece in enumerate(pieces)]
    assert "".join(unique) == shown(*(unique * times))


@given(WORDS)
def test_nothing_is_shown_that_was_not_said(pieces: list[str]) -> None:
    text = shown(*pieces)
    assert len(text) <= len("".join(pieces))
    assert text.startswith(pieces[0] if pieces else "")

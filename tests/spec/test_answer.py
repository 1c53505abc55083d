"""Text that a retry says again is shown once, and no honest text is lost (R-CON-9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.spec import StreamedAnswer

PIECES = ["Partial answer, ", "still going ", "and then"]


def shown(*pieces: str) -> str:
    text = StreamedAnswer()
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
        (["very ", "very ", "good"], "very very good"),
        (["- x\n", "- y\n", "- x\n", "- z\n"], "- x\n- y\n- x\n- z\n"),
        ([*PIECES, *PIECES[:1]], "".join([*PIECES, PIECES[0]])),
        (["Hello", " world ", "Hello", " again"], "Hello world Hello again"),
    ],
)
def test_retries_are_told_from_repetition(pieces: list[str], expected: str) -> None:
    assert expected == shown(*pieces)


def test_messages_are_told_apart_and_one_without_an_id_is_always_shown() -> None:
    text = StreamedAnswer()
    said = [text.piece(m, "Half an answer, ") for m in ("a", "b", "", "")]
    assert ["Half an answer, ", "\n\nHalf an answer, ", "\n\nHalf an answer, ", "Half an answer, "] == said


def test_only_the_last_messages_are_remembered_and_none_loses_its_text() -> None:
    text = StreamedAnswer()
    shown_pieces = [text.piece("first", "well, "), text.piece("first", "well, ")]
    shown_pieces += [text.piece(f"msg_{number}", "x") for number in range(20)]
    assert "well, well, " + "x" * 20 == "".join([*shown_pieces, text.rest()]).replace("\n\n", "")


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


def test_another_message_and_another_try_stand_apart() -> None:
    """What comes after a tool or a thought is no continuation; a retry that says the same goes on where it was."""
    text = StreamedAnswer()
    said = [text.piece("a", "Let me look.")]
    text.cut()
    said += [text.piece("a", "It is "), text.piece("a", "fine.")]
    text.cut()
    said += [text.piece("b", "Partial answer, "), text.piece("b", "still going ")]
    text.cut()  # the agent tries again
    said += [text.piece("b", "Partial answer, "), text.piece("b", "still going "), text.piece("b", "on")]
    assert "Let me look.\n\nIt is fine.\n\nPartial answer, still going on" == "".join([*said, text.rest()])


def test_another_try_with_other_words_stands_apart() -> None:
    text = StreamedAnswer()
    said = [text.piece("a", "Partial answer, ")]
    text.cut()
    assert "Partial answer, \n\nHello." == "".join([*said, text.piece("a", "Hello."), text.rest()])


@given(st.lists(st.sampled_from(["aaaa", "bbbb", "cc", "dddd "]), max_size=12))
def test_no_piece_is_shown_that_was_not_said(pieces: list[str]) -> None:
    assert len(shown(*pieces)) <= len("".join(pieces))

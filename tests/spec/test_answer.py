"""Text that a retry says again is shown once, and no honest text is lost (R-CON-9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.spec import StreamedAnswer

PIECES = ["Partial answer, ", "still going ", "and then"]


def shown(*pieces: str) -> str:
    text = StreamedAnswer(silent_retries=True)
    return "".join([*(text.piece("msg", piece) for piece in pieces), text.rest()])


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (PIECES * 6, "".join(PIECES)),
        ([*PIECES, *PIECES[:1], *PIECES, *PIECES[:2], *PIECES, " more"], "".join(PIECES) + " more"),
        ([*PIECES[:2], *PIECES], "".join(PIECES)),
        (["The ", "answer is ", "The ", "answer is ", "42."], "The answer is 42."),
        # what may well be meant is shown as it was said
        ([PIECES[0], *PIECES], PIECES[0] + "".join(PIECES)),
        (["Yes, yes. ", "Yes, ", "it is."], "Yes, yes. Yes, it is."),
        (["ha ", "ha ", "ha "], "ha ha ha "),
        (["very ", "very ", "good"], "very very good"),
        (["hello world\n"] * 5, "hello world\n" * 5),
        (["| --- | --- |\n"] * 3, "| --- | --- |\n" * 3),
        (["Hello", " world ", "Hello", " again"], "Hello world Hello again"),
        (["- x\n", "- y\n", "- x\n", "- z\n"], "- x\n- y\n- x\n- z\n"),
        ([*PIECES, *PIECES[:1]], "".join([*PIECES, PIECES[0]])),
        (["I", "'m sure", "I", "'m sure about"], "I'm sureI'm sure about"),
    ],
)
def test_retries_are_told_from_repetition(pieces: list[str], expected: str) -> None:
    assert expected == shown(*pieces)


def test_messages_are_told_apart_and_one_without_an_id_is_always_shown() -> None:
    text = StreamedAnswer()
    said = [text.piece(m, "Half an answer, ") for m in ("a", "b", "", "")]
    assert ["Half an answer, ", "\n\nHalf an answer, ", "\n\nHalf an answer, ", "Half an answer, "] == said


def test_only_the_last_messages_are_remembered_and_none_loses_its_text() -> None:
    text = StreamedAnswer(silent_retries=True)
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


def test_what_comes_after_a_tool_or_a_thought_stands_apart() -> None:
    text = StreamedAnswer()
    said = [text.piece("a", "Let me look."), text.cut(), text.piece("a", "It is "), text.piece("a", "fine.")]
    assert "Let me look.\n\nIt is fine." == "".join(said)


def test_what_is_held_back_is_shown_before_something_else_happens() -> None:
    text = StreamedAnswer(silent_retries=True)
    assert ["ha ", "", "ha ", "\n\nHello"] == [
        text.piece("a", "ha "),
        text.piece("a", "ha "),
        text.cut(),
        text.piece("a", "Hello"),
    ]


@pytest.mark.parametrize("other", ["a", "b", ""])
@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (["Partial answer, still", " going on"], "Partial answer, still going on"),
        (["P", "artial answer, still going ", "on"], "Partial answer, still going on"),
        (["Partial answer, "], "Partial answer, still going "),
        (["Hello."], "Partial answer, still going \n\nHello."),
        (["Partial ", "truth"], "Partial answer, still going \n\nPartial truth"),
    ],
)
def test_an_announced_retry_is_told_by_its_words_alone(again: list[str], expected: str, other: str) -> None:
    """Whatever its pieces and its id are; other words stand apart."""
    text = StreamedAnswer()
    said = [text.piece("a", "Partial answer, "), text.piece("a", "still going ")]
    text.retry()
    said += [text.piece(other, piece) for piece in again]
    assert expected == "".join([*said, text.rest()])


def test_announced_retries_that_break_off_one_after_the_other() -> None:
    text = StreamedAnswer()
    said = [text.piece("a", "Partial answer, ")]
    for _ in range(3):
        text.retry()
        said += [text.piece("a", "Partial "), text.piece("a", "answer, ")]
    text.retry()
    said += [text.piece("a", "Partial answer, "), text.piece("a", "at last.")]
    assert "Partial answer, at last." == "".join([*said, text.rest()])


def test_messages_that_take_turns_keep_their_order() -> None:
    text = StreamedAnswer(silent_retries=True)
    said = [text.piece(*pair) for pair in (("a", "Hello there"), ("b", "B text"), ("a", "Hello"), ("b", "more"))]
    assert "Hello there\n\nB text\n\nHello\n\nmore" == "".join([*said, text.rest()])


@given(st.lists(st.sampled_from(["aaaa", "bbbb", "cc", "dddd "]), max_size=12))
def test_no_piece_is_shown_that_was_not_said(pieces: list[str]) -> None:
    assert len(shown(*pieces)) <= len("".join(pieces))


def test_an_agent_that_announces_its_retries_may_repeat_itself() -> None:
    text = StreamedAnswer()
    pieces = ["Hello", ",", " world", "!\n"] * 3 + ["Done"]
    assert "".join(pieces) == "".join(text.piece("m", piece) for piece in pieces)


def test_what_was_said_before_a_tool_is_no_part_of_a_later_try() -> None:
    text = StreamedAnswer()
    said = [text.piece("a", "Done."), text.cut()]
    text.retry()
    assert "Done.\n\nDone." == "".join([*said, text.piece("b", "Done."), text.rest()])


def test_a_long_repetition_is_not_held_back_until_the_end() -> None:
    text = StreamedAnswer(silent_retries=True)
    said = [text.piece("m", "ha ") for _ in range(1000)]
    assert len("".join(said)) > 2000
    assert "ha " * 1000 == "".join([*said, text.rest()])

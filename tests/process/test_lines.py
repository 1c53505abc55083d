"""Framing: nothing is lost within the bound, nothing is kept beyond it (R-EVI-2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.process.lines import Line, LineSplitter

LIMIT = 8


def split(chunks: list[bytes]) -> list[Line]:
    splitter = LineSplitter(LIMIT)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + splitter.flush()


@given(
    st.lists(
        st.binary(max_size=20).map(lambda b: b.replace(b"\r", b"-")) | st.sampled_from([b"\n", b"\n\n", b"x" * 50])
    )
)
def test_lines_are_those_of_the_whole_however_it_is_cut(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    whole = whole if whole[-1] else whole[:-1]
    expected = [Line(line[:LIMIT].decode("utf-8", "replace"), len(line) > LIMIT) for line in whole]
    assert expected == split(chunks)


def test_the_buffer_stays_bounded() -> None:
    splitter = LineSplitter(LIMIT)
    for _ in range(1000):
        assert [] == splitter.feed(b"x" * 1000)
        assert LIMIT == len(splitter._buffer)


@given(st.lists(st.text("ab\n", max_size=60)), st.integers(4, 12))
def test_a_line_in_pieces_loses_nothing(chunks: list[str], limit: int) -> None:
    """Each piece begins a little before the end of the one before it (R-EVI-2)."""
    splitter = LineSplitter(limit, pieces=True)
    pieces = [line for chunk in chunks for line in splitter.feed(chunk.encode())] + splitter.flush()
    whole = ""
    for piece in pieces:
        overlap = limit // 4 if piece.rest else 0
        assert not overlap or whole.endswith(piece.text[:overlap])
        whole += piece.text[overlap:] + "\n" * (not piece.truncated)
    text = "".join(chunks)
    assert text + "\n" * (not text.endswith("\n") and bool(text)) == whole
    assert all(len(piece.text) <= limit for piece in pieces)


def test_a_carriage_return_before_the_newline_belongs_to_neither() -> None:
    assert [Line("a", truncated=False), Line("b\rc", truncated=False)] == split([b"a\r\nb\rc\n"])


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert [Line("\ufffd", truncated=False)] == split([b"\xff\n"])

"""A line of output is an event or none; no line breaks its reader (R-EVI-6)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.spec import json_event


def test_an_object_is_an_event() -> None:
    assert {"type": "text", "text": "Grüße"} == json_event('  {"type": "text", "text": "Gr\\u00fc\\u00dfe"}\r\n')


@pytest.mark.parametrize(
    "line", ["", "plain words", "[1, 2]", '"text"', "7", "null", "{", '{"a": 1} {"b": 2}', "[" * 100_000]
)
def test_anything_else_is_none(line: str) -> None:
    assert json_event(line) is None


def test_half_an_emoji_can_be_stored_and_a_whole_one_stays() -> None:
    event = json_event(r'{"half": "a\ud83d", "upper": "\uD83D", "whole": "\ud83d\ude00", "words": "\\ud83d"}')
    assert {"half": "a?", "upper": "?", "whole": "😀", "words": "\\ud83d"} == event


@given(st.dictionaries(st.text(), st.text() | st.characters(categories=["Cs"])))
def test_every_event_can_be_written_as_utf_8(event: dict[str, str]) -> None:
    read = json_event(json.dumps(event))
    assert read is not None
    json.dumps(read, ensure_ascii=False).encode()

"""Values to columns and back, whatever they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from kandev_routing_sdk.events import EventDraft, EventKind
from kandev_routing_sdk.route.model import Reason, Route
from kandev_routing_sdk.store import codec
from tests.store._values import NOW, attempt, route, selection

ANY_TEXT = st.text(st.characters(exclude_categories=()))
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
)


@given(st.datetimes(timezones=st.timezones()))
def test_times_are_exact(at: datetime) -> None:
    try:
        expected = at.astimezone(UTC)
    except OverflowError:
        return
    assert expected == codec.from_micros(codec.to_micros(at))


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_times_sort_as_numbers(one: datetime, other: datetime) -> None:
    assert (one < other) == (codec.to_micros(one) < codec.to_micros(other))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(TypeError):
        codec.to_micros(datetime(2026, 3, 1))  # noqa: DTZ001


@given(JSON)
def test_json_comes_back_and_is_plain_ascii(value: JsonValue) -> None:
    text = codec.to_json(value)
    assert value == json.loads(text)
    assert text.isascii()
    assert "\0" not in text


@given(st.none() | ANY_TEXT)
def test_an_agent_s_words_fit_a_text_column(text: str | None) -> None:
    kept = codec.encode_attempt(attempt(stop_reason=text))["stop_reason"]
    if text is None:
        assert kept is None
        return
    assert "\0" not in kept
    kept.encode("utf-8")
    if "\0" not in text and all(not 0xD800 <= ord(c) <= 0xDFFF for c in text):
        assert text == kept


@given(st.text(), st.text(), st.booleans())
def test_a_route_comes_back(prompt: str, continuation: str, effectful: bool) -> None:
    original = route(revision=7, parked_prompt=prompt, continuation=continuation, potentially_effectful=effectful)
    values = codec.encode_route(original)
    row = tuple(values[name] for name in (*codec.ROUTE_COLUMNS, "body"))
    assert original == codec.decode_route(row)


@given(st.dictionaries(ANY_TEXT, JSON, max_size=3))
def test_an_event_comes_back(params: dict[str, JsonValue]) -> None:
    values = codec.encode_event(route(), EventDraft(EventKind.TURN_ENDED, Reason.SUCCEEDED, params), NOW)
    names = ("session_id", "generation", "kind", "reason", "params", "at")
    event = codec.decode_event((5, *(values[name] for name in names)))
    assert (5, "s1", EventKind.TURN_ENDED, Reason.SUCCEEDED, params, NOW) == (
        event.sequence,
        event.session_id,
        event.kind,
        event.reason,
        event.params,
        event.at,
    )


def test_a_row_says_only_what_differs_from_an_untouched_route() -> None:
    """R-PRF-5: a waiting session is small."""
    assert {} == json.loads(codec.encode_route(route())["body"])
    assert {"walk", "at", "generation", "session_id", "chosen_profile_id"} == set(
        codec.encode_selection("s1", selection(), NOW)
    )
    assert set(Route.model_fields) - {"session_id"} >= set(codec.ROUTE_TIMES)

"""The stored events as a source of the continuation (R-CON-3, R-CON-10)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.continuation import Transcript
from kandev_routing_sdk.continuation.transcript import part_of
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.route.continuation import NOTE_BYTES, ContinuationPackage, render_note
from kandev_routing_sdk.route.model import Reason
from kandev_routing_sdk.route.parts import ContinuationPart
from tests.continuation._repository import asis, request_of

AT = datetime(2026, 3, 1, tzinfo=UTC)
SAID, OUT, ENDED, FAILED = (
    EventKind.USER_MESSAGE,
    EventKind.TURN_OUTPUT,
    EventKind.TURN_ENDED,
    EventKind.TURN_FAILED,
)


def event(kind: EventKind, reason: Reason = Reason.SUCCEEDED, **params: Any) -> EventRecord:
    return EventRecord(0, "s", 1, kind, reason, params, AT)


def said(*texts: str, first: int = 1) -> list[EventRecord]:
    return [event(SAID, text=text, prompt_number=first + n) for n, text in enumerate(texts)]


def turn(attempt: int, *pieces: dict[str, Any], end: EventKind | None = ENDED, prompt: int = 1) -> list[EventRecord]:
    """What one attempt said, and how it ended."""
    whose: dict[str, Any] = {"attempt_id": f"a{attempt}", "profile_id": "fable", "prompt_number": prompt}
    events = [event(OUT, **{**whose, "ordinal": attempt, **piece}) for piece in pieces]
    if end is FAILED:
        whose["code"] = "quota_limited"
    return events if end is None else [*events, event(end, **whose)]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def called(tool: str, title: str = "Write a.py") -> dict[str, Any]:
    return {"type": "tool_call", "tool_id": tool, "title": title}


def ran(tool: str, ok: bool | None = True) -> dict[str, Any]:
    return {"type": "tool_result", "tool_id": tool, "ok": ok}


def told(messages: Sequence[EventRecord], happened: Sequence[EventRecord], request: str = "go on") -> ContinuationPart:
    return part_of(messages, happened, request, asis)


def test_what_was_said_and_answered() -> None:
    happened = [
        *turn(
            1, text("I made "), {"type": "thinking", "text": "hm"}, text("it."), called("t1"), ran("t1"), text(" Done.")
        ),
        *turn(2, text("Now I"), end=FAILED, prompt=2),
    ]
    part = told(said("make it", "use it", "go on"), happened)
    assert ("make it", "use it") == part.user_messages
    assert (
        "fable, to message 1 (ended: succeeded):\nI made it. Done.\n\nfable, to message 2 (failed: quota_limited):\nNow I"
        == part.conversation_summary
    )
    assert "fable, for message 1: Write a.py: done" == part.tool_summary
    assert ((), ()) == (part.completed, part.uncertain), "what an answer came after needs no verifying"


def test_of_an_unfinished_request_each_tool_is_completed_or_uncertain() -> None:
    """R-CON-10."""
    happened = [
        *turn(1, called("t0", "Old"), ran("t0")),
        *turn(
            2,
            called("t1"),
            ran("t1"),
            called("t2", "Push"),
            called("t3", "Test"),
            ran("t3", ok=False),
            end=FAILED,
            prompt=2,
        ),
        *turn(3, called("t4", "Look"), ran("t4", ok=None), ran("t5"), end=None, prompt=2),
    ]
    part = told(said("make it", "go on"), happened)
    assert ("Write a.py (attempt 2, fable)", "a tool (attempt 3, fable)") == part.completed
    assert (
        "Push (attempt 2, fable): begun, no result was seen",
        "Test (attempt 2, fable): failed, maybe after it did something",
        "Look (attempt 3, fable): ran, its result is not known",
    ) == part.uncertain


def test_the_request_is_no_part_of_its_past_and_older_messages_are_counted() -> None:
    part = told(said(*(f"message {n}" for n in range(10, 50)), first=10), [], request="message 48\n\nmessage 49")
    assert [f"message {n}" for n in range(28, 48)] == list(part.user_messages)
    assert 27 == part.messages_left_out
    assert ContinuationPart() == told(said("go on"), [])


def test_what_was_said_at_the_last_handover() -> None:
    first, last = ({"type": "handover", "text": f"I did {what}"} for what in ("this", "that"))
    happened = [*turn(1, text("hi"), first), *turn(2, last, prompt=2), *turn(3, text("no"), end=FAILED, prompt=3)]
    part = told([], happened)
    assert "I did that" == part.handover_summary
    assert "I did" not in part.conversation_summary, "it is no part of the user's turn"
    later = told([], [*happened, *turn(4, text("done"), prompt=4), *turn(5, text("no"), end=FAILED, prompt=5)])
    assert "" == later.handover_summary, "whoever answered since is the agent before the next one (R-CON-3)"


def test_a_long_answer_keeps_its_end_and_never_half_a_secret() -> None:
    secret = "zanzibar-marmalade-77"
    clean = Sanitiser({secret}).text
    answers = [turn(n, text("x" * (1000 + n) + secret + "y" * 2030), prompt=n) for n in range(1, 12)]
    part = part_of([], [e for events in answers for e in events], "go on", clean)
    assert "zanzi" not in part.conversation_summary
    assert "marma" not in part.conversation_summary
    assert part.conversation_summary.endswith("yyy")
    huge = part_of([], turn(1, text(secret * 10_000)), "go on", clean)
    assert "zanzi" not in huge.conversation_summary


def test_titles_are_one_line_and_short() -> None:
    part = told([], turn(1, called("t", "rm\n-rf " + "x" * 5000), end=None))
    (entry,) = part.uncertain
    assert "\n" not in entry
    assert len(entry.encode()) < 400


def test_a_session_without_a_past_says_nothing() -> None:
    assert None is Transcript().describe(request_of("/"))


@pytest.mark.parametrize("kinds", [(SAID,), (OUT, ENDED, FAILED)])
def test_it_reads_a_bounded_number_of_the_newest(kinds: tuple[EventKind, ...]) -> None:
    asked: dict[tuple[EventKind, ...], int] = {}

    def newest(wanted: Sequence[EventKind], limit: int) -> Sequence[EventRecord]:
        asked[tuple(sorted(wanted))] = limit
        return []

    Transcript().describe(request_of("/", newest_events=newest))
    assert asked[tuple(sorted(kinds))] <= 1000


_values = st.none() | st.booleans() | st.integers() | st.text(max_size=50) | st.lists(st.text(max_size=3), max_size=2)
_params = st.dictionaries(
    st.sampled_from(
        ["type", "text", "title", "tool_id", "ok", "attempt_id", "profile_id", "prompt_number", "ordinal", "code"]
    ),
    _values | st.sampled_from(["text", "tool_call", "tool_result", "cut"]),
)
_events = st.lists(
    st.builds(lambda kind, params: event(kind, **params), st.sampled_from([SAID, OUT, ENDED, FAILED]), _params),
    max_size=12,
)


@settings(max_examples=40)
@given(_events, _events, st.text(max_size=20))
def test_whatever_is_stored_makes_a_part_that_can_be_told(
    messages: list[EventRecord], happened: list[EventRecord], request: str
) -> None:
    part = told(messages, happened, request)
    facts = {name: getattr(part, name) for name in ContinuationPart.__dataclass_fields__}
    assert len(render_note(ContinuationPackage(**facts), clean=asis).encode()) <= NOTE_BYTES

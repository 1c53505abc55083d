"""A turn's output on its way to its events: all of it, in order, masked, and in bounds (R-CON-5, R-EVI-5)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.conductor import output as outputs
from kandev_routing_sdk.conductor.output import OutputWriter, TurnOutput
from kandev_routing_sdk.errors import StoreUnavailable
from kandev_routing_sdk.events import EventDraft
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.updates import (
    AgentUpdate,
    CapabilitiesUpdate,
    InnerRetry,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)
from kandev_routing_sdk.route.model import Route
from tests.store._values import attempt, route

SECRET = "hunter2-abcabc-hunter2"
CLEANER = Sanitiser([SECRET])
PLAIN = Sanitiser()


def said(turn: TurnOutput, updates: list[AgentUpdate], *, cleaner: Sanitiser, every: int = 0) -> list[dict[str, Any]]:
    """The pieces of a turn, taken now and then."""
    found: list[dict[str, Any]] = []
    for number, update in enumerate(updates, 1):
        turn.say(update)
        if every and number % every == 0:
            found += turn.take()
    turn.end()
    while taken := turn.take():
        found += taken
    return found


def of(pieces: list[dict[str, Any]], kind: str) -> str:
    """All text of a kind."""
    return "".join(p["text"] for p in pieces if p["type"] == kind)


TEXTS = st.text(st.sampled_from("hunter2-abc \n\\"), max_size=12)
DELTAS = st.one_of(TEXTS.map(TextDelta), TEXTS.map(ThinkingDelta), st.just(ToolCall("t", "ls")), st.just(Notice("n")))


@given(st.lists(DELTAS, max_size=40), st.integers(0, 5))
def test_its_events_say_what_the_agent_said_in_order(updates: list[AgentUpdate], every: int) -> None:
    pieces = said(TurnOutput(attempt(), PLAIN), updates, cleaner=PLAIN, every=every)
    runs: list[list[str]] = []
    for update in updates:
        kind = {TextDelta: "text", ThinkingDelta: "thinking", ToolCall: "tool_call", Notice: "notice"}[type(update)]
        text = update.text if isinstance(update, TextDelta | ThinkingDelta) else ""
        if runs and runs[-1][0] == kind and kind in {"text", "thinking"}:
            runs[-1][1] += text
        elif text or kind not in {"text", "thinking"}:
            runs.append([kind, text])
    joined: list[list[str]] = []
    for piece in pieces:
        text = piece["text"] if piece["type"] in {"text", "thinking"} else ""
        if joined and joined[-1][0] == piece["type"] and text:
            joined[-1][1] += text
        else:
            joined.append([piece["type"], text])
    assert runs == joined


@given(
    st.lists(st.sampled_from([SECRET, "hunter2-", "abc", "x", "\n  ", SECRET + "-abcabc-hunter2"]), max_size=8),
    st.data(),
)
def test_a_secret_in_pieces_is_none(parts: list[str], data: st.DataObject) -> None:
    """R-EVI-5: wherever the agent's pieces end, and whenever they are written."""
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    turn = TurnOutput(attempt(), CLEANER)
    pieces = said(turn, [TextDelta(d) for d in deltas if d], cleaner=CLEANER, every=1)
    assert SECRET not in of(pieces, "text").replace("\n  ", "")
    assert CLEANER.known_only(text) == of(pieces, "text")


BETWEEN = st.sampled_from(
    [None, ToolCall("t", "look"), Notice("careful"), ThinkingDelta("hunter2-"), ThinkingDelta("hm")]
)


@given(
    st.lists(st.sampled_from([SECRET, "hunter2-", "abc", "x", "\n  "]), max_size=6),
    st.data(),
)
def test_a_secret_around_something_else_is_none(parts: list[str], data: st.DataObject) -> None:
    """R-EVI-5: whoever puts a kind's text together again, as a host does that draws it, has no secret."""
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    updates: list[AgentUpdate] = []
    for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True):
        between = data.draw(BETWEEN)
        updates += [TextDelta(text[a:b]), *([] if between is None else [between])]
    pieces = said(TurnOutput(attempt(), CLEANER), updates, cleaner=CLEANER, every=data.draw(st.integers(1, 4)))
    assert CLEANER.known_only(text) == of(pieces, "text")
    thought = "".join(u.text for u in updates if isinstance(u, ThinkingDelta))
    assert CLEANER.known_only(thought) == of(pieces, "thinking")
    others = [u for u in updates if isinstance(u, ToolCall | Notice)]
    assert len(others) == sum(piece["type"] in {"tool_call", "notice"} for piece in pieces)


def test_whose_it_is_stands_on_every_piece() -> None:
    """R-CON-5."""
    record = attempt("a7", execution_profile_id="sol", prompt_number=3, ordinal=9)
    assert {"profile_id": "sol", "attempt_id": "a7", "prompt_number": 3, "ordinal": 9} == TurnOutput(
        record, PLAIN
    ).attribution


def test_each_kind_has_its_parameters() -> None:
    updates: list[AgentUpdate] = [
        ToolCall("t" * 300, "x" * 5000),
        ToolResult("t", ok=False),
        Notice("careful"),
        InnerRetry(2, 5, 1.5, 529),
        CapabilitiesUpdate({"models": ["m-1"]}),
        CapabilitiesUpdate({"models": []}),
    ]
    call, result, notice, retry, offers = said(TurnOutput(attempt(), PLAIN), updates, cleaner=PLAIN)
    assert ("tool_call", "t" * 200, True) == (call["type"], call["tool_id"], call["cut"])
    assert outputs.MAX_PIECE >= len(call["title"])
    assert {"type": "tool_result", "tool_id": "t", "ok": False} == result
    assert {"type": "notice", "text": "careful"} == notice
    assert {"type": "inner_retry", "retry": 2, "maximum": 5, "delay_s": 1.5, "status": 529} == retry
    assert {"capabilities": {"models": []}} == offers, "the newest word of what it offers, as a whole (R-CON-7)"


def test_a_hundred_thousand_updates_stay_in_bounds() -> None:
    """Text is joined; of what cannot be joined so much is kept, and then it is said that something is missing."""
    text = said(TurnOutput(attempt(), PLAIN), [TextDelta("word ")] * 100_000, cleaner=PLAIN)
    assert "word " * 100_000 == of(text, "text")
    assert outputs.MAX_PIECE >= max(len(p["text"]) for p in text)
    assert 150 > len(text)

    calls = said(TurnOutput(attempt(), PLAIN), [ToolResult("t")] * 100_000, cleaner=PLAIN)
    assert outputs.MAX_TURN_EVENTS + 1 == len(calls)
    assert {"type": "cut", "because": "turn_limit"} == calls[-1]

    long = said(TurnOutput(attempt(), PLAIN), [TextDelta("x" * 1_000_000)] * 9, cleaner=PLAIN)
    assert "x" * outputs.MAX_TURN_CHARS == of(long, "text")
    assert "cut" == long[-1]["type"]


class Keeper:
    """A ledger that takes output, or does not."""

    def __init__(self, *, fails: int = 0, ours: bool = True, kind: str = "session") -> None:
        self.fails, self.ours = fails, ours
        self.route: Route = route("s1", kind=kind)
        self.kept: list[Any] = []
        self.asked = 0

    async def append(self, drafts: list[EventDraft]) -> bool:
        """Keep them."""
        self.asked += 1
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("busy")
        self.kept += [draft.params.get("text") for draft in drafts] if self.ours else []
        return self.ours


def _play(keeper: Keeper, words: list[str], *, pause_s: float = 0.0) -> tuple[EventDraft, ...]:
    ledger: Any = keeper

    async def main() -> tuple[EventDraft, ...]:
        writer = OutputWriter(ledger)
        turn = writer.turn(attempt(), PLAIN)
        turn.say(TextDelta("early "))
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            writer.begin()
            for word in words:
                turn.say(TextDelta(word))
                await anyio.sleep(pause_s)
            told = await writer.finish()
            turn.say(TextDelta("late"))
            assert () == await writer.finish()
            group.cancel_scope.cancel()
        return told

    return anyio.run(main)


def test_text_is_written_while_it_comes_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing after the end of its turn: that would be another's (R-CON-5)."""
    monkeypatch.setattr(outputs, "FLUSH_S", 0.01)
    keeper = Keeper()
    assert () == _play(keeper, ["a", "b", "c"], pause_s=0.03)
    assert "early abc" == "".join(keeper.kept)
    assert len(keeper.kept) > 1


def test_a_store_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(outputs, "FLUSH_S", 0.001)
    monkeypatch.setattr(outputs, "AGAIN_S", 0.001)
    keeper = Keeper(fails=2)
    with caplog.at_level(logging.ERROR):
        assert () == _play(keeper, ["a", "b"], pause_s=0.05)
    assert "early ab" == "".join(keeper.kept)


def test_what_was_never_taken_is_told_with_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        (told,) = _play(Keeper(fails=9), ["a"])
    assert ("cut", "store", "a1") == tuple(told.params[k] for k in ("type", "because", "attempt_id"))


def test_who_lost_the_session_writes_nothing_and_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-ENG-8."""
    monkeypatch.setattr(outputs, "FLUSH_S", 0.001)
    keeper = Keeper(ours=False)
    assert () == _play(keeper, ["a", "b", "c"], pause_s=0.03)
    assert ([], 1) == (keeper.kept, keeper.asked)


def test_of_a_call_nothing_is_kept() -> None:
    """R-UTL-4: neither its prompt nor its answer."""
    keeper = Keeper(kind="utility")
    assert () == _play(keeper, ["a"])
    assert ([], 0) == (keeper.kept, keeper.asked)


def test_the_output_of_a_successor_is_written_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for more of the turn that failed before it (R-CON-6)."""
    monkeypatch.setattr(outputs, "FLUSH_S", 0.001)
    keeper = Keeper()
    ledger: Any = keeper

    async def main() -> list[Any]:
        writer = OutputWriter(ledger)
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            for word in ("first", "second"):
                turn = writer.turn(attempt(), PLAIN)
                writer.begin()
                turn.say(TextDelta(word))
                await anyio.sleep(0.05)
                seen.append(list(keeper.kept))
                await writer.finish()
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        return seen

    seen: list[list[Any]] = []
    assert [["first"], ["first", "second"]] == anyio.run(main)

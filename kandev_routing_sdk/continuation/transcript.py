"""The stored events as a source: what the user said, what the agents answered and did (R-CON-3, R-CON-10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kandev_routing_sdk.continuation.shorten import ending, line
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.ports import ContinuationRequest
from kandev_routing_sdk.route.continuation import LIST_ENTRIES, Cleaner
from kandev_routing_sdk.route.parts import ContinuationPart, earlier_messages

_MESSAGES: Final = 2 * LIST_ENTRIES
"""Read: those that the request is made of are among them."""
_EVENTS: Final = 500
_TURNS: Final = 12
_ANSWER_BYTES: Final = 2048
_TITLE_BYTES: Final = 240
_TOOLS: Final = 60
_OF_TURNS: Final = (EventKind.TURN_OUTPUT, EventKind.TURN_ENDED, EventKind.TURN_FAILED)


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the store kept of the conversation. The newest of it; how many messages are older is said."""

    name: str = "transcript"

    def describe(self, request: ContinuationRequest) -> ContinuationPart | None:
        """Read it; see :class:`~kandev_routing_sdk.ports.ContinuationSource`."""
        said = request.newest_events((EventKind.USER_MESSAGE,), _MESSAGES)
        happened = request.newest_events(_OF_TURNS, _EVENTS)
        part = part_of(said, happened, request.request, request.clean)
        return None if part == ContinuationPart() else part


@dataclass(slots=True)
class _Tool:
    title: str
    ok: bool | None = None
    ran: bool = False


@dataclass(slots=True)
class _Turn:
    """What one attempt said and did, as far as its events were read."""

    who: str
    prompt_number: object
    ordinal: object
    text: list[str] = field(default_factory=list)
    tools: dict[str, _Tool] = field(default_factory=dict)
    end: str = "not ended"
    handover: str = ""
    """What it said when it was asked to hand over."""

    def tool(self, tool_id: str) -> _Tool:
        return self.tools.setdefault(tool_id, _Tool("a tool"))


def part_of(
    said: Sequence[EventRecord], happened: Sequence[EventRecord], request: str, clean: Cleaner
) -> ContinuationPart:
    """Return what these events tell. ``said``: the newest messages of the user; ``happened``: the newest events of turns."""
    texts = [str(event.params.get("text", "")) for event in said]
    earlier = earlier_messages(texts, request)
    turns = _turns(happened)
    open_turns = _since_the_last_answer(happened, turns)
    answers = [text for turn in list(turns.values())[-_TURNS:] if (text := _answer(turn, clean))]
    tools = [_did(turn, tool, clean) for turn in turns.values() for tool in turn.tools.values()]
    known = [(turn, tool) for turn in open_turns for tool in turn.tools.values()]
    return ContinuationPart(
        user_messages=tuple(earlier[-LIST_ENTRIES:]),
        messages_left_out=_older(said, len(earlier)),
        conversation_summary="\n\n".join(answers),
        handover_summary=_last_words(happened, turns),
        tool_summary="\n".join(tools[-_TOOLS:]),
        completed=tuple(_named(turn, tool, clean) for turn, tool in known if tool.ran and tool.ok),
        uncertain=tuple(
            f"{_named(turn, tool, clean)}: {_outcome(tool)}" for turn, tool in known if not (tool.ran and tool.ok)
        ),
    )


def _older(said: Sequence[EventRecord], earlier: int) -> int:
    """How many messages came before the ones that are given: they are numbered from 1."""
    first = said[max(0, earlier - LIST_ENTRIES)].params.get("prompt_number") if earlier else None
    return first - 1 if isinstance(first, int) and first > 0 else 0


def _turns(happened: Iterable[EventRecord]) -> dict[str, _Turn]:
    """By attempt, in order."""
    turns: dict[str, _Turn] = {}
    for event in happened:
        params = event.params
        turn = turns.setdefault(
            str(params.get("attempt_id")),
            _Turn(str(params.get("profile_id")), params.get("prompt_number"), params.get("ordinal")),
        )
        if event.kind is EventKind.TURN_ENDED:
            turn.end = f"ended: {event.reason}"
        elif event.kind is EventKind.TURN_FAILED:
            turn.end = f"failed: {params.get('code') or event.reason}"
        else:
            _take(turn, event)
    return turns


def _take(turn: _Turn, event: EventRecord) -> None:
    params, turn.ordinal = event.params, event.params.get("ordinal", turn.ordinal)
    tool_id = str(params.get("tool_id"))
    match params.get("type"):
        case "text":
            turn.text.append(str(params.get("text", "")))
        case "handover":
            turn.handover = str(params.get("text", ""))
        case "tool_call":
            title = str(params.get("title") or "")
            if title or tool_id not in turn.tools:
                turn.tool(tool_id).title = title or "a tool"
        case "tool_result":
            tool, ok = turn.tool(tool_id), params.get("ok")
            tool.ran, tool.ok = True, ok if isinstance(ok, bool) else None


def _since_the_last_answer(happened: Sequence[EventRecord], turns: dict[str, _Turn]) -> list[_Turn]:
    """The turns of a request that was not answered yet."""
    return list(turns.values())[_answered(happened, turns) + 1 :]


def _answered(happened: Sequence[EventRecord], turns: dict[str, _Turn]) -> int:
    """Which turn was answered last; -1: none."""
    ended = [str(event.params.get("attempt_id")) for event in happened if event.kind is EventKind.TURN_ENDED]
    return list(turns).index(ended[-1]) if ended else -1


def _last_words(happened: Sequence[EventRecord], turns: dict[str, _Turn]) -> str:
    """What was said at the last handover, unless somebody answered since: then another one is the agent before."""
    since = list(turns.values())[max(0, _answered(happened, turns)) :]
    return next((turn.handover for turn in reversed(since) if turn.handover), "")


def _answer(turn: _Turn, clean: Cleaner) -> str | None:
    text = "".join(turn.text).strip()
    shown = ending(text, _ANSWER_BYTES, clean) if text else None
    return None if shown is None else f"{turn.who}, to message {turn.prompt_number} ({turn.end}):\n{shown}"


def _did(turn: _Turn, tool: _Tool, clean: Cleaner) -> str:
    return f"{turn.who}, for message {turn.prompt_number}: {line(tool.title, _TITLE_BYTES, clean)}: {_outcome(tool)}"


def _named(turn: _Turn, tool: _Tool, clean: Cleaner) -> str:
    return f"{line(tool.title, _TITLE_BYTES, clean)} (attempt {turn.ordinal}, {turn.who})"


def _outcome(tool: _Tool) -> str:
    if not tool.ran:
        return "begun, no result was seen"
    return {True: "done", False: "failed, maybe after it did something", None: "ran, its result is not known"}[tool.ok]

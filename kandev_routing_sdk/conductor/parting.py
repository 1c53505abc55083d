"""What an agent that is to be replaced says of its work, if it can still be asked (R-CON-3).

Only one that just answered, over ACP, can: its process lives, and its provider served it a moment ago. Never one that its provider
refused (a limit, a login, an outage: it would be refused again, or cost what is not there), one whose process or connection is
gone, or one that was cancelled. Failing to get a summary changes nothing, and what the agent does for it counts as its turn's.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import anyio
from pydantic import JsonValue

from kandev_routing_sdk.conductor.attempt import Attempt, new_turn
from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.continuation.shorten import beginning
from kandev_routing_sdk.events import EventDraft, EventKind
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.route.continuation import FIELD_BYTES
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.spec.adapter import Extractor
from kandev_routing_sdk.telemetry import get_logger, problem_fields
from kandev_routing_sdk.types import AttemptOutcome

LIMIT_S: Final = 20.0
"""How long a summary may take, in real seconds."""
REQUEST: Final = (
    "Another agent takes over from you in this session now, and does not see this conversation. Write a summary for it, in at most "
    "300 words: what the task is, what you completed, what is unfinished or uncertain, what must not be repeated, and what is to "
    "be done next. Use no tools and change nothing."
)
_OWN_LIMITS: Final = frozenset({"max_tokens", "max_turn_requests"})
"""Stop reasons of an agent that its provider served to the end."""

_log = get_logger(__name__)


@runtime_checkable
class _Askable(Protocol):
    async def ask(self, text: str, turn: TurnRecord, extractor: Extractor) -> bool:
        """See :meth:`~kandev_routing_sdk.acp.AcpDownstream.ask`."""
        ...


async def part_from(engine: Engine, attempt: Attempt, route: Route) -> None:
    """End the agent of a turn that is over, once it said what its successor should know."""
    attempt.last_words = await last_words(engine, attempt, route)
    await attempt.downstream.stop()
    if not attempt.downstream.reaped:  # what may still act has effects that nobody sees: no successor (R-CON-8)
        attempt.turn.incomplete()


async def last_words(engine: Engine, attempt: Attempt, route: Route) -> str | None:
    """Ask the agent of a turn that is over for a summary; None where it may not be asked, or gave none.

    Its process may be gone afterwards, too.
    """
    downstream, turn = attempt.downstream, attempt.turn
    if not isinstance(downstream, _Askable) or not may_be_asked(turn, route):
        return None
    later = new_turn(engine, attempt.record, attempt.prepared, _unheard)
    try:
        extractor = attempt.prepared.adapter.extractor(attempt.prepared.plan)
        with anyio.move_on_after(LIMIT_S) as scope:
            await downstream.ask(REQUEST, later, extractor)
        if scope.cancelled_caught:
            later.incomplete()
    except Exception as problem:  # noqa: BLE001  # an adapter's code: whatever it is, it holds nothing up
        _log.warning(
            "an agent could not be asked to hand over", extra=problem_fields(problem, session_id=route.session_id)
        )
        later.incomplete()
    turn.also(later.effects)
    report = later.report(engine.clock.now())
    if report.outcome is not AttemptOutcome.SUCCESS or not report.text.strip():
        return None
    return beginning(report.text.strip(), FIELD_BYTES["handover_summary"], attempt.prepared.cleaner.text)


def words_of(attempt: Attempt, route: Route) -> tuple[EventDraft, ...]:
    """Return what is stored of them, with the turn's end: whoever goes on may be another process (R-CON-3)."""
    if not attempt.last_words:
        return ()
    record = attempt.record
    whose: dict[str, JsonValue] = {
        "profile_id": record.execution_profile_id,
        "attempt_id": record.attempt_id,
        "prompt_number": record.prompt_number,
        "ordinal": record.ordinal,
    }
    words: dict[str, JsonValue] = {"type": "handover", "text": attempt.last_words, **whose}
    return (EventDraft(EventKind.TURN_OUTPUT, route.reason, words),)


def may_be_asked(turn: TurnRecord, route: Route) -> bool:
    """Whether its agent can be expected to answer, and somebody else will go on."""
    if route.kind != "session":
        return False
    if turn.outcome is AttemptOutcome.SUCCESS:
        return route.state is State.REROUTE_PENDING  # its candidate is none any more (R-ENG-4)
    return turn.outcome is AttemptOutcome.FAILED and turn.stop_reason in _OWN_LIMITS


def _unheard(_update: AgentUpdate) -> None:
    """Nobody watches: it is no part of the user's turn."""

"""Which agent may be asked to hand over (R-CON-3): one that its provider just served, and that somebody else goes on for."""

from __future__ import annotations

import pytest

from kandev_routing_sdk.conductor.parting import may_be_asked
from kandev_routing_sdk.evidence.effects import EffectLedger
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.types import Delivery
from tests.route._routes import a_route


@pytest.mark.parametrize(
    ("end", "state", "kind", "asked"),
    [
        ("end_turn", State.REROUTE_PENDING, "session", True),
        ("end_turn", State.ACTIVE, "session", False),
        ("end_turn", State.REROUTE_PENDING, "utility", False),
        ("max_tokens", State.ACTIVE, "session", True),
        ("max_turn_requests", State.REROUTE_PENDING, "session", True),
        ("max_tokens", State.ACTIVE, "utility", False),
        ("error", State.REROUTE_PENDING, "session", False),
        ("agent_exited", State.REROUTE_PENDING, "session", False),
        ("refusal", State.ACTIVE, "session", False),
        ("cancelled", State.REROUTE_PENDING, "session", False),
        (None, State.REROUTE_PENDING, "session", False),
    ],
)
def test_who_is_asked(end: str | None, state: State, kind: str, asked: bool) -> None:
    turn = TurnRecord(TurnContext(family="f"), Sanitiser(), lambda _: None)
    if end == "end_turn":
        turn.succeeded(end)
    elif end == "cancelled":
        turn.cancelled()
    elif end is not None:
        turn.failed(end)
    assert asked is may_be_asked(turn, a_route(state, kind=kind))


def test_what_it_does_counts_and_what_it_says_does_not() -> None:
    ledger = EffectLedger()
    ledger.add(Effects(delivery=Delivery.ACKNOWLEDGED, output=True, thinking=True, complete=True))
    assert Effects(delivery=Delivery.NOT_SENT, complete=True) == ledger.effects
    ledger.add(Effects(delivery=Delivery.SENT, tool_call=True, complete=True))
    ledger.add(Effects(delivery=Delivery.SENT, tool_effect=True, complete=False))
    ledger.add(Effects(delivery=Delivery.SENT, complete=True))
    assert (True, True, False) == (ledger.effects.tool_call, ledger.effects.tool_effect, ledger.effects.complete)

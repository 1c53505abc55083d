"""What is said before the prompt is sent is no sign that the prompt arrived."""

from __future__ import annotations

from kandev_routing_sdk.evidence.effects import EffectLedger
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.types import Phase


class EarlyTurn(TurnRecord):
    """A turn as extractors see it during the handshake: evidence goes to the real turn, effect marks to a ledger of their own.

    Otherwise a greeting would count as "acknowledged", and a prompt whose delivery is ambiguous would be sent again (R-SAFE-3).
    """

    def __init__(self, turn: TurnRecord) -> None:
        # everything but the ledger is shared, also what later versions of the record add
        self.__dict__.update(turn.__dict__)
        self._ledger = EffectLedger()
        self._real = turn

    def enter(self, phase: Phase) -> None:
        """Move both records to ``phase``."""
        self.phase = self._real.phase = phase

    def close(self) -> None:
        """The handshake is over: an agent that acted before its prompt cannot be judged by what it does after it."""
        if self.effects.any_activity:
            self._real.incomplete()

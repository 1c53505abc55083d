"""The effect ledger and the gate (R-SAFE-1, R-SAFE-2).

Marks only ever go up: nothing that was seen can be unseen.
"""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.types import Confidence, Delivery, ErrorClass

NOTHING_SENT: Final = Effects(delivery=Delivery.NOT_SENT, complete=True)
"""The marks of an attempt that was never started."""
_RANK: Final = (Delivery.NOT_SENT, Delivery.UNKNOWN, Delivery.SENT, Delivery.ACKNOWLEDGED)


class EffectLedger:
    """Collects the marks of one attempt."""

    def __init__(self) -> None:
        self._delivery = Delivery.NOT_SENT
        self._output = self._thinking = self._tool_call = self._tool_effect = False
        self._complete = True

    def sent(self) -> None:
        """The prompt may have left; ambiguous until something of this turn comes back."""
        self._raise_delivery(Delivery.SENT)

    def acknowledged(self) -> None:
        """A response, an error or any event of this turn came back."""
        self._raise_delivery(Delivery.ACKNOWLEDGED)

    def output(self) -> None:
        """Text of the answer came back."""
        self._output = True
        self.acknowledged()

    def thinking(self) -> None:
        """The model thought aloud."""
        self._thinking = True
        self.acknowledged()

    def tool_call(self) -> None:
        """The agent asked for a tool."""
        self._tool_call = True
        self.acknowledged()

    def tool_effect(self) -> None:
        """A tool ran, or may have."""
        self._tool_call = self._tool_effect = True
        self.acknowledged()

    def incomplete(self) -> None:
        """Something may have happened unseen (R-SAFE-7)."""
        self._complete = False

    def add(self, effects: Effects) -> None:
        """What happened elsewhere on behalf of the same attempt counts as well; that it was told anything does not."""
        self._tool_call = self._tool_call or effects.tool_call
        self._tool_effect = self._tool_effect or effects.tool_effect
        self._complete = self._complete and effects.complete

    @property
    def effects(self) -> Effects:
        """The marks so far."""
        return Effects(
            delivery=self._delivery,
            output=self._output,
            thinking=self._thinking,
            tool_call=self._tool_call,
            tool_effect=self._tool_effect,
            complete=self._complete,
        )

    def _raise_delivery(self, to: Delivery) -> None:
        if _RANK.index(to) > _RANK.index(self._delivery):
            self._delivery = to


def effect_refusal(effects: Effects | None, *, resume_guarantee: bool = False) -> str | None:
    """Return why these effects forbid automatic recovery, or None when they allow it (R-SAFE-1).

    ``resume_guarantee``: the adapter declared that its agent resumes this very session without repeating completed work;
    it stands in for "no output" (and thinking), for the same candidate only (R-SAFE-2).
    """
    if effects is None:
        return "nothing is known of the effects"
    if effects.delivery in {Delivery.SENT, Delivery.UNKNOWN}:
        return f"delivery is ambiguous ({effects.delivery})"
    if not effects.complete:
        return "observation was incomplete"
    if effects.tool_effect:
        return "a tool ran"
    if effects.tool_call:
        return "a tool was called"
    if not resume_guarantee:
        if effects.output:
            return "output was seen"
        if effects.thinking:
            return "thinking was seen"
    return None


def automatic_refusal(
    error_class: ErrorClass, confidence: Confidence, effects: Effects | None, *, resume_guarantee: bool = False
) -> str | None:
    """Return why nothing automatic may follow this failure, or None when it may (R-SAFE-1)."""
    if error_class is ErrorClass.UNCLASSIFIED:
        return "the failure is unclassified"
    not_sent = effects is not None and effects.delivery is Delivery.NOT_SENT
    if confidence is Confidence.LOW or (confidence is Confidence.MEDIUM and not not_sent):
        return f"confidence is {confidence}"
    return effect_refusal(effects, resume_guarantee=resume_guarantee)

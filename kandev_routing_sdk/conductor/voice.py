"""What the agent of one attempt says, for as long as it is its turn (R-CON-7, R-ENG-9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pydantic import JsonValue

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.updates import AgentUpdate, CapabilitiesUpdate
from kandev_routing_sdk.route.model import EventDraft, EventKind
from kandev_routing_sdk.route.step import Transition


class Voice:
    """Passes an agent's updates on until it is closed; what comes later changes nothing, and is counted.

    What the agent offers is kept besides: the newest word of it is durable with the turn's end.
    """

    def __init__(self, emit: Callable[[AgentUpdate], None], cleaner: Sanitiser) -> None:
        self._emit, self._cleaner = emit, cleaner
        self._offers: dict[str, JsonValue] | None = None
        self._closed = False
        self.late: int = 0
        """Updates of a turn that was settled already, or of an agent that another one took the place of."""

    def __call__(self, update: AgentUpdate) -> None:
        """Take what the agent said."""
        if self._closed:
            self.late += 1
            return
        if isinstance(update, CapabilitiesUpdate):
            self._offers = update.capabilities
        self._emit(update)

    def close(self) -> None:
        """Its turn is over."""
        self._closed = True

    def told_in(self, transition: Transition) -> Transition:
        """Return the step that ends the turn, with what the agent came to offer in it: as a whole, and before the end."""
        after = transition.after
        if self._offers is None:
            return transition
        offers: dict[str, JsonValue] = {name: self._cleaner.value(value) for name, value in self._offers.items()}
        params: dict[str, JsonValue] = {"profile_id": after.execution_profile_id, "capabilities": offers}
        draft = EventDraft(EventKind.CAPABILITIES_REPLACED, after.reason, params)
        return replace(transition, events=(draft, *transition.events))

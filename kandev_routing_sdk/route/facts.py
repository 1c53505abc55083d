"""What is known when a trigger comes. The table says which of it a row writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.policy import Decision
from kandev_routing_sdk.route.model import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All optional; a row that needs one that is missing raises. Times are aware and UTC."""

    profile_id: str | None = None
    """``candidate_committed``: the chosen candidate."""
    attempt_id: str | None = None
    """The next attempt, where one is taken."""
    profile_version: int | None = None
    """Version of the dynamic profile that the choice was made under."""
    continuation: str | None = None
    """Where an agent is to be started: the rendered package, to ride on the next prompt."""
    decision: Decision | None = None
    classification: Classification | None = None
    automatic: bool = False
    """The failure passes the effect gate without help of a resume guarantee (R-SAFE-1). Not known is not safe."""
    clean: bool = False
    """Provably nothing happened, whatever the failure is called. Implied by ``automatic``."""
    deadline: datetime | None = None
    """When the wait ends; a decision's own deadline need not be repeated here."""
    reason: Reason | None = None
    """Instead of the row's own."""
    prompt: str | None = None
    candidate_gone: bool = False
    """``prompt``: the route's own candidate is none any more, so another one gets it."""
    native_session_id: str | None = None
    """``ready``: the agent's own session."""
    native_session_lost: bool = False
    """A failure: of an agent that went on with its native session and said nothing of the turn; it is not resumed again."""
    resumed: bool = False
    """``ready``: it continues an earlier native session."""
    served_model: str | None = None
    """The end of a turn: the model that really answered, if the agent said which (R-PRO-3)."""
    owner_id: str | None = None
    owner_until: datetime | None = None
    labels: Mapping[str, JsonValue] = field(default_factory=dict)
    """Safe words for events: provider, model, profile name."""
    capabilities: Mapping[str, JsonValue] = field(default_factory=dict)

"""What is counted and traced, as data: the documentation and the tests read the same table as the code (R-OBS-2, R-OBS-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.policy import DecisionKind
from kandev_routing_sdk.policy.decision import Context
from kandev_routing_sdk.records import DecisionSort
from kandev_routing_sdk.results import CallOutcome
from kandev_routing_sdk.route.model import Reason, State
from kandev_routing_sdk.types import AttemptOutcome, Code, Confidence, ErrorClass, Scope

NONE: Final = "none"
"""The value of a label that does not apply."""
OTHER: Final = "other"
"""What every value is counted as that is not one of its label's."""
GATEWAY: Final = "gateway"
"""The provider behind every custom base URL."""


class Stale(StrEnum):
    """What came too late, or from somewhere else, and was dropped (R-ENG-9, R-EVI-4)."""

    FRAME = "frame"
    """A message of another session, or an answer to nothing."""
    EVIDENCE = "evidence"
    """Evidence of another attempt, generation or prompt."""
    TIMER = "timer"
    """A session that was due, lost or free again, and that somebody else moved on first."""
    ACTION = "action"
    """A person's action on a session that has moved on."""
    PROBE_RESULT = "probe_result"
    """An answer whose probe lease is somebody else's now."""


class Fence(StrEnum):
    """What kept somebody from writing who was not first."""

    GENERATION = "generation"
    """The route has another generation than a person saw, or than output is of."""
    REVISION = "revision"
    """Somebody else committed a transition first."""
    ATTEMPT = "attempt"
    """The attempt is settled, or its mark would go back."""
    OWNER = "owner"
    """The owner lease is somebody else's; the agent is ended."""


class Reconciled(StrEnum):
    """What became of something whose owner died (R-DUR-3)."""

    REARMED = "rearmed"
    """Provably undispatched: tried again."""
    ASKED = "asked"
    """It may have done something: a person is asked."""
    INTERRUPTED = "interrupted"
    """A utility call; never re-armed."""


class RouteKind(StrEnum):
    """Whose route it is."""

    SESSION = "session"
    UTILITY = "utility"


class ProbeKind(StrEnum):
    """What asks whether a resource is back."""

    LAUNCH = "launch"
    """The next real attempt."""
    PROBE = "probe"
    """An adapter's cheap question."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A counter (R-OBS-2). ``unit`` is in UCUM, as OpenTelemetry has it; ``labels`` are the names of its labels, in order."""

    name: str
    unit: str
    description: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """What a label says, and its closed set of values beside ``none`` and ``other``; None: the set is fixed when a router opens."""

    description: str
    values: frozenset[str] | None


_RESULTS: Final = frozenset({"chosen", "nobody", *(kind.value for kind in DecisionKind)})
_YES_NO: Final = frozenset({"true", "false"})

LABELS: Final[Mapping[str, Label]] = MappingProxyType(
    {
        "asked_by": Label("What asks.", frozenset(ProbeKind)),
        "class": Label("Class of the failure.", frozenset(ErrorClass)),
        "code": Label("Code of the failure.", frozenset(Code)),
        "confidence": Label("How sure the classification is.", frozenset(Confidence)),
        "context": Label("Who decides after a failure.", frozenset(Context)),
        "effectful": Label("Whether work may have been done already.", _YES_NO),
        "family": Label("Agent family: those whose adapters were loaded.", None),
        "fence": Label("What refused.", frozenset(Fence)),
        "outcome": Label("How it ended.", frozenset({*AttemptOutcome, *CallOutcome, "interrupted"})),
        "provider": Label(
            "Upstream service: those that the loaded adapters know. Custom base URLs are `gateway`.", None
        ),
        "reason": Label("Why the route is where it is.", frozenset(Reason)),
        "result": Label("What was decided, or came of it.", _RESULTS | frozenset(Reconciled)),
        "route": Label("Whose route it is.", frozenset(RouteKind)),
        "rule": Label("Id of the rule that decided: one of the catalogue's.", None),
        "scope": Label("Which resource it is about.", frozenset(Scope)),
        "sort": Label("What was to be decided.", frozenset(DecisionSort)),
        "state": Label("State of the route.", frozenset(State)),
        "what": Label("What was dropped.", frozenset(Stale)),
    }
)

ATTEMPTS: Final = Metric(
    "routing_route_attempts_total",
    "{attempt}",
    "Attempts that ended: each dispatch of a prompt to one candidate.",
    ("route", "context", "family", "provider", "outcome", "code", "class"),
)
DECISIONS: Final = Metric(
    "routing_decisions_total",
    "{decision}",
    "Decisions: walks over the candidates, and what follows a failure.",
    ("route", "context", "sort", "result", "code", "class"),
)
CLASSIFICATIONS: Final = Metric(
    "routing_classifications_total",
    "{failure}",
    "Failures by the rule that recognised them; `none` is no rule.",
    ("family", "rule", "code", "confidence"),
)
RETRIES: Final = Metric(
    "routing_same_route_retries_total",
    "{attempt}",
    "Attempts with the same candidate after a wait.",
    ("route", "context", "family", "provider", "code", "state"),
)
FALLBACKS: Final = Metric(
    "routing_fallback_total",
    "{attempt}",
    "Attempts with another candidate than the one before; family and provider are the successor's, code and class the failure's.",
    ("route", "context", "family", "provider", "code", "class"),
)
WAITING: Final = Metric(
    "routing_waiting_sessions_total",
    "{session}",
    "Times that a route came to wait: for a deadline, for a resource, or for a person.",
    ("route", "context", "state", "reason", "code", "class"),
)
OPENED: Final = Metric(
    "routing_resource_circuit_opened_total",
    "{circuit}",
    "Circuits that opened.",
    ("scope", "provider", "code"),
)
CLOSED: Final = Metric(
    "routing_resource_circuit_closed_total",
    "{circuit}",
    "Circuits that closed.",
    ("scope", "provider", "code"),
)
PROBES: Final = Metric(
    "routing_half_open_probes_total",
    "{probe}",
    "Probe leases that were taken.",
    ("asked_by", "scope", "provider"),
)
CONTINUATIONS: Final = Metric(
    "routing_continuations_total",
    "{continuation}",
    "Continuations that were kept for a next agent.",
    ("route", "reason", "effectful"),
)
RECONCILED: Final = Metric(
    "routing_restart_reconciliations_total",
    "{route}",
    "Attempts and calls that a dead owner left: tried again, shown to a person, or interrupted.",
    ("result",),
)
STALE: Final = Metric(
    "routing_stale_dropped_total",
    "{item}",
    "What came too late, or was somebody else's, and was dropped.",
    ("what",),
)
FENCED: Final = Metric(
    "routing_fence_refusals_total",
    "{refusal}",
    "Writes that were refused because somebody else was first.",
    ("fence",),
)
CALLS: Final = Metric(
    "routing_utility_calls_total",
    "{call}",
    "Utility calls that ended.",
    ("family", "provider", "outcome", "code"),
)

METRICS: Final = (
    ATTEMPTS,
    CALLS,
    CLASSIFICATIONS,
    CLOSED,
    CONTINUATIONS,
    DECISIONS,
    FALLBACKS,
    FENCED,
    OPENED,
    PROBES,
    RECONCILED,
    RETRIES,
    STALE,
    WAITING,
)


class SpanName(StrEnum):
    """What is traced."""

    TURN = "kandev_routing.turn"
    """One drive of a route, until it rests."""
    SELECTION = "kandev_routing.selection"
    """One walk over the candidates, with the claim."""
    ATTEMPT = "kandev_routing.attempt"
    """From an attempt's launch until it is settled."""
    COMMIT = "kandev_routing.commit"
    """One durable decision, on its way to the store and back."""
    PROBE = "kandev_routing.probe"
    """An adapter's question whether a resource is back."""


SPAN_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "session_id": "Id of the session or call.",
        "attempt_id": "Id of the attempt.",
        "generation": "Generation of the route.",
        "route": "As the label.",
        "state": "As the label: where the route came to.",
        "family": "As the label.",
        "provider": "As the label.",
        "outcome": "As the label.",
        "code": "As the label.",
        "class": "As the label.",
        "scope": "As the label.",
    }
)
"""Attributes of spans, each under ``kandev_routing.``; no prompt, credential, account or profile name."""
MAX_ATTRIBUTE_CHARS: Final = 128
"""Longer ids are cut."""

"""The words every floor shares: ids and enums. Values are the wire form and never change meaning."""

from __future__ import annotations

from enum import StrEnum

from pydantic import JsonValue

__all__ = [
    "AttemptOutcome",
    "Channel",
    "CircuitState",
    "Code",
    "Confidence",
    "Delivery",
    "DispatchMark",
    "ErrorClass",
    "JsonValue",
    "Phase",
    "ProfileKind",
    "Scope",
    "Transport",
]


class ProfileKind(StrEnum):
    """What a profile is; every API that returns one carries it (R-PRO-2)."""

    CONCRETE = "concrete"
    DYNAMIC = "dynamic"


class Transport(StrEnum):
    """How an adapter talks to its agent."""

    ACP = "acp"
    HEADLESS = "headless"


class Phase(StrEnum):
    """Where in an attempt's life something was seen (R-EVI-1)."""

    AUTH_CHECK = "auth_check"
    PROCESS_START = "process_start"
    SESSION_INIT = "session_init"
    PROMPT_SEND = "prompt_send"
    STREAMING = "streaming"
    TOOL_EXECUTION = "tool_execution"
    SHUTDOWN = "shutdown"


class Channel(StrEnum):
    """What a signal was said on. Only the agent's runtime can prove a failure (R-EVI-6)."""

    ACP_ERROR = "acp_error"
    ACP_UPDATE = "acp_update"
    STDOUT_EVENT = "stdout_event"
    STDERR = "stderr"
    HTTP = "http"
    EXIT = "exit"
    AGENT_NOTICE = "agent_notice"
    ASSISTANT_TEXT = "assistant_text"
    TOOL_OUTPUT = "tool_output"

    @property
    def is_runtime(self) -> bool:
        """Whether a signal on this channel may be failure evidence."""
        return self not in {Channel.ASSISTANT_TEXT, Channel.TOOL_OUTPUT}


class Delivery(StrEnum):
    """What is known of the prompt's way to the agent (R-EVI-3)."""

    NOT_SENT = "not_sent"
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure a classification is; only ``high`` authorises anything once a prompt was sent (R-SAFE-1)."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ErrorClass(StrEnum):
    """R-CLS-2. ``unclassified`` never authorises anything automatic."""

    TRANSIENT = "transient"
    HARD = "hard"
    UNCLASSIFIED = "unclassified"


class Scope(StrEnum):
    """Which resource a failure says something about (R-CLS-2, R-CIR-1)."""

    PROVIDER = "provider"
    ACCOUNT = "account"
    MODEL = "model"
    PROFILE = "profile"
    NONE = "none"


class Code(StrEnum):
    """The provider-neutral causes (R-CLS-2). A code is never reused for another cause."""

    NETWORK_UNAVAILABLE = "network_unavailable"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_OVERLOADED = "provider_overloaded"
    MODEL_CAPACITY = "model_capacity"
    RATE_LIMITED = "rate_limited"
    AGENT_TRANSPORT_LOST = "agent_transport_lost"
    QUOTA_LIMITED = "quota_limited"
    SUBSCRIPTION_REQUIRED = "subscription_required"
    AUTH_REQUIRED = "auth_required"
    MISSING_CREDENTIALS = "missing_credentials"
    PROVIDER_NOT_CONFIGURED = "provider_not_configured"
    MODEL_UNAVAILABLE = "model_unavailable"
    UNKNOWN_PROVIDER_ERROR = "unknown_provider_error"
    AGENT_RUNTIME_ERROR = "agent_runtime_error"
    TASK_ERROR = "task_error"
    REPO_ERROR = "repo_error"
    PERMISSION_DENIED_BY_USER = "permission_denied_by_user"
    CANCELLED = "cancelled"
    RESUME_CORRUPTED = "resume_corrupted"
    CONTEXT_EXHAUSTED = "context_exhausted"
    CONTENT_REFUSED = "content_refused"


class AttemptOutcome(StrEnum):
    """How one attempt ended. ``silent``: it was asked nothing, or nothing came before the caller's deadline; ``lost``: its router
    died. Neither charges a circuit.
    """

    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SILENT = "silent"
    LOST = "lost"


class DispatchMark(StrEnum):
    """How far an attempt's prompt is durably known to have gone (R-DUR-3). Only ``claimed`` proves that nothing left."""

    CLAIMED = "claimed"
    DISPATCHING = "dispatching"
    DELIVERED = "delivered"
    SETTLED = "settled"


class CircuitState(StrEnum):
    """How a resource's circuit stands (R-CIR-4)."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"

"""Route one prompt to the first agent profile that can do it, and never twice.

Everything public is listed in ``__all__``; anything else may move. Names are loaded when they are first used, so that importing
the package costs nothing (R-PRF-4).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kandev_routing_sdk.catalogue.classification import Classification
    from kandev_routing_sdk.circuits import Circuit, ResourceKey
    from kandev_routing_sdk.clock import Clock, IdSource
    from kandev_routing_sdk.continuation import GitWorktree, Transcript
    from kandev_routing_sdk.door import explain, route_once, route_once_async
    from kandev_routing_sdk.errors import (
        ConfigError,
        ConfigInvalid,
        ConfigNotFound,
        ConfigSyntaxError,
        DynamicRoutingDisabled,
        IllegalTransition,
        NotAdmitted,
        NotPermitted,
        PreconditionFailed,
        Problem,
        ProfileNotFound,
        ProfileUnusable,
        RoutingError,
        SecretUnavailable,
        StaleGeneration,
        StaleRevision,
        StoreError,
        StoreUnavailable,
        TurnInProgress,
        UsageError,
    )
    from kandev_routing_sdk.events import EventKind, EventRecord
    from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
    from kandev_routing_sdk.evidence.updates import (
        AgentUpdate,
        CapabilitiesUpdate,
        InnerRetry,
        Notice,
        SessionStarted,
        TextDelta,
        ThinkingDelta,
        ToolCall,
        ToolResult,
        Usage,
    )
    from kandev_routing_sdk.policy import ClassPolicy, Decision, DecisionKind, PolicyDocument, RetryPolicy, WaitPolicy
    from kandev_routing_sdk.ports import (
        Authorise,
        ContinuationPart,
        ContinuationRequest,
        ContinuationSource,
        Operation,
        ProfileReferences,
        ProfileSource,
        SecretResolver,
    )
    from kandev_routing_sdk.profile_store import ImportReport, ProfileEntry, ProfileOrigin, Profiles
    from kandev_routing_sdk.profiles import (
        Candidate,
        ConcreteProfile,
        Dependent,
        DependentsUnknown,
        DuplicateRefused,
        DynamicProfile,
        Profile,
        ProfileConflict,
        ProfileDeclared,
        ProfileInUse,
        ProfileInvalid,
        SecretRef,
    )
    from kandev_routing_sdk.records import AttemptRecord, CallRecord, PromptRecord
    from kandev_routing_sdk.resolver import Resolution
    from kandev_routing_sdk.results import (
        AgentSaid,
        AnswerUnrecorded,
        AttemptEnded,
        AttemptReport,
        AttemptStarted,
        CallActionRequired,
        CallCancelled,
        CallEnded,
        CallFailed,
        CallNoCandidate,
        CallOutcome,
        CallResult,
        CallTimedOut,
        CallWaiting,
        CandidateSkipped,
        CircuitChanged,
        Explanation,
        Progress,
        Rejected,
        Waiting,
    )
    from kandev_routing_sdk.route.model import Reason, State
    from kandev_routing_sdk.route.select import WalkEntry
    from kandev_routing_sdk.route.snapshot import Snapshot
    from kandev_routing_sdk.router import Router
    from kandev_routing_sdk.scheduler import WorkerReport
    from kandev_routing_sdk.sessions import Action, EventStream, Session, Sessions, Turn
    from kandev_routing_sdk.settings import Settings, load_settings
    from kandev_routing_sdk.spec.client import (
        Asker,
        ClientCapabilities,
        FileRead,
        FileWrite,
        PermissionHandler,
        PermissionOption,
        PermissionRequest,
        ReadTextFile,
        Terminal,
        TerminalRequest,
        WriteTextFile,
    )
    from kandev_routing_sdk.spec.client_files import local_files
    from kandev_routing_sdk.structured import AnswerMismatch, StructuredOutput
    from kandev_routing_sdk.sync import SyncRouter, SyncSession
    from kandev_routing_sdk.telemetry import Metric, Sink, Span, SpanName, Telemetry, Totals
    from kandev_routing_sdk.types import (
        AttemptOutcome,
        CircuitState,
        Code,
        Confidence,
        Delivery,
        ErrorClass,
        ProfileKind,
        Scope,
    )

_HOMES = (
    ("catalogue.classification", "Classification"),
    ("circuits", "Circuit ResourceKey"),
    ("clock", "Clock IdSource"),
    ("continuation", "GitWorktree Transcript"),
    ("door", "explain route_once route_once_async"),
    (
        "errors",
        (
            "ConfigError ConfigInvalid ConfigNotFound ConfigSyntaxError DynamicRoutingDisabled IllegalTransition "
            "NotAdmitted NotPermitted PreconditionFailed Problem ProfileNotFound ProfileUnusable RoutingError "
            "SecretUnavailable StaleGeneration StaleRevision StoreError StoreUnavailable TurnInProgress "
            "UsageError"
        ),
    ),
    ("events", "EventKind EventRecord"),
    ("evidence.model", "Effects Evidence Signal"),
    (
        "evidence.updates",
        (
            "AgentUpdate CapabilitiesUpdate InnerRetry Notice SessionStarted TextDelta ThinkingDelta ToolCall "
            "ToolResult Usage"
        ),
    ),
    ("policy", "ClassPolicy Decision DecisionKind PolicyDocument RetryPolicy WaitPolicy"),
    (
        "ports",
        (
            "Authorise ContinuationPart ContinuationRequest ContinuationSource Operation ProfileReferences "
            "ProfileSource SecretResolver"
        ),
    ),
    ("profile_store", "ImportReport ProfileEntry ProfileOrigin Profiles"),
    (
        "profiles",
        (
            "Candidate ConcreteProfile Dependent DependentsUnknown DuplicateRefused DynamicProfile Profile "
            "ProfileConflict ProfileDeclared ProfileInUse ProfileInvalid SecretRef"
        ),
    ),
    ("records", "AttemptRecord CallRecord PromptRecord"),
    ("resolver", "Resolution"),
    (
        "results",
        (
            "AgentSaid AnswerUnrecorded AttemptEnded AttemptReport AttemptStarted CallActionRequired "
            "CallCancelled CallEnded CallFailed CallNoCandidate CallOutcome CallResult CallTimedOut CallWaiting "
            "CandidateSkipped CircuitChanged Explanation Progress Rejected Waiting"
        ),
    ),
    ("route.model", "Reason State"),
    ("route.select", "WalkEntry"),
    ("route.snapshot", "Snapshot"),
    ("router", "Router"),
    ("scheduler", "WorkerReport"),
    ("sessions", "Action EventStream Session Sessions Turn"),
    ("settings", "Settings load_settings"),
    (
        "spec.client",
        (
            "Asker ClientCapabilities FileRead FileWrite PermissionHandler PermissionOption PermissionRequest "
            "ReadTextFile Terminal TerminalRequest WriteTextFile"
        ),
    ),
    ("spec.client_files", "local_files"),
    ("structured", "AnswerMismatch StructuredOutput"),
    ("sync", "SyncRouter SyncSession"),
    ("telemetry", "Metric Sink Span SpanName Telemetry Totals"),
    ("types", "AttemptOutcome CircuitState Code Confidence Delivery ErrorClass ProfileKind Scope"),
)
"""Where each name comes from: a module, and the names that are taken from it."""

__all__ = [
    "Action",
    "AgentSaid",
    "AgentUpdate",
    "AnswerMismatch",
    "AnswerUnrecorded",
    "Asker",
    "AttemptEnded",
    "AttemptOutcome",
    "AttemptRecord",
    "AttemptReport",
    "AttemptStarted",
    "Authorise",
    "CallActionRequired",
    "CallCancelled",
    "CallEnded",
    "CallFailed",
    "CallNoCandidate",
    "CallOutcome",
    "CallRecord",
    "CallResult",
    "CallTimedOut",
    "CallWaiting",
    "Candidate",
    "CandidateSkipped",
    "CapabilitiesUpdate",
    "Circuit",
    "CircuitChanged",
    "CircuitState",
    "ClassPolicy",
    "Classification",
    "ClientCapabilities",
    "Clock",
    "Code",
    "ConcreteProfile",
    "Confidence",
    "ConfigError",
    "ConfigInvalid",
    "ConfigNotFound",
    "ConfigSyntaxError",
    "ContinuationPart",
    "ContinuationRequest",
    "ContinuationSource",
    "Decision",
    "DecisionKind",
    "Delivery",
    "Dependent",
    "DependentsUnknown",
    "DuplicateRefused",
    "DynamicProfile",
    "DynamicRoutingDisabled",
    "Effects",
    "ErrorClass",
    "EventKind",
    "EventRecord",
    "EventStream",
    "Evidence",
    "Explanation",
    "FileRead",
    "FileWrite",
    "GitWorktree",
    "IdSource",
    "IllegalTransition",
    "ImportReport",
    "InnerRetry",
    "Metric",
    "NotAdmitted",
    "NotPermitted",
    "Notice",
    "Operation",
    "PermissionHandler",
    "PermissionOption",
    "PermissionRequest",
    "PolicyDocument",
    "PreconditionFailed",
    "Problem",
    "Profile",
    "ProfileConflict",
    "ProfileDeclared",
    "ProfileEntry",
    "ProfileInUse",
    "ProfileInvalid",
    "ProfileKind",
    "ProfileNotFound",
    "ProfileOrigin",
    "ProfileReferences",
    "ProfileSource",
    "ProfileUnusable",
    "Profiles",
    "Progress",
    "PromptRecord",
    "ReadTextFile",
    "Reason",
    "Rejected",
    "Resolution",
    "ResourceKey",
    "RetryPolicy",
    "Router",
    "RoutingError",
    "Scope",
    "SecretRef",
    "SecretResolver",
    "SecretUnavailable",
    "Session",
    "SessionStarted",
    "Sessions",
    "Settings",
    "Signal",
    "Sink",
    "Snapshot",
    "Span",
    "SpanName",
    "StaleGeneration",
    "StaleRevision",
    "State",
    "StoreError",
    "StoreUnavailable",
    "StructuredOutput",
    "SyncRouter",
    "SyncSession",
    "Telemetry",
    "Terminal",
    "TerminalRequest",
    "TextDelta",
    "ThinkingDelta",
    "ToolCall",
    "ToolResult",
    "Totals",
    "Transcript",
    "Turn",
    "TurnInProgress",
    "Usage",
    "UsageError",
    "WaitPolicy",
    "Waiting",
    "WalkEntry",
    "WorkerReport",
    "WriteTextFile",
    "explain",
    "load_settings",
    "local_files",
    "route_once",
    "route_once_async",
]

if not TYPE_CHECKING:  # to a type checker a name that there is not is an error

    def __getattr__(name: str) -> object:
        for home, names in _HOMES:
            if name in names.split():
                value: object = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("_"))]

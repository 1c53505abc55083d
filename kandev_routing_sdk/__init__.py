"""Route one prompt to the first agent profile that can do it, and never twice.

Everything public is listed in ``__all__``; anything else may move. Names are loaded when they are first used, so that importing
the package costs nothing (R-PRF-4).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kandev_routing_sdk.catalogue.classification import Classification
    from kandev_routing_sdk.continuation import GitWorktree, Transcript
    from kandev_routing_sdk.door import explain, route_once, route_once_async
    from kandev_routing_sdk.errors import NotPermitted, RoutingError
    from kandev_routing_sdk.events import EventKind, EventRecord
    from kandev_routing_sdk.evidence.model import Evidence, Signal
    from kandev_routing_sdk.policy import Decision, PolicyDocument
    from kandev_routing_sdk.ports import Authorise, ContinuationPart, ContinuationRequest, ContinuationSource, Operation
    from kandev_routing_sdk.profile_store import ImportReport, ProfileEntry, Profiles
    from kandev_routing_sdk.profiles import (
        Candidate,
        ConcreteProfile,
        Dependent,
        DynamicProfile,
        ProfileConflict,
        ProfileInUse,
        ProfileInvalid,
    )
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
    from kandev_routing_sdk.route.snapshot import Snapshot
    from kandev_routing_sdk.router import Router
    from kandev_routing_sdk.scheduler import WorkerReport
    from kandev_routing_sdk.sessions import EventStream, Session, Sessions, Turn
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
    from kandev_routing_sdk.sync import SyncRouter, SyncSession
    from kandev_routing_sdk.telemetry import Metric, Sink, Span, SpanName, Telemetry, Totals
    from kandev_routing_sdk.types import Code, ErrorClass

_HOMES = (
    ("catalogue.classification", ("Classification",)),
    ("continuation", ("GitWorktree", "Transcript")),
    ("door", ("explain", "route_once", "route_once_async")),
    ("errors", ("NotPermitted", "RoutingError")),
    ("events", ("EventKind", "EventRecord")),
    ("evidence.model", ("Evidence", "Signal")),
    ("policy", ("Decision", "PolicyDocument")),
    ("ports", ("Authorise", "ContinuationPart", "ContinuationRequest", "ContinuationSource", "Operation")),
    ("profile_store", ("ImportReport", "ProfileEntry", "Profiles")),
    (
        "profiles",
        (
            "Candidate",
            "ConcreteProfile",
            "Dependent",
            "DynamicProfile",
            "ProfileConflict",
            "ProfileInUse",
            "ProfileInvalid",
        ),
    ),
    ("resolver", ("Resolution",)),
    (
        "results",
        (
            "AgentSaid",
            "AnswerUnrecorded",
            "AttemptEnded",
            "AttemptReport",
            "AttemptStarted",
            "CallActionRequired",
            "CallCancelled",
            "CallEnded",
            "CallFailed",
            "CallNoCandidate",
            "CallOutcome",
            "CallResult",
            "CallTimedOut",
            "CallWaiting",
            "CandidateSkipped",
            "CircuitChanged",
            "Explanation",
            "Progress",
            "Rejected",
            "Waiting",
        ),
    ),
    ("route.snapshot", ("Snapshot",)),
    ("router", ("Router",)),
    ("scheduler", ("WorkerReport",)),
    ("sessions", ("EventStream", "Session", "Sessions", "Turn")),
    ("settings", ("Settings", "load_settings")),
    (
        "spec.client",
        (
            "Asker",
            "ClientCapabilities",
            "FileRead",
            "FileWrite",
            "PermissionHandler",
            "PermissionOption",
            "PermissionRequest",
            "ReadTextFile",
            "Terminal",
            "TerminalRequest",
            "WriteTextFile",
        ),
    ),
    ("spec.client_files", ("local_files",)),
    ("sync", ("SyncRouter", "SyncSession")),
    ("telemetry", ("Metric", "Sink", "Span", "SpanName", "Telemetry", "Totals")),
    ("types", ("Code", "ErrorClass")),
)

__all__ = [
    "AgentSaid",
    "AnswerUnrecorded",
    "Asker",
    "AttemptEnded",
    "AttemptReport",
    "AttemptStarted",
    "Authorise",
    "CallActionRequired",
    "CallCancelled",
    "CallEnded",
    "CallFailed",
    "CallNoCandidate",
    "CallOutcome",
    "CallResult",
    "CallTimedOut",
    "CallWaiting",
    "Candidate",
    "CandidateSkipped",
    "CircuitChanged",
    "Classification",
    "ClientCapabilities",
    "Code",
    "ConcreteProfile",
    "ContinuationPart",
    "ContinuationRequest",
    "ContinuationSource",
    "Decision",
    "Dependent",
    "DynamicProfile",
    "ErrorClass",
    "EventKind",
    "EventRecord",
    "EventStream",
    "Evidence",
    "Explanation",
    "FileRead",
    "FileWrite",
    "GitWorktree",
    "ImportReport",
    "Metric",
    "NotPermitted",
    "Operation",
    "PermissionHandler",
    "PermissionOption",
    "PermissionRequest",
    "PolicyDocument",
    "ProfileConflict",
    "ProfileEntry",
    "ProfileInUse",
    "ProfileInvalid",
    "Profiles",
    "Progress",
    "ReadTextFile",
    "Rejected",
    "Resolution",
    "Router",
    "RoutingError",
    "Session",
    "Sessions",
    "Settings",
    "Signal",
    "Sink",
    "Snapshot",
    "Span",
    "SpanName",
    "SyncRouter",
    "SyncSession",
    "Telemetry",
    "Terminal",
    "TerminalRequest",
    "Totals",
    "Transcript",
    "Turn",
    "Waiting",
    "WorkerReport",
    "WriteTextFile",
    "explain",
    "load_settings",
    "local_files",
    "route_once",
    "route_once_async",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES:
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("_"))]

"""Everything an adapter author needs, and nothing else."""

from __future__ import annotations

from kandev_routing_sdk.binding import CredentialBindingDescriptor
from kandev_routing_sdk.errors import AdapterError, ExecutableNotFound, LaunchError, Problem
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.evidence.updates import CapabilitiesUpdate
from kandev_routing_sdk.profiles import ConcreteProfile, SecretRef
from kandev_routing_sdk.spec.acp import Frame, StandardAcpExtractor, as_object, as_text
from kandev_routing_sdk.spec.acp_settings import acp_problems, acp_settings
from kandev_routing_sdk.spec.adapter import (
    AcpFrame,
    AcpSettings,
    AgentAdapter,
    AgentEvent,
    Exited,
    Extractor,
    FoundAgent,
    LaunchPlan,
    LaunchRequest,
    RuleText,
    StderrLine,
    StdoutLine,
)
from kandev_routing_sdk.spec.answer import StreamedAnswer
from kandev_routing_sdk.spec.credentials import FoundCredential, host_variable
from kandev_routing_sdk.spec.executables import find_executable, require_executable
from kandev_routing_sdk.spec.hooks import GROUP, hookimpl, hookspec
from kandev_routing_sdk.spec.lines import json_event
from kandev_routing_sdk.spec.logins import carries_login
from kandev_routing_sdk.spec.places import home_of, place_of
from kandev_routing_sdk.spec.rule_files import packaged_rules
from kandev_routing_sdk.spec.servers import Shape, mcp_secrets, server_problems
from kandev_routing_sdk.spec.typed_failure import TYPED_FAILURES, TypedFailure, TypedFailureExtractor, typed_failure
from kandev_routing_sdk.spec.upstream import Upstream, upstream_of
from kandev_routing_sdk.spec.ways import ChosenWay, LaunchWay, asked_transport, choose_way, discovered
from kandev_routing_sdk.types import Channel, JsonValue, Phase, Transport

__all__ = [
    "AcpFrame",
    "AcpSettings",
    "AdapterError",
    "AgentAdapter",
    "AgentEvent",
    "CapabilitiesUpdate",
    "Channel",
    "ChosenWay",
    "ConcreteProfile",
    "CredentialBindingDescriptor",
    "ExecutableNotFound",
    "Exited",
    "Extractor",
    "FoundAgent",
    "FoundCredential",
    "Frame",
    "GROUP",
    "JsonValue",
    "LaunchError",
    "LaunchPlan",
    "LaunchRequest",
    "LaunchWay",
    "Phase",
    "Problem",
    "RuleText",
    "SecretRef",
    "Shape",
    "Signal",
    "StandardAcpExtractor",
    "StderrLine",
    "StdoutLine",
    "StreamedAnswer",
    "TYPED_FAILURES",
    "Transport",
    "TurnRecord",
    "TypedFailure",
    "TypedFailureExtractor",
    "Upstream",
    "acp_problems",
    "acp_settings",
    "as_object",
    "as_text",
    "asked_transport",
    "carries_login",
    "choose_way",
    "discovered",
    "find_executable",
    "home_of",
    "hookimpl",
    "hookspec",
    "host_variable",
    "json_event",
    "mcp_secrets",
    "packaged_rules",
    "place_of",
    "require_executable",
    "server_problems",
    "typed_failure",
    "upstream_of",
]

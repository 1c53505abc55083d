"""The adapter of the family ``claude``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from kandev_routing_claude import acp_launch
from kandev_routing_claude.acp_extractor import ClaudeAcpExtractor
from kandev_routing_claude.binding import KINDS, PROVIDERS, Resolved, resolve
from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_claude.launch import INHERITS, MCP_SECRETS, arguments, environment
from kandev_routing_claude.validation import problems
from kandev_routing_claude.ways import WAYS, transport_of
from kandev_routing_sdk.spec import (
    AgentAdapter,
    ConcreteProfile,
    Extractor,
    FoundAgent,
    LaunchError,
    LaunchPlan,
    LaunchRequest,
    Problem,
    RuleText,
    Transport,
    choose_way,
    discovered,
    mcp_secrets,
    packaged_rules,
)


class ClaudeAdapter(AgentAdapter):
    """Claude Code: headless as ``claude -p`` with its stream of events, or over ACP as ``claude-agent-acp`` (R-PLG-3)."""

    family: ClassVar[str] = "claude"
    label: ClassVar[str] = "Claude Code"
    transports: ClassVar[tuple[Transport, ...]] = tuple(way.transport for way in WAYS)
    inherits: ClassVar[tuple[str, ...]] = INHERITS
    providers: ClassVar[frozenset[str]] = PROVIDERS

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; see :meth:`AgentAdapter.plan`."""
        environ = environment(request)
        chosen = choose_way(dataclasses.replace(request, environ=environ), WAYS)
        resolved = resolve(request, environ)
        plan = LaunchPlan(
            transport=chosen.transport,
            argv=chosen.argv,
            environ=environ,
            cwd=request.cwd,
            descriptor=resolved.descriptor,
            provider_id=resolved.provider_id,
            model_id=resolved.model_id,
            secrets=mcp_secrets(request.profile, *MCP_SECRETS),
            resumed=request.resume_session_id is not None,
        )
        if chosen.transport is Transport.HEADLESS:
            return dataclasses.replace(plan, argv=(*chosen.argv, *arguments(request)))
        return _over_acp(plan, request, resolved)

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""
        if plan.transport is Transport.HEADLESS:
            return ClaudeExtractor(resumed=plan.resumed)
        return ClaudeAcpExtractor(credential_kinds=KINDS.get(plan.descriptor.mechanism) if plan.descriptor else None)

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """Return what is wrong with a profile of this family, for the transport that it is written for."""
        return tuple(problems(profile, transport_of(profile)))

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return packaged_rules(__package__)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return where ``claude`` and ``claude-agent-acp`` are, starting nothing."""
        return discovered(self.family, WAYS, environ)


def _over_acp(plan: LaunchPlan, request: LaunchRequest, resolved: Resolved) -> LaunchPlan:
    """Add what claude-agent-acp is told.

    Raises:
        LaunchError: the profile was written for a headless Claude, and only claude-agent-acp is here.
    """
    profile = request.profile
    if transport_of(profile) is not Transport.ACP:
        for problem in problems(profile, Transport.ACP):
            raise LaunchError(
                f"only claude-agent-acp is installed, and for it profile {profile.id!r} is wrong: {problem}"
            )
    # its own idea of the model comes from this variable, else it would set another one than the session's
    environ = {**plan.environ, "ANTHROPIC_MODEL": profile.model} if profile.model else plan.environ
    return dataclasses.replace(plan, environ=environ, acp=acp_launch.settings(profile, resolved.default_mode))

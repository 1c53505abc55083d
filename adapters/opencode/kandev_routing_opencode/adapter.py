"""The adapter of the family ``opencode``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from kandev_routing_opencode.acp import OpenCodeAcpExtractor
from kandev_routing_opencode.binding import resolve
from kandev_routing_opencode.config import chosen_model, context_of, read_config, substituted
from kandev_routing_opencode.extractor import OpenCodeExtractor
from kandev_routing_opencode.launch import (
    FIRST_SIGN_S,
    INHERITS,
    MCP_SECRETS,
    WAYS,
    arguments,
    environment,
    inline_config,
    own_model,
    secrets_of,
)
from kandev_routing_opencode.providers import KNOWN
from kandev_routing_opencode.validation import problems
from kandev_routing_sdk.spec import (
    AcpSettings,
    AgentAdapter,
    ConcreteProfile,
    Extractor,
    FoundAgent,
    LaunchPlan,
    LaunchRequest,
    Problem,
    RuleText,
    Transport,
    acp_settings,
    choose_way,
    discovered,
    mcp_secrets,
    packaged_rules,
)


class OpenCodeAdapter(AgentAdapter):
    """OpenCode, headless (``opencode run``) or over the Agent Client Protocol (``opencode acp``) (R-PLG-3)."""

    family: ClassVar[str] = "opencode"
    label: ClassVar[str] = "OpenCode"
    transports: ClassVar[tuple[Transport, ...]] = tuple(way.transport for way in WAYS)
    inherits: ClassVar[tuple[str, ...]] = INHERITS
    providers: ClassVar[frozenset[str]] = frozenset(KNOWN)

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; see :meth:`AgentAdapter.plan`."""
        profile = request.profile
        way = choose_way(request, WAYS)
        inline = inline_config(request, way.transport)
        config = read_config(request.environ, request.cwd, inline)
        configured = profile.model or chosen_model(config, profile.mode)
        model = substituted(configured, request.full_environ) if configured else None
        environ = environment(request, config, model, inline)
        resolved = resolve(request, environ, config, model)
        return LaunchPlan(
            transport=way.transport,
            argv=(*way.argv, *arguments(request, way.transport)),
            environ=environ,
            cwd=request.cwd,
            descriptor=resolved.descriptor,
            provider_id=resolved.provider_id,
            model_id=own_model(profile, model),
            context_tokens=context_of(config, model),
            secrets=secrets_of(config, environ, model) | mcp_secrets(profile, *MCP_SECRETS),
            resumed=request.resume_session_id is not None,
            acp=acp_settings(profile) if way.transport is Transport.ACP else AcpSettings(),
            first_sign_s=FIRST_SIGN_S,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""
        return OpenCodeAcpExtractor() if plan.transport is Transport.ACP else OpenCodeExtractor()

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """Return what is wrong with a profile of this family."""
        return tuple(problems(profile))

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return packaged_rules(__package__)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return where ``opencode`` is, starting nothing."""
        return discovered(self.family, WAYS, environ)

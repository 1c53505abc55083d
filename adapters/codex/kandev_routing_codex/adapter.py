"""The adapter of the family ``codex``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from kandev_routing_codex.acp import CodexAcpExtractor
from kandev_routing_codex.acp_launch import PROVIDER, SIGN_IN, acp_launch, given_config
from kandev_routing_codex.binding import ACCESS_TOKEN, API_KEY, PROVIDERS, Resolved, codex_home, resolve
from kandev_routing_codex.config import Config, read_config
from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_codex.launch import INHERITS, MCP_SECRETS, environment, headless_argv, with_tool_log
from kandev_routing_codex.settings import config_arguments, is_bounded, named_model, provider_of
from kandev_routing_codex.validation import first_problem, problems
from kandev_routing_codex.ways import WAYS
from kandev_routing_codex.zone import local_zone
from kandev_routing_sdk.spec import (
    AcpSettings,
    AgentAdapter,
    ChosenWay,
    ConcreteProfile,
    Extractor,
    FoundAgent,
    LaunchError,
    LaunchPlan,
    LaunchRequest,
    Problem,
    RuleText,
    Transport,
    asked_transport,
    choose_way,
    discovered,
    mcp_secrets,
    packaged_rules,
)

_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "chatgpt": frozenset({"gateway", "account"}),
    "api_key": frozenset({"gateway", "api_key"}),
}
"""What ``_auth/status_update`` may say of a credential: ``gateway`` of every provider but the built-in one, so also of ours."""


class CodexAdapter(AgentAdapter):
    """Codex over ACP (``codex-acp``) and headless (``codex exec --json``) (R-PLG-3)."""

    family: ClassVar[str] = "codex"
    label: ClassVar[str] = "Codex"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.ACP, Transport.HEADLESS)
    inherits: ClassVar[tuple[str, ...]] = INHERITS
    providers: ClassVar[frozenset[str]] = PROVIDERS

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; see :meth:`AgentAdapter.plan`."""
        profile = request.profile
        way = _way(request)
        over_acp = way.transport is Transport.ACP
        home = codex_home(request.environ, request.cwd)
        if request.environ.get("CODEX_HOME") and not home.is_dir():
            raise LaunchError(
                f"CODEX_HOME names {str(home)!r}, which is not a folder; create it or remove the variable"
            )
        config = read_config(home, config_arguments(profile), given_config(request.environ) if over_acp else None)
        if over_acp and not config.readable:
            raise LaunchError(
                f"a configuration file of Codex in {str(home)!r} cannot be read; correct it (the agent would ask to sign in)"
            )
        provider = (request.environ.get(PROVIDER) if over_acp else None) or provider_of(config, profile)
        environ, named_secrets = environment(request, config, provider)
        resolved = _resolve(request, environ, config, provider, over_acp=over_acp)
        if over_acp:
            argv, environ, acp = acp_launch(way.argv, request, environ, config, provider)
        else:
            argv, acp = headless_argv(way.argv, request, config, provider), AcpSettings()
            environ = with_tool_log(environ)
        return LaunchPlan(
            transport=way.transport,
            argv=argv,
            environ=environ,
            cwd=request.cwd,
            descriptor=resolved.descriptor,
            provider_id=resolved.provider_id,
            model_id=(named_model(profile.model)[0] if profile.model else config.text("model")) or None,
            context_tokens=config.count("model_context_window"),
            local_zone=local_zone(environ),
            secrets=named_secrets | mcp_secrets(profile, *MCP_SECRETS),
            resumed=request.resume_session_id is not None,
            acp=acp,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""
        if plan.transport is not Transport.ACP:
            return CodexExtractor()
        return CodexAcpExtractor(credential_kinds=_KINDS.get(plan.descriptor.mechanism) if plan.descriptor else None)

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """Return what is wrong with a profile of this family."""
        return tuple(problems(profile))

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return packaged_rules(__package__)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return where ``codex-acp`` and ``codex`` are, starting nothing."""
        return discovered(self.family, WAYS, environ)


def _way(request: LaunchRequest) -> ChosenWay:
    """Take the best way that takes everything the profile says.

    Raises:
        LaunchError: the only way there is does not take all of it.
    """
    profile = request.profile
    fitting = [way for way in WAYS if first_problem(profile, way.transport) is None]
    free = asked_transport(profile, WAYS) is None
    way = choose_way(request, (fitting or WAYS) if free else WAYS)
    if problem := first_problem(profile, way.transport):
        raise LaunchError(f"{problem.path} {problem.message}")
    return way


def _resolve(
    request: LaunchRequest, environ: Mapping[str, str], config: Config, provider: str | None, *, over_acp: bool
) -> Resolved:
    if not over_acp:
        return resolve(request, environ, config, provider)
    unread = [ACCESS_TOKEN] if is_bounded(config, provider) else [ACCESS_TOKEN, API_KEY]
    found = resolve(request, environ, config, provider, unread)
    return Resolved(found.provider_id, None) if environ.get(SIGN_IN) else found

"""The adapter of the family ``codex``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import ClassVar

from kandev_routing_codex.binding import codex_home, resolve
from kandev_routing_codex.config import read_config
from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_codex.launch import (
    INHERITS,
    INSTALL_HINT,
    MCP_SECRETS,
    arguments,
    config_arguments,
    environment,
    provider_of,
)
from kandev_routing_codex.validation import problems
from kandev_routing_codex.zone import local_zone
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
    find_executable,
    mcp_secrets,
    require_executable,
)

EXECUTABLE = "codex"


class CodexAdapter(AgentAdapter):
    """Codex, headless: ``codex exec --json`` (R-PLG-3)."""

    family: ClassVar[str] = "codex"
    label: ClassVar[str] = "Codex"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.HEADLESS,)
    inherits: ClassVar[tuple[str, ...]] = INHERITS

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; see :meth:`AgentAdapter.plan`."""
        profile = request.profile
        name = profile.command[0] if profile.command else EXECUTABLE
        executable = require_executable(name, request.environ, request.cwd, hint=INSTALL_HINT)
        home = codex_home(request.environ)
        if request.environ.get("CODEX_HOME") and not home.is_dir():
            raise LaunchError(
                f"CODEX_HOME names {str(home)!r}, which is not a folder; create it or remove the variable"
            )
        config = read_config(home, config_arguments(profile))
        provider = provider_of(config, profile)
        environ, named_secrets = environment(request, config, provider)
        resolved = resolve(request, environ, config, provider)
        return LaunchPlan(
            transport=Transport.HEADLESS,
            argv=(executable, *arguments(request, config, provider)),
            environ=environ,
            cwd=request.cwd,
            descriptor=resolved.descriptor,
            provider_id=resolved.provider_id,
            model_id=profile.model or config.text("model") or None,
            local_zone=local_zone(environ),
            secrets=named_secrets | mcp_secrets(profile, *MCP_SECRETS),
            resumed=request.resume_session_id is not None,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""
        del plan
        return CodexExtractor()

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """Return what is wrong with a profile of this family."""
        return tuple(problems(profile))

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return (RuleText(f"{__package__}/rules.toml", files(__package__).joinpath("rules.toml").read_text("utf-8")),)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return where ``codex`` is, starting nothing."""
        found = find_executable(EXECUTABLE, environ)
        version = () if found is None else (found, "--version")
        return (FoundAgent(self.family, found, Transport.HEADLESS, version, "" if found else INSTALL_HINT),)

"""The adapter of the family ``claude``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import ClassVar

from kandev_routing_claude.binding import resolve
from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_claude.launch import INHERITS, INSTALL_HINT, MCP_SECRETS, arguments, environment
from kandev_routing_claude.validation import problems
from kandev_routing_sdk.spec import (
    AgentAdapter,
    ConcreteProfile,
    Extractor,
    FoundAgent,
    LaunchPlan,
    LaunchRequest,
    Problem,
    RuleText,
    Transport,
    find_executable,
    mcp_secrets,
    require_executable,
)

EXECUTABLE = "claude"


class ClaudeAdapter(AgentAdapter):
    """Claude Code, headless: ``claude -p`` with its stream of events (R-PLG-3)."""

    family: ClassVar[str] = "claude"
    label: ClassVar[str] = "Claude Code"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.HEADLESS,)
    inherits: ClassVar[tuple[str, ...]] = INHERITS

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; see :meth:`AgentAdapter.plan`."""
        environ = environment(request)
        name = request.profile.command[0] if request.profile.command else EXECUTABLE
        executable = require_executable(name, environ, request.cwd, hint=INSTALL_HINT)
        resolved = resolve(request, environ)
        return LaunchPlan(
            transport=Transport.HEADLESS,
            argv=(executable, *arguments(request)),
            environ=environ,
            cwd=request.cwd,
            descriptor=resolved.descriptor,
            provider_id=resolved.provider_id,
            model_id=resolved.model_id,
            secrets=mcp_secrets(request.profile, *MCP_SECRETS),
            resumed=request.resume_session_id is not None,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""
        del plan
        return ClaudeExtractor()

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """Return what is wrong with a profile of this family."""
        return tuple(problems(profile))

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return (RuleText(f"{__package__}/rules.toml", files(__package__).joinpath("rules.toml").read_text("utf-8")),)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return where ``claude`` is, starting nothing."""
        found = find_executable(EXECUTABLE, environ)
        version = () if found is None else (found, "--version")
        return (FoundAgent(self.family, found, Transport.HEADLESS, version, "" if found else INSTALL_HINT),)

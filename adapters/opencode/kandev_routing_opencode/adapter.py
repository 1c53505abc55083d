"""The adapter of the family ``opencode``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import ClassVar

from kandev_routing_opencode.acp import OpenCodeAcpExtractor
from kandev_routing_opencode.extractor import OpenCodeExtractor
from kandev_routing_opencode.launch import WAYS
from kandev_routing_sdk.spec import (
    AgentAdapter,
    Extractor,
    FoundAgent,
    LaunchPlan,
    LaunchRequest,
    RuleText,
    Transport,
    choose_way,
    discovered,
)


class OpenCodeAdapter(AgentAdapter):
    """OpenCode, headless (``opencode run``) or over the Agent Client Protocol (``opencode acp``) (R-PLG-3)."""

    family: ClassVar[str] = "opencode"
    label: ClassVar[str] = "OpenCode"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.HEADLESS, Transport.ACP)

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; see :meth:`AgentAdapter.plan`."""
        way = choose_way(request, WAYS)
        return LaunchPlan(
            transport=way.transport,
            argv=way.argv,
            environ=request.environ,
            cwd=request.cwd,
            descriptor=None,
            provider_id=None,
            model_id=request.profile.model,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""
        return OpenCodeAcpExtractor() if plan.transport is Transport.ACP else OpenCodeExtractor()

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return (RuleText(f"{__package__}/rules.toml", files(__package__).joinpath("rules.toml").read_text("utf-8")),)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return where ``opencode`` is, starting nothing."""
        return discovered(self.family, WAYS, environ)

"""An adapter in one file: a headless agent that reads a prompt on standard input and writes JSON lines.

To install it, put it into a distribution with this entry point, and run ``kandev-routing doctor``:

.. code-block:: toml

    [project.entry-points.kandev_routing_sdk]
    minimal = "adapter_minimal"

The agent says ``{"type": "say", "text": …}`` and ends with ``{"type": "end"}``, or with
``{"type": "fail", "status": 429, "message": …}`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from kandev_routing_sdk.spec import (
    AgentAdapter,
    AgentEvent,
    Channel,
    ConcreteProfile,
    CredentialBindingDescriptor,
    Exited,
    Extractor,
    FoundAgent,
    LaunchPlan,
    LaunchRequest,
    RuleText,
    Signal,
    StderrLine,
    StdoutLine,
    Transport,
    TurnRecord,
    find_executable,
    hookimpl,
    json_event,
    require_executable,
)

_RULES = """
released = "2026.11"
provider = "minimal"
families = ["minimal"]

[[rule]]
id = "minimal.quota.1"
code = "quota_limited"
channels = ["stdout_event"]
pattern = ["the tank is empty"]
positive = ["The tank is empty, refill in 2 hours"]
negative = ["The tank is half full"]
correlation = [{ channel = "assistant_text", text = "The tank is empty" }]
redaction = ["The tank is empty, «user1@example.com»"]
"""


class MinimalAdapter(AgentAdapter):
    """Knows how the agent is started, whose credential it uses, and what its words mean. Decides nothing."""

    family: ClassVar[str] = "minimal"
    label: ClassVar[str] = "Minimal agent"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.HEADLESS,)
    inherits: ClassVar[tuple[str, ...]] = ("MINIMAL_*",)

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch; start nothing."""
        command = request.profile.command or ("minimal-agent",)
        hint = "install it so that it is on PATH, or set command in the profile"
        executable = require_executable(command[0], request.environ, request.cwd, hint=hint)
        return LaunchPlan(
            transport=Transport.HEADLESS,
            argv=(executable, *command[1:], *request.profile.args),
            environ=request.environ,
            cwd=request.cwd,
            descriptor=CredentialBindingDescriptor.if_provable(
                family=self.family,
                mechanism="api_key",
                source_kind="environment",
                locator=_where(request.profile),
                executor_namespace=request.executor_namespace,
                authorisation_scope="minimal",
            ),
            provider_id="minimal",
            model_id=request.profile.model,
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """One for each turn."""
        del plan
        return MinimalExtractor()

    def rules(self) -> Sequence[RuleText]:
        """A message that only this agent says. What every provider says is known already."""
        return (RuleText("minimal.toml", _RULES),)

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """For ``init`` and ``doctor``."""
        found = find_executable("minimal-agent", environ)
        return (FoundAgent(self.family, found, Transport.HEADLESS, hint="put minimal-agent on PATH"),)


def _where(profile: ConcreteProfile) -> str | None:
    """Name the place of the key: profiles with keys from two places are two accounts. One that is written down has no place."""
    own = profile.env.get("MINIMAL_API_KEY")
    if isinstance(own, str):
        return None
    return own.secret if own is not None else "env:MINIMAL_API_KEY"


class MinimalExtractor:
    """Marks what the agent's runtime says on the turn."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event; the last one is always ``Exited``."""
        match event:
            case StdoutLine(text):
                self._line(text, turn)
            case StderrLine(text):
                turn.signal(Signal(channel=Channel.STDERR, text=text))
            case Exited() if not turn.ended:
                turn.failed("agent_exited")
            case _:
                pass

    def _line(self, text: str, turn: TurnRecord) -> None:
        match json_event(text):
            case {"type": "say", "text": str(words)}:
                turn.text(words)
            case {"type": "end"}:
                turn.acknowledged()
                turn.succeeded("end_turn")
            case {"type": "fail", "message": str(words), **rest}:
                status = rest.get("status")
                turn.acknowledged()
                turn.signal(
                    Signal(
                        channel=Channel.STDOUT_EVENT,
                        text=words,
                        http_status=status if isinstance(status, int) else None,
                    )
                )
                turn.failed("error")
            case _:
                turn.incomplete()  # nobody knows what it was: it may have been work


@hookimpl
def kandev_routing_adapters() -> Iterable[type[AgentAdapter]]:
    """What the entry point gives."""
    return [MinimalAdapter]

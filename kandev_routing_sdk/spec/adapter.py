"""The adapter contract (R-PLG-1).

An adapter knows one agent family. It says how the agent is launched, what its words mean, and which credential it will use; it
decides nothing, starts nothing and keeps no books. The core drives the process, marks effects, sanitises, bounds and classifies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pydantic import JsonValue

from kandev_routing_sdk.binding import CredentialBindingDescriptor
from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.types import Transport


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What an adapter may look at to plan a launch. It starts no process and writes nothing."""

    profile: ConcreteProfile
    environ: Mapping[str, str] = field(repr=False)
    """The child's environment before the adapter adds its own: the host's allow-listed variables, then the profile's literals and
    resolved secrets."""
    cwd: Path
    executor_namespace: str
    """Which machine's credentials and network the agent will use."""
    resume_session_id: str | None = None
    """A native session id of this very profile, if the last turn should be continued (R-CON-2)."""
    full_environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``environ`` without the allow-list: to look up a variable that the agent's own configuration names (and then to pass on just
    that one)."""


@dataclass(frozen=True, slots=True)
class AcpSettings:
    """How to talk to an ACP agent. What may hold a secret is not part of its ``repr``."""

    client_meta: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    """``clientCapabilities._meta`` to send."""
    session_meta: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    """``_meta`` of the request that opens the session."""
    auth_method: str | None = None
    """``authenticate`` with this method first, if set."""
    mode: str | None = None
    model: str | None = None
    options: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    mcp_servers: Sequence[Mapping[str, JsonValue]] = field(default=(), repr=False)
    permission: Literal["allow", "reject"] = "reject"
    """The answer to ``session/request_permission``."""
    quiet_period_s: float = 0.25
    """How long to listen on after the prompt's response (state machine, Draining)."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A resolved launch: everything that is needed to start the agent, and whose credential it will use."""

    transport: Transport
    argv: tuple[str, ...] = field(repr=False)
    """Executable (absolute) and arguments; never the prompt, which goes to standard input or over ACP."""
    environ: Mapping[str, str] = field(repr=False)
    """The child's whole environment."""
    cwd: Path
    descriptor: CredentialBindingDescriptor | None
    """None: the binding cannot be proven, so health stays with the profile (R-CIR-3)."""
    provider_id: str | None
    """The upstream service really addressed; None when it cannot be told. A custom base URL is not the vendor (R-CIR-1)."""
    model_id: str | None = None
    context_tokens: int | None = None
    """How many tokens the model's context window takes, if that is known: what a successor is told is fitted to it (R-CON-3)."""
    local_zone: str | None = None
    """IANA zone in which the agent prints local times, if it does."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Exact values that must never appear anywhere (R-EVI-5). The core adds those it resolved itself."""
    resumed: bool = False
    """Whether this launch continues ``resume_session_id``."""
    acp: AcpSettings = field(default=AcpSettings(), repr=False)
    first_sign_s: float | None = None
    """Seconds of silence after the prompt was sent until the agent is ended, for agents that sleep or try again without a word
    (R-CON-9); None: only the call's timeout bounds it. It was silent, so nothing automatic may follow."""
    stdin_prompt: bool = True
    """Headless: write the prompt to standard input, then close it."""


@dataclass(frozen=True, slots=True)
class StdoutLine:
    """One line of a headless agent's standard output, without its newline."""

    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class StderrLine:
    """One line of standard error."""

    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class AcpFrame:
    """One raw JSON-RPC message of an ACP agent, before any schema: a notification, or the response to ``session/prompt`` (or to
    ``initialize``/``session/new`` when ``request`` says so).
    """

    message: Mapping[str, JsonValue]
    request: str | None = None
    """The method this message answers, if it is a response."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended and both pipes are drained. ``stopped``: the SDK ended it on purpose."""

    exit_code: int | None
    signal: str | None = None
    stopped: bool = False


AgentEvent = StdoutLine | StderrLine | AcpFrame | Exited


class Extractor(Protocol):
    """Turns what the agent's runtime says into marks on a :class:`TurnRecord`. No I/O, no clock; one instance per turn.

    It sees every event in order, ends with one :class:`Exited` (headless) or the response to ``session/prompt`` (ACP), and has then
    called ``turn.succeeded``, ``turn.failed`` or ``turn.cancelled``. If it has not, the turn failed. An exception in here is an
    :class:`~kandev_routing_sdk.errors.AdapterError`, never a crash of the router.
    """

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event."""
        ...


@dataclass(frozen=True, slots=True)
class RuleText:
    """Catalogue rules an adapter brings, as TOML with their fixtures (R-CLS-4)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """What ``init`` and ``doctor`` found of a family on this machine."""

    family: str
    executable: str | None
    transport: Transport
    version_argv: tuple[str, ...] = ()
    hint: str = ""
    """What to do when it is missing."""


class AgentAdapter(ABC):
    """One agent family. Instances hold no state of a launch; the router makes one per process."""

    family: ClassVar[str]
    """Unique id, ``[a-z0-9][a-z0-9_-]*``; ``dynamic`` is reserved."""
    label: ClassVar[str]
    """Name for people."""
    transports: ClassVar[tuple[Transport, ...]]
    """What it can drive, the best first."""
    inherits: ClassVar[tuple[str, ...]] = ()
    """Name patterns (``ANTHROPIC_*``) of the host's variables that this family's agent gets, beside the neutral ones (PATH, HOME,
    locale, proxies, certificates). No other family ever sees them."""
    providers: ClassVar[frozenset[str]] = frozenset()
    """The upstream services that :meth:`plan` may name, beside one that is called as the family is, and ``gateway:…``: lower-case
    words. Metrics tell these apart; every other one is ``other`` there (R-OBS-3)."""
    resume_guarantee: ClassVar[bool] = False
    """The agent continues a failed turn of the same session without repeating completed work (R-SAFE-2)."""
    can_probe: ClassVar[bool] = False
    """:meth:`probe` is there."""

    @abstractmethod
    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve a launch without starting anything.

        Raises :class:`~kandev_routing_sdk.errors.ExecutableNotFound` or another
        :class:`~kandev_routing_sdk.errors.RoutingError`; the candidate is then ineligible and the reason is shown.
        """

    @abstractmethod
    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return a fresh extractor for one turn."""

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """Return what is wrong with a profile of this family; paths are relative to the profile (``model``, ``options.x``)."""
        del profile
        return ()

    def rules(self) -> Sequence[RuleText]:
        """Return the family's catalogue rules."""
        return ()

    def discover(self, environ: Mapping[str, str]) -> Sequence[FoundAgent]:
        """Return which executables of this family are on this machine, starting none."""
        del environ
        return ()

    async def probe(self, plan: LaunchPlan, turn: TurnRecord) -> None:
        """Ask the upstream service whether it would serve this launch now: under 5 s, without an agent session and without work
        (R-CIR-6). Only where ``can_probe`` is set.

        Mark ``turn`` as an extractor would: ``turn.succeeded("probe")``, or signals and ``turn.failed(…)``. What marks neither,
        raises or takes longer has learnt nothing. It is cancelled at its time limit and has to leave no process behind.
        """
        del plan, turn
        raise NotImplementedError

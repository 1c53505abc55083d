"""What every part of the conductor works with, put together once by the router."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.clock import Clock, IdSource
from kandev_routing_sdk.plugins import Registry
from kandev_routing_sdk.policy import PolicyDocument
from kandev_routing_sdk.ports import Authorise, ContinuationSource, ProfileSource, SecretResolver, Store, allow
from kandev_routing_sdk.profiles import Candidate, DynamicProfile
from kandev_routing_sdk.results import Progress
from kandev_routing_sdk.spec.client import NOTHING_OFFERED, ClientCapabilities, PermissionHandler
from kandev_routing_sdk.telemetry import Telemetry
from kandev_routing_sdk.types import ProfileKind

OWNER_LEASE_S: Final = 60.0
"""How long an owner is believed alive without a heartbeat."""
HEARTBEAT_S: Final = 15.0
PROBE_LEASE_S: Final = 60.0

Tell = Callable[[Progress], None]
"""Receives progress, synchronously and in order."""


def nobody() -> None:
    """Nobody waits for events here."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The collaborators. Immutable; shared by all sessions of a router."""

    store: Store
    registry: Registry
    profiles: ProfileSource
    secrets: SecretResolver
    catalogue: Catalogue
    clock: Clock
    ids: IdSource
    key: InstallationKey
    owner_id: str
    executor_namespace: str
    """Where environment variables, files and the network mean what they mean here."""
    environ: Mapping[str, str] = field(repr=False)
    dynamic_enabled: bool
    host_scope: str | None = None
    telemetry: Telemetry = field(default_factory=Telemetry, repr=False)
    authorise: Authorise = allow
    """Asked before every write that somebody asked for."""
    permissions: PermissionHandler | None = None
    client: ClientCapabilities = NOTHING_OFFERED
    continuation: tuple[ContinuationSource, ...] = ()
    """Who knows something of the work that a successor continues (R-CON-3)."""
    published: Callable[[], None] = nobody
    """Called once events are durable, on any thread; they are read from the store. Must not block, and must not raise."""

    def new_owner(self) -> str:
        """Return an owner of sessions: one for each drive, so that no two in this process take each other's work for theirs."""
        return f"{self.executor_namespace}/{self.ids.new('owner:')}"


@dataclass(frozen=True, slots=True)
class Work:
    """What a route chooses from: a resolved profile, and where its agents run."""

    logical_profile_id: str
    profile_version: int
    kind: ProfileKind
    candidates: tuple[Candidate, ...]
    cwd: Path
    listed_by: DynamicProfile | None = None
    """Whose candidates these are; None: the profile stands for itself."""
    problem: tuple[str, str] | None = None
    """Why the profile itself may not be used any more: a stable word and one sentence; it has no candidates then (R-RES-3)."""

    def wants(self, profile_id: str | None) -> bool:
        """Whether this is still one of the candidates, and enabled."""
        return any(c.profile_id == profile_id and c.enabled for c in self.candidates)

    def policy_of(self, profile_id: str) -> PolicyDocument:
        """Return a candidate's policy; the default one (no retry, no wait) for a profile that is none."""
        return next((c.policy for c in self.candidates if c.profile_id == profile_id), PolicyDocument())


WorkSource = Callable[[], Work]
"""Resolves the route's profile as it is now: edits apply at the next decision (R-ENG-4). May read files: call it off the loop."""

"""One profile id in, what will run out (R-RES). No caller branches on a profile's kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kandev_routing_sdk.errors import DynamicRoutingDisabled, ProfileNotFound, ProfileUnusable
from kandev_routing_sdk.ports import ProfileSource
from kandev_routing_sdk.profiles import Candidate, ConcreteProfile, DynamicProfile, Profile
from kandev_routing_sdk.types import ProfileKind


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a selected profile stands for."""

    profile: Profile
    kind: ProfileKind
    candidates: tuple[Candidate, ...]
    """A concrete profile is a route of one candidate with the default policy: no retry, no wait (R-UTL-4)."""

    @property
    def listed_by(self) -> DynamicProfile | None:
        """The profile whose candidates these are; None: a concrete one stands for itself."""
        return self.profile if isinstance(self.profile, DynamicProfile) else None


def resolve(source: ProfileSource, profile_id: str, *, dynamic_enabled: bool, scope: str | None = None) -> Resolution:
    """Resolve ``profile_id`` without touching anything.

    Raises :class:`~kandev_routing_sdk.errors.ProfileNotFound`, :class:`~kandev_routing_sdk.errors.ProfileUnusable` (disabled or of
    another scope) or :class:`~kandev_routing_sdk.errors.DynamicRoutingDisabled`; there is no default to fall through to (R-RES-3).
    """
    profile = source.get(profile_id)
    if profile is None:
        known: Mapping[str, Profile] = source.all()
        raise ProfileNotFound(profile_id, sorted(known))
    if not profile.enabled:
        raise ProfileUnusable(
            f"profile {profile_id!r} is disabled; to use it set enabled = true in its table, or enable the stored one"
        )
    if scope is not None and profile.scope not in {None, scope}:
        raise ProfileUnusable(
            f"profile {profile_id!r} belongs to scope {profile.scope!r} and cannot be used in {scope!r}"
        )
    if isinstance(profile, ConcreteProfile):
        return Resolution(profile, ProfileKind.CONCRETE, (Candidate(profile_id=profile.id),))
    if not dynamic_enabled:
        raise DynamicRoutingDisabled
    assert isinstance(profile, DynamicProfile)  # noqa: S101  # the union has two members
    return Resolution(profile, ProfileKind.DYNAMIC, profile.candidates)

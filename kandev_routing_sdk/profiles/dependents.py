"""Who refers to a profile, and whom a change of it would leave without one (R-PRO-8)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from kandev_routing_sdk.profiles.errors import Dependent
from kandev_routing_sdk.profiles.model import ConcreteProfile, DynamicProfile, Profile


class Harm(Enum):
    """Who could not use a profile any more."""

    NOBODY = 0
    CANDIDATE_LISTS = 1
    """It may not be a candidate any more (R-PRO-3)."""
    EVERYBODY = 2
    """It is gone, disabled, or not available everywhere that it was."""


def harm_of(before: Profile | None, after: Profile | None) -> Harm:
    """Return whom it would harm to replace ``before``; None after: it is deleted; None before: it cannot be read, or is new."""
    if after is None:
        return Harm.EVERYBODY
    if before is None:
        return Harm.NOBODY
    disabled = before.enabled and not after.enabled
    if disabled or after.scope not in {None, before.scope}:
        return Harm.EVERYBODY
    if isinstance(before, ConcreteProfile) and isinstance(after, ConcreteProfile):
        unfit = (after.auto_fallback and not before.auto_fallback) or (
            after.office_identity and not before.office_identity
        )
        return Harm.CANDIDATE_LISTS if unfit else Harm.NOBODY
    return Harm.NOBODY


def candidate_lists(profile_id: str, profiles: Mapping[str, Profile | None]) -> tuple[Dependent, ...]:
    """Return the dynamic profiles that have ``profile_id`` as a candidate, enabled or not, in the order of their ids."""
    return tuple(
        Dependent("profile", other, profile.name)
        for other, profile in sorted(profiles.items())
        if isinstance(profile, DynamicProfile) and any(c.profile_id == profile_id for c in profile.candidates)
    )

"""The profiles of the configuration and of the store, as one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kandev_routing_sdk.errors import ProfileUnusable
from kandev_routing_sdk.ports import ProfileSource, Store
from kandev_routing_sdk.profiles import Profile


@dataclass(frozen=True, slots=True)
class LayeredProfiles:
    """A :class:`~kandev_routing_sdk.ports.ProfileSource`. A declared profile hides a stored one of its id.

    The store is read each time, so what another process wrote counts at the next decision (R-ENG-4): call it off the event loop.
    """

    declared: ProfileSource
    store: Store

    def get(self, profile_id: str) -> Profile | None:
        """Return a profile as it is now, or None.

        Raises :class:`~kandev_routing_sdk.errors.ProfileUnusable` for a stored one that this version cannot read, and
        :class:`~kandev_routing_sdk.errors.StoreError`.
        """
        found = self.declared.get(profile_id)
        if found is not None:
            return found
        stored = self.store.profile(profile_id)
        if stored is not None and stored.profile is None:
            raise ProfileUnusable(
                f"profile {profile_id!r} in the store cannot be read by this version; upgrade the package, or write it anew"
            )
        return None if stored is None else stored.profile

    def all(self) -> Mapping[str, Profile]:
        """Return every profile that can be read, by id: the declared ones first. Raises StoreError."""
        declared = self.declared.all()
        stored = {s.profile_id: s.profile for s in self.store.profiles() if s.profile is not None}
        return {**declared, **{i: p for i, p in stored.items() if i not in declared}}

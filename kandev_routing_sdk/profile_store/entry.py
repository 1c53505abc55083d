"""What the profile store gives out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue

from kandev_routing_sdk.profiles import Profile
from kandev_routing_sdk.types import ProfileKind


class ProfileOrigin(StrEnum):
    """Where a profile is kept."""

    DECLARED = "declared"
    """In the configuration file, or by the host: read-only here."""
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A profile as it is now, normalised: everything that was left out is written out (R-PRO-6)."""

    profile: Profile
    origin: ProfileOrigin
    reason: str | None = None
    """Why it may not be selected now: ``dynamic_routing_disabled``, ``disabled`` or ``cross_scope``."""
    updated_at: datetime | None = None
    """When it was last written; None for a declared one."""

    @property
    def id(self) -> str:
        """The profile's id."""
        return self.profile.id

    @property
    def kind(self) -> ProfileKind:
        """Concrete or dynamic (R-PRO-2)."""
        return ProfileKind(self.profile.kind)

    @property
    def version(self) -> int:
        """To be given back with an update (R-PRO-6)."""
        return self.profile.version

    @property
    def selectable(self) -> bool:
        """Whether a session or a call may be asked for it now (R-RES-3, R-RES-4)."""
        return self.reason is None

    def document(self) -> dict[str, JsonValue]:
        """Return the normalised document, its policies complete; :meth:`Profiles.update` takes it back."""
        found: dict[str, JsonValue] = self.profile.model_dump(mode="json")
        return found


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did, by profile id, in the file's order (R-PRO-10)."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

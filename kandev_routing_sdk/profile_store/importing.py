"""What an import would write (R-PRO-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.plugins import Registry
from kandev_routing_sdk.policy.reading import join
from kandev_routing_sdk.profile_store.checks import list_problems, read_file
from kandev_routing_sdk.profile_store.entry import ImportReport
from kandev_routing_sdk.profiles import Profile, ProfileInvalid
from kandev_routing_sdk.records import ProfileChange, StoredProfile


class Declared(NamedTuple):
    """What is read-only, and where it is written instead."""

    profiles: Mapping[str, Profile]
    origin: str


@dataclass(slots=True)
class Import:
    """The profiles of one text, and what came of them."""

    source: str
    profiles: Mapping[str, Profile]
    report: ImportReport = field(default_factory=ImportReport)
    """As :meth:`changes` last found."""

    @classmethod
    def read(
        cls,
        text: str,
        source: str,
        registry: Registry,
        *,
        stored: Mapping[str, StoredProfile],
        declared: Declared,
    ) -> Self:
        """Read everything, or raise :class:`~kandev_routing_sdk.errors.ConfigInvalid` with all that is wrong."""
        others = {**{i: s.profile for i, s in stored.items()}, **declared.profiles}
        profiles, problems = read_file(text, source, registry, others)
        problems += [
            Problem(
                join("profiles", i),
                f"is declared in {declared.origin}; change it there, or choose another id",
                "declared",
            )
            for i in profiles
            if i in declared.profiles
        ]
        problems += [
            Problem(
                f"{join('profiles', i)}.kind",
                f"is {stored[i].kind} in the store, and stays so; delete that one first",
                "kind",
            )
            for i, profile in profiles.items()
            if i in stored and stored[i].kind != profile.kind
        ]
        if problems:
            raise ProfileInvalid(source, problems)
        return cls(source, profiles)

    def changes(self, stored: Mapping[str, StoredProfile]) -> list[ProfileChange]:
        """Return what is to be written over what is stored, and keep the report of it."""
        created, updated, unchanged = list[str](), list[str](), list[str]()
        changes = []
        for profile_id, profile in self.profiles.items():
            before = stored.get(profile_id)
            if before is not None and _same(before.profile, profile):
                unchanged.append(profile_id)
                continue
            (created if before is None else updated).append(profile_id)
            changes.append(ProfileChange(profile_id, None if before is None else before.version, profile))
        self.report = ImportReport(tuple(created), tuple(updated), tuple(unchanged))
        return changes

    def check_lists(self, world: Mapping[str, Profile | None]) -> None:
        """Look at the candidates again: what they are may have been written meanwhile."""
        problems = [
            problem
            for profile in self.profiles.values()
            for problem in list_problems(
                profile, world, path=f"{join('profiles', profile.id)}.candidates", field="profile"
            )
        ]
        if problems:
            raise ProfileInvalid(self.source, problems)


def _same(one: Profile | None, other: Profile) -> bool:
    return one is not None and one.model_copy(update={"version": other.version}) == other

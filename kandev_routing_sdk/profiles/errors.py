"""What can be wrong with a write of a profile (R-PRO-6 to R-PRO-10). ``args`` rebuild each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kandev_routing_sdk.errors import ConfigInvalid, PreconditionFailed, Problem, UsageError


class Dependent(NamedTuple):
    """Who refers to a profile (R-PRO-8)."""

    kind: str
    """``profile``, ``session``, or a host's own word."""
    id: str
    name: str
    """Safe to be shown to anybody who may see that there is one."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id}" if self.name == self.id else f"{self.kind} {self.id} ({self.name})"


class ProfileDeclared(UsageError):
    """The profile is declared in the configuration file or brought by the host, so it is not written here (R-PRO-10)."""

    code = "profile_declared"
    profile_id: str
    origin: str

    def __init__(self, profile_id: str, origin: str) -> None:
        super().__init__(profile_id, origin)
        self.profile_id, self.origin = profile_id, origin

    def __str__(self) -> str:
        return f"profile {self.profile_id!r} is declared in {self.origin}; change it there, or give the stored one another id"


class DuplicateRefused(UsageError):
    """A dynamic profile is not duplicated: two lists would drift apart unseen (R-PRO-9)."""

    code = "duplicate_refused"
    profile_id: str

    def __init__(self, profile_id: str) -> None:
        super().__init__(profile_id)
        self.profile_id = profile_id

    def __str__(self) -> str:
        return f"profile {self.profile_id!r} is dynamic and cannot be duplicated; create one with candidates of its own"


class ProfileInvalid(ConfigInvalid):
    """A profile that was to be written says something that is not allowed; nothing was written (R-PRO-7)."""

    code = "profile_invalid"


class ProfileConflict(PreconditionFailed):
    """Somebody else wrote the profile first; nothing was changed (R-PRO-6)."""

    code = "profile_conflict"
    profile_id: str
    expected: int | None
    current: Mapping[str, object] | None
    """Its document as it is now; None: it was deleted."""

    def __init__(self, profile_id: str, expected: int | None, current: Mapping[str, object] | None) -> None:
        super().__init__(profile_id, expected, current)
        self.profile_id, self.expected, self.current = profile_id, expected, current

    def __str__(self) -> str:
        if self.current is None:
            return f"profile {self.profile_id!r} is not there any more; nothing was changed: create it, or let it be"
        version = self.current.get("version")
        if self.expected is None:
            return f"profile {self.profile_id!r} exists already, at version {version}; update it, or take another id"
        return (
            f"profile {self.profile_id!r} is at version {version}, not {self.expected}; nothing was changed: "
            "read it again and decide anew"
        )


class ProfileInUse(PreconditionFailed):
    """Others refer to the profile that was to be deleted, disabled or made unusable for them; nothing was changed (R-PRO-8)."""

    code = "profile_in_use"
    profile_id: str
    dependents: tuple[Dependent, ...]

    def __init__(self, profile_id: str, dependents: Sequence[Dependent]) -> None:
        super().__init__(profile_id, tuple(dependents))
        self.profile_id, self.dependents = profile_id, tuple(dependents)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.dependents[:5]))
        more = f" and {len(self.dependents) - 5} more" if len(self.dependents) > 5 else ""  # noqa: PLR2004  # a line's worth
        return (
            f"profile {self.profile_id!r} is used by {shown}{more}; nothing was changed: change these first, "
            "or confirm, and they fail or pass it over until they are changed"
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the dependents as problems, for those who show these."""
        return tuple(
            Problem(f"{d.kind} {d.id}", f"{d.name} refers to {self.profile_id}", "dependent") for d in self.dependents
        )


class DependentsUnknown(PreconditionFailed):
    """Who refers to the profile could not be found out, so it was not changed, not even when confirmed (R-PRO-8)."""

    code = "dependents_unknown"
    profile_id: str
    problem: str

    def __init__(self, profile_id: str, problem: str) -> None:
        super().__init__(profile_id, problem)
        self.profile_id, self.problem = profile_id, problem

    def __str__(self) -> str:
        return (
            f"who refers to profile {self.profile_id!r} could not be found out ({self.problem}); nothing was changed: try again "
            "when the lookup works"
        )

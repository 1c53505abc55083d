"""Which profiles may be candidates of a dynamic profile (R-PRO-3). One function for the file and for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.policy.reading import one_of, shown, suggestion
from kandev_routing_sdk.profiles.model import Candidate, ConcreteProfile, Profile


def candidate_problems(
    profile_id: str,
    scope: str | None,
    candidates: Sequence[Candidate],
    profiles: Mapping[str, Profile | None],
    *,
    path: str = "candidates",
    field: str = "profile_id",
) -> list[Problem]:
    """Return what is wrong with the candidates of ``profile_id``.

    A disabled candidate profile is not wrong: it is ineligible while it is disabled, and selection says so.

    Args:
        profile_id: the dynamic profile.
        scope: its availability scope; None is everywhere.
        candidates: in order.
        profiles: every profile by id; None for one that exists but could not be read, of which nothing is said here.
        path: where the candidates stand.
        field: what a candidate's profile is called there.
    """
    if not candidates:
        return [Problem(path, "is empty; name at least one concrete profile", "empty")]
    problems: list[Problem] = []
    first_at: dict[str, int] = {}
    for index, candidate in enumerate(candidates):
        where, other = f"{path}[{index}].{field}", candidate.profile_id
        if other in first_at:
            message = f"{shown(other)} is a candidate already, at position {first_at[other]}; remove one of the two"
            problems.append(Problem(where, message, "duplicate_candidate"))
            continue
        first_at[other] = index
        found = _problem(profile_id, scope, other, profiles)
        if found is not None:
            message, code = found
            problems.append(Problem(where, message, code))
    return problems


def _problem(
    profile_id: str, scope: str | None, other: str, profiles: Mapping[str, Profile | None]
) -> tuple[str, str] | None:
    if other == profile_id:
        return "a dynamic profile cannot be its own candidate; name a concrete profile", "self_candidate"
    if other not in profiles:
        concrete = [i for i, p in profiles.items() if p is None or isinstance(p, ConcreteProfile)]
        way_out = suggestion(other, concrete) or f"; define it or use one of: {one_of(concrete)}"
        return f"there is no profile {shown(other)}{way_out}", "unknown_candidate"
    profile = profiles[other]
    if profile is None:
        return None
    if not isinstance(profile, ConcreteProfile):
        return f"{shown(other)} is dynamic itself; name the concrete profiles it leads to", "dynamic_candidate"
    return candidate_refusal(profile, scope)


def candidate_refusal(profile: ConcreteProfile, scope: str | None) -> tuple[str, str] | None:
    """Return why an existing concrete profile may be no candidate of one with ``scope``, and the word for it; None: it may.

    Asked again at each selection: a profile may have become such since, confirmed, or come from a host's own source (R-PRO-8).
    """
    name = shown(profile.id)
    if profile.office_identity:
        return f"{name} is an Office identity; name the profile it executes with", "office_candidate"
    if profile.auto_fallback:
        message = f"{name} changes providers by itself; set its auto_fallback = false or use another profile"
        return message, "auto_fallback_candidate"
    if profile.scope is not None and profile.scope != scope:
        here = "everywhere" if scope is None else f"in {shown(scope)}"
        message = f"{name} is available in {shown(profile.scope)} only, this profile {here}; give both the same scope"
        return message, "scope_mismatch"
    return None

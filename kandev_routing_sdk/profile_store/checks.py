"""What a profile must be to be written (R-PRO-3, R-PRO-7): read strictly, known to its adapter, without a secret's value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.evidence.secret_names import is_plain, names_secret
from kandev_routing_sdk.plugins import Registry
from kandev_routing_sdk.policy.reading import join
from kandev_routing_sdk.profiles import (
    ConcreteProfile,
    DynamicProfile,
    Profile,
    ProfileInvalid,
    candidate_problems,
    parse_document,
    parse_profiles,
    unwritable,
)
from kandev_routing_sdk.settings import profile_tables


def read_document(given: Profile | Mapping[str, object], registry: Registry) -> Profile:
    """Return the normalised profile; raises :class:`~kandev_routing_sdk.profiles.ProfileInvalid` with every problem."""
    document = given if isinstance(given, Mapping) else given.model_dump()
    profile, problems = parse_document(document, families=tuple(registry.adapters))
    if profile is not None:
        problems = [*problems, *own_problems(profile, registry)]
    if profile is None or problems:
        raise ProfileInvalid(_name(document.get("id")), problems)
    return profile


def read_file(
    text: str, source: str, registry: Registry, others: Mapping[str, Profile | None]
) -> tuple[dict[str, Profile], list[Problem]]:
    """Return the profiles of a configuration's text and what is wrong with them. Raises what a configuration's reader does.

    ``others``: profiles that are there already, and may be candidates.
    """
    profiles, problems = parse_profiles(profile_tables(text, source), families=tuple(registry.adapters), others=others)
    for profile in profiles.values():
        at = join("profiles", profile.id)
        problems += [Problem(f"{at}.{p.path}", p.message, p.code) for p in own_problems(profile, registry)]
    return profiles, problems


def own_problems(profile: Profile, registry: Registry) -> list[Problem]:
    """Return what is wrong with a profile apart from its form and its candidates."""
    if not isinstance(profile, ConcreteProfile):
        return []
    return [*unwritable(profile), *_literal_secrets(profile), *_of_adapter(profile, registry)]


def _literal_secrets(profile: ConcreteProfile) -> list[Problem]:
    # A file is its owner's; a store is shared, backed up and exported.
    return [
        Problem(
            join("env", name), f'names a secret, and the store keeps none; write {{ secret = "env:{name}" }}', "secret"
        )
        for name, value in profile.env.items()
        if isinstance(value, str) and value and names_secret(name) and not is_plain(value)
    ]


def _of_adapter(profile: ConcreteProfile, registry: Registry) -> Sequence[Problem]:
    adapter = registry.get(profile.family)
    if adapter is None:
        return ()
    try:
        return [*adapter.validate(profile)]
    except Exception as problem:  # noqa: BLE001  # a third party's code; its text may hold what the profile holds
        message = (
            f"the {profile.family} adapter failed while checking the profile ({type(problem).__name__}); report it"
        )
        return [Problem("family", message, "adapter")]


def list_problems(profile: Profile, profiles: Mapping[str, Profile | None], *, path: str, field: str) -> list[Problem]:
    """Return what is wrong with a dynamic profile's candidates."""
    if not isinstance(profile, DynamicProfile):
        return []
    return candidate_problems(profile.id, profile.scope, profile.candidates, profiles, path=path, field=field)


def check_list(profile: Profile, profiles: Mapping[str, Profile | None]) -> None:
    """Raise :class:`~kandev_routing_sdk.profiles.ProfileInvalid` unless every candidate may be one (R-PRO-3)."""
    problems = list_problems(profile, profiles, path="candidates", field="profile_id")
    if problems:
        raise ProfileInvalid(_name(profile.id), problems)


def _name(profile_id: object) -> str:
    return f"profile {profile_id}" if isinstance(profile_id, str) and profile_id.isascii() else "the profile"

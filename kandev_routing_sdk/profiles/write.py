"""Profiles as TOML that is read again to the same (R-PRO-10)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.policy.document import ClassPolicy, PolicyDocument, Section
from kandev_routing_sdk.policy.reading import join
from kandev_routing_sdk.profiles.model import Candidate, ConcreteProfile, DynamicProfile, Profile, SecretRef
from kandev_routing_sdk.profiles.parse import LAUNCH_KEYS, SHARED_KEYS
from kandev_routing_sdk.types import ProfileKind

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_ESCAPED: Final = re.compile(r'[\x00-\x1f\x7f"\\]')
_SHORT: Final[Mapping[str, str]] = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_FREE: Final = ("options", "permissions", "mcp")


def profiles_toml(profiles: Iterable[Profile]) -> str:
    """Return a configuration file of these profiles, without defaults. Concrete ones come first.

    Secrets stay references. Raises ``ValueError`` for what TOML cannot say; :func:`unwritable` tells beforehand.
    """
    ordered = sorted(profiles, key=lambda p: (isinstance(p, DynamicProfile), p.id))
    return "\n".join(["version = 1", *(line for profile in ordered for line in ("", *_profile(profile)))]) + "\n"


def unwritable(profile: Profile) -> list[Problem]:
    """Return what of a profile TOML has no words for: it has no null."""
    if not isinstance(profile, ConcreteProfile):
        return []
    return [problem for key in _FREE for problem in _nulls(getattr(profile, key), key)]


def _nulls(value: object, path: str) -> Iterator[Problem]:
    if value is None:
        yield Problem(path, "is null, which no file can say; leave it out, or write a text for it", "wrong_type")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _nulls(item, join(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nulls(item, f"{path}[{index}]")


def _profile(profile: Profile) -> Iterator[str]:
    head = f"profiles.{_key(profile.id)}"
    yield f"[{head}]"
    for key in SHARED_KEYS:
        value = getattr(profile, key)
        if key == "kind":
            value = None if value == ProfileKind.CONCRETE else value
        elif key == "name":
            value = None if value == profile.id else value
        elif value == type(profile).model_fields[key].default:
            value = None
        if value is not None:
            yield f"{key} = {_value(value)}"
    if isinstance(profile, ConcreteProfile):
        yield from _launch(profile)
        return
    for candidate in profile.candidates:
        yield from ("", f"[[{head}.candidates]]", *_candidate(candidate))


def _launch(profile: ConcreteProfile) -> Iterator[str]:
    for key in LAUNCH_KEYS:
        value = getattr(profile, key)
        # what is empty, false or not there is the default, but for a command, which is never empty
        if value:
            yield f"{key} = {_value(value)}"


def _candidate(candidate: Candidate) -> Iterator[str]:
    yield f"profile = {_value(candidate.profile_id)}"
    if not candidate.enabled:
        yield "enabled = false"
    if candidate.policy != PolicyDocument():
        for name in ("transient", "hard"):
            yield f"policy.{name} = {_value(_class(getattr(candidate.policy, name)))}"


def _class(policy: ClassPolicy) -> dict[str, object]:
    sections: dict[str, Section] = {"retry": policy.retry, "wait_for_reset": policy.wait_for_reset}
    on = {name: section.model_dump() for name, section in sections.items() if section.enabled}
    return {**on, "on_exhausted": policy.on_exhausted}


def _key(word: str) -> str:
    return word if _BARE.match(word) else _value(word)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + _ESCAPED.sub(lambda m: _SHORT.get(m[0]) or f"\\u{ord(m[0]):04x}", str(value)) + '"'
        case int() | float():
            return repr(value)
        case SecretRef():
            return f"{{ secret = {_value(value.secret)} }}"
        case Mapping():
            return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }" if value else "{}"
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
        case _:
            raise ValueError(f"TOML cannot say {type(value).__name__}")

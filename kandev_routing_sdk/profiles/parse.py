"""The profiles of a configuration file (R-PRO-7, R-PRO-10, R-CLI-2): strict, and every problem at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypedDict

from kandev_routing_sdk.errors import Problem
from kandev_routing_sdk.policy.normalise import parse_policy
from kandev_routing_sdk.policy.reading import Table, join, kind_of, one_of, shown, suggestion
from kandev_routing_sdk.profiles.candidates import candidate_problems
from kandev_routing_sdk.profiles.model import (
    DYNAMIC_FAMILY,
    ENV_NAME,
    FAMILY_ID,
    MAX_ID_CHARS,
    PROFILE_ID,
    SECRET_REFERENCE,
    Candidate,
    ConcreteProfile,
    DynamicProfile,
    Profile,
    SecretRef,
)
from kandev_routing_sdk.types import ProfileKind, Transport

SHARED_KEYS: Final = ("kind", "name", "description", "icon", "scope", "enabled")
LAUNCH_KEYS: Final = (
    "family",
    "model",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "mode",
    "options",
    "permissions",
    "mcp",
    "fallback_model",
    "auto_fallback",
    "office_identity",
)
CONCRETE_KEYS: Final = SHARED_KEYS + LAUNCH_KEYS
DYNAMIC_KEYS: Final = (*SHARED_KEYS, "candidates")
CANDIDATE_KEYS: Final = ("profile", "enabled", "policy")


@dataclass(frozen=True, slots=True)
class _Form:
    """How a profile is written."""

    candidate: str
    """What a candidate's profile is called."""
    complete: bool
    """Whether a policy that is there names every class and section (R-PRO-7)."""
    more: tuple[str, ...] = ()
    """Keys beside those of a file."""


_FILE: Final = _Form("profile", complete=False)
_DOCUMENT: Final = _Form("profile_id", complete=True, more=("id", "version"))

_DYNAMIC_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(
        LAUNCH_KEYS,
        "does not belong to a dynamic profile, which launches nothing itself; set it on its candidates' profiles",
    )
)
_CONCRETE_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {"candidates": 'belongs to a dynamic profile; write kind = "dynamic" and remove family, or remove the candidates'}
)


class _Shared(TypedDict):
    id: str
    name: str
    description: str
    icon: str | None
    scope: str | None
    enabled: bool


def parse_profiles(
    table: Mapping[str, object],
    *,
    families: Collection[str] | None,
    path: str = "profiles",
    others: Mapping[str, Profile | None] | None = None,
) -> tuple[dict[str, Profile], list[Problem]]:
    """Read the ``profiles`` table of a configuration file.

    Args:
        table: profile id → its table.
        families: the agent families there are; None when that is not known, and then none is a problem.
        path: where the table stands.
        others: profiles that are somewhere else, and may be candidates, too; None for one that could not be read.

    Returns:
        The profiles without a problem, in the file's order, and every problem of the others. Use the profiles only when there
        are no problems: a dynamic one may name a profile that is not among them.
    """
    problems: list[Problem] = []
    found: dict[str, Profile | None] = dict.fromkeys(table)
    for profile_id, value in table.items():
        mine: list[Problem] = []
        found[profile_id] = _parse_profile(profile_id, value, join(path, profile_id), mine, families)
        if mine:
            found[profile_id] = None
            problems += mine
    refused: set[str] = set()
    for profile_id, profile in found.items():
        if isinstance(profile, DynamicProfile):
            where = join(join(path, profile_id), "candidates")
            known = {**(others or {}), **found}
            mine = candidate_problems(profile_id, profile.scope, profile.candidates, known, path=where, field="profile")
            if mine:
                refused.add(profile_id)
                problems += mine
    return {i: p for i, p in found.items() if p is not None and i not in refused}, problems


def parse_document(
    value: Mapping[str, object], *, families: Collection[str] | None
) -> tuple[Profile | None, list[Problem]]:
    """Read one profile as it is given out and taken back by programs: with its ``id``, and null for what is left out.

    A policy is complete or not there at all (R-PRO-7). Whether its candidates may be candidates is not looked at; a ``version``
    means nothing here.
    """
    problems: list[Problem] = []
    given = {key: item for key, item in value.items() if item is not None}
    profile_id = given.get("id")
    if "id" not in given:
        problems.append(Problem("id", "is missing; name the profile", "missing"))
    elif not isinstance(profile_id, str):
        problems.append(Problem("id", f"expected a string, got {kind_of(profile_id)}", "wrong_type"))
    elif not _is_id(profile_id):
        problems.append(Problem("id", _NO_ID, "bad_id"))
    if half := _half_characters(given, ""):
        return None, half
    # what else is wrong is told as well
    name = profile_id if isinstance(profile_id, str) and not problems else "unnamed"
    profile = _parse_table(name, given, "", problems, families, form=_DOCUMENT)
    return None if problems else profile, problems


_NO_ID: Final = (
    "is not a profile id; use lower-case letters, digits, '_', '.' and '-', beginning with a letter or digit,"
    f" at most {MAX_ID_CHARS} characters"
)


def _is_id(word: str) -> bool:
    return re.match(PROFILE_ID, word) is not None and len(word) <= MAX_ID_CHARS


def _half_characters(value: object, path: str) -> list[Problem]:
    """Find text that no file can hold."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return [Problem(path, "holds half a character (a lone surrogate); remove it")]
        return []
    found: list[Problem] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            whole = str(key).encode(errors="replace").decode()
            found += _half_characters(key, join(path, whole)) or _half_characters(item, join(path, whole))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            found += _half_characters(item, f"{path}[{index}]")
    return found


def _parse_profile(
    profile_id: str, value: object, path: str, problems: list[Problem], families: Collection[str] | None
) -> Profile | None:
    if not _is_id(profile_id):
        problems.append(Problem(path, _NO_ID, "bad_id"))
        return None
    if not isinstance(value, Mapping):
        problems.append(Problem(path, f"expected a table, got {kind_of(value)}", "wrong_type"))
        return None
    return _parse_table(profile_id, value, path, problems, families, form=_FILE)


def _parse_table(
    profile_id: str,
    value: Mapping[str, object],
    path: str,
    problems: list[Problem],
    families: Collection[str] | None,
    *,
    form: _Form,
) -> Profile | None:
    kind = value.get("kind", ProfileKind.CONCRETE)
    if kind == ProfileKind.DYNAMIC:
        table = Table(value, path, problems, keys=DYNAMIC_KEYS + form.more, hints=_DYNAMIC_HINTS)
        return _parse_dynamic(profile_id, table, problems, form)
    table = Table(value, path, problems, keys=CONCRETE_KEYS + form.more, hints=_CONCRETE_HINTS)
    return _parse_concrete(profile_id, table, problems, families)


def _parse_shared(profile_id: str, table: Table) -> _Shared:
    table.word("kind", list(ProfileKind))
    enabled = table.flag("enabled")
    return _Shared(
        id=profile_id,
        name=table.text("name") or profile_id,
        description=table.text("description", empty=True) or "",
        icon=table.text("icon"),
        scope=table.text("scope"),
        enabled=True if enabled is None else enabled,
    )


# --- concrete ---


def _parse_concrete(
    profile_id: str, table: Table, problems: list[Problem], families: Collection[str] | None
) -> ConcreteProfile | None:
    shared = _parse_shared(profile_id, table)
    family = _family(table, families)
    transport = table.word("transport", list(Transport))
    command = table.texts("command")
    if command is not None and (not command or not command[0].strip()):
        table.problem("command", "names no executable; write it as the first item or remove the key")
    env = _environment(table, problems)
    profile_options = {key: table.free(key) or {} for key in ("options", "permissions", "mcp")}
    texts = {key: table.text(key) for key in ("model", "cwd", "mode", "fallback_model")}
    args = table.texts("args") or ()
    flags = {key: table.flag(key) or False for key in ("auto_fallback", "office_identity")}
    if problems or family is None:
        return None
    return ConcreteProfile(
        **shared,
        family=family,
        model=texts["model"],
        transport=None if transport is None else Transport(transport),
        command=command,
        args=args,
        env=env,
        cwd=texts["cwd"],
        mode=texts["mode"],
        options=profile_options["options"],
        permissions=profile_options["permissions"],
        mcp=profile_options["mcp"],
        fallback_model=texts["fallback_model"],
        auto_fallback=flags["auto_fallback"],
        office_identity=flags["office_identity"],
    )


def _family(table: Table, families: Collection[str] | None) -> str | None:
    known = None if families is None else sorted(set(families) - {DYNAMIC_FAMILY})
    if "family" not in table:
        names = "" if known is None else f" (one of: {one_of(known)})"
        table.problem("family", f'is missing; name the agent family{names}, or write kind = "dynamic"', "missing")
        return None
    family = table.text("family")
    if family is None:
        return None
    if family == DYNAMIC_FAMILY:
        table.problem("family", 'is reserved; write kind = "dynamic" and list the candidates', "reserved_family")
        return None
    if known is not None and family not in known:
        way_out = suggestion(family, known) or f"; install its adapter or use one of: {one_of(known)}"
        table.problem("family", f"there is no agent family {shown(family)}{way_out}", "unknown_family")
        return None
    if not re.match(FAMILY_ID, family) or len(family) > MAX_ID_CHARS:
        table.problem("family", "is not a family id; use lower-case letters, digits, '_' and '-'", "bad_id")
        return None
    return family


def _environment(table: Table, problems: list[Problem]) -> dict[str, str | SecretRef]:
    value = table.table("env") or {}
    found: dict[str, str | SecretRef] = {}
    for name, item in value.items():
        where = join(table.at("env"), name)
        if not re.match(ENV_NAME, name):
            message = (
                "is not the name of an environment variable; use letters, digits and '_', not beginning with a digit"
            )
            problems.append(Problem(where, message, "bad_name"))
        elif isinstance(item, str):
            if "\0" in item:
                problems.append(Problem(where, "holds a NUL character; remove it"))
            else:
                found[name] = item
        elif isinstance(item, Mapping):
            reference = _secret(item, where, problems)
            if reference is not None:
                found[name] = reference
        else:
            message = f'expected a string or {{ secret = "env:NAME" }}, got {kind_of(item)}'
            problems.append(Problem(where, message, "wrong_type"))
    return found


def _secret(value: Mapping[str, object], path: str, problems: list[Problem]) -> SecretRef | None:
    table = Table(value, path, problems, keys=("secret",))
    if "secret" not in table:
        table.problem("secret", 'is missing; write secret = "env:NAME"', "missing")
        return None
    reference = table.text("secret")
    if reference is None:
        return None
    if not re.match(SECRET_REFERENCE, reference):
        # Never repeated: it may be the secret itself, put here by mistake.
        table.problem(
            "secret", 'is not a reference; write "env:" and the name of an environment variable', "bad_secret"
        )
        return None
    return SecretRef(secret=reference)


# --- dynamic ---


def _parse_dynamic(profile_id: str, table: Table, problems: list[Problem], form: _Form) -> DynamicProfile | None:
    shared = _parse_shared(profile_id, table)
    items = table.tables("candidates")
    if "candidates" not in table:
        table.problem("candidates", "is missing; name at least one concrete profile", "missing")
    elif items is not None and not items:
        table.problem("candidates", "is empty; name at least one concrete profile", "empty")
    candidates = [
        _parse_candidate(item, f"{table.at('candidates')}[{i}]", problems, form) for i, item in enumerate(items or ())
    ]
    complete = tuple(c for c in candidates if c is not None)
    if problems or not complete:
        return None
    return DynamicProfile(**shared, candidates=complete)


def _parse_candidate(value: Mapping[str, object], path: str, problems: list[Problem], form: _Form) -> Candidate | None:
    key = form.candidate
    table = Table(value, path, problems, keys=(key, *CANDIDATE_KEYS[1:]))
    profile_id = table.text(key)
    if key not in table:
        table.problem(key, "is missing; name a concrete profile", "missing")
    elif profile_id is not None and not _is_id(profile_id):
        table.problem(key, f"{shown(profile_id)} cannot be a profile; name a concrete profile's id", "bad_id")
        profile_id = None
    enabled = table.flag("enabled")
    complete = form.complete and "policy" in value
    policy, wrong = parse_policy(value.get("policy", {}), table.at("policy"), complete=complete)
    problems += wrong
    if profile_id is None or policy is None:
        return None
    return Candidate(profile_id=profile_id, enabled=True if enabled is None else enabled, policy=policy)

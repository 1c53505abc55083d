"""What is written is read again to the same (R-PRO-10), and whom a change harms (R-PRO-8)."""

from __future__ import annotations

import string
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument, RetryPolicy, WaitPolicy
from kandev_routing_sdk.profiles import (
    Candidate,
    ConcreteProfile,
    DynamicProfile,
    Harm,
    Profile,
    SecretRef,
    candidate_lists,
    harm_of,
    parse_document,
    parse_profiles,
    profiles_toml,
    unwritable,
)
from kandev_routing_sdk.types import Transport

_IDS = st.text(string.ascii_lowercase + string.digits + "_.-", min_size=1, max_size=6).filter(
    lambda t: t[0] not in "_.-"
)
_ANY = st.text(st.characters(codec="utf-8"), max_size=12)
_TEXT = _ANY.filter(lambda t: t.strip() != "" and "\0" not in t)
_WORDS = _ANY.filter(lambda t: "\0" not in t)
_FREE = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | _ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_ANY, inner, max_size=3),
    max_leaves=6,
)
_TABLES = st.dictionaries(_ANY, _FREE, max_size=3)
_SHARED: dict[str, Any] = {
    "name": _TEXT,
    "description": _WORDS,
    "icon": st.none() | _TEXT,
    "enabled": st.booleans(),
}
_NAMES = st.text(string.ascii_letters + "_", min_size=1, max_size=6)
_CONCRETE = st.fixed_dictionaries(
    {
        **_SHARED,
        "family": st.sampled_from(["claude", "codex"]),
        "model": st.none() | _TEXT,
        "transport": st.none() | st.sampled_from(list(Transport)),
        "command": st.none() | st.lists(_TEXT, min_size=1, max_size=3).map(tuple),
        "args": st.lists(_WORDS, max_size=3).map(tuple),
        "env": st.dictionaries(_NAMES, _WORDS | _NAMES.map(lambda n: SecretRef(secret=f"env:{n}")), max_size=3),
        "cwd": st.none() | _TEXT,
        "mode": st.none() | _TEXT,
        "options": _TABLES,
        "permissions": _TABLES,
        "mcp": _TABLES,
        "fallback_model": st.none() | _TEXT,
    }
)
_CLASS = st.builds(
    ClassPolicy,
    retry=st.just(RetryPolicy())
    | st.builds(
        RetryPolicy,
        enabled=st.just(True),
        max_retries=st.integers(1, 10),
        initial_interval_seconds=st.integers(1, 3600),
    ),
    wait_for_reset=st.just(WaitPolicy())
    | st.builds(WaitPolicy, enabled=st.just(True), max_wait_seconds=st.integers(1, 604800)),
    on_exhausted=st.sampled_from(["skip", "stop"]),
)
_POLICY = st.builds(PolicyDocument, transient=_CLASS, hard=_CLASS)


@st.composite
def _profiles(draw: st.DrawFn) -> list[Profile]:
    ids = draw(st.lists(_IDS, min_size=1, max_size=4, unique=True))
    concrete = [ConcreteProfile(id=i, **draw(_CONCRETE)) for i in ids[1:] or ids]
    found: list[Profile] = [*concrete]
    if ids[1:]:
        candidates = tuple(
            Candidate(profile_id=i, enabled=draw(st.booleans()), policy=draw(_POLICY))
            for i in draw(st.permutations(ids[1:]))
        )
        found.append(DynamicProfile(id=ids[0], candidates=candidates, **draw(st.fixed_dictionaries(_SHARED))))
    return found


@given(_profiles())
def test_an_export_is_read_again_to_the_same(profiles: list[Profile]) -> None:
    text = profiles_toml(profiles)
    found, problems = parse_profiles(tomllib.loads(text)["profiles"], families=None)
    assert ({p.id: p for p in profiles}, []) == (found, problems)
    assert text == profiles_toml(found.values())
    text.encode()


@given(_profiles())
def test_a_document_is_read_again_to_the_same(profiles: list[Profile]) -> None:
    for profile in profiles:
        for document in (profile.model_dump(), profile.model_dump(mode="json")):
            assert (profile, []) == parse_document(document, families=None)


def test_defaults_are_not_written() -> None:
    assert 'version = 1\n\n[profiles.sol]\nfamily = "codex"\n' == profiles_toml(
        [ConcreteProfile(id="sol", name="sol", family="codex")]
    )


def test_null_is_a_problem_and_not_an_accident() -> None:
    sol = ConcreteProfile(id="sol", name="Sol", family="codex", options={"a b": [1, {"c": None}]}, mcp={"x": None})
    assert ['options."a b"[1].c', "mcp.x"] == [problem.path for problem in unwritable(sol)]
    with pytest.raises(ValueError, match="NoneType"):
        profiles_toml([sol])


def _sol(**fields: Any) -> ConcreteProfile:
    return ConcreteProfile(id="sol", name="Sol", family="codex", **fields)


@pytest.mark.parametrize(
    ("before", "after", "harm"),
    [
        (_sol(), None, Harm.EVERYBODY),
        (None, None, Harm.EVERYBODY),
        (None, _sol(), Harm.NOBODY),
        (_sol(), _sol(model="m"), Harm.NOBODY),
        (_sol(), _sol(enabled=False), Harm.EVERYBODY),
        (_sol(enabled=False), _sol(enabled=False, model="m"), Harm.NOBODY),
        (_sol(), _sol(scope="south"), Harm.EVERYBODY),
        (_sol(scope="south"), _sol(), Harm.NOBODY),
        (_sol(scope="south"), _sol(scope="north"), Harm.EVERYBODY),
        (_sol(), _sol(auto_fallback=True), Harm.CANDIDATE_LISTS),
        (_sol(), _sol(office_identity=True), Harm.CANDIDATE_LISTS),
        (_sol(auto_fallback=True), _sol(), Harm.NOBODY),
    ],
)
def test_whom_a_change_harms(before: Profile | None, after: Profile | None, harm: Harm) -> None:
    """R-PRO-3, R-PRO-8."""
    assert harm is harm_of(before, after)


def test_the_lists_that_have_it() -> None:
    lists: dict[str, Profile | None] = {
        i: DynamicProfile(id=i, name=i.title(), candidates=(Candidate(profile_id=c, enabled=False),))
        for i, c in (("b", "sol"), ("a", "sol"), ("c", "luna"))
    }
    found = candidate_lists("sol", {**lists, "sol": _sol(), "lost": None})
    assert [("profile", "a", "A"), ("profile", "b", "B")] == [tuple(dependent) for dependent in found]

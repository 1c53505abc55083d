"""Profiles of a configuration file (R-PRO-1 to R-PRO-7, R-PRO-10, R-CLI-2)."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument, RetryPolicy, WaitPolicy
from kandev_routing_sdk.profiles import (
    Candidate,
    ConcreteProfile,
    DynamicProfile,
    Profile,
    SecretRef,
    candidate_problems,
    parse_profiles,
)
from kandev_routing_sdk.profiles.parse import CANDIDATE_KEYS, CONCRETE_KEYS, DYNAMIC_KEYS
from kandev_routing_sdk.types import Transport

FAMILIES = ("claude", "codex", "dynamic", "opencode")

EXAMPLE = """
[profiles.fable]
family = "claude"
name = "Fable"
description = "Careful work"
model = "opus"
transport = "acp"
command = ["claude-agent-acp"]
args = ["--add-dir", "../docs"]
env = { ANTHROPIC_API_KEY = { secret = "env:WORK_ANTHROPIC_KEY" }, LANG = "C.UTF-8" }
cwd = "."
mode = "default"
fallback_model = "sonnet"
enabled = true

[profiles.fable.options]
effort = { level = "high", budget = [1, 2.5, true] }

[profiles.sol]
family = "codex"
model = "gpt-5.5"

[profiles.frontier]
kind = "dynamic"
name = "Frontier"

[[profiles.frontier.candidates]]
profile = "fable"
policy.transient.retry = { enabled = true, max_retries = 3, initial_interval_seconds = 5 }
policy.transient.on_exhausted = "skip"
policy.hard.wait_for_reset = { enabled = true, max_wait_seconds = 300 }
policy.hard.on_exhausted = "skip"

[[profiles.frontier.candidates]]
profile = "sol"
enabled = false
"""


def load(text: str) -> tuple[dict[str, Profile], list[tuple[str, str]]]:
    profiles, problems = parse_profiles(tomllib.loads(text)["profiles"], families=FAMILIES)
    return profiles, [(p.path, p.message) for p in problems]


def read(profiles: dict[str, object]) -> tuple[dict[str, Profile], list[tuple[str, str]]]:
    found, problems = parse_profiles(profiles, families=FAMILIES)
    return found, [(p.path, p.message) for p in problems]


def test_the_documented_example_is_read_in_full() -> None:
    profiles, problems = load(EXAMPLE)
    assert [] == problems
    assert ["fable", "sol", "frontier"] == list(profiles)
    assert (
        ConcreteProfile(
            id="fable",
            name="Fable",
            description="Careful work",
            family="claude",
            model="opus",
            transport=Transport.ACP,
            command=("claude-agent-acp",),
            args=("--add-dir", "../docs"),
            env={"ANTHROPIC_API_KEY": SecretRef(secret="env:WORK_ANTHROPIC_KEY"), "LANG": "C.UTF-8"},
            cwd=".",
            mode="default",
            options={"effort": {"level": "high", "budget": [1, 2.5, True]}},
            fallback_model="sonnet",
        )
        == profiles["fable"]
    )
    assert ConcreteProfile(id="sol", name="sol", family="codex", model="gpt-5.5") == profiles["sol"]
    assert ConcreteProfile(id="sol", family="codex", model="gpt-5.5") == profiles["sol"], "a host's, too"
    policy = PolicyDocument(
        transient=ClassPolicy(retry=RetryPolicy(enabled=True, max_retries=3, initial_interval_seconds=5)),
        hard=ClassPolicy(wait_for_reset=WaitPolicy(enabled=True, max_wait_seconds=300)),
    )
    assert (
        DynamicProfile(
            id="frontier",
            name="Frontier",
            candidates=(Candidate(profile_id="fable", policy=policy), Candidate(profile_id="sol", enabled=False)),
        )
        == profiles["frontier"]
    )


def test_every_profile_carries_its_kind() -> None:
    """R-PRO-2."""
    profiles, _ = load(EXAMPLE)
    assert {"fable": "concrete", "sol": "concrete", "frontier": "dynamic"} == {i: p.kind for i, p in profiles.items()}


def test_profiles_survive_storage() -> None:
    profiles, _ = load(EXAMPLE)
    adapter: TypeAdapter[Profile] = TypeAdapter(Profile)
    for profile in profiles.values():
        assert profile == adapter.validate_json(adapter.dump_json(profile))


def test_a_message_of_the_model_repeats_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        SecretRef(secret="sk-canary")
    assert "canary" not in str(caught.value)


def test_candidates_on_one_line_mean_the_same() -> None:
    long, _ = load('[profiles.a]\nfamily="codex"\n[profiles.d]\nkind="dynamic"\n[[profiles.d.candidates]]\nprofile="a"')
    short, _ = load('[profiles.a]\nfamily="codex"\n[profiles.d]\nkind="dynamic"\ncandidates=[{profile="a"}]')
    assert long == short


def test_values_that_may_hold_a_secret_are_not_shown() -> None:
    profile = ConcreteProfile(
        id="a",
        name="a",
        family="x",
        env={"K": "canary"},
        args=("canary",),
        command=("canary",),
        options={"k": "canary"},
        mcp={"k": "canary"},
        permissions={"k": "canary"},
    )
    assert "canary" not in repr(profile)
    assert "canary" not in str(profile)


A: dict[str, object] = {"family": "codex"}


@pytest.mark.parametrize(
    ("profile", "path", "says"),
    [
        (3, "profiles.x", "expected a table, got a whole number"),
        ({}, "profiles.x.family", "(one of: claude, codex, opencode)"),
        ({"family": "cladue"}, "profiles.x.family", "there is no agent family 'cladue'; did you mean 'claude'?"),
        ({"family": "zzz"}, "profiles.x.family", "install its adapter or use one of: claude, codex, opencode"),
        ({"family": "dynamic"}, "profiles.x.family", 'is reserved; write kind = "dynamic"'),
        ({"family": " "}, "profiles.x.family", "is empty"),
        ({"family": "codex", "modle": "m"}, "profiles.x.modle", "unknown key; did you mean 'model'?"),
        ({"family": "codex", "zzz": "m"}, "profiles.x.zzz", "unknown key; remove it or use one of: args,"),
        ({"family": "codex", "args": 3}, "profiles.x.args", "expected a list of strings, got a whole number"),
        ({"family": "codex", "args": "--x"}, "profiles.x.args", "expected a list of strings, got a string"),
        ({"family": "codex", "args": ["a", 1]}, "profiles.x.args", "got a whole number at position 1"),
        ({"family": "codex", "args": ["a\0"]}, "profiles.x.args", "NUL character at position 0"),
        ({"family": "codex", "command": []}, "profiles.x.command", "names no executable"),
        ({"family": "codex", "command": [" "]}, "profiles.x.command", "names no executable"),
        ({"family": "codex", "enabled": "yes"}, "profiles.x.enabled", "expected true or false, got a string"),
        ({"family": "codex", "transport": "acpp"}, "profiles.x.transport", "unknown value 'acpp'; did you mean 'acp'?"),
        (
            {"family": "codex", "transport": "f" * 99},
            "profiles.x.transport",
            f"unknown value '{'f' * 39}…'; use one of",
        ),
        ({"family": "codex", "transport": "ftp"}, "profiles.x.transport", "use one of: acp, headless"),
        ({"family": "codex", "kind": "virtual"}, "profiles.x.kind", "use one of: concrete, dynamic"),
        ({"family": "codex", "kind": 1}, "profiles.x.kind", "expected one of: concrete, dynamic, got a whole number"),
        ({"family": "codex", "name": ""}, "profiles.x.name", "is empty"),
        ({"family": "codex", "cwd": "a\0b"}, "profiles.x.cwd", "NUL"),
        ({"family": "codex", "env": []}, "profiles.x.env", "expected a table, got a list"),
        ({"family": "codex", "env": {"A": 1}}, "profiles.x.env.A", 'expected a string or { secret = "env:NAME" }'),
        ({"family": "codex", "env": {"1A": "v"}}, "profiles.x.env.1A", "is not the name of an environment variable"),
        (
            {"family": "codex", "env": {"A B": "v"}},
            'profiles.x.env."A B"',
            "is not the name of an environment variable",
        ),
        ({"family": "codex", "env": {"A": "v\0"}}, "profiles.x.env.A", "NUL"),
        ({"family": "codex", "env": {"A": {}}}, "profiles.x.env.A.secret", 'is missing; write secret = "env:NAME"'),
        ({"family": "codex", "env": {"A": {"secret": 1}}}, "profiles.x.env.A.secret", "expected a string"),
        (
            {"family": "codex", "env": {"A": {"secert": "env:B", "secret": "env:B"}}},
            "profiles.x.env.A.secert",
            "'secret'",
        ),
        ({"family": "codex", "options": {"when": date(2026, 1, 1)}}, "profiles.x.options.when", "got a date or time"),
        ({"family": "codex", "options": {"a": [float("nan")]}}, "profiles.x.options.a[0]", "a finite number"),
        ({"family": "codex", "mcp": "x"}, "profiles.x.mcp", "expected a table, got a string"),
        ({"family": "codex", "candidates": []}, "profiles.x.candidates", 'write kind = "dynamic" and remove family'),
        ({"kind": "dynamic"}, "profiles.x.candidates", "is missing; name at least one concrete profile"),
        ({"kind": "dynamic", "candidates": []}, "profiles.x.candidates", "is empty; name at least one"),
        ({"kind": "dynamic", "candidates": "a"}, "profiles.x.candidates", "expected a list of tables, got a string"),
        ({"kind": "dynamic", "candidates": ["a"]}, "profiles.x.candidates[0]", "expected a table, got a string"),
        (
            {"kind": "dynamic", "model": "m", "candidates": [{"profile": "a"}]},
            "profiles.x.model",
            "does not belong to a dynamic profile",
        ),
        ({"kind": "dynamic", "candidates": [{}]}, "profiles.x.candidates[0].profile", "is missing"),
        ({"kind": "dynamic", "candidates": [{"profile": 1}]}, "profiles.x.candidates[0].profile", "expected a string"),
        (
            {"kind": "dynamic", "candidates": [{"profile": "A b"}]},
            "profiles.x.candidates[0].profile",
            "cannot be a profile",
        ),
        (
            {"kind": "dynamic", "candidates": [{"profile": "a", "enable": True}]},
            "profiles.x.candidates[0].enable",
            "did you mean 'enabled'?",
        ),
        (
            {"kind": "dynamic", "candidates": [{"profile": "a", "enabled": 1}]},
            "profiles.x.candidates[0].enabled",
            "expected true or false",
        ),
        (
            {"kind": "dynamic", "candidates": [{"profile": "a", "policy": "skip"}]},
            "profiles.x.candidates[0].policy",
            "expected a table, got a string",
        ),
        (
            {
                "kind": "dynamic",
                "candidates": [
                    {"profile": "a"},
                    {
                        "profile": "b",
                        "policy": {
                            "hard": {"retry": {"enabled": True, "max_retries": 99, "initial_interval_seconds": 1}}
                        },
                    },
                ],
            },
            "profiles.x.candidates[1].policy.hard.retry.max_retries",
            "must be from 1 to 10, got 99",
        ),
    ],
)
def test_each_mistake_is_one_sentence_with_its_path_and_the_way_out(profile: object, path: str, says: str) -> None:
    """R-PRO-7, R-CLI-2."""
    found, problems = read({"a": A, "b": A, "x": profile})
    ((where, message),) = problems
    assert path == where
    assert says in message
    assert ["a", "b"] == list(found)


@pytest.mark.parametrize(
    ("candidate", "others", "says"),
    [
        ("x", {}, "cannot be its own candidate"),
        ("aa", {}, "there is no profile 'aa'; did you mean 'a'?"),
        ("zzz", {}, "there is no profile 'zzz'; define it or use one of: a"),
        ("d", {"d": {"kind": "dynamic", "candidates": [{"profile": "a"}]}}, "'d' is dynamic itself"),
        ("o", {"o": {"family": "codex", "office_identity": True}}, "'o' is an Office identity"),
        ("f", {"f": {"family": "codex", "auto_fallback": True}}, "set its auto_fallback = false"),
        ("s", {"s": {"family": "codex", "scope": "team"}}, "'s' is available in 'team' only, this profile everywhere"),
    ],
)
def test_what_may_not_be_a_candidate(candidate: str, others: dict[str, object], says: str) -> None:
    """R-PRO-3."""
    dynamic = {"kind": "dynamic", "candidates": [{"profile": "a"}, {"profile": candidate}]}
    found, ((where, message),) = read({"a": A, **others, "x": dynamic})
    assert "profiles.x.candidates[1].profile" == where
    assert says in message
    assert "x" not in found
    assert {"a", *others} == set(found)


def test_only_concrete_profiles_are_offered_instead() -> None:
    """The way out leads somewhere: a broken profile may be meant, a dynamic one cannot be."""
    broken = {"family": "codex", "args": 1}
    x = {"kind": "dynamic", "candidates": [{"profile": "zzz"}]}
    _, problems = read({"a": A, "broken": broken, "x": x})
    assert problems[-1][1].endswith("define it or use one of: a, broken")


def test_two_dynamic_profiles_cannot_lead_to_each_other() -> None:
    """R-PRO-3: both are named, whichever comes first."""
    x = {"kind": "dynamic", "candidates": [{"profile": "y"}]}
    y = {"kind": "dynamic", "candidates": [{"profile": "x"}]}
    _, problems = read({"x": x, "y": y})
    assert ["profiles.x.candidates[0].profile", "profiles.y.candidates[0].profile"] == [path for path, _ in problems]


def test_a_candidate_stands_once_in_a_list() -> None:
    """R-PRO-7."""
    _, ((where, message),) = read({"a": A, "x": {"kind": "dynamic", "candidates": [{"profile": "a"}] * 2}})
    assert "profiles.x.candidates[1].profile" == where
    assert "'a' is a candidate already, at position 0" in message


def test_a_scope_fits_itself_and_what_is_everywhere() -> None:
    here = {"family": "codex", "scope": "team"}
    both = [{"profile": "a"}, {"profile": "s"}]
    found, problems = read({"a": A, "s": here, "x": {"kind": "dynamic", "scope": "team", "candidates": both}})
    assert [] == problems
    assert "x" in found
    _, ((_, message),) = read({"a": A, "s": here, "x": {"kind": "dynamic", "scope": "other", "candidates": both}})
    assert "this profile in 'other'" in message


def test_a_disabled_candidate_profile_is_no_error() -> None:
    """R-PRO-8: it is ineligible while it is disabled, selection says so."""
    off = {"family": "codex", "enabled": False}
    found, problems = read({"a": off, "x": {"kind": "dynamic", "candidates": [{"profile": "a"}]}})
    assert [] == problems
    assert {"a", "x"} == set(found)


def test_a_broken_candidate_profile_is_reported_once_and_where_it_is_broken() -> None:
    broken = {"family": "codex", "modle": "m"}
    _, problems = read({"a": broken, "x": {"kind": "dynamic", "candidates": [{"profile": "a"}]}})
    assert ["profiles.a.modle"] == [path for path, _ in problems]


@pytest.mark.parametrize("profile_id", ["A", "-a", "", "a b", "a\n", "é", "a" * 129])
def test_ids_are_plain(profile_id: str) -> None:
    found, ((_, message),) = read({profile_id: A})
    assert {} == found
    assert "is not a profile id" in message


def test_a_path_is_unambiguous_where_an_id_holds_a_dot() -> None:
    _, ((path, _),) = read({"a.b": {"family": "codex", "modle": 1}})
    assert 'profiles."a.b".modle' == path


def test_unknown_families_are_no_problem_when_nobody_knows_them() -> None:
    profiles, problems = parse_profiles({"x": {"family": "acme"}}, families=None)
    assert ([], ["x"]) == (problems, list(profiles))
    _, (problem,) = parse_profiles({"x": {}}, families=None)
    assert 'is missing; name the agent family, or write kind = "dynamic"' == problem.message
    _, (problem,) = parse_profiles({"x": {"family": "Ac me"}}, families=None)
    assert "bad_id" == problem.code


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    """The reference may be the secret itself, put there by mistake."""
    secret = "sk-ant-canary-0123456789"
    _, problems = parse_profiles(
        {
            "x": {
                "family": "codex",
                "env": {"A": {"secret": secret}, "B": [secret]},
                "args": {"k": secret},
                "key": secret,
            },
        },
        families=FAMILIES,
    )
    assert 4 == len(problems)
    assert "canary" not in repr(problems)


def test_every_mistake_of_a_file_is_named_at_once() -> None:
    _, problems = read({"A": A, "b": {"family": "nope", "args": 1}, "x": {"kind": "dynamic", "candidates": []}})
    assert ["profiles.A", "profiles.b.family", "profiles.b.args", "profiles.x.candidates"] == [p for p, _ in problems]


def test_free_tables_do_not_nest_for_ever() -> None:
    deep: Any = "x"
    for _ in range(40):
        deep = {"k": deep}
    _, ((_, message),) = read({"x": {"family": "codex", "options": deep}})
    assert "is nested more than 32 deep" in message


def test_the_rules_for_candidates_serve_the_stored_form_too() -> None:
    """R-PRO-7: the store names the same mistakes by its own paths."""
    assert ["candidates"] == [p.path for p in candidate_problems("d", None, (), {})]
    candidates = (Candidate(profile_id="gone"),)
    (problem,) = candidate_problems("d", None, candidates, {})
    assert ("candidates[0].profile_id", "unknown_candidate") == (problem.path, problem.code)
    assert "use one of: none" in problem.message


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*CONCRETE_KEYS, *DYNAMIC_KEYS, *CANDIDATE_KEYS, "hard", "secret", "A"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(table=st.dictionaries(st.sampled_from(["a", "b", "B", "a.b"]), _values, max_size=3))
def test_nothing_crashes_the_reader(table: dict[str, object]) -> None:
    """R-PRO-7: problems with paths, never an exception."""
    found, problems = parse_profiles(table, families=FAMILIES)
    assert (set(found) == set(table)) is (not problems)
    assert all(p.path.startswith("profiles.") and p.message for p in problems)

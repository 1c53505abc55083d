"""Creating, changing and deleting stored profiles (R-PRO-1 to R-PRO-9)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk import (
    Candidate,
    ConcreteProfile,
    Dependent,
    DynamicProfile,
    NotPermitted,
    Operation,
    ProfileConflict,
    ProfileInUse,
    ProfileInvalid,
    Router,
)
from kandev_routing_sdk.errors import (
    DynamicRoutingDisabled,
    ProfileNotFound,
    ProfileUnusable,
    RoutingError,
    UsageError,
)
from kandev_routing_sdk.profiles import DependentsUnknown, DuplicateRefused, ProfileDeclared, SecretRef
from kandev_routing_sdk.records import Commit
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.settings import Settings
from kandev_routing_sdk.testing import ScriptedAdapter
from tests.profile_store.conftest import Open, concrete, dynamic
from tests.store._values import NOW

RETRY = {"retry": {"enabled": True, "max_retries": 2, "initial_interval_seconds": 5}}
OFF = {"retry": {"enabled": False}, "wait_for_reset": {"enabled": False}, "on_exhausted": "stop"}


def ids(router: Router) -> list[tuple[str, int]]:
    return [(entry.id, entry.version) for entry in router.profiles.list()]


def refused(problem: ProfileInvalid) -> list[str]:
    return [found.path for found in problem.problems]


def run(router: Router, profile_id: str, session_id: str = "session:1", **fields: Any) -> None:
    """Leave a session behind that was asked for a profile."""
    values = {"logical_profile_id": profile_id, "created_at": NOW, "updated_at": NOW, "revision": 1, **fields}
    router._engine.store.commit(Commit(before=None, after=Route(session_id=session_id, **values), now=NOW))


# --- create, update ---


def test_every_write_returns_the_normalised_document(opens: Open) -> None:
    """R-PRO-6: with its kind (R-PRO-2), its version, and complete policies."""
    profiles = opens().profiles
    sol = profiles.create(concrete(env={"LANG": "C", "KEY": {"secret": "env:KEY"}}, name="Sol"))
    assert ("sol", "concrete", 1, "stored", True) == (sol.id, sol.kind, sol.version, sol.origin, sol.selectable)
    assert {"LANG": "C", "KEY": SecretRef(secret="env:KEY")} == sol.profile.env  # type: ignore[union-attr]
    policy = {"version": 1, "transient": OFF, "hard": OFF}
    made = profiles.create(dynamic({"profile_id": "sol", "policy": policy}))
    zeros = {"retry": {"enabled": False, "max_retries": 0, "initial_interval_seconds": 0}}
    stored: Any = made.document()["candidates"]
    assert zeros == {"retry": stored[0]["policy"]["hard"]["retry"]}
    assert ("dynamic", True) == (made.document()["kind"], stored[0]["enabled"])
    again = profiles.update({**made.document(), "name": "Second"}, expected_version=1)
    assert (2, "Second") == (again.version, profiles.get("frontier").profile.name)


def test_models_and_documents_are_taken_alike(opens_quickly: Open) -> None:
    profiles = opens_quickly().profiles
    sol = ConcreteProfile(id="sol", name="Sol", family="scripted", command=("x",), options={"a": [1, {"b": True}]})
    assert sol == profiles.create(sol).profile
    frontier = DynamicProfile(id="frontier", name="Frontier", candidates=(Candidate(profile_id="sol"),))
    assert frontier == profiles.create(frontier).profile
    assert sol.model_copy(update={"version": 2}) == profiles.update(sol, expected_version=1).profile


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({}, ["id", "family"]),
        (concrete("Not an id"), ["id"]),
        (concrete("Not an id", family="scriptd", comand=[]), ["id", "comand", "family"]),
        (concrete(family="scriptd"), ["family"]),
        (concrete(family="dynamic"), ["family"]),
        (concrete(comand=[]), ["comand"]),
        (concrete(command=None), ["command"]),
        (concrete(tier="gold"), ["tier"]),
        (concrete(options={"a": [None]}), ["options.a[0]"]),
        (concrete(env={"API_KEY": "zq-value"}), ["env.API_KEY"]),
        (concrete(description="\ud800"), ["description"]),
        (dynamic(), ["candidates"]),
        (dynamic("frontier", "sol", "sol", "nobody", "other"), [f"candidates[{i}].profile_id" for i in (0, 2, 3, 4)]),
        (dynamic("office", "wide", "south"), [f"candidates[{i}].profile_id" for i in (0, 1, 2)]),
        # where a candidate stands in the list is its position, so that no two can have the same
        (dynamic({"profile_id": "sol", "position": 0}), ["candidates[0].position"]),
        (dynamic({"profile_id": "sol", "policy": {"version": 2}}), ["candidates[0].policy.version"] + [""] * 2),
        (
            dynamic("sol", {"profile_id": "south", "policy": {"version": 1, "transient": OFF, "hard": OFF | RETRY}}),
            ["candidates[1].profile_id"],
        ),
        (
            dynamic(
                {"profile_id": "sol", "policy": {"version": 1, "transient": OFF, "hard": {**OFF, "on_exhausted": "x"}}}
            ),
            ["candidates[0].policy.hard.on_exhausted"],
        ),
        (
            dynamic(
                "sol",
                {
                    "profile_id": "luna",
                    "policy": {
                        "version": 1,
                        "transient": OFF,
                        "hard": {**OFF, "retry": {"enabled": True, "max_retries": 11, "initial_interval_seconds": 5}},
                    },
                },
            ),
            ["candidates[1].policy.hard.retry.max_retries"],
        ),
    ],
)
def test_what_is_wrong_is_said_by_field(opens_quickly: Open, document: dict[str, Any], paths: list[str]) -> None:
    """R-PRO-3, R-PRO-4, R-PRO-7; and no value is repeated."""
    profiles = opens_quickly().profiles
    for made in (
        concrete(),
        concrete("luna"),
        concrete("office", office_identity=True),
        concrete("wide", auto_fallback=True),
        concrete("south", scope="south"),
        dynamic("sol", profile_id="other"),
    ):
        profiles.create(made)
    before = ids(profiles_of := opens_quickly())
    with pytest.raises(ProfileInvalid) as caught:
        profiles.create(document)
    found = refused(caught.value)
    assert len(paths) == len(found), found
    assert [path for path in paths if path] == [path for path in found if path in paths]
    assert "zq-value" not in str(caught.value)
    assert before == ids(profiles_of)


def test_a_failing_adapter_check_is_a_problem(opens_quickly: Open) -> None:
    class Broken(ScriptedAdapter):
        def validate(self, profile: ConcreteProfile) -> Any:
            raise RuntimeError("zq-value")

    with pytest.raises(ProfileInvalid, match="RuntimeError") as caught:
        opens_quickly(adapters=[Broken()]).profiles.create(concrete())
    assert (["family"], True) == (refused(caught.value), "zq-value" not in str(caught.value))


def test_a_stale_version_is_a_conflict_with_the_current_document(opens: Open) -> None:
    """R-PRO-6: two people had version 1 open."""
    one, other = opens().profiles, opens().profiles
    mine = one.create(concrete())
    theirs = other.update({**mine.document(), "name": "Theirs"}, expected_version=1)
    with pytest.raises(ProfileConflict) as caught:
        one.update({**mine.document(), "name": "Mine"}, expected_version=1)
    assert theirs.document() == caught.value.current
    assert "Theirs" == one.get("sol").profile.name
    with pytest.raises(ProfileConflict, match="exists already, at version 2"):
        one.create(concrete())
    one.update({**mine.document(), "name": "Mine"}, expected_version=2)
    with pytest.raises(ProfileConflict):
        other.delete("sol", expected_version=2)
    with pytest.raises(ProfileConflict):
        other.disable("sol", expected_version=2)


def test_a_profile_that_came_back_is_another_one(opens: Open) -> None:
    profiles = opens().profiles
    first = profiles.create(concrete())
    profiles.delete("sol")
    with pytest.raises(ProfileNotFound):
        profiles.update(first.profile, expected_version=1)
    assert 3 == profiles.create(concrete()).version
    with pytest.raises(ProfileConflict):
        profiles.update(first.profile, expected_version=1)


def test_a_kind_stays(opens_quickly: Open) -> None:
    profiles = opens_quickly().profiles
    profiles.create(concrete())
    profiles.create(concrete("luna"))
    with pytest.raises(ProfileInvalid) as caught:
        profiles.update(dynamic("luna", profile_id="sol"), expected_version=1)
    assert ["kind"] == refused(caught.value)


# --- who refers to it ---


def test_a_profile_in_use_is_kept_until_confirmed(opens: Open) -> None:
    """R-PRO-8: lists, sessions and the host's own; then a stale selection fails closed, a stale candidate is passed over."""
    host = [Dependent("task", "T-7", "Nightly build")]
    router = opens(references=lambda profile_id: host if profile_id == "sol" else ())
    profiles = router.profiles
    profiles.create(concrete())
    profiles.create(concrete("luna"))
    profiles.create(dynamic("sol", "luna"))
    run(router, "sol")
    run(router, "frontier", "session:2", execution_profile_id="sol")
    run(router, "sol", "session:3", state=State.STOPPED)
    expected = [
        ("profile", "frontier", "frontier"),
        ("session", "session:1", "sol"),
        ("session", "session:2", "frontier"),
        ("task", "T-7", "Nightly build"),
    ]
    assert expected == sorted(profiles.dependents("sol"))
    for change in (profiles.delete, profiles.disable):
        with pytest.raises(ProfileInUse) as caught:
            change("sol")
        assert expected == sorted(caught.value.dependents)
        assert 1 == profiles.get("sol").version
    lists = profiles.get("frontier")
    profiles.delete("sol", confirm=True)
    assert lists == profiles.get("frontier")
    with pytest.raises(ProfileNotFound):
        router.resolve("sol")
    walk = router.explain("frontier").walk
    assert [("sol", "missing"), ("luna", "chosen")] == [(step.profile_id, step.reason) for step in walk]


def test_a_disabled_profile_fails_closed_and_comes_back(opens: Open) -> None:
    router = opens()
    profiles = router.profiles
    profiles.create(concrete())
    profiles.create(concrete("luna"))
    profiles.create(dynamic("sol", "luna"))
    entry = profiles.disable("sol", confirm=True)
    assert (2, False, "disabled") == (entry.version, entry.selectable, entry.reason)
    with pytest.raises(ProfileUnusable):
        router.resolve("sol")
    assert "luna" == router.explain("frontier").chosen_profile_id
    assert profiles.enable("sol").selectable
    assert "sol" == router.explain("frontier").chosen_profile_id


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"auto_fallback": True}, "incompatible"),
        ({"office_identity": True}, "incompatible"),
        ({"scope": "south"}, "cross_scope"),
        ({"enabled": False}, "disabled"),
    ],
)
def test_an_update_that_spoils_a_candidate_is_told(opens_quickly: Open, fields: dict[str, Any], word: str) -> None:
    """R-PRO-3: or the list would hold what it may not. R-PRO-8: once confirmed, it is passed over, and is itself as ever."""
    profiles = (router := opens_quickly()).profiles
    profiles.create(concrete())
    profiles.create(concrete("luna"))
    profiles.create(dynamic("sol", "luna"))
    with pytest.raises(ProfileInUse):
        profiles.update(concrete(**fields), expected_version=1)
    profiles.update(concrete(name="Harmless"), expected_version=1)
    assert 3 == profiles.update(concrete(**fields), expected_version=2, confirm=True).version
    walk = [(step.profile_id, step.reason) for step in router.explain("frontier").walk]
    assert [("sol", word), ("luna", "chosen")] == walk
    if word != "disabled":
        assert "sol" == router.explain("sol").chosen_profile_id


@pytest.mark.parametrize("problem", [RuntimeError("zq-value"), UsageError("the host is away")])
def test_a_lookup_that_fails_blocks_the_change(opens_quickly: Open, problem: Exception) -> None:
    """R-PRO-8: confirmed or not."""

    def away(profile_id: str) -> Any:
        raise problem

    profiles = opens_quickly(references=away).profiles
    profiles.create(concrete())
    for confirm in (False, True):
        with pytest.raises(DependentsUnknown) as caught:
            profiles.delete("sol", confirm=confirm)
        assert "zq-value" not in str(caught.value)
        with pytest.raises(DependentsUnknown):
            profiles.disable("sol", confirm=confirm)
    assert 1 == profiles.get("sol").version


def test_what_a_hook_returns_must_be_dependents(opens_quickly: Open) -> None:
    def odd(profile_id: str) -> Any:
        return [("two", "words")]

    profiles = opens_quickly(references=odd).profiles
    profiles.create(concrete())
    with pytest.raises(DependentsUnknown):
        profiles.delete("sol", confirm=True)


# --- what is not written ---


def test_a_dynamic_profile_is_not_duplicated(opens_quickly: Open) -> None:
    """R-PRO-9."""
    profiles = opens_quickly().profiles
    profiles.create(concrete(name="Sol", model="m"))
    profiles.create(dynamic("sol"))
    copy = profiles.duplicate("sol", "luna", name="Luna")
    assert ("Luna", "m", 1) == (copy.profile.name, copy.document()["model"], copy.version)
    with pytest.raises(DuplicateRefused):
        profiles.duplicate("frontier", "other")
    assert ["frontier", "luna", "sol"] == [i for i, _ in ids(opens_quickly())]


def test_the_dynamic_family_is_always_there(opens_quickly: Open) -> None:
    """R-PRO-2."""
    assert ("dynamic", "scripted") == opens_quickly().profiles.families
    assert ("dynamic",) == opens_quickly(adapters=()).profiles.families


def test_with_the_flag_off_dynamic_profiles_are_only_read(opens: Open) -> None:
    """R-RES-4: refused before any side effect; marked, and concrete ones are untouched."""
    asked: list[str] = []

    def noted(profile_id: str) -> list[Dependent]:
        asked.append(profile_id)
        return []

    on = opens().profiles
    on.create(concrete())
    on.create(dynamic("sol"))
    off = opens(dynamic_agent_routing=False, references=noted).profiles
    for change in (
        lambda: off.create(dynamic("sol", profile_id="other")),
        lambda: off.update(dynamic("sol", name="Other"), expected_version=1),
        lambda: off.delete("frontier", confirm=True),
        lambda: off.disable("frontier", confirm=True),
        lambda: off.enable("frontier"),
        lambda: off.import_text('version = 1\n[profiles.n]\nkind = "dynamic"\ncandidates = [{ profile = "sol" }]\n'),
    ):
        with pytest.raises(DynamicRoutingDisabled):
            change()
    assert [] == asked
    assert [("frontier", "dynamic_routing_disabled"), ("sol", None)] == [(e.id, e.reason) for e in off.list()]
    assert ("dynamic", False) == (off.get("frontier").kind, off.get("frontier").selectable)
    assert 2 == off.update(concrete(name="Sol"), expected_version=1).version
    assert ((), ("frontier", "sol")) == (
        off.import_text(off.export()).updated,
        off.import_text(on.export()).unchanged[::-1],
    )
    assert on.get("frontier").selectable


def test_a_profile_of_another_scope_may_not_be_selected(opens_quickly: Open) -> None:
    """R-PRO-1, R-RES-3."""
    profiles = (router := opens_quickly(scope="north")).profiles
    profiles.create(concrete(scope="south"))
    profiles.create(concrete("luna", scope="north"))
    assert [("luna", None), ("sol", "cross_scope")] == [(e.id, e.reason) for e in profiles.list()]
    for use in (router.resolve, router.explain):
        with pytest.raises(ProfileUnusable, match="belongs to scope 'south' and cannot be used in 'north'"):
            use("sol")
    assert "luna" == router.explain("luna").chosen_profile_id


def test_the_host_is_asked_before_anything_is_written(opens: Open) -> None:
    allowed, asked = True, list[tuple[str, str]]()

    def authorise(action: str, subject: str, /) -> None:
        asked.append((action, subject))
        if not allowed:
            raise NotPermitted("not you")

    profiles = opens(authorise=authorise).profiles
    profiles.create(concrete())
    profiles.import_text('version = 1\n[profiles.luna]\nfamily = "scripted"\ncommand = ["x"]\n')
    allowed = False
    text = 'version = 1\n[profiles.terra]\nfamily = "scripted"\ncommand = ["x"]\n'
    for change in (
        lambda: profiles.create(concrete("other")),
        lambda: profiles.update(concrete(), expected_version=1),
        lambda: profiles.delete("sol"),
        lambda: profiles.delete("nobody"),
        lambda: profiles.disable("sol"),
        lambda: profiles.import_text(text),
    ):
        with pytest.raises(NotPermitted):
            change()
    assert {Operation.PROFILE_WRITE} == {action for action, _ in asked}
    assert ["sol", "luna", "other", "sol", "sol", "nobody", "sol", "terra"] == [subject for _, subject in asked]
    assert ["luna", "sol"] == [entry.id for entry in profiles.list()]


def test_nothing_is_written_through_a_router_that_reads(opens_quickly: Open) -> None:
    opens_quickly().profiles.create(concrete())
    profiles = opens_quickly(read_only=True).profiles
    for change in (lambda: profiles.delete("sol"), lambda: profiles.create(concrete("luna"))):
        with pytest.raises(UsageError, match="read_only"):
            change()
    assert ["sol"] == [entry.id for entry in profiles.list()]


def test_a_declared_profile_hides_and_is_not_written(opens_quickly: Open) -> None:
    """R-PRO-10: the file's wins."""
    file = {"sol": ConcreteProfile(id="sol", name="Of the file", family="scripted", command=("x",))}
    opens_quickly().profiles.create(concrete(name="Stored"))
    profiles = (
        router := opens_quickly(settings=Settings("unused", dynamic_agent_routing=True, profiles=file))
    ).profiles
    assert [("Of the file", "declared", None)] == [(e.profile.name, e.origin, e.updated_at) for e in profiles.list()]
    assert "Of the file" == router.resolve("sol").profile.name
    profiles.create(dynamic("sol"))
    for change in (
        lambda: profiles.create(concrete()),
        lambda: profiles.update(concrete(), expected_version=1),
        lambda: profiles.delete("sol", confirm=True),
        lambda: profiles.disable("sol", confirm=True),
    ):
        with pytest.raises(ProfileDeclared, match="the configuration"):
            change()
    with pytest.raises(ProfileInvalid) as caught:
        profiles.import_text('version = 1\n[profiles.sol]\nfamily = "scripted"\ncommand = ["x"]\n')
    assert ["profiles.sol"] == refused(caught.value)


def test_a_host_with_profiles_of_its_own_writes_none_here(opens_quickly: Open) -> None:
    own = Settings("unused", profiles={"sol": ConcreteProfile(id="sol", name="Sol", family="scripted")})
    opens_quickly().profiles.create(concrete("luna"))
    profiles = (router := opens_quickly(profiles=own)).profiles
    assert ["sol"] == [entry.id for entry in profiles.list()]
    with pytest.raises(ProfileDeclared, match="the host"):
        profiles.create(concrete("terra"))
    with pytest.raises(ProfileNotFound):
        router.resolve("luna")


@pytest.mark.parametrize("profile_id", ["nobody", ""])
def test_who_is_not_there_is_said(opens_quickly: Open, profile_id: str) -> None:
    profiles = opens_quickly().profiles
    for change in (
        lambda: profiles.get(profile_id),
        lambda: profiles.delete(profile_id),
        lambda: profiles.enable(profile_id),
        lambda: profiles.disable(profile_id),
        lambda: profiles.export([profile_id]),
        lambda: profiles.duplicate(profile_id, "sol"),
    ):
        with pytest.raises(RoutingError) as caught:
            change()
        assert isinstance(caught.value, ProfileNotFound)

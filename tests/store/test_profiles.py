"""Stored profiles: one transaction, versions that only go up, and what a change is decided from (R-PRO-6)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import pytest
import sqlalchemy as sa

from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument, RetryPolicy
from kandev_routing_sdk.profiles import (
    Candidate,
    ConcreteProfile,
    DynamicProfile,
    ProfileConflict,
    SecretRef,
)
from kandev_routing_sdk.records import ProfileChange, StoredProfile
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.types import ProfileKind, Transport
from tests.store._values import NOW, create, made, route


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with open_store(database_url) as opened:
        yield opened


def write(store: SqlStore, *changes: ProfileChange) -> list[StoredProfile | None]:
    return store.change_profiles(lambda _: changes, now=NOW)


def versions(store: SqlStore) -> dict[str, int]:
    return {stored.profile_id: stored.version for stored in store.profiles()}


def test_what_was_written_is_read_again(store: SqlStore) -> None:
    sol = ConcreteProfile(
        id="sol",
        name="Sol ☀",
        icon="sun",
        family="acme",
        transport=Transport.ACP,
        command=("acme", "--now"),
        env={"KEY": SecretRef(secret="env:KEY"), "LANG": "C"},
        options={"a": [1, 2.5, {"b": "\0"}], "c": True},
        enabled=False,
    )
    retry = ClassPolicy(retry=RetryPolicy(enabled=True, max_retries=2, initial_interval_seconds=5))
    frontier = DynamicProfile(
        id="frontier",
        name="Frontier",
        candidates=(
            Candidate(profile_id="sol", policy=PolicyDocument(hard=retry)),
            Candidate(profile_id="x", enabled=False),
        ),
    )
    written = write(store, ProfileChange("sol", None, sol), ProfileChange("frontier", None, frontier))
    assert [sol, frontier] == [stored and stored.profile for stored in written]
    assert [frontier, sol] == [stored.profile for stored in store.profiles()]
    assert StoredProfile("frontier", ProfileKind.DYNAMIC, 1, frontier, NOW) == store.profile("frontier")
    assert store.profile("nobody") is None


def test_a_version_goes_up_and_a_stale_one_changes_nothing(store: SqlStore) -> None:
    write(store, made("sol"), made("fable"))
    write(store, made("sol", 1, name="Second"))
    with pytest.raises(ProfileConflict) as caught:
        write(store, made("fable", 1, name="Lost"), made("sol", 1, name="Third"))
    current = caught.value.current or {}
    assert ("sol", 1) == (caught.value.profile_id, caught.value.expected)
    assert (2, "Second") == (current["version"], current["name"])
    assert {"sol": 2, "fable": 1} == versions(store)
    assert ["Fable", "Second"] == [stored.profile.name for stored in store.profiles() if stored.profile]


@pytest.mark.parametrize(
    "change", [made("sol"), made("nobody", 1), ProfileChange("nobody", None, None), made("sol", 3)]
)
def test_what_is_expected_must_be_there(store: SqlStore, change: ProfileChange) -> None:
    write(store, made("sol"))
    with pytest.raises(ProfileConflict):
        write(store, change)
    assert {"sol": 1} == versions(store)


def test_a_version_is_never_used_twice(store: SqlStore, database_url: str) -> None:
    """Or whoever read version 1 of the deleted profile would overwrite the new one."""
    write(store, made("sol", env={"A": "zq-value"}))
    assert [None] == write(store, ProfileChange("sol", 1, None))
    assert (None, []) == (store.profile("sol"), store.profiles())
    engine = sa.create_engine(database_url)
    with engine.connect() as connection:
        assert [("", 2)] == [tuple(row) for row in connection.execute(sa.text("SELECT body, version FROM kr_profile"))]
    engine.dispose()
    with pytest.raises(ProfileConflict) as caught:
        write(store, made("sol", 2))
    assert caught.value.current is None
    write(store, made("sol"))
    assert {"sol": 3} == versions(store)
    with pytest.raises(ProfileConflict):
        write(store, made("sol", 1))


def test_what_a_plan_raises_changes_nothing(store: SqlStore) -> None:
    def plan(stored: Mapping[str, StoredProfile]) -> Sequence[ProfileChange]:
        raise LookupError

    with pytest.raises(LookupError):
        store.change_profiles(plan, now=NOW)
    assert [] == store.profiles()


def test_a_plan_sees_what_it_writes_over(database_url: str) -> None:
    """Two writers that each count, and add one: none is lost, though neither names a version that it read before."""

    def one_more(stored: Mapping[str, StoredProfile]) -> Sequence[ProfileChange]:
        before = stored.get("sol")
        return [made("sol", None if before is None else before.version)]

    def many() -> None:
        for _ in range(10):
            shared.change_profiles(one_more, now=NOW)

    with open_store(database_url) as shared:
        threads = [threading.Thread(target=many) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {"sol": 30} == versions(shared)


def test_a_row_of_a_newer_version_is_told_and_keeps_no_other(store: SqlStore, database_url: str) -> None:
    write(store, made("sol"), made("fable"))
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sa.text("""UPDATE kr_profile SET body = '{"kind": "later"}' WHERE profile_id = 'sol'"""))
    engine.dispose()
    assert {"fable": True, "sol": False} == {s.profile_id: s.profile is not None for s in store.profiles()}
    write(store, made("sol", 1, name="Readable"))
    assert {"fable": 1, "sol": 2} == versions(store)


def test_who_uses_a_profile(store: SqlStore) -> None:
    """R-PRO-8: who was asked for it or runs it, and is not stopped; newest first."""
    for number, fields in enumerate(
        [
            {"logical_profile_id": "sol"},
            {"logical_profile_id": "frontier", "execution_profile_id": "sol", "state": State.WAITING},
            {"logical_profile_id": "sol", "state": State.STOPPED},
            {"logical_profile_id": "fable", "execution_profile_id": "fable"},
        ]
    ):
        store.commit(create(after=route(f"s{number}", **fields | {"created_at": NOW + timedelta(seconds=number)})))
    assert ["s1", "s0"] == [r.session_id for r in store.profile_users("sol")]
    assert ["s1"] == [r.session_id for r in store.profile_users("sol", limit=1)]
    assert [] == store.profile_users("nobody")

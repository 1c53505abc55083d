"""The profiles of configuration and store, as each decision reads them (R-ENG-4)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from kandev_routing_sdk import Candidate, ConcreteProfile, DynamicProfile, Router
from kandev_routing_sdk.errors import ProfileUnusable
from kandev_routing_sdk.profile_store import LayeredProfiles
from kandev_routing_sdk.profiles import DependentsUnknown, Profile
from kandev_routing_sdk.settings import Settings
from kandev_routing_sdk.store import open_store
from tests.profile_store.conftest import Open, concrete, dynamic

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "profiles.md"


FIT_AND_UNFIT: Final[Mapping[str, dict[str, Any]]] = {
    "wide": {"auto_fallback": True},
    "office": {"office_identity": True},
    "south": {"scope": "south"},
    "off": {"enabled": False},
    "north": {"scope": "north"},
    "sol": {},
}


def _spoil(url: str, profile_id: str) -> None:
    """As a newer version would have written it."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sa.text("""UPDATE kr_profile SET body = '{"later": 1}' WHERE profile_id = :id"""), {"id": profile_id}
        )
    engine.dispose()


def chosen(router: Router) -> str | None:
    return router.explain("frontier").chosen_profile_id


def test_what_another_process_wrote_counts_at_the_next_decision(opens: Open) -> None:
    """As edited, disabled, deleted and made again: nothing is kept from one decision to the next."""
    router, other = opens(), opens().profiles
    other.create(concrete())
    other.create(concrete("luna"))
    other.create(dynamic("sol", "luna"))
    assert "sol" == chosen(router)
    other.update(dynamic("luna", "sol"), expected_version=1)
    assert "luna" == chosen(router)
    other.disable("luna", confirm=True)
    assert "sol" == chosen(router)
    other.enable("luna")
    assert "luna" == chosen(router)
    other.delete("luna", confirm=True)
    assert "sol" == chosen(router)
    other.create(concrete("luna"))
    assert "luna" == chosen(router)


def test_declared_profiles_need_no_store(sqlite_url: str) -> None:
    """A deployment with its profiles in a file pays nothing for stored ones, and does not stop when the store does."""
    sol = ConcreteProfile(id="sol", name="Sol", family="scripted")
    with open_store(sqlite_url) as store:
        source = LayeredProfiles(Settings("unused", profiles={"sol": sol}), store)
    assert sol == source.get("sol")


def test_one_that_a_newer_version_wrote_fails_closed(opens_quickly: Open, sqlite_url: str) -> None:
    """R-RES-3; and keeps no other from being used, or written over."""
    router = opens_quickly()
    profiles = router.profiles
    profiles.create(concrete())
    profiles.create(concrete("luna"))
    profiles.create(dynamic("sol", "luna"))
    _spoil(sqlite_url, "sol")
    assert "luna" == chosen(router)
    assert ["not_launchable", "chosen"] == [step.reason for step in router.explain("frontier").walk]
    for use in (router.resolve, profiles.get, profiles.enable):
        with pytest.raises(ProfileUnusable, match="by this version"):
            use("sol")
    assert ["frontier", "luna"] == [entry.id for entry in profiles.list()]
    assert 2 == profiles.update(concrete(), expected_version=1).version
    assert "sol" == chosen(router)


def test_who_a_newer_versions_list_refers_to_cannot_be_known(opens_quickly: Open, sqlite_url: str) -> None:
    """R-PRO-8: that blocks what would harm a candidate, confirmed or not, and nothing else."""
    profiles = opens_quickly().profiles
    profiles.create(concrete())
    profiles.create(dynamic("sol"))
    profiles.create(dynamic("sol", profile_id="other"))
    _spoil(sqlite_url, "frontier")
    for confirm in (False, True):
        for change in (profiles.delete, profiles.disable):
            with pytest.raises(DependentsUnknown, match="'frontier' cannot be read by this version"):
                change("sol", confirm=confirm)
    assert 2 == profiles.update(concrete(name="Sol"), expected_version=1).version
    profiles.delete("other")
    profiles.delete("frontier")
    profiles.delete("sol")


def test_what_a_hosts_own_source_lists_must_be_fit(opens_quickly: Open) -> None:
    """R-PRO-3: nobody checked its profiles when they were written."""
    made = [
        ConcreteProfile(id=i, name=i, family="scripted", command=(sys.executable,), **fields)
        for i, fields in FIT_AND_UNFIT.items()
    ]
    listed = tuple(Candidate(profile_id=i) for i in ("frontier", "gone", *FIT_AND_UNFIT))
    own: list[Profile] = [*made, DynamicProfile(id="frontier", name="Frontier", scope="north", candidates=listed)]
    router = opens_quickly(profiles=Settings("unused", profiles={p.id: p for p in own}))
    assert [
        ("frontier", "incompatible"),
        ("gone", "missing"),
        ("wide", "incompatible"),
        ("office", "incompatible"),
        ("south", "cross_scope"),
        ("off", "disabled"),
        ("north", "chosen"),
        ("sol", "after_chosen"),
    ] == [(step.profile_id, step.reason) for step in router.explain("frontier").walk]


def test_the_how_to_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = [part.partition("```")[0] for part in HOW_TO.read_text("utf-8").split("```python\n")[1:]]
    assert 3 == len(parts)
    for part in (parts[0], parts[2]):
        exec(part, {})  # our own page
    assert "still used by ['frontier']\n" == capsys.readouterr().out
    with Router.open(f"sqlite:///{tmp_path / 'routing.db'}") as router:
        assert "gpt-5.5" == router.profiles.get("sol").document()["model"]

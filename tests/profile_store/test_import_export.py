"""Profiles from a file into the store and back (R-PRO-10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_routing_sdk import ImportReport, ProfileInUse, ProfileInvalid
from kandev_routing_sdk.errors import ConfigError, ConfigInvalid, ConfigNotFound, ConfigSyntaxError
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.settings import profile_tables
from tests.profile_store.conftest import Open, concrete, dynamic

FILE = """
version = 1

[features]
dynamic_agent_routing = true

[profiles.sol]
family = "scripted"
command = ["x"]
env = { API_KEY = { secret = "env:SOL_KEY" }, LANG = "C" }

[profiles.luna]
family = "scripted"
command = ["x"]

[profiles.frontier]
kind = "dynamic"
[[profiles.frontier.candidates]]
profile = "luna"
policy.hard.wait_for_reset = { enabled = true, max_wait_seconds = 60 }
[[profiles.frontier.candidates]]
profile = "sol"
"""


def test_an_import_says_what_it_did_and_again_does_nothing(opens: Open, tmp_path: Path) -> None:
    profiles = opens().profiles
    profiles.create(concrete("luna"))
    profiles.create(concrete("terra"))
    file = tmp_path / "profiles.toml"
    file.write_text(FILE, "utf-8")
    assert ImportReport(("sol", "frontier"), ("luna",)) == profiles.import_file(file)
    versions = [(entry.id, entry.version) for entry in profiles.list()]
    assert [("frontier", 1), ("luna", 2), ("sol", 1), ("terra", 1)] == versions
    assert ImportReport(unchanged=("sol", "luna", "frontier")) == profiles.import_file(file)
    assert versions == [(entry.id, entry.version) for entry in profiles.list()]


def test_an_export_imports_to_the_same(opens: Open, tmp_path: Path) -> None:
    profiles = opens().profiles
    profiles.import_text(FILE)
    text = profiles.export()
    assert {"sol", "luna", "frontier"} == set(profiles.import_text(text).unchanged)
    for entry in profiles.list():
        profiles.delete(entry.id, confirm=True)
    profiles.import_text(text)
    assert text == profiles.export()
    assert "SOL_KEY" in text
    found, problems = parse_profiles(profile_tables(text, "it"), families=None)
    assert ([], {"sol", "luna", "frontier"}) == (problems, set(found))


def test_a_list_is_exported_with_its_candidates(opens_quickly: Open) -> None:
    profiles = opens_quickly().profiles
    profiles.import_text(FILE)
    profiles.create(concrete("terra"))
    assert {"sol", "luna", "frontier"} == set(profile_tables(profiles.export(["frontier"]), "it"))
    assert {"terra"} == set(profile_tables(profiles.export(["terra"]), "it"))


def test_a_candidate_may_be_stored_already(opens_quickly: Open) -> None:
    profiles = opens_quickly().profiles
    profiles.create(concrete("luna"))
    text = 'version = 1\n[profiles.frontier]\nkind = "dynamic"\ncandidates = [{ profile = "luna" }]\n'
    assert ("frontier",) == profiles.import_text(text).created


@pytest.mark.parametrize(
    ("text", "kind", "paths"),
    [
        ("version = ", ConfigSyntaxError, None),
        ("", ConfigInvalid, ["version"]),
        ("version = 1\nprofiles = 3", ConfigInvalid, ["profiles"]),
        ("version = 1\n[profils]", ConfigInvalid, ["profils"]),
        (
            FILE.replace('profile = "luna"', 'profile = "moon"'),
            ProfileInvalid,
            ["profiles.frontier.candidates[0].profile"],
        ),
        (FILE.replace('LANG = "C"', 'TOKEN = "zq-value"'), ProfileInvalid, ["profiles.sol.env.TOKEN"]),
        (FILE.replace('command = ["x"]', "", 1), ProfileInvalid, ["profiles.sol.command"]),
        ('version = 1\n[profiles.pair]\nfamily = "scripted"\ncommand = ["x"]', ProfileInvalid, ["profiles.pair.kind"]),
    ],
)
def test_all_or_nothing(opens_quickly: Open, text: str, kind: type[ConfigError], paths: list[str] | None) -> None:
    profiles = opens_quickly().profiles
    profiles.create(concrete("one"))
    profiles.create(dynamic("one", profile_id="pair"))
    with pytest.raises(kind) as caught:
        profiles.import_text(text, source="theirs")
    assert type(caught.value) is kind
    assert "theirs" in str(caught.value)
    assert "zq-value" not in str(caught.value)
    if isinstance(caught.value, ConfigInvalid):
        assert paths == [problem.path for problem in caught.value.problems]
    assert ["one", "pair"] == [entry.id for entry in profiles.list()]


def test_an_import_asks_for_those_it_would_harm(opens: Open) -> None:
    """R-PRO-8; but not where the same file changes the list as well."""
    profiles = opens().profiles
    profiles.import_text(FILE)
    disabled = FILE.replace("[profiles.luna]", "[profiles.luna]\nenabled = false")
    with pytest.raises(ProfileInUse):
        profiles.import_text(disabled)
    assert profiles.get("luna").profile.enabled
    both = disabled.replace('profile = "luna"', 'profile = "sol"', 1).rpartition("[[")[0]
    assert ("luna", "frontier") == profiles.import_text(both).updated
    profiles.import_text(FILE)
    assert ("luna",) == profiles.import_text(disabled, confirm=True).updated


def test_a_file_that_cannot_be_read(opens_quickly: Open, tmp_path: Path) -> None:
    profiles = opens_quickly().profiles
    with pytest.raises(ConfigNotFound):
        profiles.import_file(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigSyntaxError, match="UTF-8"):
        profiles.import_file(tmp_path / "latin.toml")

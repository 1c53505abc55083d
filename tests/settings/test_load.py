"""Reading the configuration file (R-CLI-2, R-CLI-5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_routing_sdk import Settings, load_settings
from kandev_routing_sdk.errors import ConfigError, ConfigSyntaxError


@pytest.mark.parametrize(
    "text",
    ["version = [", f"version = {'9' * 5000}", f"x = {'[' * 5000}{']' * 5000}", f"x = {'{a = ' * 3000}1{'}' * 3000}"],
    ids=["broken", "a number too long", "lists too deep", "tables too deep"],
)
def test_a_file_that_the_parser_gives_up_on_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "kandev-routing.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigSyntaxError, match=r"kandev-routing\.toml"):
        load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("", "version: is missing; write version = 1 at the top"),
        ('version = "1"', "version: must be 1, not '1'; write version = 1 at the top"),
        ("version = 1\n[profiles.a]\nfamily = claude", "(at line 3, column 10); text stands in quotes"),
        (
            "version = 1\ndynamic_agent_routing = true",
            "dynamic_agent_routing: unknown key; it belongs under [features]",
        ),
        ('version = 1\nurl = "sqlite:///x"', "url: unknown key; it belongs under [store]"),
        (
            'version = 1\n[profiles.a]\nkind = "dynamic"\n[profiles.a.candidates]\nprofile = "b"',
            "got a table; write [[profiles.a.candidates]] with double brackets",
        ),
    ],
)
def test_a_beginners_slip_is_told_its_way_out(tmp_path: Path, text: str, way: str) -> None:
    """R-CLI-2: one sentence that names the key and what to write instead."""
    (tmp_path / "kandev-routing.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(environ={}, cwd=tmp_path)
    assert way in str(caught.value)


def test_a_wrong_flag_or_variable_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    (tmp_path / "kandev-routing.toml").write_text("version = 1", "utf-8")
    with pytest.raises(ConfigError, match=r"^--store: must be sqlite:///FILE"):
        load_settings(environ={}, cwd=tmp_path, store="foo")
    with pytest.raises(ConfigError, match=r"^KANDEV_FEATURES_DYNAMIC_AGENT_ROUTING: must be true or false"):
        load_settings(environ={"KANDEV_FEATURES_DYNAMIC_AGENT_ROUTING": "maybe"}, cwd=tmp_path)


def test_what_was_edited_has_another_version(tmp_path: Path) -> None:
    """R-POL-7, R-ENG-4: by its version an edit is noticed, and a file counts none. A secret's value is no part of it."""

    def version(text: str) -> int:
        (tmp_path / "kandev-routing.toml").write_text(f"version = 1\n{text}", "utf-8")
        found = load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path).profiles
        return found["frontier" if "frontier" in text else "sol"].version

    sol = '[profiles.sol]\nfamily = "codex"\n'
    other = '[profiles.luna]\nfamily = "codex"\n'
    same = version(sol)
    assert 1 <= same < 2**31
    assert same == version(f"{other}{sol}enabled = true\n# a remark\n")
    edits = ['mode = "plan"', 'args = ["-x"]', 'env = { LANG = "C" }', "options = { a = 1 }", 'name = "Sol"']
    assert len(edits) + 1 == len({same, *(version(f"{sol}{edit}\n") for edit in edits)})
    assert version(f'{sol}env = {{ API_KEY = "one" }}\n') == version(f'{sol}env = {{ API_KEY = "two" }}\n')
    listed = '[profiles.frontier]\nkind = "dynamic"\ncandidates = [{ profile = "sol" }, { profile = "luna" }]\n'
    turned = listed.replace("sol", "x").replace("luna", "sol").replace("x", "luna")
    assert version(sol + other + listed) != version(sol + other + turned)


def test_no_representation_of_the_settings_holds_the_stores_password() -> None:
    assert "hunter2" not in repr(Settings("postgresql+psycopg://me:hunter2@host/name"))

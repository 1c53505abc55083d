"""OpenCode's configuration: its notation, its order of files, the model that they choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_opencode.config import Config, chosen_model, read_config, substituted
from kandev_routing_opencode.jsonc import merged, read_jsonc
from tests.adapters.opencode._machine import OpenCodeMachine, config

# Notation ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, // one\n "b": [1, 2,], /* two\n */ }', {"a": 1, "b": [1, 2]}),
        ('{"url": "https://x.example//y", "c": "/* no */ // no,}"}', {"url": "https://x.example//y", "c": "/* no */ // no,}"}),
        ('\ufeff{"a": "\\"//", }', {"a": '"//'}),
        ("", {}),
        ("// nothing\n", {}),
        ("{", None),
        ("[1]", None),
        ('{"a": "', None),
        ("/*", {}),
        ('{"a": 1} {"b": 2}', None),
    ],
)  # fmt: skip
def test_comments_and_trailing_commas_are_no_part_of_it(text: str, expected: object) -> None:
    assert expected == read_jsonc(text)


@given(
    st.dictionaries(
        st.text(max_size=8), st.text(max_size=12) | st.integers() | st.lists(st.text(max_size=5)), max_size=5
    )
)
def test_every_plain_document_is_read_as_it_is(document: dict[str, object]) -> None:
    assert document == read_jsonc(json.dumps(document, indent=1, ensure_ascii=False))


@given(st.text('{}[]"\\/*,: \n', max_size=60))
def test_whatever_stands_there_is_read_without_a_fault(text: str) -> None:
    found = read_jsonc(text)
    assert found is None or isinstance(found, dict)


def test_a_long_file_of_quotes_is_read_in_no_time() -> None:
    """Linear: the project's file is anybody's."""
    for hostile in ('"\\' * 200_000, '{"a": "' + '\\"' * 200_000, "/*" * 200_000, "," * 200_000):
        read_jsonc(hostile)


def test_tables_are_merged_and_all_else_is_replaced() -> None:
    assert {"a": {"b": 1, "c": 2}, "d": [2], "e": {}} == merged(
        {"a": {"b": 1}, "d": [1, 1], "e": 1}, {"a": {"c": 2}, "d": [2], "e": {}}
    )


# Order ---------------------------------------------------------------------------------------------------------------


def _read(machine: OpenCodeMachine, cwd: Path | None = None, inline: str | None = None, **host: str) -> Config:
    return read_config({**machine.environ, **host}, cwd or machine.work, inline, (machine.home / "managed",))


def test_later_files_win_in_opencodes_own_order(opencode: OpenCodeMachine) -> None:
    """As `opencode debug config` of 1.18.33 merges them."""
    folder = opencode.work / "deep"
    folder.mkdir()
    places = [
        opencode.home / ".config/opencode/config.json",
        opencode.home / ".config/opencode/opencode.json",
        opencode.home / ".config/opencode/opencode.jsonc",
        opencode.home / "custom.json",
        opencode.work / "opencode.json",
        opencode.work / "opencode.jsonc",
        folder / "opencode.json",
        folder / ".opencode/opencode.json",
        opencode.work / ".opencode/opencode.jsonc",  # the outer folder wins over the inner one: so it is
        opencode.home / ".opencode/opencode.json",
        opencode.home / "extra/opencode.json",
    ]
    host = {"OPENCODE_CONFIG": str(places[3]), "OPENCODE_CONFIG_DIR": str(opencode.home / "extra")}
    for number, place in enumerate(places):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(config(model=f"m/{number}"))
        found = _read(opencode, folder, **host)
        assert f"m/{number}" == found.values["model"], place
        assert place == found.layers[-1].path or place in [layer.path for layer in found.layers]
    assert "m/inline" == _read(opencode, folder, config(model="m/inline"), **host).values["model"]
    (opencode.home / "managed").mkdir()
    (opencode.home / "managed/opencode.json").write_text(config(model="m/managed"))
    assert "m/managed" == _read(opencode, folder, config(model="m/inline"), **host).values["model"]


def test_files_above_the_repository_are_not_read_and_the_project_may_be_left_out(opencode: OpenCodeMachine) -> None:
    (opencode.work.parent / "opencode.json").write_text(config(model="m/above"))
    opencode.project("opencode.json", config(small_model="m/own"))
    assert {"small_model": "m/own"} == _read(opencode).values
    assert {} == _read(opencode, OPENCODE_DISABLE_PROJECT_CONFIG="1").values
    (opencode.work / ".git").rmdir()
    assert "m/above" == _read(opencode).values["model"]


def test_xdg_folders_are_honoured(opencode: OpenCodeMachine) -> None:
    opencode.file("xdg/opencode/opencode.json", config(model="m/xdg"))
    assert "m/xdg" == _read(opencode, XDG_CONFIG_HOME=str(opencode.home / "xdg")).values["model"]


@pytest.mark.parametrize("text", ["{", "[]", "\x00", "x" * 1_100_000])
def test_one_file_that_cannot_be_understood_makes_all_unproven(text: str, opencode: OpenCodeMachine) -> None:
    opencode.project("opencode.json", text)
    assert not _read(opencode).readable


def test_a_value_is_told_with_the_file_that_set_it_last(opencode: OpenCodeMachine) -> None:
    opencode.file(
        ".config/opencode/opencode.json", config(provider={"x": {"options": {"apiKey": "a", "baseURL": "u"}}})
    )
    own = opencode.project("opencode.json", config(provider={"x": {"options": {"apiKey": "{env:KEY}"}}}))
    found = _read(opencode)
    key, url = (found.setting("provider", "x", "options", name) for name in ("apiKey", "baseURL"))
    assert key is not None
    assert url is not None
    assert (own, ("env", "KEY"), False) == (key.path, key.reference, key.literal)
    assert (None, True) == (url.reference, url.literal)
    assert found.setting("provider", "y", "options", "apiKey") is None
    assert (["KEY"], []) == ([*found.variables("x")], [*found.variables("y")])


def test_variables_are_put_in_as_opencode_does() -> None:
    assert "https://llm.example/v1-" == substituted("https://{env:HOST}/v1-{env:NONE}", {"HOST": "llm.example"})


# The model -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "agent", "expected"),
    [
        ({"model": "a/b"}, None, "a/b"),
        ({"model": "a/b#high"}, None, "a/b"),
        ({"model": {"providerID": "a", "model": "b/c"}}, None, "a/b/c"),
        ({"model": "a/b", "agent": {"plan": {"model": "p/q"}}}, "plan", "p/q"),
        ({"model": "a/b", "agent": {"plan": {"model": "p/q"}}}, None, "a/b"),
        ({"model": "a/b", "default_agent": "x", "mode": {"x": {"model": "p/q"}}}, None, "p/q"),
        ({}, None, None),
        ({"model": 7, "agent": []}, None, None),
    ],
)
def test_the_model_is_the_agents_own_else_the_configured_one(
    values: dict[str, object], agent: str | None, expected: str | None, opencode: OpenCodeMachine
) -> None:
    opencode.project("opencode.json", json.dumps(values))
    assert expected == chosen_model(_read(opencode), agent)


def test_an_agent_in_a_file_of_its_own_may_have_another_model(opencode: OpenCodeMachine) -> None:
    opencode.project("opencode.json", config(model="a/b"))
    opencode.project(".opencode/agent/build.md", "---\nmodel: p/q\n---\n")
    assert chosen_model(_read(opencode), None) is None
    assert "a/b" == chosen_model(_read(opencode), "plan")

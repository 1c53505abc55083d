"""Executables are found where the child would find them, and never started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_routing_sdk.spec import ExecutableNotFound, find_executable, require_executable


def _executable(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 9\n", "utf-8")
    path.chmod(mode)
    return str(path)


def test_a_name_is_looked_up_on_the_childs_path_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, childs = _executable(tmp_path / "ours" / "acme"), _executable(tmp_path / "childs" / "acme")
    monkeypatch.setenv("PATH", str(Path(ours).parent))
    assert childs == find_executable("acme", {"PATH": str(Path(childs).parent)})
    assert find_executable("acme", {"PATH": str(tmp_path)}) is None


def test_without_a_path_the_systems_default_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system does when it starts a program; this process's own PATH is not the child's."""
    monkeypatch.setenv("PATH", str(Path(_executable(tmp_path / "acme")).parent))
    assert find_executable("acme", {}) is None
    found = find_executable("sh", {})
    assert found is not None
    assert "sh" == Path(found).name


def test_a_path_is_relative_to_where_the_agent_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _executable(tmp_path / "bin" / "acme")
    assert path == find_executable("bin/acme", {"PATH": ""}, tmp_path)
    assert path == find_executable("./bin/acme", {"PATH": ""}, tmp_path)
    assert path == find_executable(path, {"PATH": ""}, Path("/"))
    assert find_executable("bin/acme", {"PATH": str(tmp_path)}, tmp_path / "bin") is None
    monkeypatch.chdir(tmp_path)
    assert path == find_executable("bin/acme", {"PATH": ""})


def test_a_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _executable(tmp_path / "acme") == find_executable("~/acme", {"PATH": ""})


def test_what_cannot_be_executed_is_not_found(tmp_path: Path) -> None:
    plain = _executable(tmp_path / "plain", 0o644)
    (tmp_path / "folder").mkdir()
    assert find_executable(plain, {}) is None
    assert find_executable("plain", {"PATH": str(tmp_path)}) is None
    assert find_executable("./folder", {}, tmp_path) is None
    assert find_executable("~nobody-of-this-name/acme", {}, tmp_path) is None
    assert find_executable("./a\0b", {}, tmp_path) is None


def test_a_name_that_says_here_is_not_looked_up(tmp_path: Path) -> None:
    """``./acme`` names one file; one of that name elsewhere on PATH is not it."""
    _executable(tmp_path / "bin" / "acme")
    assert find_executable("./acme", {"PATH": str(tmp_path / "bin")}, tmp_path) is None


def test_the_result_is_absolute_even_if_the_childs_path_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent works elsewhere: a relative result would name something else there."""
    path = _executable(tmp_path / "bin" / "acme")
    monkeypatch.chdir(tmp_path)
    assert path == find_executable("acme", {"PATH": "bin"})


def test_a_launch_that_needs_it_says_what_is_missing_and_the_way_out(tmp_path: Path) -> None:
    path = _executable(tmp_path / "acme")
    assert path == require_executable("./acme", {}, tmp_path, hint="install it")
    with pytest.raises(ExecutableNotFound, match="no executable 'acme' on this machine; install it"):
        require_executable("acme", {"PATH": ""}, hint="install it")

"""Places of credentials are named so that equal ones are equal, and no user is named (R-CIR-3)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from kandev_routing_sdk.spec import home_of, place_of

OWN_HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_the_home_is_the_agents_not_this_processes() -> None:
    assert Path("/homes/me") == home_of({"HOME": "/homes/me"})
    assert OWN_HOME == home_of({}) == home_of({"HOME": ""})


def test_a_place_below_the_users_own_home_names_no_user() -> None:
    assert "~/.acme-none/auth.json" == place_of(OWN_HOME / ".acme-none" / "auth.json")
    assert "~/.acme-none" == place_of(f"{OWN_HOME}/.acme-none/x/..")


def test_a_place_elsewhere_stays_whole(tmp_path: Path) -> None:
    """Otherwise two logins in two homes would be taken for one."""
    place = tmp_path.resolve() / "second" / ".acme"
    assert str(place) == place_of(place) == place_of(f"{place}/")
    assert place_of(tmp_path / "first" / ".acme") != place_of(place)


def test_a_link_is_the_place_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert place_of(tmp_path / "real" / "auth.json") == place_of(tmp_path / "link" / "auth.json")


def test_a_user_that_the_system_does_not_know_has_the_home_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in containers that run as any number."""

    def unknown(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path == home_of({})
    assert "~/.acme" == place_of(tmp_path / ".acme")

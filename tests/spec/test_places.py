"""Places of credentials are named so that equal ones are equal, and no user is named (R-CIR-3)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import home_of, place_of

ANY = ConcreteProfile(id="acme", name="Acme", family="acme")
OWN_HOME = ConcreteProfile(id="acme", name="Acme", family="acme", env={"HOME": "/homes/second"})


def test_the_home_is_the_agents_not_this_processes() -> None:
    assert Path("/homes/me") == home_of({"HOME": "/homes/me"})
    assert Path(pwd.getpwuid(os.getuid()).pw_dir) == home_of({}) == home_of({"HOME": ""})


def test_a_place_below_home_names_no_user() -> None:
    assert "~/.acme/auth.json" == place_of("/homes/me/.acme/auth.json", ANY, {"HOME": "/homes/me"})
    assert place_of("/homes/you/.acme", ANY, {"HOME": "/homes/you"}) == place_of(
        "/homes/me/.acme", ANY, {"HOME": "/homes/me"}
    )


def test_a_place_elsewhere_stays_whole() -> None:
    for path in ("/etc/acme", "/homes/mean/.acme", "acme"):
        assert path == place_of(Path(path), ANY, {"HOME": "/homes/me"})


def test_a_home_of_the_profiles_own_is_not_the_one_of_others() -> None:
    """Otherwise two logins in two homes would be taken for one."""
    assert "/homes/second/.acme" == place_of("/homes/second/.acme", OWN_HOME, {"HOME": "/homes/second"})

"""``profiles``: shown, stored from a file, taken out again (R-PRO-8, R-PRO-10)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest

from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def file(world: World) -> str:
    """A file with two agents and a list of them, which are not in the configuration."""
    world.agent("fable", ScriptBuilder().say("from the store"), name="Fable of the store", env={"LANG": "C"})
    world.agent("sol", ScriptBuilder().say("second"))
    world.dynamic("fable", "sol")
    path = world.configure().rename(world.folder / "team.toml")
    world.profiles = {}
    world.configure()
    return str(path)


def test_a_file_is_stored_shown_used_and_taken_out(world: World, here: Callable[..., Ran], file: str) -> None:
    assert "there is no profile yet" in here("profiles").out
    ran = here("profiles", "import", file)
    assert (0, "fable: created\nsol: created\nfrontier: created\n") == (ran.code, ran.out), ran
    again = here("profiles", "import", file, "--json").document
    assert ([], [], ["fable", "sol", "frontier"]) == tuple(again[k] for k in ("created", "updated", "unchanged"))
    listed = [line.split("\t")[:5] for line in here("profiles", "list").out.splitlines()[1:]]
    assert ["frontier", "dynamic", "Frontier", "stored", "1"] == listed[1]
    ran = here("run", "frontier", "hi")
    assert (0, "from the store\n", True) == (ran.code, ran.out, "Fable of the store" in ran.err), ran
    text = here("profiles", "export").out
    assert {"fable", "sol", "frontier"} == set(tomllib.loads(text)["profiles"])
    assert "sol: unchanged\n" in here("profiles", "import", "-", stdin=text).out
    assert 0 == here("profiles", "export", "sol", "--output", str(world.folder / "sol.toml")).code
    refused = here("profiles", "export", "sol", "--output", str(world.folder / "sol.toml"))
    assert (2, "is not overwritten" in refused.error) == (refused.code, True), refused
    assert ["sol"] == list(tomllib.loads((world.folder / "sol.toml").read_text("utf-8"))["profiles"])


def test_what_is_used_is_kept_until_confirmed(here: Callable[..., Ran], file: str) -> None:
    assert 0 == here("profiles", "import", file).code
    refused = here("profiles", "delete", "sol", "--json")
    error = refused.document["error"]
    assert (80, "profile_in_use", ["profile frontier"]) == (
        refused.code,
        error["code"],
        [p["path"] for p in error["problems"]],
    )
    assert "used by profile frontier (Frontier)" in here("profiles", "disable", "sol").error
    assert "sol: disabled, now at version 2\n" == here("profiles", "disable", "sol", "--confirm").out
    assert "disabled" in here("profiles", "show", "sol").out
    assert "sol: enabled, now at version 3\n" == here("profiles", "enable", "sol").out
    assert 3 == here("profiles", "disable", "sol", "--confirm", "--json").document["profile"]["version"] - 1
    assert "sol: deleted\n" == here("profiles", "delete", "sol", "--confirm").out
    gone = here("profiles", "show", "sol")
    assert (2, True) == (gone.code, "no profile 'sol'" in gone.error)
    assert "fable" == here("profiles", "delete", "fable", "--confirm", "--json").document["deleted"]


def test_a_profile_that_somebody_else_wrote_is_shown_as_it_is_now(here: Callable[..., Ran], file: str) -> None:
    """R-PRO-6."""
    here("profiles", "import", file)
    assert 0 == here("profiles", "disable", "fable", "--expected-version", "1", "--confirm").code
    for verb in ("delete", "disable", "enable"):
        stale = here("profiles", verb, "fable", "--expected-version", "1", "--json")
        assert (80, "profile_conflict", 80) == (
            stale.code,
            stale.document["error"]["code"],
            stale.document["exit_code"],
        )
        current = here("profiles", "show", "fable", "--json").document["profile"]
        assert stale.document["current"] == {name: current[name] for name in stale.document["current"]}
        assert (2, False) == (stale.document["current"]["version"], stale.document["current"]["enabled"])
    told = here("profiles", "delete", "fable", "--expected-version", "1")
    assert (80, "", True) == (told.code, told.out, "is at version 2, not 1" in told.error)


def test_a_profile_is_shown_with_who_uses_it(here: Callable[..., Ran], file: str) -> None:
    here("profiles", "import", file)
    shown = here("profiles", "show", "fable", "--json").document
    assert [{"kind": "profile", "id": "frontier", "name": "Frontier"}] == shown["dependents"]
    assert ("concrete", "stored", True) == tuple(shown["profile"][k] for k in ("kind", "origin", "selectable"))
    facts = dict(line.split(maxsplit=1) for line in here("profiles", "show", "frontier").out.splitlines())
    assert "frontier, version 1, stored" == facts["profile"]
    assert "2  sol: transient: skip; hard: skip" == facts["candidate"]


def test_what_is_wrong_in_a_file_is_said_by_field(world: World, here: Callable[..., Ran], file: str) -> None:
    path = world.folder / "team.toml"
    path.write_text(path.read_text("utf-8").replace('profile = "sol"', 'profile = "moon"'), "utf-8")
    ran = here("profiles", "import", file, "--json")
    paths = [problem["path"] for problem in ran.document["error"]["problems"]]
    assert (78, ["profiles.frontier.candidates[1].profile"]) == (ran.code, paths)
    assert "there is no profile yet" in here("profiles").out


def test_a_literal_secret_of_the_configuration_is_not_shown(world: World, here: Callable[..., Ran]) -> None:
    world.agent("fable", env={"API_KEY": "zq-secret", "LANG": "C"})
    world.configure()
    for arguments in (("profiles", "--json"), ("profiles", "show", "fable", "--json"), ("profiles", "show", "fable")):
        ran = here(*arguments)
        assert (0, False) == (ran.code, "zq-secret" in ran.out), ran
    assert "declared" in here("profiles").out
    refused = here("profiles", "delete", "fable")
    assert (2, True) == (refused.code, "declared in" in refused.error)


def test_doctor_and_circuits_know_stored_profiles(here: Callable[..., Ran], file: str) -> None:
    here("profiles", "import", file)
    assert "fable: can be launched" in here("doctor").out
    ran = here("circuits", "retry", "--profile", "frontier")
    assert (0, "no resource of it waits for a person\n") == (ran.code, ran.out), ran

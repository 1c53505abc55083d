"""``init`` and ``doctor``: a start, and what is missing (R-CLI-1, R-CLI-2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kandev_routing_sdk.cli.starter import starter
from kandev_routing_sdk.profiles import DynamicProfile
from kandev_routing_sdk.settings import load_settings
from kandev_routing_sdk.spec import FoundAgent, Transport
from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

_FINDER = """
from kandev_routing_sdk.spec import FoundAgent, Transport, hookimpl
from kandev_routing_sdk.testing import ScriptedAdapter

class Finder(ScriptedAdapter):
    family = "acme"
    label = 'Acme "Best" Agent'

    def discover(self, environ):
        return [FoundAgent("acme", {executable!r}, Transport.ACP, ({executable!r}, *{arguments!r}), hint="install acme")]

@hookimpl
def kandev_routing_adapters():
    return [Finder]
"""


def _install(world: World, executable: str | None, *arguments: str) -> None:
    world.install("acme_plugin", _FINDER.format(executable=executable, arguments=list(arguments)))


def _load(path: Path) -> dict[str, object]:
    return dict(load_settings(environ={}, cwd=path.parent, config=str(path)).profiles)


def _agent(family: str, executable: str | None = "/usr/bin/agent") -> FoundAgent:
    return FoundAgent(family, executable, Transport.ACP)


@pytest.mark.parametrize("families", [[], ["claude"], ["claude", "codex"], ["acme", "claude", "codex", "opencode"]])
def test_every_starter_loads(tmp_path: Path, families: list[str]) -> None:
    """R-RES-4: it turns dynamic routing on in plain sight."""
    path = tmp_path / "kandev-routing.toml"
    path.write_text(starter([_agent(f) for f in families], {f: f'The "{f}" \\ agent' for f in families}), "utf-8")
    settings = load_settings(environ={}, cwd=tmp_path)
    assert settings.dynamic_agent_routing
    assert set(families) | ({"frontier"} if families else set()) == set(settings.profiles)
    if families:
        frontier = settings.profiles["frontier"]
        assert isinstance(frontier, DynamicProfile)
        assert families == [c.profile_id for c in frontier.candidates]


def test_the_commented_examples_load_too(tmp_path: Path) -> None:
    """Who removes the marks, as the note says, has a configuration that works."""
    text = starter([], {})
    head, note, tail = text.partition("# NOTE:")
    freed = "\n".join(
        line.removeprefix("# ")
        if line.startswith(("# [", "# family", "# name", "# kind", "# profile", "# policy"))
        else line
        for line in tail.splitlines()[2:]
    )
    path = tmp_path / "kandev-routing.toml"
    path.write_text(f"{head}{freed}", "utf-8")
    assert note
    assert {"claude", "codex", "frontier"} == set(_load(path))


def test_init_writes_what_it_finds(world: World, here: Callable[..., Ran]) -> None:
    _install(world, "/opt/acme/bin/acme")
    ran = here("init")
    assert 0 == ran.code, ran
    path = world.folder / "kandev-routing.toml"
    assert "wrote kandev-routing.toml\n" in ran.out
    assert "acme: /opt/acme/bin/acme" in ran.out
    assert {"acme", "frontier"} <= set(_load(path))
    assert "dynamic_agent_routing = true" in path.read_text("utf-8")


def test_init_replaces_nothing_unless_told(world: World, here: Callable[..., Ran]) -> None:
    path = world.write("mine")
    ran = here("init")
    assert (78, "mine") == (ran.code, path.read_text())
    assert "--force" in ran.error
    assert 0 == here("init", "--force").code
    assert "mine" != path.read_text()
    other = world.folder / "deep" / "er" / "x.toml"
    document = here("init", "--path", str(other), "--json").document
    assert (str(other), 0) == (document["path"], document["exit_code"])
    assert other.exists()
    failed = here("init", "--path", "/proc/self/x.toml")
    assert 78 == failed.code
    assert "cannot be written" in failed.error


def test_doctor_is_content_where_a_run_would_work(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("ok"))
    world.dynamic("sol")
    world.configure()
    ran = here("doctor")
    assert 0 == ran.code, ran
    assert "setting: features.dynamic_agent_routing = true (from: file " in ran.out
    assert f"setting: store.url = {world.url} (from: file " in ran.out
    assert "adapter: scripted: Scripted agent (best transport acp, also headless)" in ran.out
    assert "profile: frontier: sol: can be launched" in ran.out
    assert {} == world.files()


def test_doctor_says_where_each_setting_came_from(
    world: World, here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-CLI-2: flag, then environment, then file, then default."""
    world.agent("sol")
    world.configure()
    monkeypatch.setenv("KANDEV_FEATURES_DYNAMIC_AGENT_ROUTING", "0")
    found = here("--store", f"sqlite:///{world.home}/x.db", "doctor", "--json").document["findings"]
    sources = {f["name"]: f["source"] for f in found if "name" in f}
    assert "environment KANDEV_FEATURES_DYNAMIC_AGENT_ROUTING" == sources["features.dynamic_agent_routing"]
    assert "flag --store" == sources["store.url"]


def test_doctor_exits_with_the_worst_finding(world: World, here: Callable[..., Ran]) -> None:
    """78 before 73 before 69."""
    world.profiles["sol"] = {"family": "scripted", "command": ["no-such-agent"]}
    world.configure()
    nobody = here("doctor", "--json")
    assert (69, 69) == (nobody.code, nobody.document["exit_code"]), nobody
    assert 73 == here("--store", "sqlite:////proc/self/x.db", "doctor").code
    unreachable = here("--store", "postgresql://me:hunter2secret@127.0.0.1:1/x", "doctor")
    assert 73 == unreachable.code, unreachable
    assert "hunter2secret" not in unreachable.out + unreachable.err
    world.write("version = 2")
    broken = here("--store", "sqlite:////proc/self/x.db", "doctor")
    assert 78 == broken.code
    assert "fail  configuration: " in broken.out
    (world.folder / "kandev-routing.toml").unlink()
    assert "kandev-routing init" in here("doctor").out


def test_doctor_names_a_broken_plugin(world: World, here: Callable[..., Ran]) -> None:
    """R-PLG-2: reported by name; the rest works."""
    world.install("broken_plugin", "raise RuntimeError('kaputt')")
    world.agent("sol")
    world.configure()
    ran = here("doctor")
    assert 0 == ran.code, ran
    assert "plugin broken_plugin could not be loaded: RuntimeError: kaputt" in ran.out


def test_doctor_runs_agents_only_for_their_version(
    world: World, here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other families' variables are not shown to them."""
    monkeypatch.setenv("OTHER_API_KEY", "zq-other-key")
    _install(world, "/bin/sh", "-c", "echo v1.2.3 $OTHER_API_KEY; touch started")
    world.agent("sol")
    world.configure()
    assert "agent: acme (acp, default): /bin/sh\n" in here("doctor").out
    assert not (world.folder / "started").exists()
    assert "agent: acme (acp, default): /bin/sh, v1.2.3\n" in here("doctor", "--versions").out


def test_an_agent_that_hangs_at_its_version_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from kandev_routing_sdk.cli import agents

    monkeypatch.setattr(agents, "VERSION_TIMEOUT_S", 0.3)
    hanging = FoundAgent("acme", "/bin/sh", Transport.ACP, ("/bin/sh", "-c", "sleep 60 & sleep 60"))
    assert "did not answer within 0 s" == agents.version_of(hanging, (), os.environ)
    missing = FoundAgent("acme", "/nowhere/acme", Transport.ACP)
    assert "cannot be started: No such file or directory" == agents.version_of(missing, (), os.environ)

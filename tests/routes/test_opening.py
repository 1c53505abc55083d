"""Opening a router: what replaces what, when it blocks, and who may do what with it."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from kandev_routing_sdk import NotPermitted, Operation, Router, Settings
from kandev_routing_sdk.errors import ConfigInvalid, ProfileNotFound, UsageError
from kandev_routing_sdk.types import ProfileKind
from tests.routes._world import World, answers


def _opened(url: str | None = None, **parts: Any) -> Router:
    return Router.open(url, plugins=False, environ={}, **parts)


def test_a_url_is_enough_and_no_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kandev-routing.toml").write_text("this is no configuration")
    monkeypatch.chdir(tmp_path)
    with _opened(f"sqlite:///{tmp_path}/a.db") as router:
        assert (f"sqlite:///{tmp_path}/a.db", False) == (
            router.settings.store_url,
            router.settings.dynamic_agent_routing,
        )
    assert (tmp_path / "a.db").exists()


def test_a_url_replaces_that_of_the_settings(tmp_path: Path) -> None:
    settings = Settings(f"sqlite:///{tmp_path}/a.db", dynamic_agent_routing=True)
    with _opened(f"sqlite:///{tmp_path}/b.db", settings=settings) as router:
        assert router.settings.dynamic_agent_routing
    assert [False, True] == [(tmp_path / name).exists() for name in ("a.db", "b.db")]


def test_the_hosts_flag_goes_before_that_of_the_settings(tmp_path: Path) -> None:
    """R-RES-4."""
    with _opened(f"sqlite:///{tmp_path}/a.db", dynamic_agent_routing=True) as router:
        assert router.settings.dynamic_agent_routing


def test_a_url_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ConfigInvalid, match="url: must be sqlite"):
        _opened("mysql://user:secret@host/name")


def test_in_an_event_loop_it_is_opened_by_async_with(tmp_path: Path) -> None:
    async def main() -> None:
        router = _opened(f"sqlite:///{tmp_path}/a.db")
        assert not (tmp_path / "a.db").exists()
        async with router as same:
            assert same is router
            assert (tmp_path / "a.db").exists()
        with pytest.raises(ConfigInvalid):
            async with _opened("nonsense"):
                pass

    anyio.run(main)


def test_a_router_that_was_never_used_is_closed_without_being_opened(tmp_path: Path) -> None:
    async def main() -> None:
        await _opened(f"sqlite:///{tmp_path}/a.db").aclose()

    anyio.run(main)
    assert [] == list(tmp_path.iterdir())


def test_a_profile_is_resolved(world: World) -> None:
    """R-RES-1."""
    world.agent("fable", answers())
    world.agent("sol", answers())
    with world.router() as router:
        found = router.resolve("frontier")
        assert (ProfileKind.DYNAMIC, ["fable", "sol"]) == (found.kind, [c.profile_id for c in found.candidates])
        with pytest.raises(ProfileNotFound):
            router.resolve("nobody")


class Guard:
    """Refuses everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, action: str, subject: str) -> None:
        """Refuse."""
        self.asked.append((action, subject))
        raise NotPermitted(f"{action} is not for you")


def test_whoever_is_refused_changes_nothing(world: World) -> None:
    """Every write that somebody asks for is asked about first, under a name of the closed list."""
    world.agent("fable", answers())
    guard = Guard()
    with world.router(authorise=guard) as router:
        writes: dict[str, tuple[Any, ...]] = {
            "start": ("frontier", "hi"),
            "prompt": ("s", "hi"),
            "act": ("s", "retry_now"),
            "stop": ("s",),
        }
        options: dict[str, dict[str, Any]] = {"start": {"cwd": world.folder}, "act": {"expected_generation": 1}}
        for name, arguments in writes.items():
            method = getattr(router.sessions, name)
            assert inspect.iscoroutinefunction(method)
            with pytest.raises(NotPermitted):
                anyio.run(partial(method, *arguments, **options.get(name, {})))
        for call in (
            lambda: router.route_once("frontier", "hi", cwd=world.folder),
            lambda: router.reset_circuit("k"),
            lambda: router.retry_circuit("k"),
            lambda: router.credentials_changed(["fable", "sol"]),
        ):
            with pytest.raises(NotPermitted):
                call()
        assert ([], []) == (router.sessions.list(), router.calls())
    assert [
        (Operation.SESSION_START, "frontier"),
        (Operation.SESSION_PROMPT, "s"),
        (Operation.SESSION_ACT, "s"),
        (Operation.SESSION_STOP, "s"),
        (Operation.CALL, "frontier"),
        (Operation.CIRCUIT_RESET, "k"),
        (Operation.CIRCUIT_RETRY, "k"),
        (Operation.CREDENTIALS_CHANGED, "fable sol"),
    ] == guard.asked
    assert [0] == [agent.starts for agent in world.agents.values()]


def test_a_reader_is_told_before_its_host_is_asked(world: World) -> None:
    world.agent("fable", answers())
    guard = Guard()
    with world.router():
        pass
    with world.router(authorise=guard, read_only=True) as router, pytest.raises(UsageError):
        anyio.run(router.sessions.stop, "s")
    assert [] == guard.asked

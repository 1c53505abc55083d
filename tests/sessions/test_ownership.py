"""Who owns a session that runs, and how the owner learns that it no longer is (R-ENG-8)."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

import anyio
import pytest

from kandev_routing_sdk import Router, RoutingError, Snapshot
from kandev_routing_sdk.conductor import ledger
from tests.routes._world import answers
from tests.sessions._home import CATALOGUE, Home


def elsewhere(home: Home, monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[Router]:
    """A router on another machine, from where this one's processes cannot be seen."""
    monkeypatch.setattr("kandev_routing_sdk.opening._executor_namespace", lambda: "another-machine")
    return home.router(catalogue=CATALOGUE)


@pytest.mark.parametrize("transport", ["headless", "acp"])
def test_a_session_that_is_stopped_on_another_machine_ends_here_at_the_next_heartbeat(
    lite_home: Home, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    home = lite_home
    home.transport = transport
    monkeypatch.setattr(ledger, "HEARTBEAT_S", 0.05)
    agent = home.agent("fable", answers().say("on it").hang())
    ended: list[RoutingError] = []
    stopped: list[Snapshot] = []

    async def main() -> None:
        with home.router(catalogue=CATALOGUE) as here, elsewhere(home, monkeypatch) as there:

            async def owner() -> None:
                try:
                    await here.sessions.start("frontier", "do it", cwd=home.folder, here=True)
                except RoutingError as problem:
                    ended.append(problem)

            async with anyio.create_task_group() as group:
                group.start_soon(owner)
                while not agent.prompts:  # noqa: ASYNC110  # another process writes it
                    await anyio.sleep(0.02)
                (session,) = there.sessions.list()
                stopped.append(await there.sessions.stop(session.session_id))

    anyio.run(main)
    assert ["stopped"] == [session.state for session in stopped]
    assert ["store_unavailable"] == [problem.code for problem in ended]
    assert "stopped or taken over" in str(ended[0])
    for prompt in agent.prompts:
        with pytest.raises(ProcessLookupError):
            os.kill(prompt.pid, 0)

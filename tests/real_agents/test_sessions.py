"""Sessions of the real agents: who can find its own session again, and is told nothing that it knows (R-CON-2)."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest

from kandev_routing_sdk import Router, load_settings
from kandev_routing_sdk.events import EventKind
from kandev_routing_sdk.route.continuation import OPENING
from tests.real_agents._routes import Agent, Setup

FIRST, SECOND = "Say hello to the crew.", "Say it once more."


@pytest.mark.parametrize(
    "agent",
    [
        Agent("claude", transport="acp"),
        Agent("codex", transport="acp"),
        Agent("opencode", transport="acp"),
        Agent("claude"),
        Agent("codex"),
        Agent("opencode"),
    ],
    ids=lambda agent: agent.profile if isinstance(agent, Agent) else None,
)
def test_an_agent_goes_on_with_its_own_session(setup: Setup, agent: Agent) -> None:
    """Two turns, two processes, one native session: the second request holds the first turn, and no note of it."""
    setup.write(agent)
    setup.work.mkdir(exist_ok=True)
    environ = {**os.environ, **setup.environ}
    environ["PATH"] = os.pathsep.join([str(setup.agents.node), environ["PATH"]])

    async def talk() -> tuple[list[Any], list[str], list[str]]:
        settings = load_settings(config=str(setup.folder / "kandev-routing.toml"), environ=environ, cwd=setup.work)
        async with Router.open(settings=settings, environ=environ) as router:
            begun = await router.sessions.start("frontier", FIRST, cwd=setup.work, here=True)
            after = await router.sessions.prompt(begun.session_id, SECOND, here=True)
            events = router.events(session_id=begun.session_id)
            resumed = [e.params["resumed"] for e in events if e.kind is EventKind.ROUTE_CHANGED]
            given = [p.text for p in router.sessions.prompts(begun.session_id)]
            return resumed, given, [begun.state, after.state]

    resumed, given, states = anyio.run(talk)

    assert (["active", "active"], [False, True], [FIRST, SECOND]) == (states, resumed, given)
    last = setup.provider.model_requests(agent.scenario)[-1]
    assert last.mentions(FIRST)
    assert not last.mentions(OPENING)

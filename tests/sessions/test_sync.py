"""Sessions for scripts: the same things, without an event loop in sight."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kandev_routing_sdk import EventKind, Router, SyncRouter
from kandev_routing_sdk.errors import StaleGeneration, TurnInProgress, UsageError
from kandev_routing_sdk.testing import ScriptBuilder
from tests.sessions._home import CATALOGUE, Home

ANSWER = ScriptBuilder


def opened(home: Home) -> Router:
    """A router of this home."""
    parts: dict[str, Any] = {"adapters": [home.adapter], "clock": home.clock, "catalogue": CATALOGUE, "poll_s": 0.02}
    return Router.open(home.url, settings=home.settings, plugins=False, **parts)


def test_a_script_talks_acts_and_stops(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER().fail_puzzling(), ANSWER().say("hello"), ANSWER().hang())
    with SyncRouter(opened(home)) as router:
        session = router.start_session("frontier", cwd=home.folder)
        events = list(session.prompt("hi"))
        assert (EventKind.USER_MESSAGE, EventKind.ROUTE_WAITING) == (events[0].kind, events[-1].kind)
        seen = session.snapshot()
        with pytest.raises(StaleGeneration):
            session.act("retry_now", expected_generation=7)
        session.act("retry_now", expected_generation=seen.generation)
        for event in session.events(after=events[-1].sequence):
            if event.kind is EventKind.TURN_ENDED:
                break
        assert ["silent", "failed", "success"] == [attempt.outcome for attempt in session.attempts()]
        again = router.session(session.id).prompt("more")
        while next(again).kind is not EventKind.TURN_STARTED:
            pass
        with pytest.raises(TurnInProgress):
            next(session.prompt("and"))
        assert "stopped" == session.stop().state
        assert EventKind.ROUTE_STOPPED is [event.kind for event in again][-1]
        assert ["frontier"] == [s.logical_profile_id for s in router.router.sessions.list()]


def test_it_says_where_it_cannot_be_used(lite_home: Home) -> None:
    home = lite_home
    home.agent("fable", ANSWER())
    router = SyncRouter(opened(home))
    with pytest.raises(UsageError, match="inside its with"):
        router.start_session("frontier", cwd=home.folder)

    async def main() -> None:
        with pytest.raises(UsageError, match="running event loop"), router:
            pass

    anyio.run(main)
    router.router.close()

"""``explain`` is the walk that a call would make, and makes nothing true (R-ENG-3)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import anyio
import pytest

from kandev_routing_sdk import CallWaiting
from kandev_routing_sdk.errors import UsageError
from tests.routes._world import WAIT, World, answers


def fingerprint(world: World) -> str:
    """Return a hash of the database file."""
    return hashlib.sha256(Path(world.url.removeprefix("sqlite:///")).read_bytes()).hexdigest()


def test_explain_says_what_a_call_would_do_and_changes_no_byte(world: World) -> None:
    """A reason for each candidate, the policy and the masked command line; nothing is claimed."""
    world.agent("fable", answers().fail_quota(3600), policy=WAIT, args=["--api-key", "canary-0123456789"])
    world.agent("sol", answers().say("done"))
    world.agent("luna", enabled=False)
    world.call()
    before = fingerprint(world)
    with world.router(read_only=True) as router:
        told = router.explain("frontier", cwd=world.folder)
    assert before == fingerprint(world)
    assert [("fable", "circuit_open"), ("sol", "chosen"), ("luna", "disabled")] == [
        (entry.profile_id, entry.reason) for entry in told.walk
    ]
    assert ("sol", True) == (told.chosen_profile_id, told.enabled)
    assert 300 == told.policies["fable"].hard.wait_for_reset.max_wait_seconds
    assert "canary" not in str(told)


def test_explain_agrees_with_a_call_on_a_concrete_profile(world: World) -> None:
    """R-CIR-8: its open circuit does not keep it from being asked, so it must not be said to."""
    world.agent("fable", answers().fail_quota(3600))
    with pytest.raises(CallWaiting):
        world.call(profile="fable")
    with world.router(read_only=True) as router:
        assert "fable" == router.explain("fable", cwd=world.folder).chosen_profile_id


def test_explain_needs_no_database_and_makes_none(world: World) -> None:
    """The first thing that a newcomer may type."""
    world.agent("fable")
    with world.router(read_only=True) as router:
        assert "fable" == router.explain("frontier", cwd=world.folder).chosen_profile_id
    assert not Path(world.url.removeprefix("sqlite:///")).exists()


def test_a_read_only_router_refuses_to_route_and_to_change(world: World) -> None:
    """It could not write down what it does."""
    world.agent("fable", answers().say("never"))
    with world.router(read_only=True) as router:
        for request in (
            lambda: router.route_once("frontier", "go", cwd=world.folder),
            lambda: anyio.run(router.run_worker),
            router.credentials_changed,
            lambda: router.reset_circuit("any"),
            lambda: router.retry_circuit("any"),
        ):
            with pytest.raises(UsageError, match="read_only"):
                request()
    assert {"fable": 0} == world.prompts()

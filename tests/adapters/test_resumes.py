"""Every shipped adapter goes on with its own session, on each way to drive it, and with no other (R-CON-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_routing_sdk.acp import messages
from kandev_routing_sdk.conductor.native import NativeSession
from kandev_routing_sdk.spec import LaunchPlan
from kandev_routing_sdk.types import Transport
from tests.adapters._plans import ACP_AGENTS, ADAPTERS, Machine

TOKEN = "0123-native"


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("family", ADAPTERS)
def test_a_plan_resumes_only_its_own_session(family: str, transport: Transport, tmp_path: Path) -> None:
    """Invariant 7: what another profile left, or this one under another agent, is nowhere in the launch."""
    machine = Machine(tmp_path, ACP_AGENTS)
    plans = [
        machine.plan(family, resume=native.for_profile(machine.profile(family)), transport=transport)
        for native in (
            NativeSession(TOKEN, "p", family),
            NativeSession(TOKEN, "another", family),
            NativeSession(TOKEN, "p", "another"),
        )
    ]
    assert [True, False, False] == [plan.resumed for plan in plans]
    named = [any(TOKEN in word for word in words_of(plan)) for plan in plans]
    assert [transport is Transport.HEADLESS, False, False] == named
    opening = messages.open_session(plans[0], TOKEN, {"loadSession": True})
    assert ("session/load", TOKEN) == (opening.method, opening.params["sessionId"])


def words_of(plan: LaunchPlan) -> list[str]:
    return [*plan.argv, *plan.environ.values(), str(plan.acp.session_meta), str(plan.acp.client_meta)]

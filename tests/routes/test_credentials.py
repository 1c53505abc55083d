"""An agent that signs in otherwise than its launch was said to (R-CIR-3), and whose session it was (R-CON-2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kandev_routing_sdk import CallWaiting
from kandev_routing_sdk.spec import AgentEvent, Extractor, LaunchPlan, Transport, TurnRecord
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAdapter
from kandev_routing_sdk.testing.scripted.adapter import ScriptedAcpExtractor, ScriptedHeadlessExtractor
from tests.routes._world import World


class Particular(ScriptedAdapter):
    """Knows what its agent may say of its credential."""

    def extractor(self, plan: LaunchPlan) -> Extractor:
        return ScriptedAcpExtractor(credential_kinds={"api_key"})


def signed_in(kind: str) -> ScriptBuilder:
    said = {"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"authStatus": {"kind": kind}}}
    return ScriptBuilder().garbage(json.dumps(said))


@pytest.mark.parametrize(
    ("kind", "prompts", "scopes"),
    [("api_key", {"one": 1, "two": 0}, {"account"}), ("gateway", {"one": 1, "two": 1}, {"profile"})],
)
def test_a_limit_is_shared_only_as_long_as_the_agent_does_not_contradict(
    kind: str, prompts: dict[str, int], scopes: set[str], tmp_path: Path
) -> None:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'routing.db'}", transport="acp")
    options = {"account": "shared", "provider_id": "p"}
    world.agent("one", signed_in(kind).fail_quota(3600), options=options)
    world.agent("two", signed_in(kind).say("Hello."), options=options)
    try:
        text = world.call(parts={"adapters": [Particular()]}).text
    except CallWaiting:
        text = ""
    assert prompts == world.prompts()
    assert ("Hello." if prompts["two"] else "") == text
    with open_store(world.url) as store:
        assert scopes == {str(circuit.key.scope) for circuit in store.circuits()}


class Naming(ScriptedAdapter):
    """Its headless agent names its session in its turn, as real ones do."""

    def extractor(self, plan: LaunchPlan) -> Extractor:
        return ScriptedAcpExtractor() if plan.transport is Transport.ACP else NamingExtractor()


class NamingExtractor(ScriptedHeadlessExtractor):
    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        turn.session("native-1")
        super().receive(event, turn)


@pytest.mark.parametrize("transport", ["acp", "headless"])
def test_the_agents_own_session_is_kept_with_its_profile(transport: str, tmp_path: Path) -> None:
    """Also that of a headless agent, which tells it only in its turn."""
    world = World(tmp_path, f"sqlite:///{tmp_path / 'routing.db'}", transport=transport)
    world.agent("one", ScriptBuilder().fail_quota(3600))
    agent = world.agent("two", ScriptBuilder().say("Hello."))
    assert "Hello." == world.call(parts={"adapters": [Naming()]}).text
    (prompt,) = agent.prompts
    with open_store(world.url) as store:
        (call,) = store.calls()
        route = store.load(call.session_id)
    assert route is not None
    native = prompt.native_session_id if transport == "acp" else "native-1"
    assert native
    assert (native, "two") == (route.native_session_id, route.native_profile_id)

"""What an adapter passes on the command line for MCP servers is masked (R-EVI-5)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import mcp_secrets


def _profile(**mcp: Any) -> ConcreteProfile:
    return ConcreteProfile(id="acme", name="Acme", family="acme", mcp=mcp)


def test_the_named_parts_of_every_server_are_secret() -> None:
    profile = _profile(
        one={"command": "one", "env": {"KEY": "first-key", "EMPTY": ""}, "bearer_token": "second-key"},
        two={"url": "https://two.example.com", "headers": {"X-Key": "third-key"}},
    )
    assert {"first-key", "third-key"} == mcp_secrets(profile, "env", "headers")
    assert {"second-key"} == mcp_secrets(profile, "bearer_token")
    assert frozenset() == mcp_secrets(profile)
    assert frozenset() == mcp_secrets(_profile(), "env")


@pytest.mark.parametrize(
    "server", [None, 7, "text", ["env"], {"env": 7}, {"env": None}, {"env": ["a"]}, {"env": {"KEY": 7}}]
)
def test_servers_of_any_shape_are_read(server: object) -> None:
    """Whether the shape is right is for ``validate`` to say."""
    assert {"kept-key"} == mcp_secrets(_profile(odd=server, good={"env": {"KEY": "kept-key"}}), "env")

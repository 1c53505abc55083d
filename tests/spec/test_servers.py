"""What may be said of MCP servers (R-PRO-7), and what of it is masked (R-EVI-5)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import mcp_secrets, server_problems


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


def test_a_key_may_lead_into_a_table() -> None:
    profile = _profile(
        one={"url": "https://one.example.com", "oauth": {"clientId": "me", "clientSecret": "first-key"}},
        two={"oauth": False},
        three={"oauth.clientSecret": "no path"},
    )
    assert {"first-key"} == mcp_secrets(profile, "oauth.clientSecret")


# What may be said of one ---------------------------------------------------------------------------------------------

WORDS: dict[str, Any] = {
    "local": {"cwd": "text", "wait": "number", "ms": "whole", "on": "switch"},
    "remote": {"tools": "any table", "oauth": "table or false"},
}
LOCAL, REMOTE = {"command": "c"}, {"url": "https://h.example.com"}


@pytest.mark.parametrize(
    "server",
    [
        {**LOCAL, "cwd": ".", "wait": 0.5, "ms": 5, "on": False},
        {**REMOTE, "tools": {"a": {"b": 1}}, "oauth": False},
        {**REMOTE, "oauth": {"id": 1}},
    ],
)
def test_what_an_agent_takes_beside_is_no_problem(server: dict[str, Any]) -> None:
    assert [] == [*server_problems(_profile(docs=server), **WORDS)]


@pytest.mark.parametrize(
    ("server", "key"),
    [
        ({**LOCAL, "cwd": 5}, "cwd"),
        ({**LOCAL, "wait": True}, "wait"),
        ({**LOCAL, "wait": 0}, "wait"),
        ({**LOCAL, "ms": 0.5}, "ms"),
        ({**LOCAL, "ms": "5"}, "ms"),
        ({**LOCAL, "on": "no"}, "on"),
        ({**LOCAL, "oauth": False}, "oauth"),
        ({**REMOTE, "cwd": "."}, "cwd"),
        ({**REMOTE, "tools": []}, "tools"),
        ({**REMOTE, "oauth": True}, "oauth"),
        ({**REMOTE, "oauht": False}, "oauht"),
    ],
)
def test_what_does_not_fit_is_named(server: dict[str, Any], key: str) -> None:
    assert [f"mcp.docs.{key}"] == [problem.path for problem in server_problems(_profile(docs=server), **WORDS)]


def test_what_only_the_other_transport_takes_says_so() -> None:
    (problem,) = server_problems(_profile(docs={**LOCAL, "cwd": "."}), headless_only=["cwd"])
    assert ("mcp.docs.cwd", "unsupported", True) == (
        problem.path,
        problem.code,
        'transport = "headless"' in problem.message,
    )

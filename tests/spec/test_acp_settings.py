"""What every ACP agent takes from a profile (R-PRO-1, R-PRO-7)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.acp import messages
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import TYPED_FAILURES, JsonValue, acp_problems, acp_settings


def profile(**fields: Any) -> ConcreteProfile:
    return ConcreteProfile(id="p", name="P", family="bolt", **fields)


def test_everything_a_profile_says_is_passed_on() -> None:
    one = profile(model="m", mode="plan", options={"effort": "high", "fast": True}, permissions={"default": "allow"})
    settings = acp_settings(one, client_meta=TYPED_FAILURES, session_meta={"x": 1}, auth_method="key")
    assert ("m", "plan", {"effort": "high", "fast": True}, "allow", "key") == (
        settings.model,
        settings.mode,
        settings.options,
        settings.permission,
        settings.auth_method,
    )
    assert (TYPED_FAILURES, {"x": 1}) == (settings.client_meta, settings.session_meta)
    assert [] == [*acp_problems(one)]


def test_nobody_sits_in_front_of_it_so_what_it_asks_leave_for_is_rejected() -> None:
    assert "reject" == acp_settings(profile()).permission
    options: list[JsonValue] = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
    answer = messages.permission_answer(options, acp_settings(profile()).permission)
    assert {"outcome": {"outcome": "selected", "optionId": "n"}} == answer


def test_servers_are_written_as_the_protocol_writes_them() -> None:
    servers = {
        "files": {"command": "files-mcp", "args": ["--root", "."], "env": {"TOKEN": "t"}},
        "web": {"type": "sse", "url": "https://mcp.example/x", "headers": {"Authorization": "Bearer t"}},
        "plain": {"url": "https://mcp.example/y"},
    }
    assert [] == [*acp_problems(profile(mcp=servers))]
    assert [
        {"name": "files", "command": "files-mcp", "args": ["--root", "."], "env": [{"name": "TOKEN", "value": "t"}]},
        {
            "type": "sse",
            "name": "web",
            "url": "https://mcp.example/x",
            "headers": [{"name": "Authorization", "value": "Bearer t"}],
        },
        {"type": "http", "name": "plain", "url": "https://mcp.example/y", "headers": []},
    ] == [*acp_settings(profile(mcp=servers)).mcp_servers]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"options": {"effort": ["high"]}}, "options.effort"),
        ({"options": {"effort": {"x": 1}}}, "options.effort"),
        ({"permissions": {"default": "ask"}}, "permissions.default"),
        ({"permissions": {"allow": ["Bash"]}}, "permissions.allow"),
        ({"mcp": {"x": "files-mcp"}}, "mcp.x"),
        ({"mcp": {"x": {"args": []}}}, "mcp.x"),
        ({"mcp": {"x": {"command": 5}}}, "mcp.x.command"),
        ({"mcp": {"x": {"command": ["c"]}}}, "mcp.x.command"),
        ({"mcp": {"x": {"command": " "}}}, "mcp.x.command"),
        ({"mcp": {"x": {"command": "c", "args": "a"}}}, "mcp.x.args"),
        ({"mcp": {"x": {"command": "c", "env": {"A": 1}}}}, "mcp.x.env"),
        ({"mcp": {"x": {"url": "https://h", "headers": ["a"]}}}, "mcp.x.headers"),
        ({"mcp": {"x": {"url": "https://h", "type": "stdio"}}}, "mcp.x.type"),
        ({"mcp": {"x": {"command": "c", "type": "http"}}}, "mcp.x.type"),
        ({"mcp": {"x": {"command": "c", "url": "https://h"}}}, "mcp.x"),
        ({"mcp": {"x": {"command": "c", "url": "https://h", "type": "http"}}}, "mcp.x"),
        ({"mcp": {"x": {"command": "c", "comand": "d"}}}, "mcp.x.comand"),
        ({"mcp": {"x": {"command": "c", "headers": {}}}}, "mcp.x.headers"),
        ({"mcp": {"x": {"url": "https://h", "env": {}}}}, "mcp.x.env"),
        ({"mcp": {"x": {"url": "https://h", "timeout": 5}}}, "mcp.x.timeout"),
    ],
)
def test_what_cannot_be_passed_on_is_refused_by_name(fields: dict[str, Any], path: str) -> None:
    (problem,) = acp_problems(profile(**fields))
    assert path == problem.path


def test_what_is_wrong_with_a_server_is_said_in_one_clear_sentence() -> None:
    def said(server: JsonValue) -> str:
        (problem,) = acp_problems(profile(mcp={"docs": server}))
        return str(problem)

    known = "type, command, args, env, url, headers"
    assert f"mcp.docs.comand: is not passed on; known are {known}" == said({"command": "c", "comand": "d"})
    assert said("serve").startswith("mcp.docs: must be a table, such as {")
    assert said({"args": ["x"]}).startswith("mcp.docs: has neither `command` nor `url`;")
    assert said({"command": "c", "url": "https://h"}).endswith("keep one of them")
    assert "mcp.docs.env: belongs to a server with `command`, and this one has `url`" == said(
        {"url": "https://h", "env": {}}
    )
    assert 'mcp.docs.type: must be "stdio" beside `command`' == said({"command": "c", "type": "sse"})
    assert 'mcp.docs.type: must be "http" or "sse" beside `url`' == said({"url": "https://h", "type": "smtp"})


def test_a_fitting_type_is_no_problem() -> None:
    servers = {
        "a": {"type": "stdio", "command": "c"},
        "b": {"type": "sse", "url": "https://h"},
        "c": {"type": "http", "url": "https://h"},
    }
    assert [] == [*acp_problems(profile(mcp=servers))]

"""How Claude is launched over ACP, that it means the same as headless (R-PRO-1, R-CON-9), and what is refused (R-PRO-7)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_claude import ClaudeAdapter
from kandev_routing_claude.acp_extractor import EVENTS, ClaudeAcpExtractor
from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_claude.launch import QUIET
from kandev_routing_sdk.binding import canonical
from kandev_routing_sdk.errors import ExecutableNotFound, LaunchError
from kandev_routing_sdk.profiles import ConcreteProfile, SecretRef
from kandev_routing_sdk.spec import AcpFrame, JsonValue, LaunchPlan
from kandev_routing_sdk.types import Transport
from tests.adapters._plans import Machine
from tests.adapters._turns import Turn

ACP = "claude-agent-acp"


@pytest.fixture
def both(machine: Machine) -> Machine:
    """A machine with ``claude`` and ``claude-agent-acp``."""
    machine.executable(machine.bin / ACP)
    return machine


def told(plan: LaunchPlan) -> Mapping[str, Any]:
    """The options of the session."""
    meta: Any = plan.acp.session_meta["claudeCode"]
    options: Mapping[str, Any] = meta["options"]
    return options


# Which way -----------------------------------------------------------------------------------------------------------


def test_headless_is_the_default(both: Machine) -> None:
    plan = both.plan("claude")
    assert (Transport.HEADLESS, str(both.bin / "claude")) == (plan.transport, plan.argv[0])
    assert isinstance(ClaudeAdapter().extractor(plan), ClaudeExtractor)


def test_a_profile_may_ask_for_acp(both: Machine) -> None:
    plan = both.plan("claude", transport="acp")
    assert (Transport.ACP, (str(both.bin / ACP),)) == (plan.transport, plan.argv)
    assert isinstance(ClaudeAdapter().extractor(plan), ClaudeAcpExtractor)


def test_a_command_tells_its_transport(both: Machine) -> None:
    both.executable(both.bin / "npx")
    plan = both.plan("claude", command=("npx", f"@agentclientprotocol/{ACP}@0.101.0"))
    assert (Transport.ACP, str(both.bin / "npx")) == (plan.transport, plan.argv[0])
    assert Transport.HEADLESS is both.plan("claude", command=("npx", "@anthropic-ai/claude-code")).transport


@pytest.mark.parametrize(
    "word",
    ["x/claude-agent-acp.js", "@vendor/claude-agent-acp@1", "claude-agent-acp", "claude", "x/claude-agent-acp/y"],
)
def test_a_profile_is_checked_for_the_transport_that_it_will_be_launched_on(both: Machine, word: str) -> None:
    both.executable(both.bin / "wrap")
    fields: dict[str, Any] = {"command": ("wrap", word)}
    over_acp = bool(ClaudeAdapter().validate(both.profile("claude", mode="dontAsk", **fields)))
    assert over_acp is (both.plan("claude", **fields).transport is Transport.ACP)


def test_acp_is_taken_where_only_it_is_installed(both: Machine) -> None:
    (both.bin / "claude").unlink()
    assert Transport.ACP is both.plan("claude", mode="plan").transport
    with pytest.raises(LaunchError, match=r"only claude-agent-acp is installed.* mode: .* over acp"):
        both.plan("claude", mode="dontAsk")


def test_a_missing_agent_is_told_with_the_way_out(machine: Machine) -> None:
    (machine.bin / ACP).unlink(missing_ok=True)
    with pytest.raises(ExecutableNotFound, match=r"npm install -g @agentclientprotocol/claude-agent-acp"):
        machine.plan("claude", transport="acp")


def test_discover_tells_both_ways_headless_first(both: Machine) -> None:
    found = ClaudeAdapter().discover(both.environ)
    assert [(Transport.HEADLESS, str(both.bin / "claude")), (Transport.ACP, str(both.bin / ACP))] == [
        (way.transport, way.executable) for way in found
    ]
    missing = ClaudeAdapter().discover({"PATH": str(both.work)})
    assert all(way.executable is None and "npm install -g" in way.hint for way in missing)


# What is passed on ---------------------------------------------------------------------------------------------------


def test_the_events_of_the_inner_claude_are_asked_for(both: Machine) -> None:
    meta: Any = both.plan("claude", transport="acp").acp.session_meta["claudeCode"]
    assert {"emitRawSDKMessages": [*EVENTS], "options": {}} == meta


def test_everything_a_profile_says_goes_with_the_session(both: Machine) -> None:
    plan = both.plan(
        "claude",
        transport="acp",
        model="opus",
        fallback_model="sonnet",
        mode="acceptEdits",
        options={
            "agent": "reviewer", "effort": "high", "max_turns": "3", "max_budget_usd": 1.5, "tools": "Bash, Read",
            "setting_sources": ["user"], "append_system_prompt": "--brief",
        },
        permissions={"allow": ["Bash(git log:*)"], "additional_directories": ["../docs"], "default": "allow"},
        args=("--add-dir=../docs", "--strict-mcp-config", "--betas", "x"),
        mcp={"docs": {"command": "serve", "env": {"TOKEN": "secret-000"}}},
    )  # fmt: skip
    assert {
        "model": "opus",
        "fallbackModel": "sonnet",
        "agent": "reviewer",
        "effort": "high",
        "maxTurns": 3,
        "maxBudgetUsd": 1.5,
        "tools": ["Bash", "Read"],
        "settingSources": ["user"],
        "settings": {"permissions": {"allow": ["Bash(git log:*)"], "additionalDirectories": ["../docs"]}},
        "extraArgs": {"add-dir": "../docs", "strict-mcp-config": None, "betas": "x"},
    } == told(plan)
    assert {"append": "--brief"} == plan.acp.session_meta["systemPrompt"]
    assert ("acceptEdits", "allow") == (plan.acp.mode, plan.acp.permission)
    server: Any = plan.acp.mcp_servers[0]
    assert ("docs", "serve", [{"name": "TOKEN", "value": "secret-000"}]) == (
        server["name"],
        server["command"],
        server["env"],
    )
    assert frozenset({"secret-000"}) == plan.secrets
    assert ("opus", (str(both.bin / ACP),)) == (plan.model_id, plan.argv)


def test_the_model_is_claudes_own_whatever_the_host_says(both: Machine) -> None:
    """claude-agent-acp would set the session's model to that of the variable."""
    plan = both.plan("claude", {"ANTHROPIC_MODEL": "haiku"}, transport="acp", model="opus")
    assert ("opus", None) == (plan.environ["ANTHROPIC_MODEL"], plan.acp.model)
    assert "haiku" == both.plan("claude", {"ANTHROPIC_MODEL": "haiku"}, transport="acp").environ["ANTHROPIC_MODEL"]


def test_no_model_and_no_fallback_that_nobody_asked_for(both: Machine) -> None:
    """R-CON-9."""
    plan = both.plan("claude", transport="acp")
    assert ({}, "ANTHROPIC_MODEL" in plan.environ) == (told(plan), False)


def test_what_nobody_may_allow_is_rejected_as_headless(both: Machine) -> None:
    plan = both.plan("claude", transport="acp")
    assert ("reject", "default") == (plan.acp.permission, plan.acp.mode)


@pytest.mark.parametrize(("mode", "sent"), [("manual", "default"), ("default", "default"), ("auto", "auto")])
def test_a_mode_goes_by_its_name_over_acp(both: Machine, mode: str, sent: str) -> None:
    assert sent == both.plan("claude", transport="acp", mode=mode).acp.mode


def test_the_mode_of_claudes_own_settings_is_left_alone(both: Machine) -> None:
    both.file(".claude/settings.json", '{"permissions": {"defaultMode": "plan"}}')
    assert both.plan("claude", transport="acp").acp.mode is None
    assert "default" == both.plan("claude", transport="acp", options={"setting_sources": "project"}).acp.mode


@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ({"system_prompt": "You are terse."}, "You are terse."),
        ({"system_prompt": "You are terse.", "append_system_prompt": "Very."}, "You are terse.\n\nVery."),
    ],
)
def test_the_system_prompt_can_be_another(both: Machine, options: dict[str, JsonValue], prompt: str) -> None:
    assert prompt == both.plan("claude", transport="acp", options=options).acp.session_meta["systemPrompt"]


def test_retries_and_silence_are_bounded_on_both_transports(both: Machine) -> None:
    """R-CON-9: the Claude inside has the same environment."""
    for transport in ("headless", "acp"):
        environ = both.plan("claude", {"CLAUDE_CODE_MAX_RETRIES": "10"}, transport=transport).environ
        assert dict(QUIET) == {name: environ[name] for name in QUIET}
        assert "IS_SANDBOX" not in environ


def test_what_means_another_session_is_left_out(both: Machine) -> None:
    host = {
        "CLAUDE_AGENT_ACP_PROTOCOL": "2",
        "CLAUDE_CODE_SESSION_ACCESS_TOKEN": "x",
        "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR": "7",
    }
    assert not host.keys() & both.plan("claude", host, transport="acp").environ.keys()


def test_a_session_is_continued_by_its_id(both: Machine) -> None:
    assert both.plan("claude", transport="acp", resume="0123").resumed


# What is refused -----------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("mode", {"mode": "dontAsk"}),
    ("args[0]", {"args": ("--permission-prompt-tool=x",)}),
    ("args[1]", {"args": ("--add-dir=.", "--tools=Bash")}),
    ("args", {"args": ("-d",)}),
    ("args", {"args": ("--add-dir", "a", "b")}),
    ("args", {"args": ("--add-dir=a", "--add-dir=b")}),
    ("options.max_turns", {"options": {"max_turns": "many"}}),
    ("options.model", {"options": {"model": "opus"}}),
    ("permissions.default", {"permissions": {"default": "ask"}}),
    ("permissions.mode", {"permissions": {"mode": "plan"}}),
    ("permissions.deny", {"permissions": {"deny": "Bash"}}),
    ("mcp.docs.command", {"mcp": {"docs": {"command": 3}}}),
    ("mcp.docs", {"mcp": {"docs": {"args": []}}}),
    ("mcp.docs.timeout", {"mcp": {"docs": {"command": "x", "timeout": 5}}}),
    ("mcp.docs.cwd", {"mcp": {"docs": {"command": "x", "cwd": "."}}}),
    ("mcp.docs.oauth", {"mcp": {"docs": {"url": "https://x", "oauth": {}}}}),
    ("mcp.docs.type", {"mcp": {"docs": {"command": "x", "type": "http"}}}),
    ("mcp.docs", {"mcp": {"docs": {"command": "x", "url": "https://x"}}}),
]


@pytest.mark.parametrize(("path", "fields"), WRONG)
def test_what_cannot_be_passed_on_is_a_problem_that_names_its_field(path: str, fields: dict[str, Any]) -> None:
    profile = ConcreteProfile(id="p", name="P", family="claude", transport=Transport.ACP, **fields)
    assert [path] == [problem.path for problem in ClaudeAdapter().validate(profile)]


@pytest.mark.parametrize("fields", [{"mode": "dontAsk"}, {"args": ("--tools=Bash",)}, {"args": ("-d",)}])
def test_a_problem_names_the_transport_and_headless_has_none(fields: dict[str, Any]) -> None:
    def problems(transport: Transport) -> list[str]:
        profile = ConcreteProfile(id="p", name="P", family="claude", transport=transport, **fields)
        return [problem.message for problem in ClaudeAdapter().validate(profile)]

    assert [] == problems(Transport.HEADLESS)
    (message,) = problems(Transport.ACP)
    assert "over acp" in message.lower()


def test_headless_nobody_is_asked_so_nothing_can_be_allowed() -> None:
    def problems(answer: str) -> list[str]:
        profile = ConcreteProfile(id="p", name="P", family="claude", permissions={"default": answer})
        return [problem.path for problem in ClaudeAdapter().validate(profile)]

    assert (["permissions.default"], []) == (problems("allow"), problems("reject"))


# Whose credential ----------------------------------------------------------------------------------------------------

KEY = "sk-ant-api03-secret-0000000000000000"
LAUNCHES: list[tuple[dict[str, str], dict[str, Any], dict[str, str]]] = [
    ({"ANTHROPIC_API_KEY": KEY}, {}, {}),
    ({"WORK_KEY": KEY}, {"env": {"ANTHROPIC_AUTH_TOKEN": SecretRef(secret="env:WORK_KEY")}}, {}),
    ({"CLAUDE_CODE_OAUTH_TOKEN": KEY}, {}, {}),
    ({}, {}, {".claude/.credentials.json": "{}"}),
    ({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://llm.corp.example/a"}, {}, {}),
    ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1", "AWS_PROFILE": "team"}, {}, {}),
    ({}, {}, {".claude/settings.json": '{"apiKeyHelper": "/bin/key"}'}),
    ({"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_RESOURCE": "r", "ANTHROPIC_FOUNDRY_API_KEY": KEY}, {}, {}),
]


@pytest.mark.parametrize(("host", "fields", "files"), LAUNCHES)
def test_both_transports_share_an_account(
    both: Machine, host: dict[str, str], fields: dict[str, Any], files: dict[str, str]
) -> None:
    """R-CIR-3: the Claude inside claude-agent-acp signs in as any other."""
    for path, text in files.items():
        both.file(path, text)
    plans = [
        both.plan("claude", host, transport=transport, model=model, **fields)
        for transport, model in (("headless", None), ("acp", "opus"))
    ]
    descriptors = [plan.descriptor for plan in plans]
    assert all(descriptor is not None for descriptor in descriptors)
    assert 1 == len({canonical(descriptor) for descriptor in descriptors if descriptor is not None})
    assert 1 == len({plan.provider_id for plan in plans})


UNPROVEN: list[tuple[str | None, dict[str, str]]] = [
    ("anthropic-aws", {"CLAUDE_CODE_USE_ANTHROPIC_AWS": "1"}),
    ("mantle", {"CLAUDE_CODE_USE_MANTLE": "1"}),
    (None, {"CLAUDE_CODE_USE_GATEWAY": "1"}),
    (None, {"ANTHROPIC_UNIX_SOCKET": "/run/proxy.sock"}),
    ("anthropic", {"ANTHROPIC_PROFILE": "work"}),
    ("anthropic", {"ANTHROPIC_IDENTITY_TOKEN_FILE": "/run/token"}),
    ("amazon-bedrock", {"CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1", "AWS_PROFILE": "team"}),
]


@pytest.mark.parametrize(("provider", "host"), UNPROVEN)
def test_a_way_to_sign_in_that_is_not_followed_proves_nothing(
    both: Machine, provider: str | None, host: dict[str, str]
) -> None:
    plan = both.plan("claude", {"ANTHROPIC_API_KEY": KEY, **host}, transport="acp")
    assert (provider, None) == (plan.provider_id, plan.descriptor)


def test_another_file_of_credentials_is_another_account(both: Machine) -> None:
    host = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1", "AWS_PROFILE": "team"}
    plans = [both.plan("claude", {**host, **more}) for more in ({}, {"AWS_CONFIG_FILE": "/etc/team/aws"})]
    assert plans[0].descriptor != plans[1].descriptor


def test_settings_that_claude_is_told_to_pass_over_name_no_key(both: Machine, tmp_path: Path) -> None:
    both.file(".claude/settings.json", f'{{"env": {{"ANTHROPIC_API_KEY": "{KEY}"}}}}')
    assert both.plan("claude").descriptor is not None
    for fields in ({"options": {"setting_sources": "project"}}, {"args": ("--setting-sources=project,local",)}):
        assert both.plan("claude", **fields).descriptor is None


@pytest.mark.parametrize(
    ("host", "kind", "doubted"),
    [
        ({"ANTHROPIC_API_KEY": KEY}, "api_key", False),
        ({"ANTHROPIC_API_KEY": KEY}, "account", True),
        ({"CLAUDE_CODE_OAUTH_TOKEN": KEY}, "none", False),
        ({"CLAUDE_CODE_OAUTH_TOKEN": KEY}, "api_key", True),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_PROFILE": "team", "AWS_REGION": "x"}, "external", False),
        ({}, "account", False),
    ],
)
def test_a_sign_in_other_than_the_launchs_is_doubted(
    both: Machine, host: dict[str, str], kind: str, doubted: bool
) -> None:
    """agents.md 4. Where nothing was proven, nothing can be contradicted."""
    turn = Turn(ClaudeAdapter().extractor(both.plan("claude", host, transport="acp")))
    turn.feed(AcpFrame({"method": "_auth/status_update", "params": {"authStatus": {"kind": kind}}}))
    assert doubted is turn.record.credential_is_doubted

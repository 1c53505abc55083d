"""How Codex is launched over ACP: everything a profile says is passed on or refused (R-PRO-1, R-PRO-7, R-CON-9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_codex.settings import BOUNDED
from kandev_routing_codex.ways import WAYS
from kandev_routing_sdk.errors import LaunchError
from kandev_routing_sdk.spec import ExecutableNotFound, LaunchPlan, LaunchRequest, Transport
from tests.adapters._accounts import Row, fingerprint_of, planned
from tests.adapters._accounts_codex import CODEX
from tests.adapters._plans import ADAPTERS, Machine

KEY = "sk-secret-000000"


@pytest.fixture
def machine(machine: Machine) -> Machine:
    machine.executable(machine.bin / "codex-acp")
    return machine


def config_of(plan: LaunchPlan) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(plan.environ["CODEX_CONFIG"])
    return loaded


def over_acp(machine: Machine, host: Mapping[str, str] | None = None, **fields: Any) -> LaunchPlan:
    return machine.plan("codex", host, transport=Transport.ACP, **fields)


# Which way ------------------------------------------------------------------------------------------------------------


def test_acp_is_taken_where_it_is_installed(machine: Machine) -> None:
    assert (Transport.ACP, str(machine.bin / "codex-acp")) == (
        machine.plan("codex").transport,
        machine.plan("codex").argv[0],
    )
    (machine.bin / "codex-acp").unlink()
    assert Transport.HEADLESS is machine.plan("codex").transport
    (machine.bin / "codex").unlink()
    with pytest.raises(ExecutableNotFound, match="codex-acp"):
        machine.plan("codex")


@pytest.mark.parametrize("fields", [{"args": ("--search",)}, {"permissions": {"network_access": True}}])
def test_what_only_headless_takes_is_driven_headless(machine: Machine, fields: dict[str, Any]) -> None:
    assert Transport.HEADLESS is machine.plan("codex", **fields).transport


def test_what_only_acp_takes_is_driven_over_acp(machine: Machine) -> None:
    assert Transport.ACP is machine.plan("codex", permissions={"default": "allow"}).transport
    (machine.bin / "codex-acp").unlink()
    with pytest.raises(ExecutableNotFound, match="codex-acp"):
        machine.plan("codex", permissions={"default": "allow"})


@pytest.mark.parametrize(
    ("command", "transport"),
    [
        (("codex",), Transport.HEADLESS),
        (("npx", "-y", "@agentclientprotocol/codex-acp@2.6.0"), Transport.ACP),
        (("npx", "@zed-industries/codex-acp"), Transport.ACP),
        (("npx", "wrap"), Transport.HEADLESS),
    ],
)
def test_a_command_says_which_way_it_is(machine: Machine, command: tuple[str, ...], transport: Transport) -> None:
    machine.executable(machine.bin / "npx")
    plan = machine.plan("codex", command=command)
    assert (transport, command[1:]) == (plan.transport, plan.argv[1 : len(command)])


def test_a_command_that_cannot_take_it_all_is_told_so(machine: Machine) -> None:
    assert ["args[0]"] == [
        problem.path
        for problem in ADAPTERS["codex"].validate(machine.profile("codex", command=("codex-acp",), args=("-x",)))
    ]
    profile = machine.profile("codex", command=("codex-acp",), args=("-x",))
    request = LaunchRequest(profile=profile, environ=machine.environ, cwd=machine.work, executor_namespace="here")
    with pytest.raises(LaunchError, match=r"args\[0\].*options"):
        ADAPTERS["codex"].plan(request)


# What is passed on ----------------------------------------------------------------------------------------------------


def test_settings_travel_in_a_variable_and_as_flags_for_the_agent_that_reads_those(machine: Machine) -> None:
    machine.file(
        ".codex/config.toml", 'model_provider = "corp"\n[model_providers.corp]\nbase_url = "https://c.example"\n'
    )
    plan = over_acp(
        machine,
        model="gpt-6[high]",
        mode="workspace-write",
        args=("-c", 'personality="terse"'),
        options={"features.web_search": False, "model_providers.corp.stream_max_retries": 2},
        permissions={"writable_roots": ["../shared"]},
    )
    config = config_of(plan)
    shared = str(machine.work.parent / "shared")
    assert ("gpt-6", "high", "workspace-write") == (
        config["model"], config["model_reasoning_effort"], config["sandbox_mode"],
    )  # fmt: skip
    assert ({"web_search": False}, {"enabled": False}, "terse") == (
        config["features"], config["analytics"], config["personality"],
    )  # fmt: skip
    assert (0, 2) == (
        config["model_providers"]["corp"]["request_max_retries"],
        config["model_providers"]["corp"]["stream_max_retries"],
    )
    assert [shared] == config["sandbox_workspace_write"]["writable_roots"]
    assert {"additionalRoots": [shared]} == plan.acp.session_meta
    assert {'--config=model="gpt-6"', '--config=personality="terse"'} <= set(plan.argv)
    assert ("workspace-write", None, None) == (plan.environ["INITIAL_AGENT_MODE"], plan.acp.mode, plan.acp.model)


@pytest.mark.parametrize(
    ("mode", "agent_mode", "sandbox", "approval"),
    [
        (None, "read-only", "read-only", None),
        ("read-only", "read-only", "read-only", None),
        ("workspace-write", "workspace-write", "workspace-write", None),
        ("danger-full-access", "agent-full-access", "danger-full-access", "never"),
        ("bypass", "agent-full-access", "danger-full-access", "never"),
    ],
)
def test_a_mode_means_the_same_as_headless(
    machine: Machine, mode: str | None, agent_mode: str, sandbox: str, approval: str | None
) -> None:
    plan = over_acp(machine, {"INITIAL_AGENT_MODE": "agent"}, mode=mode)
    config = config_of(plan)
    assert (agent_mode, sandbox, approval) == (
        plan.environ["INITIAL_AGENT_MODE"], config["sandbox_mode"], config.get("approval_policy"),
    )  # fmt: skip


def test_without_a_mode_the_configuration_decides(machine: Machine) -> None:
    machine.file(".codex/config.toml", f'[projects."{machine.work}"]\ntrust_level = "trusted"\n')
    assert "workspace-write" == over_acp(machine).environ["INITIAL_AGENT_MODE"]
    machine.file(".codex/config.toml", 'sandbox_mode = "danger-full-access"\n')
    assert "agent-full-access" == over_acp(machine).environ["INITIAL_AGENT_MODE"]


def test_a_mode_of_the_agent_s_own_is_set_where_a_wrong_one_is_refused(machine: Machine) -> None:
    plan = over_acp(machine, mode="permission-profile:ci")
    assert ("permission-profile:ci", False) == (plan.acp.mode, "INITIAL_AGENT_MODE" in plan.environ)
    problem, *_ = ADAPTERS["codex"].validate(machine.profile("codex", mode="permission-profile:ci"))
    assert ("mode", True) == (problem.path, 'transport = "acp"' in problem.message)


def test_servers_go_with_the_session_and_their_secrets_on_no_command_line(machine: Machine) -> None:
    plan = over_acp(
        machine,
        mcp={
            "docs": {"command": "serve", "args": ["-q"], "env": {"TOKEN": KEY}},
            "web": {"url": "https://mcp.example", "http_headers": {"X-Key": KEY}},
        },
    )
    docs, web = plan.acp.mcp_servers
    assert ("serve", [{"name": "TOKEN", "value": KEY}]) == (docs["command"], docs["env"])
    assert ("http", [{"name": "X-Key", "value": KEY}]) == (web["type"], web["headers"])
    assert KEY not in repr(plan.argv)
    assert {KEY} == plan.secrets


def test_the_answer_to_what_is_asked_is_no_unless_the_profile_says_yes(machine: Machine) -> None:
    assert "reject" == over_acp(machine).acp.permission
    assert "allow" == over_acp(machine, permissions={"default": "allow"}).acp.permission


def test_typed_failures_are_asked_for_and_nothing_beside_the_prompt(machine: Machine) -> None:
    plan = over_acp(machine)
    assert ["sessionFailure"] == plan.acp.client_meta["jetbrains"]["air"]["capabilities"]  # type: ignore[index, call-overload]
    assert ("false", "1") == (plan.environ["CODEX_ACP_PROMPT_SUGGESTIONS"], plan.environ["NO_BROWSER"])
    own = over_acp(machine, env={"CODEX_ACP_PROMPT_SUGGESTIONS": "true"})
    assert "true" == own.environ["CODEX_ACP_PROMPT_SUGGESTIONS"]


def test_a_model_with_its_effort_is_known_by_its_name(machine: Machine) -> None:
    plan = over_acp(machine, model="gpt-5.5[high]")
    assert ("gpt-5.5", "high") == (config_of(plan)["model"], config_of(plan)["model_reasoning_effort"])
    assert "gpt-5.5" == plan.model_id


def test_without_a_sandbox_there_is_nothing_between_it_and_the_network(machine: Machine) -> None:
    """What the message about ``network_access`` says is a way out."""
    fields: dict[str, Any] = {"transport": Transport.ACP, "permissions": {"network_access": True}}
    (problem,) = ADAPTERS["codex"].validate(machine.profile("codex", **fields))
    assert 'mode = "danger-full-access"' in problem.message
    for mode in ("danger-full-access", "bypass", "agent-full-access"):
        assert [] == [*ADAPTERS["codex"].validate(machine.profile("codex", mode=mode, **fields))]


@pytest.mark.parametrize("mode", ["agent", "agent-full-access", "auto", "full-access", "permission-profile:ci"])
def test_the_agents_own_modes_are_known(machine: Machine, mode: str) -> None:
    assert mode == over_acp(machine, mode=mode).acp.mode


def test_a_mode_that_nobody_knows_is_refused_with_those_that_are_known(machine: Machine) -> None:
    (problem,) = ADAPTERS["codex"].validate(machine.profile("codex", transport=Transport.ACP, mode="workspacewrite"))
    assert "mode" == problem.path
    assert all(known in problem.message for known in ("'workspacewrite'", "workspace-write", "agent-full-access"))


@pytest.mark.parametrize(
    "args",
    [
        ("-c", "a.b=1"),
        ("--config", "a=1", "-c", "b=2"),
        ("--config=a=1",),
        ('--config=a="-x=1"',),
        ("-c", 'a={b = "c"}'),
    ],
)
def test_a_setting_is_taken_however_it_is_written(machine: Machine, args: tuple[str, ...]) -> None:
    assert {"a"} <= config_of(over_acp(machine, args=args)).keys()


REFUSED = [
    ("args[0]", {"args": ("-c",)}),
    ("args[1]", {"args": ("-c", "a")}),
    ("args[1]", {"args": ("-c", "--config=a=1")}),
    ("args[0]", {"args": ("--config",)}),
    ("args[0]", {"args": ("--config=a",)}),
    ("args[0]", {"args": ("--config==1",)}),
    ("args[0]", {"args": ("--configX=1",)}),
    ("args[0]", {"args": ("-color=never",)}),
    ("args[0]", {"args": ("-ca=1",)}),
    ("mode", {"mode": "permission-profile:"}),
    ("mcp.docs.headers", {"mcp": {"docs": {"command": "x", "headers": {}}}}),
    ("mcp.docs.type", {"mcp": {"docs": {"url": "https://x.example", "type": "sse"}}}),
    ("mcp.docs.http_headers", {"mcp": {"docs": {"url": "https://x", "headers": {}, "http_headers": {}}}}),
    ("mcp.docs.cwd", {"mcp": {"docs": {"command": "x", "cwd": "."}}}),
    ("args[0]", {"args": ("--search",)}),
    ("args[1]", {"args": ("--config=a=1", "-p")}),
    ("permissions.network_access", {"permissions": {"network_access": True}}),
    ("permissions.default", {"permissions": {"default": "perhaps"}}),
    ("mcp.docs.bearer_token_env_var", {"mcp": {"docs": {"url": "https://x.example", "bearer_token_env_var": "T"}}}),
    ("mcp.docs", {"mcp": {"docs": {"args": ["x"]}}}),
    ("fallback_model", {"fallback_model": "gpt-4"}),
    ("mode", {"mode": " "}),
]


@pytest.mark.parametrize(("path", "fields"), REFUSED)
def test_what_acp_cannot_say_is_a_problem_that_names_its_field(
    machine: Machine, path: str, fields: dict[str, Any]
) -> None:
    found = ADAPTERS["codex"].validate(machine.profile("codex", transport=Transport.ACP, **fields))
    assert path in [problem.path for problem in found]


def test_an_answer_that_headless_cannot_give_is_a_problem(machine: Machine) -> None:
    for answer, wrong in {"allow": ["permissions.default"], "reject": []}.items():
        profile = machine.profile("codex", transport=Transport.HEADLESS, permissions={"default": answer})
        assert wrong == [problem.path for problem in ADAPTERS["codex"].validate(profile)]


# Its own retries and its sign-in --------------------------------------------------------------------------------------


def test_the_built_in_provider_is_bounded_with_the_same_login(machine: Machine) -> None:
    machine.file(".codex/config.toml", 'openai_base_url = "https://proxy.example/v1"\n')
    config = config_of(over_acp(machine))
    entry = config["model_providers"][BOUNDED]
    assert (BOUNDED, True, "https://proxy.example/v1") == (
        config["model_provider"], entry["requires_openai_auth"], entry["base_url"],
    )  # fmt: skip
    assert (0, 0, 180_000) == (
        entry["request_max_retries"],
        entry["stream_max_retries"],
        entry["stream_idle_timeout_ms"],
    )


def test_a_provider_that_the_profile_has_as_a_table_is_bounded_too(machine: Machine) -> None:
    """Where the command line is read, a later table would replace an earlier bound."""

    def plan(**own: int) -> LaunchPlan:
        table = {"loop": {"name": "loop", "base_url": "https://x.example", **own}}
        return over_acp(machine, options={"model_provider": "loop", "model_providers": table})

    keys = [argument.split("=")[1] for argument in plan().argv if argument.startswith("--config=")]
    assert keys.index("model_providers") < keys.index("model_providers.loop.request_max_retries")
    assert 0 == config_of(plan())["model_providers"]["loop"]["request_max_retries"]
    assert 2 == config_of(plan(request_max_retries=2))["model_providers"]["loop"]["request_max_retries"]
    assert not any("loop.request_max_retries" in argument for argument in plan(request_max_retries=2).argv)


def test_an_api_key_is_used_without_writing_it_to_the_login_file(machine: Machine) -> None:
    """The agent itself would store it in ``auth.json``, over whatever login is there."""
    plan = over_acp(machine, {"CODEX_API_KEY": KEY})
    entry = config_of(plan)["model_providers"][BOUNDED]
    assert ("CODEX_API_KEY", "https://api.openai.com/v1", False) == (
        entry["env_key"], entry["base_url"], "requires_openai_auth" in entry,
    )  # fmt: skip
    assert plan.acp.auth_method is None
    assert KEY not in plan.environ["CODEX_CONFIG"]


def test_what_the_agent_does_not_read_is_not_taken_for_its_login(machine: Machine) -> None:
    original = {"options": {"model_provider": "openai"}}
    assert over_acp(machine, {"CODEX_ACCESS_TOKEN": KEY}).descriptor is None
    assert over_acp(machine, {"CODEX_API_KEY": KEY}, **original).descriptor is None
    assert over_acp(machine, {"CODEX_API_KEY": KEY}, env={"DEFAULT_AUTH_REQUEST": "{}"}).descriptor is None
    assert machine.plan("codex", {"CODEX_ACCESS_TOKEN": KEY}, transport=Transport.HEADLESS).descriptor is not None


def test_a_provider_that_the_environment_names_is_the_one(machine: Machine) -> None:
    plan = over_acp(
        machine,
        {
            "CODEX_CONFIG": json.dumps(
                {"model_providers": {"corp": {"base_url": "https://c.example/v1", "env_key": "CORP"}}}
            ),
            "CORP": KEY,
        },
        env={"MODEL_PROVIDER": "corp"},
    )
    config = config_of(plan)
    assert ("gateway:c.example", "corp", False) == (
        plan.provider_id,
        config["model_provider"],
        "MODEL_PROVIDER" in plan.environ,
    )
    assert ("https://c.example/v1", 0) == (
        config["model_providers"]["corp"]["base_url"],
        config["model_providers"]["corp"]["request_max_retries"],
    )
    assert plan.descriptor is not None


@pytest.mark.parametrize("text", ["{", "[]", "3", "[" * 100_000])
def test_a_variable_that_the_agent_would_die_of_is_told_before(machine: Machine, text: str) -> None:
    with pytest.raises(LaunchError, match="CODEX_CONFIG"):
        over_acp(machine, {"CODEX_CONFIG": text})


def test_a_broken_file_is_told_before_the_agent_asks_to_sign_in(machine: Machine) -> None:
    machine.file(".codex/config.toml", "model = [")
    with pytest.raises(LaunchError, match="cannot be read"):
        over_acp(machine)


def test_a_session_is_continued_by_the_protocol(machine: Machine) -> None:
    plan = over_acp(machine, resume="0123")
    assert (True, False) == (plan.resumed, "0123" in plan.argv)


# Whose account --------------------------------------------------------------------------------------------------------


SHARED = [row for row in CODEX if not {"transport", "command"} & set(row.launch.fields)]


@pytest.mark.parametrize("row", SHARED, ids=lambda row: row.name)
def test_both_transports_of_one_account_are_the_same_account(row: Row, tmp_path: Path) -> None:
    """R-CIR-3."""
    acp, headless = (planned(row, tmp_path / "machine", transport=way.transport) for way in WAYS)
    assert (acp.provider_id, fingerprint_of(acp)) == (headless.provider_id, fingerprint_of(headless))

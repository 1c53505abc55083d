"""How the adapters launch their agents (R-PRO-3, R-CON-9, R-PLG-1), and what they refuse (R-PRO-7)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kandev_routing_claude
import kandev_routing_codex
import kandev_routing_opencode
from kandev_routing_codex.zone import local_zone
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.errors import ExecutableNotFound, LaunchError
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.types import Transport
from tests.adapters._plans import ADAPTERS, Machine

FAMILIES = ["claude", "codex", "opencode"]


def settings_of(argv: tuple[str, ...], flag: str) -> Any:
    return next(json.loads(a.partition("=")[2]) for a in argv if a.startswith(f"{flag}="))


def config_of(argv: tuple[str, ...]) -> dict[str, Any]:
    pairs = [a.removeprefix("--config=").partition("=") for a in argv if a.startswith("--config=")]
    return {key: tomllib.loads(f"v = {value}")["v"] for key, _, value in pairs}


# Command lines -------------------------------------------------------------------------------------------------------


def test_claude_runs_headless_with_its_stream(machine: Machine) -> None:
    plan = machine.plan(
        "claude", model="opus", fallback_model="sonnet", mode="acceptEdits", args=("--add-dir=../docs",)
    )
    assert (
        str(machine.bin / "claude"), "-p", "--output-format=stream-json", "--verbose", "--include-partial-messages",
        "--model=opus", "--fallback-model=sonnet", "--permission-mode=acceptEdits", "--add-dir=../docs",
    ) == plan.argv  # fmt: skip
    assert (Transport.HEADLESS, True, "opus") == (plan.transport, plan.stdin_prompt, plan.model_id)


def test_claude_gets_no_model_and_no_fallback_that_nobody_asked_for(machine: Machine) -> None:
    """R-CON-9."""
    plan = machine.plan("claude", mode="default")
    assert not any("model" in argument or "permission" in argument for argument in plan.argv[1:])
    assert plan.model_id is None


def test_claude_permissions_options_and_servers_become_flags(machine: Machine) -> None:
    plan = machine.plan(
        "claude",
        permissions={"allow": ["Bash(git log:*)"], "additional_directories": ["../docs"]},
        options={"max_turns": 3, "append_system_prompt": "--brief", "tools": ["Bash", "Read"]},
        mcp={"docs": {"command": "serve", "env": {"TOKEN": "secret-000"}}},
    )
    assert {"permissions": {"allow": ["Bash(git log:*)"], "additionalDirectories": ["../docs"]}} == settings_of(
        plan.argv, "--settings"
    )
    assert {"mcpServers": {"docs": {"command": "serve", "env": {"TOKEN": "secret-000"}}}} == settings_of(
        plan.argv, "--mcp-config"
    )
    assert {"--max-turns=3", "--append-system-prompt=--brief", "--tools=Bash,Read"} <= set(plan.argv)
    assert frozenset({"secret-000"}) == plan.secrets


def test_codex_runs_headless_with_json(machine: Machine) -> None:
    plan = machine.plan("codex", model="gpt-5.5", mode="bypass", args=("--add-dir=../docs",))
    assert (str(machine.bin / "codex"), "exec", "--json", "--skip-git-repo-check", "--model=gpt-5.5") == plan.argv[:5]
    assert "--dangerously-bypass-approvals-and-sandbox" == plan.argv[5]
    assert ("--add-dir=../docs", "-") == plan.argv[-2:]
    assert ("gpt-5.5", "UTC") == (plan.model_id, plan.local_zone)


def test_codex_permissions_options_and_servers_become_configuration(machine: Machine) -> None:
    plan = machine.plan(
        "codex",
        mode="workspace-write",
        permissions={"network_access": True, "writable_roots": ["../shared"]},
        options={"model_reasoning_effort": "high", "features.web_search": False},
        mcp={"docs": {"command": "serve", "env": {"TOKEN": "secret-000"}}},
    )
    config = config_of(plan.argv)
    assert "workspace-write" == config["sandbox_mode"]
    assert (True, ["../shared"]) == (
        config["sandbox_workspace_write.network_access"],
        config["sandbox_workspace_write.writable_roots"],
    )
    assert ("high", False) == (config["model_reasoning_effort"], config["features.web_search"])
    assert {"command": "serve", "env": {"TOKEN": "secret-000"}} == config["mcp_servers.docs"]
    assert frozenset({"secret-000"}) == plan.secrets


def test_claude_takes_a_server_with_an_address_for_one_whether_or_not_its_type_is_said(machine: Machine) -> None:
    """Claude itself takes one without a type for a command."""
    own = {"timeout": 5000, "headersHelper": "print-headers"}
    plan = machine.plan(
        "claude", mcp={"a": {"url": "https://x.example"}, "b": {"type": "sse", "url": "https://x.example", **own}}
    )
    assert {
        "a": {"type": "http", "url": "https://x.example"},
        "b": {"type": "sse", "url": "https://x.example", **own},
    } == settings_of(plan.argv, "--mcp-config")["mcpServers"]


def test_codex_servers_are_written_in_its_own_words(machine: Machine) -> None:
    """It passes over ``headers`` and knows no ``type``."""
    own = {"enabled": False, "startup_timeout_sec": 3, "bearer_token_env_var": "DOCS_TOKEN"}
    plan = machine.plan(
        "codex",
        mcp={
            "web": {"type": "http", "url": "https://x.example", "headers": {"X-Key": "secret-000"}, **own},
            "docs": {"type": "stdio", "command": "serve", "cwd": "/srv"},
        },
    )
    config = config_of(plan.argv)
    assert {"url": "https://x.example", "http_headers": {"X-Key": "secret-000"}, **own} == config["mcp_servers.web"]
    assert {"command": "serve", "cwd": "/srv"} == config["mcp_servers.docs"]
    assert frozenset({"secret-000"}) == plan.secrets


def test_codex_takes_a_model_with_its_effort(machine: Machine) -> None:
    plan = machine.plan("codex", model="gpt-5.5[high]")
    assert "--model=gpt-5.5" in plan.argv
    assert "high" == config_of(plan.argv)["model_reasoning_effort"]
    assert "gpt-5.5" == plan.model_id


@pytest.mark.parametrize("family", FAMILIES)
def test_a_command_of_ones_own_is_followed_by_the_same_arguments(family: str, machine: Machine) -> None:
    machine.executable(machine.bin / "wrap")
    plan, plain = machine.plan(family, command=("wrap", "--", family)), machine.plan(family)
    assert (str(machine.bin / "wrap"), "--", family, *plain.argv[1:]) == plan.argv
    machine.executable(machine.work / "tools" / "wrap")
    assert str(machine.work / "tools" / "wrap") == machine.plan(family, command=("tools/wrap",)).argv[0]


def test_a_session_is_continued_by_its_id(machine: Machine) -> None:
    claude, codex, opencode = (machine.plan(family, resume="0123") for family in FAMILIES)
    assert "--resume=0123" in claude.argv
    assert ("resume", "0123", "-") == codex.argv[-3:]
    assert "--session=0123" in opencode.argv
    assert all(plan.resumed for plan in (claude, codex, opencode))
    assert not machine.plan("claude").resumed


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_executable_is_told_with_the_way_out(family: str, machine: Machine) -> None:
    (machine.bin / family).unlink()
    with pytest.raises(ExecutableNotFound, match=r"npm install -g .* or set `command`"):
        machine.plan(family)
    with pytest.raises(ExecutableNotFound, match=r"'\./nowhere'"):
        machine.plan(family, command=("./nowhere",))


@pytest.mark.parametrize("family", FAMILIES)
def test_discover_finds_what_is_on_path(family: str, machine: Machine) -> None:
    found = {str(agent.executable): agent.hint for agent in ADAPTERS[family].discover(machine.environ)}
    assert "" == found[str(machine.bin / family)]
    missing, *_ = ADAPTERS[family].discover({"PATH": str(machine.work)})
    assert (None, ()) == (missing.executable, missing.version_argv)
    assert "npm install" in missing.hint


# Environments --------------------------------------------------------------------------------------------------------


def test_claude_tries_once_and_stays_quiet_unless_the_profile_says_otherwise(machine: Machine) -> None:
    environ = machine.plan("claude", {"CLAUDE_CODE_MAX_RETRIES": "10"}).environ
    assert "0" == environ["CLAUDE_CODE_MAX_RETRIES"]
    for name in ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"):
        assert "1" == environ[name]
    assert int(environ["API_TIMEOUT_MS"]) > int(environ["CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS"]) > 0
    assert "2" == machine.plan("claude", env={"CLAUDE_CODE_MAX_RETRIES": "2"}).environ["CLAUDE_CODE_MAX_RETRIES"]


def test_claude_gets_no_foreign_cloud_credentials_and_nothing_of_another_session(machine: Machine) -> None:
    host = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "OPENAI_API_KEY": "x",
        "IS_SANDBOX": "1",
    }
    assert not host.keys() & machine.plan("claude", host).environ.keys()
    assert "x" == machine.plan("claude", {**host, "CLAUDE_CODE_USE_BEDROCK": "1"}).environ["AWS_SECRET_ACCESS_KEY"]
    assert "1" == machine.plan("claude", env={"IS_SANDBOX": "1"}).environ["IS_SANDBOX"]


CUSTOM = 'model_provider = "corp"\nmodel = "m-1"\n[model_providers.corp]\nbase_url = "https://llm.corp.example/v1"\nenv_key = "CORP_KEY"\n'


def test_codex_gets_the_one_variable_that_its_configuration_names(machine: Machine) -> None:
    machine.file(".codex/config.toml", CUSTOM)
    plan = machine.plan("codex", {"CORP_KEY": "secret-000", "OTHER_KEY": "x", "ANTHROPIC_API_KEY": "x"})
    assert "secret-000" == plan.environ["CORP_KEY"]
    assert not {"OTHER_KEY", "ANTHROPIC_API_KEY"} & plan.environ.keys()
    assert frozenset({"secret-000"}) == plan.secrets
    assert "m-1" == plan.model_id


def test_codex_tries_once_at_a_provider_of_ones_own(machine: Machine) -> None:
    machine.file(".codex/config.toml", CUSTOM)
    config = config_of(machine.plan("codex").argv)
    assert (0, 0) == tuple(config[f"model_providers.corp.{name}_max_retries"] for name in ("request", "stream"))
    own = machine.plan("codex", options={"model_providers.corp.request_max_retries": 2})
    assert 2 == config_of(own.argv)["model_providers.corp.request_max_retries"]
    assert 1 == sum("request_max_retries" in argument for argument in own.argv)


def test_codex_tries_once_at_a_provider_that_the_profile_has_as_a_table(machine: Machine) -> None:
    """Codex lets a later table replace an earlier key, so the bounds come after it."""

    def keys(**own: int) -> list[str]:
        table = {"loop": {"name": "loop", "base_url": "https://x.example", **own}}
        plan = machine.plan("codex", options={"model_provider": "loop", "model_providers": table})
        return [*config_of(plan.argv)]

    bounds = [key for key in keys() if key.startswith("model_providers.loop.")]
    assert {"model_providers.loop.request_max_retries", "model_providers.loop.stream_max_retries"} <= {*bounds}
    assert keys().index("model_providers") < keys().index(bounds[0])
    assert "model_providers.loop.request_max_retries" not in keys(request_max_retries=2)


def test_codex_tries_once_at_its_own_provider_too(machine: Machine) -> None:
    """Codex refuses to bound its built-in provider, so an equal one takes its place; a profile can have the original."""
    machine.file(".codex/config.toml", 'openai_base_url = "https://proxy.example/v1"\n')
    config = config_of(machine.plan("codex").argv)
    entry = config[f"model_providers.{config['model_provider']}"]
    assert (0, 0, True) == (entry["request_max_retries"], entry["stream_max_retries"], entry["requires_openai_auth"])
    assert "https://proxy.example/v1" == entry["base_url"]
    original = config_of(machine.plan("codex", options={"model_provider": "openai"}).argv)
    assert "openai" == original["model_provider"]
    assert not any(key.startswith("model_providers") for key in original)


def test_a_codex_home_that_is_not_there_is_told_before_the_launch(machine: Machine) -> None:
    with pytest.raises(LaunchError, match=r"CODEX_HOME names .* create it"):
        machine.plan("codex", env={"CODEX_HOME": str(machine.home / "nowhere")})


def test_codex_layers_its_profiles(machine: Machine) -> None:
    machine.file(".codex/config.toml", f'{CUSTOM}[profiles.old]\nmodel = "old"\n')
    machine.file(".codex/new.config.toml", 'model = "new"\n')
    models = [
        machine.plan("codex", args=args).model_id
        for args in (("-p", "old"), ("--profile=new",), ("-pnew", "-cmodel=x"))
    ]
    assert ["old", "new", "x"] == models


def test_local_times_have_a_zone_only_if_it_is_known(tmp_path: Path) -> None:
    zones = {
        "Europe/Paris": "Europe/Paris",
        ":Asia/Tokyo": "Asia/Tokyo",
        "/usr/share/zoneinfo/UTC": "UTC",
        "": "UTC",
        "CET-1CEST": None,
    }
    assert zones == {tz: local_zone({"TZ": tz}) for tz in zones}
    assert "UTC" == local_zone({}, tmp_path)
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Paris")
    assert "Europe/Paris" == local_zone({}, tmp_path)
    (tmp_path / "localtime").unlink()
    (tmp_path / "localtime").write_bytes(b"TZif")
    assert local_zone({}, tmp_path) is None
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert "Asia/Tokyo" == local_zone({}, tmp_path)


# What is refused -----------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("claude", "mode", {"mode": "yolo"}),
    ("claude", "model", {"model": "--dangerously-skip-permissions"}),
    ("claude", "fallback_model", {"fallback_model": " "}),
    ("claude", "command", {"command": ()}),
    ("claude", "args[1]", {"args": ("--add-dir=.", "--output-format=json")}),
    ("claude", "args[0]", {"args": ("--fallback-model", "sonnet")}),
    ("claude", "args[0]", {"args": ("--settings=x.json",), "permissions": {"allow": []}}),
    ("claude", "options.colour", {"options": {"colour": "red"}}),
    ("claude", "options.effort", {"options": {"effort": True}}),
    ("claude", "permissions.mode", {"permissions": {"mode": "plan"}}),
    ("claude", "permissions.allow", {"permissions": {"allow": "Bash"}}),
    ("claude", "mcp.docs", {"mcp": {"docs": "serve"}}),
    ("claude", "mcp.docs", {"mcp": {"docs": {"args": ["x"]}}}),
    ("claude", "mcp.docs.command", {"mcp": {"docs": {"command": ["x"]}}}),
    ("claude", "mcp.docs.comand", {"mcp": {"docs": {"command": "x", "comand": "y"}}}),
    ("claude", "mcp.docs.cwd", {"mcp": {"docs": {"command": "x", "cwd": "."}}}),
    ("claude", "mcp.docs", {"mcp": {"docs": {"command": "x", "url": "https://x"}}}),
    ("claude", "mcp.docs.type", {"mcp": {"docs": {"command": "x", "type": "http"}}}),
    ("codex", "mode", {"mode": "plan"}),
    ("codex", "model", {"model": ""}),
    ("codex", "fallback_model", {"fallback_model": "gpt-4"}),
    ("codex", "command", {"command": ()}),
    ("codex", "args[0]", {"args": ("-m", "x")}),
    ("codex", "args[0]", {"args": ("-",)}),
    ("codex", "options.model", {"options": {"model": "x"}}),
    ("codex", "options.a b", {"options": {"a b": 1}}),
    ("codex", "options.x", {"options": {"x": None}}),
    ("codex", "permissions.allow", {"permissions": {"allow": []}}),
    ("codex", "permissions.network_access", {"permissions": {"network_access": "yes"}}),
    ("codex", "permissions.writable_roots", {"permissions": {"writable_roots": "."}}),
    ("codex", "mcp.a.b", {"mcp": {"a.b": {"command": "x"}}}),
    ("codex", "mcp.docs.command", {"mcp": {"docs": {"command": None}}}),
    ("codex", "mcp.docs", {"mcp": {"docs": {"args": ["x"]}}}),
    ("codex", "mcp.docs.command", {"mcp": {"docs": {"command": ["x"]}}}),
    ("codex", "mcp.docs.comand", {"mcp": {"docs": {"command": "x", "comand": "y"}}}),
    ("codex", "mcp.docs.cwd", {"mcp": {"docs": {"url": "https://x", "cwd": "."}}}),
    ("codex", "mcp.docs.type", {"mcp": {"docs": {"url": "https://x", "type": "sse"}}}),
    ("codex", "mcp.docs.tools", {"transport": "headless", "mcp": {"docs": {"command": "x", "tools": {"a": None}}}}),
    ("codex", "mcp.docs.http_headers", {"mcp": {"docs": {"url": "https://x", "headers": {}, "http_headers": {}}}}),
    ("codex", "options.model_reasoning_effort", {"model": "m[high]", "options": {"model_reasoning_effort": "low"}}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "path", "fields"), WRONG)
def test_what_cannot_be_passed_on_is_a_problem_that_names_its_field(
    family: str, path: str, fields: dict[str, Any]
) -> None:
    profile = ConcreteProfile(id="p", name="P", family=family, **fields)
    assert [path] == [problem.path for problem in ADAPTERS[family].validate(profile)]


# The plugin ----------------------------------------------------------------------------------------------------------


def test_each_distribution_offers_its_family() -> None:
    distributions = (kandev_routing_claude, kandev_routing_codex, kandev_routing_opencode)
    offered = [adapter for distribution in distributions for adapter in distribution.kandev_routing_adapters()]
    assert FAMILIES == [adapter.family for adapter in offered]


def test_the_rules_of_all_families_load_together_with_their_fixtures() -> None:
    own = [RuleSource(name=r.name, text=r.text) for adapter in ADAPTERS.values() for r in adapter.rules()]
    catalogue = Catalogue.load([*neutral_sources(), *own], verify=True)
    assert {*FAMILIES} <= {rule.id.partition(".")[0] for rule in catalogue.rules}

"""How OpenCode is launched, both ways (R-PRO-7, R-CON-9, R-EVI-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kandev_routing_opencode import kandev_routing_adapters
from kandev_routing_opencode.config import INLINE
from kandev_routing_opencode.extractor import OpenCodeExtractor
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.errors import ExecutableNotFound, LaunchError
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import LaunchPlan
from kandev_routing_sdk.types import Transport
from tests.adapters.opencode._machine import ADAPTER, MODEL, OpenCodeMachine, config, provider


def inline(plan: LaunchPlan) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(plan.environ[INLINE])
    return loaded


# Command lines -------------------------------------------------------------------------------------------------------


def test_headless_is_the_default_and_the_prompt_goes_to_standard_input(opencode: OpenCodeMachine) -> None:
    plan = opencode.launch(
        model=MODEL, mode="plan", options={"variant": "high", "title": "a b", "pure": True}, args=("--file=x.md",)
    )
    assert (
        str(opencode.bin / "opencode"), "run", "--format=json", f"--model={MODEL}", "--agent=plan", "--title=a b",
        "--variant=high", "--pure", "--thinking", "--file=x.md",
    ) == plan.argv  # fmt: skip
    assert (Transport.HEADLESS, True, "claude-sonnet-4-5") == (plan.transport, plan.stdin_prompt, plan.model_id)
    assert isinstance(ADAPTER.extractor(plan), OpenCodeExtractor)


def test_acp_takes_its_settings_over_the_protocol(opencode: OpenCodeMachine) -> None:
    plan = opencode.launch(
        transport="acp",
        model=MODEL,
        mode="plan",
        options={"effort": "high"},
        mcp={"d": {"command": "serve", "env": {"T": "secret-000"}}},
    )
    assert (str(opencode.bin / "opencode"), "acp") == plan.argv
    assert (MODEL, "plan", {"effort": "high"}, "reject") == (
        plan.acp.model,
        plan.acp.mode,
        plan.acp.options,
        plan.acp.permission,
    )
    assert [{"name": "d", "command": "serve", "args": [], "env": [{"name": "T", "value": "secret-000"}]}] == [
        *plan.acp.mcp_servers
    ]
    assert INLINE not in plan.environ
    assert {"secret-000"} <= plan.secrets


def test_a_command_of_ones_own_is_followed_by_the_same_arguments(opencode: OpenCodeMachine) -> None:
    opencode.executable(opencode.bin / "npx")
    plan = opencode.launch(command=("npx", "opencode-ai@1.18.33"))
    assert (str(opencode.bin / "npx"), "opencode-ai@1.18.33", "run", "--format=json", "--thinking") == plan.argv
    assert Transport.ACP is opencode.launch(command=("opencode", "acp")).transport
    assert (str(opencode.bin / "opencode"), "acp") == opencode.launch(command=("opencode", "acp")).argv


def test_thinking_is_shown_unless_the_profile_says_otherwise(opencode: OpenCodeMachine) -> None:
    """R-EVI-3: what is not shown is not observed."""
    assert "--thinking" in opencode.launch().argv
    assert "--thinking" not in opencode.launch(options={"thinking": False}).argv


def test_a_session_is_continued_by_its_id(opencode: OpenCodeMachine) -> None:
    plan = opencode.launch(resume="ses_1")
    assert "--session=ses_1" in plan.argv
    assert plan.resumed
    over_acp = opencode.launch(resume="ses_1", transport="acp")
    assert (True, 2) == (over_acp.resumed, len(over_acp.argv))


def test_nothing_of_the_profile_is_taken_for_a_prompt(opencode: OpenCodeMachine) -> None:
    plan = opencode.launch(model=MODEL, options={"title": "--yolo"}, mode="build")
    assert all(argument.startswith("-") for argument in plan.argv[2:])


@pytest.mark.parametrize("transport", ["headless", "acp"])
def test_silence_is_bounded_from_outside(transport: str, opencode: OpenCodeMachine) -> None:
    """R-CON-9: it sleeps for as long as a provider's retry-after says."""
    assert 600 == opencode.launch(transport=transport).first_sign_s


def test_a_missing_executable_is_told_with_the_way_out(opencode: OpenCodeMachine) -> None:
    (opencode.bin / "opencode").unlink()
    with pytest.raises(ExecutableNotFound, match=r"npm install -g opencode-ai"):
        opencode.launch()
    assert [None, None] == [found.executable for found in ADAPTER.discover(opencode.environ)]


def test_discover_names_the_best_way_first(opencode: OpenCodeMachine) -> None:
    found = ADAPTER.discover(opencode.environ)
    assert [Transport.HEADLESS, Transport.ACP] == [agent.transport for agent in found]
    assert {(str(opencode.bin / "opencode"), "--version")} == {agent.version_argv for agent in found}


# Permissions and servers ---------------------------------------------------------------------------------------------


def test_permissions_become_inline_configuration(opencode: OpenCodeMachine) -> None:
    rules = {"edit": "deny", "bash": {"git *": "allow", "*": "ask"}}
    plan = opencode.launch(permissions={"default": "allow", **rules})
    assert {"permission": rules} == inline(plan)
    assert "--auto" in plan.argv
    over_acp = opencode.launch(permissions={"default": "allow", **rules}, transport="acp")
    assert ({"permission": rules}, "allow", 2) == (inline(over_acp), over_acp.acp.permission, len(over_acp.argv))
    assert "--auto" not in opencode.launch(permissions={"default": "reject"}).argv


def test_servers_are_written_as_opencode_wants_them(opencode: OpenCodeMachine) -> None:
    plan = opencode.launch(
        mcp={
            "docs": {"command": "serve", "args": ["--fast"], "env": {"TOKEN": "secret-000"}},
            "web": {"type": "http", "url": "https://mcp.example", "headers": {"Authorization": "Bearer secret-001"}},
        }
    )
    assert {
        "docs": {"type": "local", "command": ["serve", "--fast"], "environment": {"TOKEN": "secret-000"}, "enabled": True},
        "web": {"type": "remote", "url": "https://mcp.example", "headers": {"Authorization": "Bearer secret-001"}, "enabled": True},
    } == inline(plan)["mcp"]  # fmt: skip
    assert {"secret-000", "Bearer secret-001"} <= plan.secrets
    assert not any("secret" in argument for argument in plan.argv)


def test_what_opencode_itself_says_of_a_server_is_passed_on(opencode: OpenCodeMachine) -> None:
    """A server that is switched off stays off (R-PRO-7), and what is secret in it is masked (R-EVI-5)."""
    servers: dict[str, Any] = {
        "off": {"command": "x", "enabled": False, "cwd": "/srv", "timeout": 5, "environment": {"K": "secret-e01"}},
        "web": {"url": "https://mcp.example", "oauth": False, "timeout": 7},
        "login": {"url": "https://mcp.example", "oauth": {"clientId": "me", "clientSecret": "secret-o01"}},
    }
    plan = opencode.launch(mcp=servers)
    written = inline(plan)["mcp"]
    assert {
        "type": "local",
        "command": ["x"],
        **{k: v for k, v in servers["off"].items() if k != "command"},
    } == written["off"]
    assert (False, 7, True) == tuple(written["web"][key] for key in ("oauth", "timeout", "enabled"))
    assert {"clientId": "me", "clientSecret": "secret-o01"} == written["login"]["oauth"]
    assert {"secret-e01", "secret-o01"} <= plan.secrets
    assert "me" not in plan.secrets


def test_what_was_configured_inline_stays(opencode: OpenCodeMachine) -> None:
    before = '{"share": "disabled", /* mine */ "permission": {"bash": "ask", "edit": "ask"},}'
    plan = opencode.launch(env={INLINE: before}, permissions={"bash": "deny"})
    assert {"share": "disabled", "permission": {"bash": "deny", "edit": "ask"}} == inline(plan)
    assert before == opencode.launch(env={INLINE: before}).environ[INLINE]
    with pytest.raises(LaunchError, match=r"OPENCODE_CONFIG_CONTENT .* correct it"):
        opencode.launch(env={INLINE: "{"}, permissions={"bash": "deny"})


# Environments --------------------------------------------------------------------------------------------------------

HOST = {
    "ANTHROPIC_API_KEY": "secret-a00", "OPENAI_API_KEY": "secret-o00", "CORP_KEY": "secret-c00", "AWS_SECRET_ACCESS_KEY": "secret-w00",
    "OPENCODE_CONFIG_DIR": "/nowhere", "OPENCODE_PID": "1", "OPENCODE_PRINT_LOGS": "1", "CODEX_API_KEY": "secret-x00",
}  # fmt: skip


def test_only_the_chosen_providers_variables_come_along(opencode: OpenCodeMachine) -> None:
    plan = opencode.launch(HOST, model=MODEL)
    assert "secret-a00" == plan.environ["ANTHROPIC_API_KEY"]
    assert not {"OPENAI_API_KEY", "CORP_KEY", "AWS_SECRET_ACCESS_KEY", "CODEX_API_KEY"} & plan.environ.keys()
    assert "/nowhere" == plan.environ["OPENCODE_CONFIG_DIR"]
    assert not {"OPENCODE_PID", "OPENCODE_PRINT_LOGS"} & plan.environ.keys()
    assert {"secret-a00"} <= plan.secrets
    assert "secret-w00" == opencode.launch(HOST, model="amazon-bedrock/x").environ["AWS_SECRET_ACCESS_KEY"]


def test_the_variables_that_the_configuration_names_come_along_too(opencode: OpenCodeMachine) -> None:
    opencode.project(
        "opencode.json",
        provider("corp", env=["CORP_ID"], options={"apiKey": "{env:CORP_KEY}", "baseURL": "https://x.example"}),
    )
    plan = opencode.launch({**HOST, "CORP_ID": "7"}, model="corp/m-1")
    assert ("secret-c00", "7") == (plan.environ["CORP_KEY"], plan.environ["CORP_ID"])
    assert {"secret-c00"} <= plan.secrets
    assert "ANTHROPIC_API_KEY" not in plan.environ


def test_the_variables_of_other_providers_stay_behind(opencode: OpenCodeMachine) -> None:
    opencode.project("opencode.json", config(
        provider={"corp": {"options": {"apiKey": "{env:CORP_KEY}"}}},
        mcp={"d": {"type": "remote", "url": "https://x.example", "headers": {"X": "{env:DOCS_TOKEN}"}}},
    ))  # fmt: skip
    plan = opencode.launch({**HOST, "DOCS_TOKEN": "secret-d00"}, model=MODEL)
    assert "CORP_KEY" not in plan.environ
    assert "secret-d00" == plan.environ["DOCS_TOKEN"]
    assert {"secret-d00", "secret-a00"} <= plan.secrets


def test_keys_that_the_configuration_holds_are_secrets(opencode: OpenCodeMachine) -> None:
    opencode.project("opencode.json", config(
        provider={"x": {"options": {"apiKey": "secret-k00", "headers": {"x-key": "secret-h00"}}}},
        mcp={
            "d": {"type": "local", "command": ["x"], "environment": {"T": "secret-e00"}},
            "o": {"type": "remote", "url": "https://x.example", "oauth": {"clientSecret": "secret-s00"}},
        },
    ))  # fmt: skip
    assert {"secret-k00", "secret-h00", "secret-e00", "secret-s00"} <= opencode.launch().secrets


def test_it_does_not_update_itself_unless_the_profile_says_so(opencode: OpenCodeMachine) -> None:
    """The list of models is left to be fetched: a model that is younger than the installation is none that is missing."""
    assert "1" == opencode.launch().environ["OPENCODE_DISABLE_AUTOUPDATE"]
    assert "0" == opencode.launch(env={"OPENCODE_DISABLE_AUTOUPDATE": "0"}).environ["OPENCODE_DISABLE_AUTOUPDATE"]
    assert "OPENCODE_DISABLE_MODELS_FETCH" not in opencode.launch().environ


def test_a_model_from_a_variable_is_found(opencode: OpenCodeMachine) -> None:
    opencode.project("opencode.json", config(model="{env:OPENCODE_MODEL}"))
    plan = opencode.launch({"OPENCODE_MODEL": MODEL, "ANTHROPIC_API_KEY": "secret-a00"})
    assert ("claude-sonnet-4-5", "anthropic") == (plan.model_id, plan.provider_id)


# What is refused -----------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("model", {"model": "claude-sonnet-4-5"}),
    ("model", {"model": "--yolo/x"}),
    ("model", {"model": "a/ b"}),
    ("fallback_model", {"fallback_model": "a/b"}),
    ("mode", {"mode": "--auto"}),
    ("mode", {"mode": " "}),
    ("command", {"command": ()}),
    ("args[0]", {"args": ("--print-logs",)}),
    ("args[0]", {"args": ("--auto",)}),
    ("args[1]", {"args": ("--file=x", "--format=default")}),
    ("args[0]", {"args": ("do it",)}),
    ("args[0]", {"args": ("--",)}),
    ("options.colour", {"options": {"colour": "red"}}),
    ("options.thinking", {"options": {"thinking": "yes"}}),
    ("options.variant", {"options": {"variant": 3}}),
    ("options.effort", {"transport": "acp", "options": {"effort": ["high"]}}),
    ("permissions.default", {"permissions": {"default": "maybe"}}),
    ("permissions.bash", {"permissions": {"bash": "yes"}}),
    ("permissions.bash", {"permissions": {"bash": {"git *": "maybe"}}}),
    ("permissions.a b", {"permissions": {"a b": "allow"}}),
    ("mcp.docs", {"mcp": {"docs": "serve"}}),
    ("mcp.docs.command", {"mcp": {"docs": {"command": ["serve"]}}}),
    ("mcp.docs.type", {"transport": "acp", "mcp": {"docs": {"url": "https://x", "type": "smtp"}}}),
    ("mcp.docs.timeout", {"transport": "acp", "mcp": {"docs": {"url": "https://x", "timeout": 5}}}),
    ("mcp.docs.cwd", {"transport": "acp", "mcp": {"docs": {"command": "x", "cwd": "."}}}),
    ("mcp.docs.comand", {"mcp": {"docs": {"command": "x", "comand": "y"}}}),
    ("mcp.docs.enabled", {"mcp": {"docs": {"command": "x", "enabled": "no"}}}),
    ("mcp.docs.timeout", {"mcp": {"docs": {"command": "x", "timeout": {"startup": 5}}}}),
    ("mcp.docs.oauth", {"mcp": {"docs": {"url": "https://x", "oauth": True}}}),
    ("mcp.docs.cwd", {"mcp": {"docs": {"url": "https://x", "cwd": "."}}}),
    ("mcp.docs.environment", {"mcp": {"docs": {"command": "x", "env": {}, "environment": {}}}}),
]


@pytest.mark.parametrize(("path", "fields"), WRONG)
def test_what_cannot_be_passed_on_is_a_problem_that_names_its_field(path: str, fields: dict[str, Any]) -> None:
    profile = ConcreteProfile(id="p", name="P", family="opencode", **fields)
    assert [path] == [problem.path for problem in ADAPTER.validate(profile)]


# The plugin ----------------------------------------------------------------------------------------------------------


def test_the_distribution_offers_its_family() -> None:
    assert ["opencode"] == [adapter.family for adapter in kandev_routing_adapters()]


def test_the_rules_load_with_their_fixtures() -> None:
    own = [RuleSource(name=rules.name, text=rules.text) for rules in ADAPTER.rules()]
    catalogue = Catalogue.load([*neutral_sources(), *own], verify=True)
    assert any(rule.id.startswith("opencode.") for rule in catalogue.rules)

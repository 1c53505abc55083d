"""Whose account OpenCode will use, and at which service (R-CIR-1, R-CIR-3)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.binding import canonical
from kandev_routing_sdk.profiles import SecretRef
from tests.adapters.opencode._machine import MODEL, OpenCodeMachine, config, provider

KEY = "sk-secret-00000000000000000000"
GLOBAL = ".config/opencode/opencode.json"
AUTH = ".local/share/opencode/auth.json"
ZEN = "opencode/big-pickle"


@dataclass(frozen=True)
class Case:
    """A launch, the service it addresses, and which others use the same account (None: it cannot be told)."""

    name: str
    provider: str | None
    same: str | None
    host: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    model: str | None = MODEL


def login(**entries: Any) -> dict[str, str]:
    return {AUTH: json.dumps(entries)}


def custom(**options: Any) -> dict[str, str]:
    return {GLOBAL: provider("corp", npm="@ai-sdk/openai-compatible", options=options)}


A_KEY = {"ANTHROPIC_API_KEY": KEY}
API, OAUTH = {"type": "api", "key": KEY}, {"type": "oauth", "refresh": KEY, "access": KEY, "expires": 1}
CASES = [
    # the vendor's own service
    Case("a key", "anthropic", "a-key", A_KEY),
    Case("a key, another model", "anthropic", "a-key", A_KEY, model="anthropic/claude-opus-5"),
    Case("a key over ACP", "anthropic", "a-key", A_KEY, {"transport": "acp"}),
    Case("a key, agent, options and servers", "anthropic", "a-key", A_KEY,
         {"mode": "plan", "options": {"variant": "high"}, "mcp": {"d": {"command": "x"}}, "permissions": {"bash": "deny"}}),
    Case("the configured model", "anthropic", "a-key", A_KEY, files={GLOBAL: config(model=MODEL)}, model=None),
    Case("a key by reference", "anthropic", "a-work", {"WORK_KEY": KEY}, {"env": {"ANTHROPIC_API_KEY": SecretRef(secret="env:WORK_KEY")}}),
    Case("a literal key", "anthropic", None, {}, {"env": {"ANTHROPIC_API_KEY": KEY}}),
    Case("no key", "anthropic", None),
    Case("another vendor", "openai", "o-key", {"OPENAI_API_KEY": KEY}, model="openai/gpt-5"),
    Case("a gateway of many", "openrouter", "r-key", {"OPENROUTER_API_KEY": KEY}, model="openrouter/anthropic/claude"),
    Case("opencode's own gateway", "opencode", "z-key", {"OPENCODE_API_KEY": KEY}, model=ZEN),
    Case("its free models, nobody's account", "opencode", None, model=ZEN),
    # the login store
    Case("a stored key", "anthropic", "a-stored", files=login(anthropic=API)),
    Case("a stored key wins over the variable", "anthropic", "a-stored", A_KEY, files=login(anthropic=API)),
    Case("a stored login", "anthropic", "a-oauth", files=login(anthropic=OAUTH)),
    Case("a login of another provider", "anthropic", "a-key", A_KEY, files=login(openai=OAUTH)),
    Case("a ChatGPT login", "openai", "o-chatgpt", files=login(openai=OAUTH), model="openai/gpt-5"),
    Case("a store elsewhere", "anthropic", "a-elsewhere", {"XDG_DATA_HOME": "{home}/data"},
         files={"data/opencode/auth.json": json.dumps({"anthropic": API})}),
    Case("a store in a variable", "anthropic", "a-variable", {"OPENCODE_AUTH_CONTENT": json.dumps({"anthropic": API})}),
    Case("a store in another variable", "anthropic", "a-variable-2", {"LOGINS": json.dumps({"anthropic": API})},
         {"env": {"OPENCODE_AUTH_CONTENT": SecretRef(secret="env:LOGINS")}}),
    Case("a broken store in a variable", "anthropic", "a-stored", {"OPENCODE_AUTH_CONTENT": "{"}, files=login(anthropic=API)),
    Case("a store in the profile", "anthropic", None, {}, {"env": {"OPENCODE_AUTH_CONTENT": json.dumps({"anthropic": API})}}),
    Case("a broken store", "anthropic", "a-key", A_KEY, files={AUTH: "{"}),
    Case("an organisation's server says the rest", None, None, A_KEY, files=login(**{"https://corp.example": {"type": "wellknown"}})),
    Case("a kind of login nobody knows", "anthropic", None, A_KEY, files=login(anthropic={"type": "magic"})),
    # the configuration
    Case("a configured key wins over all", "anthropic", "a-config", A_KEY,
         files={GLOBAL: provider("anthropic", options={"apiKey": KEY}), **login(anthropic=API)}),
    Case("a configured variable", "anthropic", "a-other", {"OTHER_KEY": KEY, **A_KEY},
         files={GLOBAL: provider("anthropic", options={"apiKey": "{env:OTHER_KEY}"})}),
    Case("a configured variable that is not set", "anthropic", None, A_KEY,
         files={GLOBAL: provider("anthropic", options={"apiKey": "{env:OTHER_KEY}"})}),
    Case("a key in a file", "anthropic", "a-file", files={GLOBAL: provider("anthropic", options={"apiKey": "{file:~/key.txt}"})}),
    Case("a key in a file beside the configuration", "anthropic", "a-file-2",
         files={GLOBAL: provider("anthropic", options={"apiKey": "{file:key.txt}"})}),
    Case("a key in two parts", "anthropic", None, {"HALF": KEY}, files={GLOBAL: provider("anthropic", options={"apiKey": "x{env:HALF}"})}),
    Case("a key and a login at once", "anthropic", None,
         files={GLOBAL: provider("anthropic", options={"apiKey": KEY}), **login(anthropic=OAUTH)}),
    Case("a header that signs in", "anthropic", None, A_KEY,
         files={GLOBAL: provider("anthropic", options={"headers": {"Authorization": f"Bearer {KEY}"}})}),
    Case("a header that says nothing", "anthropic", "a-key", A_KEY,
         files={GLOBAL: provider("anthropic", options={"headers": {"anthropic-beta": "x"}})}),
    Case("a model with a provider of its own", None, None, A_KEY,
         files={GLOBAL: provider("anthropic", models={"claude-sonnet-4-5": {"provider": {"api": "https://x.example"}}})}),
    Case("configuration of the profile", "anthropic", None, {}, {"env": {"OPENCODE_CONFIG_CONTENT": provider("anthropic", options={"apiKey": KEY})}}),
    Case("broken configuration", None, None, A_KEY, files={GLOBAL: "{"}),
    # elsewhere
    Case("a moved vendor", "gateway:llm.corp.example/anthropic", "a-moved",
         {**A_KEY, "ANTHROPIC_BASE_URL": "https://llm.corp.example/anthropic"}),
    Case("a vendor moved by its configuration", "gateway:llm.corp.example/anthropic", "a-moved", A_KEY,
         files={GLOBAL: provider("anthropic", options={"baseURL": "https://llm.corp.example/anthropic/v1"})}),
    Case("a password in the address", "gateway:llm.corp.example", None,
         {**A_KEY, "ANTHROPIC_BASE_URL": "https://user:secret@llm.corp.example"}),
    Case("a provider of one's own", "gateway:llm.corp.example", "corp", {"CORP_KEY": KEY},
         files=custom(baseURL="https://{env:CORP_HOST}llm.corp.example/v1", apiKey="{env:CORP_KEY}"), model="corp/m-1"),
    Case("the same, by its list of variables", "gateway:llm.corp.example", "corp", {"CORP_KEY": KEY},
         files={GLOBAL: provider("corp", env=["CORP_KEY"], options={"baseURL": "https://llm.corp.example/v1"})}, model="corp/m-1"),
    Case("one of two variables", "gateway:llm.corp.example", None, {"CORP_KEY": KEY},
         files={GLOBAL: provider("corp", env=["CORP_KEY", "CORP_ID"], options={"baseURL": "https://llm.corp.example/v1"})}, model="corp/m-1"),
    Case("the vendor by another name", "anthropic", "a-mine", {"CORP_KEY": KEY},
         files=custom(baseURL="https://api.anthropic.com/v1", apiKey="{env:CORP_KEY}"), model="corp/m-1"),
    Case("the vendor by its package", "anthropic", "a-key", A_KEY, files={GLOBAL: provider("corp", npm="@ai-sdk/anthropic")}, model="corp/m-1"),
    Case("a provider without an address", None, None, {"CORP_KEY": KEY}, files=custom(apiKey="{env:CORP_KEY}"), model="corp/m-1"),
    Case("a provider that nobody knows", None, None, A_KEY, model="nosuch/m-1"),
    Case("loopback", "gateway:127.0.0.1:8123", "loop", {"CORP_KEY": KEY},
         files=custom(baseURL="http://127.0.0.1:8123/v1", apiKey="{env:CORP_KEY}"), model="corp/m-1"),
    Case("no model that can be told", None, None, A_KEY, model=None),
    # a cloud
    Case("bedrock keys", "amazon-bedrock", "aws", {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE", "AWS_SECRET_ACCESS_KEY": KEY},
         model="amazon-bedrock/claude"),
    Case("a bedrock profile", "amazon-bedrock", "aws-profile", {"AWS_REGION": "us-east-1", "AWS_PROFILE": "team"}, model="amazon-bedrock/claude"),
    Case("bedrock of the instance", "amazon-bedrock", None, {"AWS_REGION": "us-east-1"}, model="amazon-bedrock/claude"),
    Case("a resource of Azure", "azure", None, {"AZURE_API_KEY": KEY, "AZURE_RESOURCE_NAME": "team"}, model="azure/gpt-5"),
]  # fmt: skip


def _planned(case: Case, root: Path) -> tuple[str | None, bytes | None]:
    machine = OpenCodeMachine(root)
    for path, text in case.files.items():
        machine.file(path, text)
    host = {name: value.replace("{home}", str(machine.home)) for name, value in case.host.items()}
    plan = machine.launch(host, **{"model": case.model, **case.fields})
    return plan.provider_id, None if plan.descriptor is None else canonical(plan.descriptor)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_provider_is_the_service_really_addressed(case: Case, tmp_path: Path) -> None:
    found, descriptor = _planned(case, tmp_path)
    assert case.provider == found
    assert (case.same is not None) is (descriptor is not None)
    shown = (descriptor or b"").decode()
    for secret in (KEY, "user:", "claude", "m-1", str(tmp_path)):
        assert secret not in shown.lower()


def test_equal_accounts_share_a_descriptor_and_no_others_do(tmp_path: Path) -> None:
    by_name: dict[str, set[bytes]] = {}
    by_bytes: dict[bytes, set[str]] = {}
    for number, case in enumerate(CASES):
        _, descriptor = _planned(case, tmp_path / str(number))
        if case.same is not None and descriptor is not None:
            by_name.setdefault(case.same, set()).add(descriptor)
            by_bytes.setdefault(descriptor, set()).add(case.same)
    assert dict.fromkeys(by_name, 1) == {name: len(found) for name, found in by_name.items()}
    # the vendor's variables are named alike in the descriptor, and their providers keep them apart
    assert [] == [names for names in by_bytes.values() if len(names) > 1]


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=40)


@settings(max_examples=30, deadline=None)
@given(secret=WORDS, word=WORDS)
def test_secrets_literals_flags_and_models_change_no_descriptor(secret: str, word: str) -> None:
    """R-CIR-3: command prefix, model, flags, literal values and secrets are never part of it."""
    with tempfile.TemporaryDirectory() as folder:
        machine = OpenCodeMachine(Path(folder))
        plain = machine.launch({"ANTHROPIC_API_KEY": "x" * 12}, model=MODEL)
        machine.executable(machine.bin / f"w{word}")
        varied = machine.launch(
            {"ANTHROPIC_API_KEY": secret},
            model=f"anthropic/m-{word}",
            args=(f"--file={word}",),
            env={"SOME_LITERAL": word},
            command=(f"w{word}", "opencode", word),
            options={"title": word},
        )
        assert plain.descriptor is not None
        assert plain.descriptor == varied.descriptor
        assert plain.provider_id == varied.provider_id
        shown = canonical(plain.descriptor).decode()
        assert secret not in shown
        assert word not in shown

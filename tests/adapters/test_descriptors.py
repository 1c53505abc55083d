"""Which launches share a credential, and which do not (R-CIR-1, R-CIR-3)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.binding import canonical
from kandev_routing_sdk.profiles import SecretRef
from tests.adapters._plans import Machine

KEY = "sk-ant-api03-secret-0000000000000000"
OTHER = "sk-ant-api03-another-000000000000000"


@dataclass(frozen=True)
class Case:
    """One launch environment. ``same`` names the credential it is expected to use; None: unprovable."""

    name: str
    family: str
    provider: str | None
    same: str | None
    host: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "here"


def _toml(provider: str, url: str, extra: str = 'env_key = "CORP_KEY"') -> dict[str, str]:
    text = f'model_provider = "{provider}"\n[model_providers.{provider}]\nname = "x"\nbase_url = "{url}"\n{extra}\n'
    return {".codex/config.toml": text}


def _login(mode: str) -> dict[str, str]:
    tokens = {"access_token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzZWNyZXQifQ.x", "account_id": "acct-secret"}
    return {".codex/auth.json": json.dumps({"auth_mode": mode, "OPENAI_API_KEY": KEY, "tokens": tokens})}


BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
GATEWAY = {"ANTHROPIC_BASE_URL": "https://llm.corp.example/anthropic"}
LOGIN = {".claude/.credentials.json": "{}"}

CASES = [
    # Claude, at the vendor
    Case("inherited key", "claude", "anthropic", "c-key", {"ANTHROPIC_API_KEY": KEY}),
    Case("the same key with another value", "claude", "anthropic", "c-key", {"ANTHROPIC_API_KEY": OTHER}),
    Case("the same key by reference", "claude", "anthropic", "c-key", {"ANTHROPIC_API_KEY": KEY},
         {"env": {"ANTHROPIC_API_KEY": SecretRef(secret="env:ANTHROPIC_API_KEY")}}),
    Case("the same key with model, flags, mode", "claude", "anthropic", "c-key", {"ANTHROPIC_API_KEY": KEY},
         {"model": "opus", "args": ("--add-dir=../docs",), "mode": "plan", "options": {"effort": "high"}}),
    Case("the vendor's address written out", "claude", "anthropic", "c-key",
         {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://api.anthropic.com/"}),
    Case("a key wins over the login", "claude", "anthropic", "c-key", {"ANTHROPIC_API_KEY": KEY}, files=LOGIN),
    Case("another machine", "claude", "anthropic", "c-key-there", {"ANTHROPIC_API_KEY": KEY}, namespace="there"),
    Case("another variable", "claude", "anthropic", "c-work", {"WORK_KEY": KEY},
         {"env": {"ANTHROPIC_API_KEY": SecretRef(secret="env:WORK_KEY")}}),
    Case("a literal key", "claude", "anthropic", None, {}, {"env": {"ANTHROPIC_API_KEY": KEY}}),
    Case("subscription token", "claude", "anthropic", "c-oauth", {"CLAUDE_CODE_OAUTH_TOKEN": KEY}),
    Case("subscription token and login", "claude", "anthropic", "c-oauth", {"CLAUDE_CODE_OAUTH_TOKEN": KEY}, files=LOGIN),
    Case("auth token wins over key", "claude", "anthropic", "c-auth",
         {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_API_KEY": OTHER}),
    Case("login store", "claude", "anthropic", "c-login", files=LOGIN),
    Case("login store by its name", "claude", "anthropic", "c-login", {}, {"env": {"CLAUDE_CONFIG_DIR": "{home}/.claude"}}, LOGIN),
    Case("another login store", "claude", "anthropic", "c-login2", {}, {"env": {"CLAUDE_CONFIG_DIR": "{home}/.claude-work"}},
         {".claude-work/.credentials.json": "{}"}),
    Case("not logged in", "claude", "anthropic", None),
    Case("key helper", "claude", "anthropic", "c-helper", files={".claude/settings.json": '{"apiKeyHelper": "/bin/key --secret abc"}'}),
    Case("key in settings", "claude", "anthropic", "c-settings",
         files={".claude/settings.json": json.dumps({"env": {"ANTHROPIC_API_KEY": KEY}})}),
    Case("broken settings", "claude", None, None, {"ANTHROPIC_API_KEY": KEY}, files={".claude/settings.json": "{"}),
    Case("a header of one's own", "claude", "anthropic", None,
         {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer secret-000"}),
    # Claude elsewhere
    Case("gateway", "claude", "gateway:llm.corp.example/anthropic", "c-gateway", {**GATEWAY, "ANTHROPIC_AUTH_TOKEN": KEY}),
    Case("gateway in settings", "claude", "gateway:llm.corp.example/anthropic", "c-gateway", {"ANTHROPIC_AUTH_TOKEN": KEY},
         files={".claude/settings.json": json.dumps({"env": GATEWAY})}),
    Case("loopback with a port", "claude", "gateway:127.0.0.1:8123", "c-loop",
         {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8123", "ANTHROPIC_API_KEY": KEY}),
    Case("a password in the address", "claude", "gateway:llm.corp.example", None,
         {"ANTHROPIC_BASE_URL": "https://user:secret@llm.corp.example", "ANTHROPIC_API_KEY": KEY}),
    Case("a token in the address", "claude", None, None,
         {"ANTHROPIC_BASE_URL": "https://llm.corp.example/k/a1b2c3d4e5f6a7b8c9d0", "ANTHROPIC_API_KEY": KEY}),
    Case("bedrock keys", "claude", "amazon-bedrock", "c-aws",
         {**BEDROCK, "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE", "AWS_SECRET_ACCESS_KEY": KEY}),
    Case("bedrock, another region", "claude", "amazon-bedrock", "c-aws-us",
         {**BEDROCK, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE", "AWS_SECRET_ACCESS_KEY": KEY}),
    Case("bedrock profile", "claude", "amazon-bedrock", "c-aws-profile", {**BEDROCK, "AWS_PROFILE": "team"}),
    Case("bedrock, credentials of the instance", "claude", "amazon-bedrock", None, BEDROCK),
    Case("vertex", "claude", "google-vertex", "c-vertex",
         {"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "team-ai",
          "GOOGLE_APPLICATION_CREDENTIALS": "{home}/gcp.json"}),
    # Codex
    Case("codex key", "codex", "openai", "x-key", {"CODEX_API_KEY": KEY}),
    Case("codex key wins over the login", "codex", "openai", "x-key", {"CODEX_API_KEY": KEY}, files=_login("chatgpt")),
    Case("codex key with model and options", "codex", "openai", "x-key", {"CODEX_API_KEY": KEY},
         {"model": "gpt-5.5", "mode": "read-only", "options": {"model_reasoning_effort": "high"}}),
    Case("codex key by reference", "codex", "openai", "x-work", {"WORK_KEY": KEY},
         {"env": {"CODEX_API_KEY": SecretRef(secret="env:WORK_KEY")}}),
    Case("codex key of a project", "codex", "openai", "x-project", {"CODEX_API_KEY": KEY, "OPENAI_PROJECT": "proj-secret"}),
    Case("codex literal key", "codex", "openai", None, {}, {"env": {"CODEX_API_KEY": KEY}}),
    Case("OPENAI_API_KEY alone signs nobody in", "codex", "openai", None, {"OPENAI_API_KEY": KEY}),
    Case("chatgpt login", "codex", "openai", "x-chatgpt", files=_login("chatgpt")),
    Case("chatgpt login, CODEX_HOME written out", "codex", "openai", "x-chatgpt", {}, {"env": {"CODEX_HOME": "{home}/.codex"}},
         _login("chatgpt")),
    Case("login with a key", "codex", "openai", "x-login-key", files=_login("apikey")),
    Case("broken login", "codex", "openai", None, files={".codex/auth.json": "{"}),
    Case("keyring", "codex", "openai", "x-keyring", files={".codex/config.toml": 'cli_auth_credentials_store = "keyring"'}),
    Case("codex gateway", "codex", "gateway:llm.corp.example/openai", "x-corp", {"CORP_KEY": KEY},
         files=_toml("corp", "https://llm.corp.example/openai/v1")),
    Case("codex gateway by -c", "codex", "gateway:other.example", "x-other", {"CORP_KEY": KEY},
         {"args": ("-c", 'model_providers.corp.base_url="https://other.example/v1"')}, _toml("corp", "https://llm.corp.example/v1")),
    Case("codex gateway without its key", "codex", "gateway:llm.corp.example", None, {},
         files=_toml("corp", "https://llm.corp.example/v1")),
    Case("codex token in the file", "codex", "gateway:llm.corp.example", None, {},
         files=_toml("corp", "https://llm.corp.example/v1", f'experimental_bearer_token = "{KEY}"')),
    Case("codex at the vendor by another name", "codex", "openai", "x-vendor", {"CORP_KEY": KEY},
         files=_toml("mine", "https://api.openai.com/v1")),
    Case("codex with a moved vendor", "codex", "gateway:proxy.example", "x-moved", {"CODEX_API_KEY": KEY},
         files={".codex/config.toml": 'openai_base_url = "https://proxy.example/v1"'}),
    Case("codex provider that is not configured", "codex", None, None, {"CODEX_API_KEY": KEY}, {"options": {"model_provider": "nope"}}),
    Case("codex local models", "codex", None, None, {}, {"args": ("--oss",)}),
    Case("broken configuration", "codex", None, None, {"CODEX_API_KEY": KEY}, files={".codex/config.toml": "= ="}),
]  # fmt: skip


def _planned(case: Case, root: Path) -> tuple[str | None, bytes | None]:
    machine = Machine(root)
    for path, text in case.files.items():
        machine.file(path, text)
    host = {name: value.format(home=machine.home) for name, value in case.host.items()}
    fields = dict(case.fields)
    if "env" in fields:
        fields["env"] = {n: v.format(home=machine.home) if isinstance(v, str) else v for n, v in fields["env"].items()}
    plan = machine.plan(case.family, host, namespace=case.namespace, **fields)
    return plan.provider_id, None if plan.descriptor is None else canonical(plan.descriptor)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}: {case.name}")
def test_the_provider_is_the_service_really_addressed(case: Case, tmp_path: Path) -> None:
    provider, descriptor = _planned(case, tmp_path)
    assert case.provider == provider
    assert (case.same is not None) is (descriptor is not None)


def test_equal_credentials_share_a_descriptor_and_no_others_do(tmp_path: Path) -> None:
    by_name: dict[str, set[bytes]] = {}
    by_bytes: dict[bytes, set[str]] = {}
    for number, case in enumerate(CASES):
        _, descriptor = _planned(case, tmp_path / str(number))
        if case.same is not None and descriptor is not None:
            by_name.setdefault(case.same, set()).add(descriptor)
            by_bytes.setdefault(descriptor, set()).add(case.same)
    assert dict.fromkeys(by_name, 1) == {name: len(found) for name, found in by_name.items()}
    assert [] == [names for names in by_bytes.values() if len(names) > 1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}: {case.name}")
def test_no_secret_is_in_a_descriptor(case: Case, tmp_path: Path) -> None:
    _, descriptor = _planned(case, tmp_path)
    shown = (descriptor or b"").decode()
    for secret in (KEY, OTHER, "acct-secret", "proj-secret", "eyJ", "--secret", str(tmp_path)):
        assert secret not in shown


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=40)
LAUNCHES: Mapping[str, Callable[[str], tuple[dict[str, str], dict[str, Any]]]] = {
    "claude": lambda value: ({"ANTHROPIC_API_KEY": value}, {"fallback_model": f"f-{value}"}),
    "codex": lambda value: ({"CODEX_API_KEY": value}, {"options": {"model_reasoning_effort": value}}),
}


@pytest.mark.parametrize("family", LAUNCHES)
@settings(max_examples=40, deadline=None)
@given(secret=WORDS, word=WORDS)
def test_secrets_literals_flags_and_models_change_no_descriptor(family: str, secret: str, word: str) -> None:
    """R-CIR-3: command prefix, model, flags, literal values and secrets are never part of it."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        host, fields = LAUNCHES[family](secret)
        plain = machine.plan(family, LAUNCHES[family]("x" * 12)[0])
        machine.executable(machine.bin / f"w{word}")
        varied = machine.plan(
            family,
            host,
            model=f"m-{word}",
            args=(f"--flag={word}",),
            env={"SOME_LITERAL": word},
            command=(f"w{word}", family, word),
            **fields,
        )
        assert plain.descriptor is not None
        assert plain.descriptor == varied.descriptor
        assert plain.provider_id == varied.provider_id
        shown = canonical(plain.descriptor).decode()
        assert secret not in shown
        assert word not in shown

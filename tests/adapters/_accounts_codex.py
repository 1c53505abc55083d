"""Codex's accounts: who pays, and at which service, for each way to launch it."""

from __future__ import annotations

import json
from typing import Final

from kandev_routing_sdk.profiles import SecretRef
from kandev_routing_sdk.types import Transport
from tests.adapters._accounts import KEY, OTHER_KEY, Row, account, launch, rows

ACP: Final = Transport.ACP
EXEC: Final = Transport.HEADLESS
TEAM: Final = SecretRef(secret="env:TEAM_KEY")
HOST: Final = {"CODEX_API_KEY": KEY}
TEAM_HOST: Final = {"TEAM_KEY": KEY}
CORP_HOST: Final = {"CORP_KEY": KEY}
CORP: Final = "https://llm.corp.example/openai/v1"
TOKENS: Final = {"access_token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzZWNyZXQifQ.x", "account_id": "acct-secret"}
VENDOR: Final = "https://api.openai.com/v1"
PROJECT: Final = 'env_key = "CODEX_API_KEY"\nenv_http_headers = { "OpenAI-Project" = "OPENAI_PROJECT" }'
SPARE_PROJECT: Final = 'env_key = "CODEX_API_KEY"\nenv_http_headers = { "OpenAI-Project" = "P2" }'
PRINTED: Final = 'auth = { command = "/bin/token", args = ["--secret"] }'
PASSWORD: Final = "https://user:secret@llm.corp.example/v1"


def _login(mode: str, folder: str = ".codex") -> dict[str, str]:
    return {f"{folder}/auth.json": json.dumps({"auth_mode": mode, "OPENAI_API_KEY": KEY, "tokens": TOKENS})}


def _config(text: str, folder: str = ".codex") -> dict[str, str]:
    return {f"{folder}/config.toml": text}


def _provider(
    url: str = CORP, extra: str = 'env_key = "CORP_KEY"', name: str = "corp", chosen: str = "corp"
) -> dict[str, str]:
    first = f'model_provider = "{chosen}"\n' if chosen else ""
    return _config(f'{first}[model_providers.{name}]\nname = "x"\nbase_url = "{url}"\n{extra}\n')


ACCOUNTS: Final = (
    account("the key in CODEX_API_KEY", "openai",
        launch("inherited", HOST),
        launch("headless", HOST, transport=EXEC),
        launch("over ACP", HOST, transport=ACP),
        launch("another value of it", {"CODEX_API_KEY": OTHER_KEY}),
        launch("by reference", HOST, env={"CODEX_API_KEY": SecretRef(secret="env:CODEX_API_KEY")}),
        launch("with model, mode and options", HOST, model="gpt-5.5", mode="read-only", options={"model_reasoning_effort": "high"}),
        launch("with a flag", HOST, transport=EXEC, args=("--color=never",)),
        launch("with a setting", HOST, args=("-c", 'model_verbosity="low"')),
        launch("behind a wrapper", HOST, command=("nice", "-n", "5", "codex")),
        launch("by npx", HOST, command=("npx", "codex-acp")),
        launch("in another folder", HOST, cwd="sub"),
        launch("though logged in, headless", HOST, _login("chatgpt"), transport=EXEC),
        launch("with other vendors' variables", {**HOST, "OPENAI_API_KEY": OTHER_KEY, "ANTHROPIC_API_KEY": OTHER_KEY}),
        launch("named by a provider at the vendor", HOST, _provider("https://api.openai.com/v1", 'env_key = "CODEX_API_KEY"'))),
    account("the same variable on another machine", "openai",
        launch("inherited", HOST, namespace="that machine")),
    account("the team's key", "openai",
        launch("one profile", TEAM_HOST, env={"CODEX_API_KEY": TEAM}),
        launch("another profile", TEAM_HOST, id="q", name="Q", env={"CODEX_API_KEY": TEAM}, model="gpt-5.4-mini"),
        launch("headless", TEAM_HOST, env={"CODEX_API_KEY": TEAM}, transport=EXEC),
        launch("under the variable of a provider", TEAM_HOST, _provider("https://api.openai.com/v1"), env={"CORP_KEY": TEAM}),
        launch("named by a provider", TEAM_HOST, _provider("https://api.openai.com/v1", 'env_key = "TEAM_KEY"'))),
    account("the key of a project", "openai",
        launch("inherited", {**HOST, "OPENAI_PROJECT": "proj-secret"}, transport=EXEC),
        launch("over ACP", {**HOST, "OPENAI_PROJECT": "proj-secret"}, transport=ACP),
        launch("named by a provider at the vendor", {**HOST, "OPENAI_PROJECT": "proj-secret"}, _provider(VENDOR, PROJECT))),
    account("the key of another project", "openai",
        launch("by reference", {**HOST, "P2": "proj-secret"}, env={"OPENAI_PROJECT": SecretRef(secret="env:P2")}),
        launch("named by a provider at the vendor", {**HOST, "P2": "proj-secret"}, _provider(VENDOR, SPARE_PROJECT))),
    account("OpenAI's login with a key, for a project", "openai",
        launch("inherited", {"OPENAI_PROJECT": "proj-secret"}, _login("apikey"))),
    account("the key of an organisation's project", "openai",
        launch("inherited", {**HOST, "OPENAI_ORGANIZATION": "org-secret", "OPENAI_PROJECT": "proj-secret"})),
    account("the key of an organisation's project, the other way round", "openai",
        launch("by reference", {**HOST, "OPENAI_ORGANIZATION": "org-secret", "OPENAI_PROJECT": "proj-secret"}, env={
               "OPENAI_ORGANIZATION": SecretRef(secret="env:OPENAI_PROJECT"), "OPENAI_PROJECT": SecretRef(secret="env:OPENAI_ORGANIZATION")})),
    account("the key of an organisation", "openai",
        launch("inherited", {**HOST, "OPENAI_ORGANIZATION": "org-secret"})),
    account("the ChatGPT plan", "openai",
        launch("found by itself", {}, _login("chatgpt")),
        launch("headless", {}, _login("chatgpt"), transport=EXEC),
        launch("over ACP with a model", {}, _login("chatgpt"), transport=ACP, model="gpt-5.5"),
        launch("by its folder", {}, _login("chatgpt"), env={"CODEX_HOME": "{home}/.codex"}),
        launch("by its folder with a slash", {"CODEX_HOME": "{home}/.codex/"}, _login("chatgpt")),
        launch("with a project, which it has not", {"OPENAI_PROJECT": "proj-secret"}, _login("chatgpt")),
        launch("a key that Codex does not read", {"OPENAI_API_KEY": OTHER_KEY}, _login("chatgpt")),
        launch("the same HOME written out", {}, _login("chatgpt"), env={"HOME": "{home}"})),
    account("the second ChatGPT plan", "openai",
        launch("by its folder", {}, _login("chatgpt", ".codex-work"), env={"CODEX_HOME": "{home}/.codex-work"}),
        launch("by the host's variable", {"CODEX_HOME": "{home}/.codex-work"}, _login("chatgpt", ".codex-work")),
        launch("by a roundabout way", {"CODEX_HOME": "{home}/.codex-work/../.codex-work"}, _login("chatgpt", ".codex-work"))),
    account("another user's ChatGPT plan", "openai",
        launch("that user's HOME in the profile", {}, _login("chatgpt", "{root}/other/.codex"), env={"HOME": "{root}/other"}),
        launch("that user's HOME around us", {"HOME": "{root}/other"}, _login("chatgpt", "{root}/other/.codex"))),
    account("the login with a key", "openai",
        launch("found by itself", {}, _login("apikey")),
        launch("headless", {}, _login("apikey"), transport=EXEC)),
    account("the keyring", "openai",
        launch("found by itself", {}, _config('cli_auth_credentials_store = "keyring"')),
        launch("with a model", {}, _config('cli_auth_credentials_store = "keyring"'), model="gpt-5.5")),
    account("the keyring of another folder", "openai",
        launch("by its folder", {}, _config('cli_auth_credentials_store = "keyring"', ".codex-work"),
               env={"CODEX_HOME": "{home}/.codex-work"})),
    account("the access token", "openai",
        launch("inherited, headless", {"CODEX_ACCESS_TOKEN": KEY}, transport=EXEC)),
    account("the key of the company", "gateway:llm.corp.example/openai",
        launch("configured", CORP_HOST, _provider()),
        launch("headless", CORP_HOST, _provider(), transport=EXEC, model="gpt-5.5"),
        launch("without the version", CORP_HOST, _provider("https://LLM.corp.example:443/openai/")),
        launch("with the version of the interface", CORP_HOST, _provider(
            extra='env_key = "CORP_KEY"\nquery_params = { "api-version" = "2026-01-01" }')),
        launch("with headers that sign nobody in", CORP_HOST, _provider(
            extra='env_key = "CORP_KEY"\nhttp_headers = { "X-Request-Id" = "a", accept = "b", "User-Agent" = "c" }')),
        launch("with a header whose variable is not set", CORP_HOST, _provider(
            extra='env_key = "CORP_KEY"\nenv_http_headers = { "X-Tenant" = "NOT_SET" }')),
        launch("by another name", CORP_HOST, _provider(name="firm", chosen="firm")),
        launch("chosen by an option", CORP_HOST, _provider(chosen=""), options={"model_provider": "corp"}),
        launch("chosen by -c", CORP_HOST, _provider(chosen=""), args=("-c", "model_provider=corp")),
        launch("chosen by a profile of Codex", CORP_HOST, {**_provider(chosen=""), ".codex/work.config.toml": 'model_provider = "corp"'},
               transport=EXEC, args=("--profile=work",)),
        launch("chosen by a profile in its file", CORP_HOST, {".codex/config.toml": 'profile = "work"\n[profiles.work]\n'
               f'model_provider = "corp"\n[model_providers.corp]\nname = "x"\nbase_url = "{CORP}"\nenv_key = "CORP_KEY"\n'}),
        launch("chosen by the agent's variable", {**CORP_HOST, "MODEL_PROVIDER": "corp"}, _provider(chosen=""), transport=ACP,
               env={"MODEL_PROVIDER": "corp"}),
        launch("described by -c", CORP_HOST, {}, args=("-c", "model_provider=corp", "-c", 'model_providers.corp.name="x"',
               "-c", f'model_providers.corp.base_url="{CORP}"', "-c", 'model_providers.corp.env_key="CORP_KEY"')),
        launch("described by CODEX_CONFIG", CORP_HOST, {}, transport=ACP, env={"CODEX_CONFIG": json.dumps(
               {"model_provider": "corp", "model_providers": {"corp": {"name": "x", "base_url": CORP, "env_key": "CORP_KEY"}}})})),
    account("the same key at another host", "gateway:eu.corp.example/openai",
        launch("by -c", CORP_HOST, _provider(), args=("-c", 'model_providers.corp.base_url="https://eu.corp.example/openai/v1"'))),
    account("the same key at another path", "gateway:llm.corp.example/azure",
        launch("configured", CORP_HOST, _provider("https://llm.corp.example/azure/v1"))),
    account("the same key at another port", "gateway:llm.corp.example:8443/openai",
        launch("configured", CORP_HOST, _provider("https://llm.corp.example:8443/openai/v1"))),
    account("the team's key at the company's gateway", "gateway:llm.corp.example/openai",
        launch("under the gateway's variable", TEAM_HOST, _provider(), env={"CORP_KEY": TEAM})),
    account("a key in a header", "gateway:llm.corp.example/openai",
        launch("configured", CORP_HOST, _provider(extra='env_http_headers = { "X-Api-Key" = "CORP_KEY" }'))),
    account("the company's key for a tenant", "gateway:llm.corp.example/openai",
        launch("configured", {**CORP_HOST, "TENANT": "a"}, _provider(
            extra='env_key = "CORP_KEY"\nenv_http_headers = { "X-Tenant" = "TENANT" }')),
        launch("in other letters, behind a harmless one", {**CORP_HOST, "TENANT": "a", "TRACE": "b"}, _provider(
            extra='env_key = "CORP_KEY"\nenv_http_headers = { "x-trace" = "TRACE", "x-tenant" = "TENANT" }'))),
    account("the company's key for another tenant", "gateway:llm.corp.example/openai",
        launch("configured", {**CORP_HOST, "TENANT_2": "a"}, _provider(
            extra='env_key = "CORP_KEY"\nenv_http_headers = { "X-Tenant" = "TENANT_2" }'))),
    account("two keys in headers", "gateway:llm.corp.example/openai",
        launch("configured", {"A": KEY, "B": KEY}, _provider(extra='env_http_headers = { "X-Api-Key" = "A", "X-Org" = "B" }'))),
    account("two keys in headers, the other way round", "gateway:llm.corp.example/openai",
        launch("configured", {"A": KEY, "B": KEY}, _provider(extra='env_http_headers = { "X-Api-Key" = "B", "X-Org" = "A" }'))),
    account("what a helper prints", "gateway:llm.corp.example/openai",
        launch("configured", {}, _provider(extra=PRINTED)),
        launch("with variables of Codex's own", {}, _provider(extra=PRINTED), env={"CODEX_HOME": "{home}/.codex", "RUST_LOG": "warn"})),
    account("what the helper of another provider prints", "gateway:llm.corp.example/openai",
        launch("configured", {}, _provider(extra=PRINTED.replace("--secret", "--team=b"), name="firm", chosen="firm"))),
    account("what the helper of a profile of Codex prints", "gateway:llm.corp.example/openai",
        launch("configured", {}, {".codex/work.config.toml": _provider(extra=PRINTED)[".codex/config.toml"]},
               transport=EXEC, args=("--profile=work",))),
    account("the key at a moved vendor", "gateway:proxy.example",
        launch("configured", HOST, _config('openai_base_url = "https://proxy.example/v1"'))),
)  # fmt: skip

UNPROVABLE: Final = {
    "openai": (
        launch("a literal key", env={"CODEX_API_KEY": KEY}),
        launch("the same literal key again", id="q", env={"CODEX_API_KEY": KEY}),
        launch("a literal project", HOST, env={"OPENAI_PROJECT": "proj-secret"}),
        launch("a project written into a provider", HOST, _provider(
            VENDOR, 'env_key = "CODEX_API_KEY"\nhttp_headers = { "OpenAI-Project" = "proj-secret" }')),
        launch("a literal project of a provider", HOST, _provider(VENDOR, SPARE_PROJECT), env={"P2": "proj-secret"}),
        launch("OPENAI_API_KEY signs nobody in", {"OPENAI_API_KEY": KEY}),
        launch("not logged in"),
        launch("broken login", {}, {".codex/auth.json": "{"}),
        launch("keyring or file", {}, {**_login("chatgpt"), **_config('cli_auth_credentials_store = "auto"')})),
    "gateway:llm.corp.example/openai": (
        launch("the company's key is missing", {}, _provider()),
        launch("a literal in the profile", {}, _provider(), env={"CORP_KEY": KEY}),
        launch("a token in the file", {}, _provider(extra=f'experimental_bearer_token = "{KEY}"')),
        launch("a header with a token in the file", CORP_HOST, _provider(
            extra=f'env_key = "CORP_KEY"\nhttp_headers = {{ Authorization = "Bearer {KEY}" }}')),
        launch("Azure's key in the file", CORP_HOST, _provider(
            extra=f'env_key = "CORP_KEY"\nhttp_headers = {{ "Ocp-Apim-Subscription-Key" = "{KEY}" }}')),
        launch("an account in the query", CORP_HOST, _provider(extra='env_key = "CORP_KEY"\nquery_params = { account = "a" }')),
        launch("a tenant and no key", {"TENANT": "a"}, _provider(
            extra='env_key = "CORP_KEY"\nenv_http_headers = { "X-Tenant" = "TENANT" }')),
        launch("a helper described by -c", {}, _provider(extra=""), args=("-c", 'model_providers.corp.auth.command="/bin/token"')),
        launch("a helper changed by -c", {}, _provider(extra=PRINTED), args=("-c", 'model_providers.corp.auth.args=["--team=b"]')),
        launch("a helper described by CODEX_CONFIG", {}, _provider(extra=""), transport=ACP, env={"CODEX_CONFIG": json.dumps(
               {"model_providers": {"corp": {"auth": {"command": "/bin/token"}}}})}),
        launch("a helper that is told the team", {}, _provider(extra=PRINTED), env={"TEAM": "a"}),
        launch("a helper that is told the team in the agent's name", {}, _provider(extra=PRINTED), env={"CODEX_TEAM": "a"}),
        launch("a key in the query", CORP_HOST, _provider(extra=f'env_key = "CORP_KEY"\nquery_params = {{ key = "{KEY}" }}')),
        launch("a key in the address", CORP_HOST, _provider(f"{CORP}?key={KEY}"))),
    "gateway:llm.corp.example": (
        launch("a password in the address", CORP_HOST, _provider(PASSWORD)),),
    "amazon-bedrock": (
        launch("AWS, as itself sees fit", HOST, options={"model_provider": "amazon-bedrock"}),),
    None: (
        launch("a provider that is not configured", HOST, options={"model_provider": "nope"}),
        launch("local models", {}, transport=EXEC, args=("--oss",)),
        launch("broken configuration", HOST, _config("= ="), transport=EXEC)),
}  # fmt: skip

CODEX: Final[list[Row]] = rows("codex", ACCOUNTS, UNPROVABLE)

"""Claude's accounts: who pays, and at which service, for each way to launch it."""

from __future__ import annotations

import json
from typing import Final

from kandev_routing_sdk.profiles import SecretRef
from kandev_routing_sdk.types import Transport
from tests.adapters._accounts import KEY, OTHER_KEY, Row, account, launch, rows

ACP: Final = Transport.ACP
TEAM: Final = SecretRef(secret="env:TEAM_KEY")
HOST: Final = {"ANTHROPIC_API_KEY": KEY}
TEAM_HOST: Final = {"TEAM_KEY": KEY}
LOGIN: Final = {".claude/.credentials.json": "{}"}
WORK_LOGIN: Final = {".claude-work/.credentials.json": "{}"}
OTHER_USER: Final = {"{root}/other/.claude/.credentials.json": "{}"}
CORP: Final = "https://llm.corp.example/anthropic"
GATEWAY: Final = {"ANTHROPIC_BASE_URL": CORP, "ANTHROPIC_AUTH_TOKEN": KEY}
BEDROCK: Final = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
AWS_KEYS: Final = {"AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE", "AWS_SECRET_ACCESS_KEY": KEY}
VERTEX: Final = {"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "team-ai"}
GCP: Final = {"GOOGLE_APPLICATION_CREDENTIALS": "{home}/gcp.json"}
FOUNDRY: Final = {"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_API_KEY": KEY}


def _settings(**values: object) -> dict[str, str]:
    return {".claude/settings.json": json.dumps(values)}


ACCOUNTS: Final = (
    account("the key in ANTHROPIC_API_KEY", "anthropic",
        launch("inherited", HOST),
        launch("another value of it", {"ANTHROPIC_API_KEY": OTHER_KEY}),
        launch("by reference", HOST, env={"ANTHROPIC_API_KEY": SecretRef(secret="env:ANTHROPIC_API_KEY")}),
        launch("with model, flags, mode", HOST, model="opus", args=("--add-dir=../docs",), mode="plan", options={"effort": "high"}),
        launch("over ACP", HOST, transport=ACP),
        launch("over ACP with another model", HOST, transport=ACP, model="haiku"),
        launch("behind a wrapper", HOST, command=("nice", "-n", "5", "claude")),
        launch("by npx", HOST, command=("npx", "claude-agent-acp")),
        launch("in another folder", HOST, cwd="sub"),
        launch("the vendor's address written out", {**HOST, "ANTHROPIC_BASE_URL": "https://api.anthropic.com/"}),
        launch("though logged in", HOST, LOGIN),
        launch("bare", HOST, LOGIN, args=("--bare",)),
        launch("headers that sign nobody in", {**HOST, "ANTHROPIC_CUSTOM_HEADERS": "x-request-id: 1\nUser-Agent: a\nanthropic-beta: b"}),
        launch("other settings", HOST, _settings(env={"DISABLE_COST_WARNINGS": "1"}, model="opus")),
        launch("without the user's settings", HOST, _settings(env={"ANTHROPIC_API_KEY": OTHER_KEY}), options={"setting_sources": "project"}),
        launch("a cloud switched off", {**HOST, **AWS_KEYS, "CLAUDE_CODE_USE_BEDROCK": "0"}),
        launch("another vendor's variables", {**HOST, "OPENAI_API_KEY": OTHER_KEY, "CODEX_API_KEY": OTHER_KEY})),
    account("the same variable on another machine", "anthropic",
        launch("inherited", HOST, namespace="that machine")),
    account("the team's key", "anthropic",
        launch("one profile", TEAM_HOST, env={"ANTHROPIC_API_KEY": TEAM}),
        launch("another profile", TEAM_HOST, id="q", name="Q", env={"ANTHROPIC_API_KEY": TEAM}, model="haiku"),
        launch("over an inherited key", {**TEAM_HOST, **HOST}, env={"ANTHROPIC_API_KEY": TEAM}),
        launch("over ACP", TEAM_HOST, env={"ANTHROPIC_API_KEY": TEAM}, transport=ACP)),
    account("the project's key", "anthropic",
        launch("by reference", {"PROJECT_KEY": KEY}, env={"ANTHROPIC_API_KEY": SecretRef(secret="env:PROJECT_KEY")})),
    account("the subscription in CLAUDE_CODE_OAUTH_TOKEN", "anthropic",
        launch("inherited", {"CLAUDE_CODE_OAUTH_TOKEN": KEY}),
        launch("though logged in", {"CLAUDE_CODE_OAUTH_TOKEN": KEY}, LOGIN, model="opus"),
        launch("over ACP", {"CLAUDE_CODE_OAUTH_TOKEN": KEY}, transport=ACP)),
    account("the second subscription's token", "anthropic",
        launch("by reference", {"SECOND_TOKEN": KEY}, env={"CLAUDE_CODE_OAUTH_TOKEN": SecretRef(secret="env:SECOND_TOKEN")})),
    account("the token in ANTHROPIC_AUTH_TOKEN", "anthropic",
        launch("inherited", {"ANTHROPIC_AUTH_TOKEN": KEY}),
        launch("with a key beside it", {"ANTHROPIC_AUTH_TOKEN": KEY, **HOST})),
    account("the login", "anthropic",
        launch("found by itself", {}, LOGIN),
        launch("by its folder", {}, LOGIN, env={"CLAUDE_CONFIG_DIR": "{home}/.claude"}),
        launch("by its folder with a slash", {"CLAUDE_CONFIG_DIR": "{home}/.claude/"}, LOGIN),
        launch("an empty key", {"ANTHROPIC_API_KEY": ""}, LOGIN),
        launch("over ACP with a model", {}, LOGIN, transport=ACP, model="opus"),
        launch("the same HOME written out", {}, LOGIN, env={"HOME": "{home}"})),
    account("the login for work", "anthropic",
        launch("by its folder", {}, WORK_LOGIN, env={"CLAUDE_CONFIG_DIR": "{home}/.claude-work"}),
        launch("by the host's variable", {"CLAUDE_CONFIG_DIR": "{home}/.claude-work"}, {**WORK_LOGIN, **LOGIN}),
        launch("by a reference", {"WORK_DIR": "{home}/.claude-work"}, WORK_LOGIN,
               env={"CLAUDE_CONFIG_DIR": SecretRef(secret="env:WORK_DIR")})),
    account("another user's login", "anthropic",
        launch("that user's HOME in the profile", {}, OTHER_USER, env={"HOME": "{root}/other"}),
        launch("that user's HOME around us", {"HOME": "{root}/other"}, {**OTHER_USER, **LOGIN})),
    account("what the key helper prints", "anthropic",
        launch("in the settings", {}, _settings(apiKeyHelper="/bin/key --secret abc")),
        launch("with a model", {}, _settings(apiKeyHelper="/bin/key --secret abc"), model="opus"),
        launch("with variables of Claude's own", {}, _settings(apiKeyHelper="/bin/key"), env={
               "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "9000", "MAX_THINKING_TOKENS": "1", "CLAUDE_CONFIG_DIR": "{home}/.claude"}),
        launch("with a variable beside it", {}, _settings(apiKeyHelper="/bin/key $TEAM", env={"TEAM": "a"}))),
    account("the key in the settings", "anthropic",
        launch("found by itself", {}, _settings(env=HOST)),
        launch("over an inherited one", {"ANTHROPIC_API_KEY": OTHER_KEY}, _settings(env=HOST))),
    account("the key in the project's settings", "anthropic",
        launch("found by itself", {}, {"{work}/.claude/settings.json": json.dumps({"env": HOST})})),
    account("the key in a settings file of its own", "anthropic",
        launch("given by a flag", {}, {"{work}/team.json": json.dumps({"env": HOST})}, args=("--settings=team.json",)),
        launch("given by its whole path", {}, {"{work}/team.json": json.dumps({"env": HOST})}, args=("--settings={work}/team.json",))),
    account("the gateway's token", "gateway:llm.corp.example/anthropic",
        launch("inherited", GATEWAY),
        launch("the address in the profile", {"ANTHROPIC_AUTH_TOKEN": KEY}, env={"ANTHROPIC_BASE_URL": CORP}),
        launch("the address in the settings", {"ANTHROPIC_AUTH_TOKEN": KEY}, _settings(env={"ANTHROPIC_BASE_URL": CORP})),
        launch("with the version", {**GATEWAY, "ANTHROPIC_BASE_URL": f"{CORP}/v1/"}),
        launch("in capitals, with the scheme's port", {**GATEWAY, "ANTHROPIC_BASE_URL": "https://LLM.corp.example:443/anthropic"}),
        launch("over ACP", GATEWAY, transport=ACP)),
    account("the same token at another host", "gateway:eu.llm.corp.example/anthropic",
        launch("inherited", {**GATEWAY, "ANTHROPIC_BASE_URL": "https://eu.llm.corp.example/anthropic"})),
    account("the same token at another path", "gateway:llm.corp.example/bedrock",
        launch("inherited", {**GATEWAY, "ANTHROPIC_BASE_URL": "https://llm.corp.example/bedrock"})),
    account("the same token at another port", "gateway:llm.corp.example:8443/anthropic",
        launch("inherited", {**GATEWAY, "ANTHROPIC_BASE_URL": "https://llm.corp.example:8443/anthropic"})),
    account("the team's token at the gateway", "gateway:llm.corp.example/anthropic",
        launch("by reference", {**GATEWAY, **TEAM_HOST}, env={"ANTHROPIC_AUTH_TOKEN": TEAM})),
    account("AWS keys in Ireland", "amazon-bedrock",
        launch("inherited", {**BEDROCK, **AWS_KEYS}),
        launch("the region's other name", {"CLAUDE_CODE_USE_BEDROCK": "true", "AWS_DEFAULT_REGION": "eu-west-1", **AWS_KEYS}),
        launch("with an Anthropic key beside it", {**BEDROCK, **AWS_KEYS, **HOST})),
    account("AWS keys in Virginia", "amazon-bedrock",
        launch("inherited", {**BEDROCK, **AWS_KEYS, "AWS_REGION": "us-east-1"})),
    account("the AWS profile of the team", "amazon-bedrock",
        launch("inherited", {**BEDROCK, "AWS_PROFILE": "team"}),
        launch("with keys beside it, which it beats", {**BEDROCK, **AWS_KEYS, "AWS_PROFILE": "team"})),
    account("the AWS profile of play", "amazon-bedrock",
        launch("inherited", {**BEDROCK, "AWS_PROFILE": "play"})),
    account("a profile of that name in another AWS file", "amazon-bedrock",
        launch("inherited", {**BEDROCK, "AWS_PROFILE": "team", "AWS_SHARED_CREDENTIALS_FILE": "{home}/customer-aws"})),
    account("a profile of that name of another user", "amazon-bedrock",
        launch("that user's HOME", {**BEDROCK, "AWS_PROFILE": "team", "HOME": "{root}/other"})),
    account("the bearer token of Bedrock", "amazon-bedrock",
        launch("inherited", {**BEDROCK, "AWS_BEARER_TOKEN_BEDROCK": KEY})),
    account("the project team-ai", "google-vertex",
        launch("a file of credentials", {**VERTEX, **GCP}),
        launch("over ACP", {**VERTEX, **GCP}, transport=ACP, model="opus")),
    account("the project other-ai", "google-vertex",
        launch("the same file", {**VERTEX, **GCP, "ANTHROPIC_VERTEX_PROJECT_ID": "other-ai"})),
    account("the project team-ai in Europe", "google-vertex",
        launch("the same file", {**VERTEX, **GCP, "CLOUD_ML_REGION": "europe-west1"})),
    account("the project team-ai, as oneself", "google-vertex",
        launch("gcloud's own login", VERTEX, {".config/gcloud/application_default_credentials.json": "{}"})),
    account("the Foundry resource team", "microsoft-foundry",
        launch("inherited", {**FOUNDRY, "ANTHROPIC_FOUNDRY_RESOURCE": "team"}),
        launch("with Vertex switched on too, which it beats", {**VERTEX, **GCP, **FOUNDRY, "ANTHROPIC_FOUNDRY_RESOURCE": "team"})),
    account("the Foundry resource play", "microsoft-foundry",
        launch("inherited", {**FOUNDRY, "ANTHROPIC_FOUNDRY_RESOURCE": "play"})),
)  # fmt: skip

UNPROVABLE: Final = {
    "anthropic": (
        launch("a literal key", env={"ANTHROPIC_API_KEY": KEY}),
        launch("the same literal key again", id="q", env={"ANTHROPIC_API_KEY": KEY}),
        launch("a literal token", env={"CLAUDE_CODE_OAUTH_TOKEN": KEY}),
        launch("not logged in"),
        launch("bare, though logged in", {}, LOGIN, args=("--bare",)),
        launch("a key in settings on the command line", args=(f'--settings={{"env":{{"ANTHROPIC_API_KEY":"{KEY}"}}}}',)),
        launch("a header of one's own", {**HOST, "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer secret-000"}),
        launch("a header of the team's", {**HOST, "ANTHROPIC_CUSTOM_HEADERS": "x-request-id: 1\r\nx-team: blue"}),
        launch("a key helper that is told the team", {}, _settings(apiKeyHelper="/bin/key $TEAM"), env={"TEAM": "a"}),
        launch("the same one, told another team", {}, _settings(apiKeyHelper="/bin/key $TEAM"), env={"TEAM": "b"}),
        launch("the same one, told by reference", {"TEAM_KEY": "a"}, _settings(apiKeyHelper="/bin/key $TEAM"), env={"TEAM": TEAM}),
        launch("the same one, told by the project", {}, {**_settings(apiKeyHelper="/bin/key $TEAM"),
               "{work}/.claude/settings.json": json.dumps({"env": {"TEAM": "a"}})}),
        launch("a key helper with another AWS profile", {}, _settings(apiKeyHelper="/bin/key"), env={"AWS_PROFILE": "a"}),
        launch("a key helper on the command line", args=('--settings={"apiKeyHelper":"/bin/key"}',))),
    "gateway:llm.corp.example/anthropic": (
        launch("a key in the address", {**GATEWAY, "ANTHROPIC_BASE_URL": f"{CORP}?key={KEY}"}),
        launch("a token in a header of the proxy's", {**GATEWAY, "ANTHROPIC_CUSTOM_HEADERS": "X-Proxy-Token: secret-000"}),
        launch("Azure's key", {**GATEWAY, "ANTHROPIC_CUSTOM_HEADERS": "Ocp-Apim-Subscription-Key: secret-000"}),
        launch("Helicone's sign-in", {**GATEWAY, "ANTHROPIC_CUSTOM_HEADERS": "Helicone-Auth: Bearer secret-000"}),
        launch("a secret of the gateway's", {**GATEWAY, "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway-Secret: secret-000"}),
        launch("a virtual key", {**GATEWAY, "ANTHROPIC_CUSTOM_HEADERS": "x-portkey-virtual-key: prod"})),
    "gateway:llm.corp.example": (
        launch("a password in the address", {**HOST, "ANTHROPIC_BASE_URL": "https://user:secret@llm.corp.example"}),),
    "amazon-bedrock": (
        launch("credentials of the instance", BEDROCK),
        launch("literal AWS keys", BEDROCK, env=AWS_KEYS),
        launch("signed in by somebody else", {**BEDROCK, **AWS_KEYS, "CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1"})),
    "mantle": (
        launch("a cloud whose credentials are not followed", {**HOST, "CLAUDE_CODE_USE_MANTLE": "1"}),),
    "google-vertex": (
        launch("a region for each model", {**VERTEX, **GCP, "VERTEX_REGION_CLAUDE_4_0_OPUS": "europe-west1"}),
        launch("no credentials", VERTEX)),
    "microsoft-foundry": (
        launch("signed in with Entra", {"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_RESOURCE": "team"}),),
    None: (
        launch("broken settings", HOST, {".claude/settings.json": "{"}),
        launch("broken settings of the project", HOST, {"{work}/.claude/settings.json": "[]"}),
        launch("a token in the path", {**HOST, "ANTHROPIC_BASE_URL": "https://llm.corp.example/k/a1b2c3d4e5f6a7b8c9d0"}),
        launch("a gateway that the organisation signs in to", {**HOST, "CLAUDE_CODE_USE_GATEWAY": "1"})),
}  # fmt: skip

CLAUDE: Final[list[Row]] = rows("claude", ACCOUNTS, UNPROVABLE)

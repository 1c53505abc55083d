"""OpenCode's accounts: who pays, and at which service. The provider of the chosen model decides."""

from __future__ import annotations

import json
from typing import Any, Final

from kandev_routing_sdk.profiles import SecretRef
from kandev_routing_sdk.types import Transport
from tests.adapters._accounts import KEY, OTHER_KEY, Row, account, launch, rows

ACP: Final = Transport.ACP
TEAM: Final = SecretRef(secret="env:TEAM_KEY")
CLAUDE: Final = "anthropic/claude-sonnet-4-5"
GPT: Final = "openai/gpt-5.5"
CORP_MODEL: Final = "corp/big"
HOST: Final = {"ANTHROPIC_API_KEY": KEY}
OPENAI_HOST: Final = {"OPENAI_API_KEY": KEY}
TEAM_HOST: Final = {"TEAM_KEY": KEY}
GLOBAL: Final = ".config/opencode/opencode.json"
PROJECT: Final = "{work}/opencode.json"
AUTH: Final = ".local/share/opencode/auth.json"
TEAM_OPTION: Final = {"apiKey": "{env:TEAM_KEY}"}
CORP: Final = "https://llm.corp.example/openai/v1"
BEDROCK: Final = "amazon-bedrock/anthropic.claude-sonnet-4-5"
AWS: Final = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE", "AWS_SECRET_ACCESS_KEY": KEY}


def _provider(name: str, place: str = GLOBAL, npm: str | None = None, **options: Any) -> dict[str, str]:
    entry: dict[str, Any] = {"options": options, **({"npm": npm} if npm else {})}
    return {place: json.dumps({"provider": {name: entry}})}


def _corp(url: str = CORP, key: str = "{env:CORP_KEY}", place: str = GLOBAL) -> dict[str, str]:
    return _provider("corp", place, "@ai-sdk/openai-compatible", baseURL=url, apiKey=key)


def _login(provider: str, kind: str = "api", place: str = AUTH) -> dict[str, str]:
    entry = (
        {"type": "api", "key": KEY} if kind == "api" else {"type": kind, "access": KEY, "refresh": KEY, "expires": 1}
    )
    return {place: json.dumps({provider: entry})}


CORP_HOST: Final = {"CORP_KEY": KEY}
INLINE: Final = _provider("anthropic", **TEAM_OPTION)[GLOBAL]

ACCOUNTS: Final = (
    account("the key in ANTHROPIC_API_KEY", "anthropic",
        launch("inherited", HOST, model=CLAUDE),
        launch("another value of it", {"ANTHROPIC_API_KEY": OTHER_KEY}, model=CLAUDE),
        launch("another model", HOST, model="anthropic/claude-haiku-4-5"),
        launch("over ACP", HOST, model=CLAUDE, transport=ACP),
        launch("by reference", HOST, model=CLAUDE, env={"ANTHROPIC_API_KEY": SecretRef(secret="env:ANTHROPIC_API_KEY")}),
        launch("named by the configuration", HOST, _provider("anthropic", apiKey="{env:ANTHROPIC_API_KEY}"), model=CLAUDE),
        launch("with flags and an agent", HOST, model=CLAUDE, mode="plan", args=("--share",), options={"variant": "high"}),
        launch("behind a wrapper", HOST, model=CLAUDE, command=("nice", "-n", "5", "opencode")),
        launch("in another folder", HOST, model=CLAUDE, cwd="sub"),
        launch("the model of the configuration", HOST, {GLOBAL: json.dumps({"model": CLAUDE})}),
        launch("the model of the project", HOST, {PROJECT: json.dumps({"model": CLAUDE})}, transport=ACP),
        launch("the vendor's address written out", HOST, _provider("anthropic", baseURL="https://api.anthropic.com/v1"), model=CLAUDE),
        launch("though logged in elsewhere", HOST, _login("openai"), model=CLAUDE),
        launch("headers that sign nobody in", HOST, _provider("anthropic", headers={
               "anthropic-beta": "a", "x-request-id": "b", "user-agent": "c"}, setCacheKey=True, timeout=9), model=CLAUDE),
        launch("other vendors' keys beside it", {**HOST, **OPENAI_HOST}, model=CLAUDE)),
    account("the same variable on another machine", "anthropic",
        launch("inherited", HOST, model=CLAUDE, namespace="that machine")),
    account("the team's key at Anthropic", "anthropic",
        launch("one profile", TEAM_HOST, model=CLAUDE, env={"ANTHROPIC_API_KEY": TEAM}),
        launch("another profile", TEAM_HOST, id="q", name="Q", model="anthropic/claude-haiku-4-5", env={"ANTHROPIC_API_KEY": TEAM}),
        launch("named by the global configuration", TEAM_HOST, _provider("anthropic", **TEAM_OPTION), model=CLAUDE),
        launch("named by the project", TEAM_HOST, _provider("anthropic", PROJECT, **TEAM_OPTION), model=CLAUDE),
        launch("named by OPENCODE_CONFIG", {**TEAM_HOST, "OPENCODE_CONFIG": "{home}/own.json"},
               _provider("anthropic", "own.json", **TEAM_OPTION), model=CLAUDE),
        launch("named in the environment", {**TEAM_HOST, "OPENCODE_CONFIG_CONTENT": INLINE}, model=CLAUDE),
        launch("configured over a login", TEAM_HOST, {**_provider("anthropic", **TEAM_OPTION), **_login("anthropic")}, model=CLAUDE)),
    account("the key in OPENAI_API_KEY", "openai",
        launch("inherited", OPENAI_HOST, model=GPT),
        launch("with Anthropic's beside it", {**OPENAI_HOST, **HOST}, model=GPT, transport=ACP)),
    account("the team's key at OpenAI", "openai",
        launch("by reference", TEAM_HOST, model=GPT, env={"OPENAI_API_KEY": TEAM})),
    account("the key of an organisation", "openai",
        launch("named by the configuration", {**OPENAI_HOST, "ORG": "a"}, _provider("openai", organization="{env:ORG}"), model=GPT)),
    account("the key of another organisation", "openai",
        launch("named by the configuration", {**OPENAI_HOST, "ORG_2": "a"}, _provider("openai", organization="{env:ORG_2}"), model=GPT),
        launch("under the variable", {**OPENAI_HOST, "ORG_2": "a"}, _provider("openai", organization="{env:ORG}"), model=GPT,
               env={"ORG": SecretRef(secret="env:ORG_2")})),
    account("the key of a project", "openai",
        launch("named in a header", {**OPENAI_HOST, "PROJ": "a"}, _provider("openai", headers={"OpenAI-Project": "{env:PROJ}"}), model=GPT),
        launch("in other letters, over ACP", {**OPENAI_HOST, "PROJ": "a"}, _provider(
               "openai", headers={"openai-project": "{env:PROJ}", "accept": "b"}), model=GPT, transport=ACP)),
    account("the key with a token beside it", "anthropic",
        launch("configured", {**HOST, **TEAM_HOST}, _provider("anthropic", authToken="{env:TEAM_KEY}"), model=CLAUDE)),
    account("the login with a key", "anthropic",
        launch("found by itself", {}, _login("anthropic"), model=CLAUDE),
        launch("over ACP", {}, _login("anthropic"), model=CLAUDE, transport=ACP),
        launch("it beats the variable", HOST, _login("anthropic"), model=CLAUDE),
        launch("its folder written out", {"XDG_DATA_HOME": "{home}/.local/share"}, _login("anthropic"), model=CLAUDE),
        launch("the same HOME written out", {}, _login("anthropic"), model=CLAUDE, env={"HOME": "{home}"})),
    account("another login with a key", "anthropic",
        launch("its folder in the profile", {}, _login("anthropic", place="data/opencode/auth.json"), model=CLAUDE,
               env={"XDG_DATA_HOME": "{home}/data"})),
    account("another user's login", "anthropic",
        launch("HOME in the profile", {}, _login("anthropic", place=f"{{root}}/other/{AUTH}"), model=CLAUDE,
               env={"HOME": "{root}/other"}),
        launch("HOME around us", {"HOME": "{root}/other"}, _login("anthropic", place=f"{{root}}/other/{AUTH}"), model=CLAUDE)),
    account("the plan that is logged in", "anthropic",
        launch("found by itself", {}, _login("anthropic", "oauth"), model=CLAUDE)),
    account("the ChatGPT plan", "openai",
        launch("found by itself", {}, _login("openai", "oauth"), model=GPT),
        launch("over ACP", OPENAI_HOST, _login("openai", "oauth"), model="openai/gpt-5.4-mini", transport=ACP)),
    account("OpenAI's login with a key", "openai",
        launch("found by itself", {}, _login("openai"), model=GPT)),
    account("the login in the environment", "anthropic",
        launch("inherited", {"OPENCODE_AUTH_CONTENT": json.dumps({"anthropic": {"type": "api", "key": KEY}})}, model=CLAUDE)),
    account("the key in a file", "anthropic",
        launch("by its path", {}, {**_provider("anthropic", apiKey="{file:~/.keys/a}"), ".keys/a": KEY}, model=CLAUDE),
        launch("by its whole path", {}, {**_provider("anthropic", apiKey="{file:{home}/.keys/a}"), ".keys/a": KEY}, model=CLAUDE),
        launch("named by the project", {}, {**_provider("anthropic", PROJECT, apiKey="{file:~/.keys/a}"), ".keys/a": KEY}, model=CLAUDE)),
    account("the key in another user's file of that name", "anthropic",
        launch("by its path", {"HOME": "{root}/other"}, {**_provider("anthropic", PROJECT, apiKey="{file:~/.keys/a}"),
               "{root}/other/.keys/a": KEY}, model=CLAUDE)),
    account("the key in another file", "anthropic",
        launch("by its path", {}, {**_provider("anthropic", apiKey="{file:~/.keys/b}"), ".keys/b": KEY}, model=CLAUDE)),
    account("the key written into the global configuration", "anthropic",
        launch("found by itself", {}, _provider("anthropic", apiKey=KEY), model=CLAUDE),
        launch("another model", {}, _provider("anthropic", apiKey=KEY), model="anthropic/claude-haiku-4-5")),
    account("the key written into the project", "anthropic",
        launch("over the global one", {}, {**_provider("anthropic", apiKey=OTHER_KEY), **_provider("anthropic", PROJECT, apiKey=KEY)},
               model=CLAUDE)),
    account("the company's gateway", "gateway:llm.corp.example/openai",
        launch("configured", CORP_HOST, _corp(), model=CORP_MODEL),
        launch("in the project", CORP_HOST, _corp(place=PROJECT), model="corp/small", transport=ACP),
        launch("without the version", CORP_HOST, _corp("https://LLM.corp.example:443/openai/"), model=CORP_MODEL),
        launch("its address in a variable", {**CORP_HOST, "CORP_URL": CORP}, _corp("{env:CORP_URL}"), model=CORP_MODEL),
        launch("its key by the list of variables", CORP_HOST, {GLOBAL: json.dumps({"provider": {"corp": {
               "npm": "@ai-sdk/openai-compatible", "env": ["CORP_KEY"], "options": {"baseURL": CORP}}}})}, model=CORP_MODEL),
        launch("by a vendor's name", CORP_HOST, _provider("openai", baseURL=CORP, apiKey="{env:CORP_KEY}"), model=GPT)),
    account("the same key at another host", "gateway:eu.corp.example/openai",
        launch("configured", CORP_HOST, _corp("https://eu.corp.example/openai/v1"), model=CORP_MODEL)),
    account("the same key at another path", "gateway:llm.corp.example/azure",
        launch("configured", CORP_HOST, _corp("https://llm.corp.example/azure/v1"), model=CORP_MODEL)),
    account("the same key at another port", "gateway:llm.corp.example:8443/openai",
        launch("configured", CORP_HOST, _corp("https://llm.corp.example:8443/openai/v1"), model=CORP_MODEL)),
    account("the team's key at the gateway", "gateway:llm.corp.example/openai",
        launch("configured", TEAM_HOST, _corp(key="{env:TEAM_KEY}"), model=CORP_MODEL),
        launch("under the gateway's variable", TEAM_HOST, _corp(), model=CORP_MODEL, env={"CORP_KEY": TEAM})),
    account("Zen", "opencode", launch("inherited", {"OPENCODE_API_KEY": KEY}, model="opencode/big-pickle")),
    account("Zhipu's key at the API", "zai", launch("inherited", {"ZHIPU_API_KEY": KEY}, model="zai/glm-5")),
    account("Zhipu's key with the coding plan", "zai-coding-plan",
        launch("inherited", {"ZHIPU_API_KEY": KEY}, model="zai-coding-plan/glm-5")),
    account("AWS keys in Ireland", "amazon-bedrock",
        launch("inherited", AWS, model=BEDROCK),
        launch("the region configured", {**AWS, "AWS_REGION": "us-east-1"}, _provider("amazon-bedrock", region="eu-west-1"), model=BEDROCK)),
    account("AWS keys in Virginia", "amazon-bedrock",
        launch("inherited", {**AWS, "AWS_REGION": "us-east-1"}, model=BEDROCK),
        launch("where nobody says where", {name: value for name, value in AWS.items() if name != "AWS_REGION"}, model=BEDROCK)),
    account("AWS keys at an endpoint of one's own", "gateway:vpce.corp.example",
        launch("configured", AWS, _provider("amazon-bedrock", endpoint="https://vpce.corp.example"), model=BEDROCK)),
    account("the bearer token of Bedrock", "amazon-bedrock",
        launch("inherited", {**AWS, "AWS_BEARER_TOKEN_BEDROCK": KEY}, model=BEDROCK),
        launch("it beats the login", {**AWS, "AWS_BEARER_TOKEN_BEDROCK": KEY}, _login("amazon-bedrock"), model=BEDROCK)),
    account("the login at Bedrock", "amazon-bedrock",
        launch("it beats keys", AWS, _login("amazon-bedrock"), model=BEDROCK)),
    account("the AWS profile of the team", "amazon-bedrock",
        launch("inherited", {"AWS_REGION": "eu-west-1", "AWS_PROFILE": "team"}, model=BEDROCK),
        launch("configured", {"AWS_REGION": "eu-west-1"}, _provider("amazon-bedrock", profile="team"), model=BEDROCK),
        launch("with keys beside it, which it beats", {**AWS, "AWS_PROFILE": "team"}, model=BEDROCK)),
    account("a profile of that name in another AWS file", "amazon-bedrock",
        launch("inherited", {"AWS_REGION": "eu-west-1", "AWS_PROFILE": "team", "AWS_SHARED_CREDENTIALS_FILE": "{home}/customer-aws"},
               model=BEDROCK)),
)  # fmt: skip

UNPROVABLE: Final = {
    "anthropic": (
        launch("a literal key", model=CLAUDE, env={"ANTHROPIC_API_KEY": KEY}),
        launch("the same literal key again", id="q", model=CLAUDE, env={"ANTHROPIC_API_KEY": KEY}),
        launch("not logged in", model=CLAUDE),
        launch("a literal behind a configured name", {}, _provider("anthropic", **TEAM_OPTION), model=CLAUDE, env={"TEAM_KEY": KEY}),
        launch("half a key in the configuration", TEAM_HOST, _provider("anthropic", apiKey="x-{env:TEAM_KEY}"), model=CLAUDE),
        launch("a literal token beside the key", HOST, _provider("anthropic", authToken=KEY), model=CLAUDE),
        launch("a token in a file beside the key", HOST, _provider("anthropic", authToken="{file:~/t}"), model=CLAUDE),
        launch("a configured key and a plan that is logged in", TEAM_HOST,
               {**_provider("anthropic", **TEAM_OPTION), **_login("anthropic", "oauth")}, model=CLAUDE),
        launch("broken login", {}, {AUTH: "{"}, model=CLAUDE)),
    "openai": (
        launch("an organisation", OPENAI_HOST, _provider("openai", organization="org-a"), model=GPT),
        launch("a project", OPENAI_HOST, _provider("openai", project="proj-a"), model=GPT),
        launch("a project that is not set", OPENAI_HOST, _provider("openai", project="{env:PROJ}"), model=GPT),
        launch("a literal of the profile as project", OPENAI_HOST, _provider("openai", project="{env:PROJ}"), model=GPT, env={"PROJ": "a"}),
        launch("an organisation in a header", OPENAI_HOST, _provider("openai", headers={"OpenAI-Organization": "org-a"}), model=GPT),
        launch("an organisation in a header of the model's", OPENAI_HOST, {GLOBAL: json.dumps({"provider": {"openai": {"models": {
               "gpt-5.5": {"headers": {"OpenAI-Organization": "org-a"}}}}}})}, model=GPT)),
    "gateway:llm.corp.example": (
        launch("a password in the address", CORP_HOST, _corp("https://user:secret@llm.corp.example/v1"), model=CORP_MODEL),),
    "gateway:llm.corp.example/openai": (
        launch("a key in the address", CORP_HOST, _corp(f"{CORP}?key={KEY}"), model=CORP_MODEL),
        launch("a header of one's own", CORP_HOST, _provider("corp", baseURL=CORP, headers={"Authorization": KEY}), model=CORP_MODEL),
        launch("Azure's key", CORP_HOST, _provider(
               "corp", baseURL=CORP, apiKey="{env:CORP_KEY}", headers={"Ocp-Apim-Subscription-Key": KEY}), model=CORP_MODEL),
        launch("a tenant in the query", CORP_HOST, _provider(
               "corp", baseURL=CORP, apiKey="{env:CORP_KEY}", queryParams={"tenant": "a"}), model=CORP_MODEL),
        launch("the company's key is missing", {}, _corp(), model=CORP_MODEL)),
    "amazon-bedrock": (
        launch("credentials of the instance", {"AWS_REGION": "eu-west-1"}, model=BEDROCK),),
    None: (
        launch("broken configuration", HOST, {GLOBAL: "{"}, model=CLAUDE),
        launch("broken configuration of the project", HOST, {PROJECT: "[]"}, model=CLAUDE),
        launch("no model", HOST),
        launch("an organisation's server", HOST, _login("https://opencode.corp.example", "wellknown"), model=CLAUDE),
        launch("a provider that is not configured", HOST, model="nope/m")),
}  # fmt: skip

OPENCODE: Final[list[Row]] = rows("opencode", ACCOUNTS, UNPROVABLE)

"""Whose credential a launch will use, and at which service (R-CIR-1, R-CIR-3). In the order in which Claude looks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from kandev_routing_claude.launch import listed
from kandev_routing_claude.settings import Settings, read_settings
from kandev_routing_sdk.spec import (
    CredentialBindingDescriptor,
    FoundCredential,
    LaunchRequest,
    carries_login,
    home_of,
    host_variable,
    place_of,
    upstream_of,
)

VENDOR_HOST: Final = "api.anthropic.com"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_OTHER_CLOUDS: Final[Mapping[str, str | None]] = {
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "anthropic-aws",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "anthropic-google-cloud",
    "CLAUDE_CODE_USE_MANTLE": "mantle",
    "CLAUDE_CODE_USE_GATEWAY": None,
}
"""Switches of services whose credentials are not followed: nothing is proven of whose they are."""
PROVIDERS: Final = frozenset(
    {"anthropic", "amazon-bedrock", "google-vertex", "microsoft-foundry", *filter(None, _OTHER_CLOUDS.values())}
)
"""All services that are known by name."""
_NOT_FOLLOWED: Final = (
    "ANTHROPIC_FEDERATION_RULE_ID",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
    "ANTHROPIC_PROFILE",
    "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    "CLAUDE_CODE_GATEWAY_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
)
"""Other ways to sign in at the Anthropic API: with one of them it is not known whose credential is used."""
_OWN: Final = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_BETAS", "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_CUSTOM_MODEL_OPTION*", "ANTHROPIC_DEFAULT_*_MODEL*", "ANTHROPIC_LOG", "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL*", "API_TIMEOUT_MS", "BASH_*_LENGTH", "BASH_*_TIMEOUT_MS", "CLAUDE_*_TIMEOUT_MS",
    "CLAUDE_AUTOCOMPACT_*", "CLAUDE_BASH_*", "CLAUDE_CODE_*", "CLAUDE_CONFIG_DIR", "DISABLE_*", "ENABLE_TOOL_SEARCH",
    "MAX_MCP_OUTPUT_TOKENS", "MAX_THINKING_TOKENS", "MCP_*TIMEOUT", "SLASH_COMMAND_*", "TASK_MAX_OUTPUT_LENGTH",
    "USE_BUILTIN_RIPGREP",
)  # fmt: skip
"""Name patterns of Claude's own variables. Any other one that a profile sets may be meant for the helper."""
_BASE_URLS: Final[Mapping[str, str]] = {"bedrock": "ANTHROPIC_BEDROCK_BASE_URL", "vertex": "ANTHROPIC_VERTEX_BASE_URL"}


@dataclass(frozen=True, slots=True)
class Resolved:
    """What could be proven about a launch."""

    provider_id: str | None
    descriptor: CredentialBindingDescriptor | None
    model_id: str | None
    default_mode: str | None = None
    """The mode that Claude's settings files choose."""


KINDS: Final[Mapping[str, frozenset[str]]] = {
    "api_key": frozenset({"api_key", "gateway"}),
    "auth_token": frozenset({"api_key", "gateway"}),
    "oauth": frozenset({"account"}),
    "bearer_token": frozenset({"external"}),
    "aws_keys": frozenset({"external"}),
    "aws_profile": frozenset({"external"}),
    "google_credentials": frozenset({"external"}),
    "foundry_key": frozenset({"external"}),
}
"""How claude-agent-acp may say that it signs in (``_auth/status_update``) with a credential of each mechanism. It says "not logged
in" of a token in the environment, which contradicts nothing."""


class _Launch:
    """The environment as Claude will see it: the child's, then what its settings files set."""

    def __init__(self, request: LaunchRequest, environ: Mapping[str, str]) -> None:
        self.request = request
        self._given = environ
        self.home = home_of(environ)
        self.config_dir = request.cwd / (environ.get("CLAUDE_CONFIG_DIR") or self.home / ".claude")
        arguments = (*(request.profile.command or ())[1:], *request.profile.args)
        self.bare = "--bare" in arguments
        self.settings: Settings = read_settings(
            self.config_dir, request.cwd, arguments, sources=listed(request.profile.options.get("setting_sources"))
        )
        self.environ = {**environ, **self.settings.env}

    def get(self, name: str) -> str:
        """The variable's value, or nothing."""
        return self.environ.get(name, "").strip()

    def on(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.get(name).lower() in _TRUE

    def source(self, name: str) -> tuple[str, str] | None:
        """Return where the variable's value is kept; None for a literal, which is nowhere but in the profile."""
        if name in self.settings.env_source:
            file = self.settings.env_source[name]
            return None if file is None else ("settings", f"{self.place(file)}#env.{name}")
        held = host_variable(self.request.profile, name)
        return None if held is None else ("environment", held)

    def place(self, path: str | Path) -> str:
        """Return a path as a locator."""
        return place_of(path)


def resolve(request: LaunchRequest, environ: Mapping[str, str]) -> Resolved:
    """Resolve provider, credential and model of a launch; parts that cannot be proven are None."""
    launch = _Launch(request, environ)
    model = request.profile.model or launch.get("ANTHROPIC_MODEL") or launch.settings.model or None
    if not launch.settings.readable:
        return Resolved(None, None, model, launch.settings.default_mode)
    other = next((name for name in _OTHER_CLOUDS if launch.on(name)), None)
    if other is not None:
        provider, scope, credential = _OTHER_CLOUDS[other], None, None
    elif launch.on("CLAUDE_CODE_USE_BEDROCK"):
        provider, scope, credential = _bedrock(launch)
    elif launch.on("CLAUDE_CODE_USE_FOUNDRY"):
        provider, scope, credential = _foundry(launch)
    elif launch.on("CLAUDE_CODE_USE_VERTEX"):
        provider, scope, credential = _vertex(launch)
    else:
        provider, scope, credential = _messages(launch)
    return Resolved(
        provider, credential.descriptor(request, scope) if credential else None, model, launch.settings.default_mode
    )


_Found = tuple[str | None, str | None, FoundCredential | None]


def _messages(launch: _Launch) -> _Found:
    """The Anthropic API, or a gateway that speaks it."""
    if launch.get("ANTHROPIC_UNIX_SOCKET"):
        return None, None, None  # somebody else's process speaks for it
    provider, scope, trusted = _at(launch, "ANTHROPIC_BASE_URL", "anthropic", VENDOR_HOST)
    if any(launch.get(name) for name in _NOT_FOLLOWED):
        return provider, scope, None
    headers = [line.partition(":")[0] for line in launch.get("ANTHROPIC_CUSTOM_HEADERS").splitlines()]
    if not trusted or any(map(carries_login, headers)):
        return provider, scope, None  # the address or a header of the user's own carries the credential
    return provider, scope, _messages_credential(launch)


def _messages_credential(launch: _Launch) -> FoundCredential | None:
    named = [("ANTHROPIC_AUTH_TOKEN", "auth_token"), ("ANTHROPIC_API_KEY", "api_key")]
    for name, mechanism in named:
        if (name != "ANTHROPIC_AUTH_TOKEN" or not launch.bare) and launch.get(name):
            return _from_variable(launch, name, mechanism)
    if launch.settings.api_key_helper is not None:
        return _helper(launch, launch.settings.api_key_helper)
    if launch.bare:
        return None
    if launch.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return _from_variable(launch, "CLAUDE_CODE_OAUTH_TOKEN", "oauth")
    if sys.platform == "darwin" or (launch.config_dir / ".credentials.json").is_file():
        return FoundCredential("oauth", "login_store", launch.place(launch.config_dir))
    return None


def _helper(launch: _Launch, file: str) -> FoundCredential | None:
    """What the helper that ``file`` names will print; nothing is proven where other variables may make it print another key."""
    elsewhere = [name for name, source in launch.settings.env_source.items() if source != file]
    given = (*launch.request.profile.env, *elsewhere)
    known = all(any(fnmatchcase(name, pattern) for pattern in _OWN) for name in given)
    return FoundCredential("api_key", "helper", launch.place(file)) if file and known else None


def _bedrock(launch: _Launch) -> _Found:
    region = launch.get("AWS_REGION") or launch.get("AWS_DEFAULT_REGION")
    provider, scope, trusted = _at(
        launch, _BASE_URLS["bedrock"], "amazon-bedrock", f"region {region}" if region else None
    )
    credential = None
    if launch.get("AWS_BEARER_TOKEN_BEDROCK"):
        credential = _from_variable(launch, "AWS_BEARER_TOKEN_BEDROCK", "bearer_token")
    elif profile := launch.get("AWS_PROFILE"):  # it beats keys in the environment
        files = [launch.get(name) for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")]
        places = [launch.place(file) for file in files if file] or [launch.place(launch.home / ".aws")]
        credential = FoundCredential("aws_profile", "aws_config", f"{' '.join(places)} profile {profile}")
    elif launch.get("AWS_ACCESS_KEY_ID") and launch.get("AWS_SECRET_ACCESS_KEY"):
        credential = _from_variable(launch, "AWS_SECRET_ACCESS_KEY", "aws_keys")
    trusted = trusted and not launch.on("CLAUDE_CODE_SKIP_BEDROCK_AUTH")
    return provider, scope, credential if trusted else None


def _vertex(launch: _Launch) -> _Found:
    region, project = launch.get("CLOUD_ML_REGION"), launch.get("ANTHROPIC_VERTEX_PROJECT_ID")
    scope_of = f"region {region} project {project}" if region and project else None
    provider, scope, trusted = _at(launch, _BASE_URLS["vertex"], "google-vertex", scope_of)
    if any(name.startswith("VERTEX_REGION_") for name in launch.environ):
        return provider, None, None  # one region for each model: no single scope
    file = launch.get("GOOGLE_APPLICATION_CREDENTIALS")
    default = launch.home / ".config" / "gcloud" / "application_default_credentials.json"
    if not file and default.is_file():
        file = str(default)
    credential = FoundCredential("google_credentials", "file", launch.place(file)) if file else None
    trusted = trusted and not launch.on("CLAUDE_CODE_SKIP_VERTEX_AUTH")
    return provider, scope, credential if trusted else None


def _foundry(launch: _Launch) -> _Found:
    resource = launch.get("ANTHROPIC_FOUNDRY_RESOURCE")
    provider, scope, trusted = _at(
        launch, "ANTHROPIC_FOUNDRY_BASE_URL", "microsoft-foundry", f"resource {resource}" if resource else None
    )
    key = "ANTHROPIC_FOUNDRY_API_KEY"
    credential = _from_variable(launch, key, "foundry_key") if launch.get(key) else None
    trusted = trusted and not (launch.on("CLAUDE_CODE_SKIP_FOUNDRY_AUTH") or launch.get("ANTHROPIC_FOUNDRY_AUTH_TOKEN"))
    return provider, scope, credential if trusted else None


def _at(launch: _Launch, name: str, vendor: str, scope: str | None) -> tuple[str | None, str | None, bool]:
    """Return provider, scope and whether they can be trusted, given the variable that may name another address."""
    url = launch.get(name)
    if not url:
        return vendor, scope, True
    upstream = upstream_of(url)
    if upstream is None:
        return None, None, False
    if vendor == "anthropic" and upstream.address == VENDOR_HOST:
        return vendor, scope, not upstream.has_credentials
    return upstream.provider_id, upstream.address, not upstream.has_credentials


def _from_variable(launch: _Launch, name: str, mechanism: str) -> FoundCredential | None:
    source = launch.source(name)
    return None if source is None else FoundCredential(mechanism, *source)

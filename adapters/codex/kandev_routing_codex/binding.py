"""Whose credential a launch will use, and at which service (R-CIR-1, R-CIR-3)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kandev_routing_codex.config import Config, Table
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

OPENAI: Final = "openai"
BEDROCK: Final = "amazon-bedrock"
PROVIDERS: Final = frozenset({OPENAI, BEDROCK})
"""All services that are known by name."""
VENDOR_HOSTS: Final = frozenset({"api.openai.com", "chatgpt.com"})
LOCAL_PROVIDERS: Final = frozenset({"ollama", "ollama-chat", "lmstudio"})
API_KEY: Final = "CODEX_API_KEY"
ACCESS_TOKEN: Final = "CODEX_ACCESS_TOKEN"
BUILT_IN: Final = LOCAL_PROVIDERS | PROVIDERS
_ACCOUNT_HEADERS: Final[Table] = MappingProxyType(
    {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"}
)
"""``env_http_headers`` of the built-in provider."""
_OWN: Final = ("CODEX_*", "MODEL_PROVIDER", "NO_BROWSER", "RUST_BACKTRACE", "RUST_LOG")
"""Name patterns of the agent's own variables. Any other one that a profile sets may be meant for a helper."""
_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Resolved:
    """What could be proven about a launch."""

    provider_id: str | None
    descriptor: CredentialBindingDescriptor | None


def codex_home(environ: Mapping[str, str], cwd: Path) -> Path:
    """Return where Codex keeps its configuration and login; ``cwd``: where it will work."""
    return cwd / (environ.get("CODEX_HOME") or home_of(environ) / ".codex")


def named_variables(config: Config, provider: str) -> Iterator[str]:
    """Return the variables that the configuration names, to be passed on to Codex and to nobody else."""
    entry = config.table("model_providers", provider)
    servers = config.table("mcp_servers").values()
    for table, keys in ((entry, ("env_key",)), *((server, ("bearer_token_env_var",)) for server in servers)):
        if not isinstance(table, Mapping):
            continue
        headers, listed = table.get("env_http_headers"), table.get("env_vars")
        values = [table.get(key) for key in keys]
        values += [*headers.values()] if isinstance(headers, Mapping) else []
        values += listed if isinstance(listed, list) else []
        yield from (value for value in values if isinstance(value, str))


def resolve(
    request: LaunchRequest,
    environ: Mapping[str, str],
    config: Config,
    provider: str | None,
    unread: Collection[str] = (),
) -> Resolved:
    """Resolve provider and credential of a launch; parts that cannot be proven are None.

    ``unread``: variables that Codex would sign in with, but this agent does not look at.
    """
    if not config.readable or provider is None or provider in LOCAL_PROVIDERS:
        return Resolved(None, None)
    launch = _Launch(request, environ, config, provider, unread)
    if provider == BEDROCK:
        return Resolved(BEDROCK, None)
    if provider not in BUILT_IN and not launch.entry:
        return Resolved(None, None)  # Codex will refuse a provider that is not configured
    provider_id, scope, trusted = launch.service()
    credential = launch.credential() if trusted else None
    return Resolved(provider_id, credential.descriptor(request, scope) if credential else None)


class _Launch:
    """One launch, as Codex will see it."""

    def __init__(
        self,
        request: LaunchRequest,
        environ: Mapping[str, str],
        config: Config,
        provider: str,
        unread: Collection[str],
    ) -> None:
        self.request = request
        self.unread = unread
        self.environ = environ
        self.config = config
        self.home = codex_home(environ, request.cwd)
        self.provider = provider
        self.built_in = provider == OPENAI
        self.entry: Table = {} if self.built_in else config.table("model_providers", provider)
        self.openai_login = self.built_in or self.entry.get("requires_openai_auth") is True
        self.auth = _auth_mode(self.home / "auth.json")

    def service(self) -> tuple[str | None, str | None, bool]:
        """Return provider, scope and whether they can be trusted."""
        url = self.config.text("openai_base_url") if self.built_in else self.entry.get("base_url")
        if not url:
            return OPENAI, "chatgpt.com" if self._signed_in_to_chatgpt() else "api.openai.com", True
        upstream = upstream_of(str(url))
        if upstream is None:
            return None, None, False
        host = upstream.address.partition("/")[0]
        if host in VENDOR_HOSTS:
            return OPENAI, host, not upstream.has_credentials
        return upstream.provider_id, upstream.address, not upstream.has_credentials

    def credential(self) -> FoundCredential | None:
        """Return what Codex will sign in with, and the variables that choose the account it is used for."""
        if _literal_login(self.entry.get("http_headers")) or _literal_login(self.entry.get("query_params")):
            return None
        if self.entry.get("experimental_bearer_token"):
            return None  # a literal in a file that also says other things
        places = {header: self._source(name) for header, name in self._login_headers().items()}
        if None in places.values():
            return None
        headers = [f"{header} {place}" for header, place in sorted(places.items())]
        if headers and not self._signs_in_by_itself():
            return FoundCredential("header", "environment", _with(headers))
        found = self._signed_in_by_itself()
        return None if found is None else replace(found, locator=_with([found.locator, *headers]))

    def _login_headers(self) -> dict[str, str]:
        """Headers filled from a variable that is set: those that sign in, or choose an organisation, a project, an account."""
        headers = self.entry.get("env_http_headers")
        if self.built_in:
            headers = {} if self._signed_in_to_chatgpt() else _ACCOUNT_HEADERS
        if not isinstance(headers, Mapping):
            return {}
        return {
            str(header).lower(): str(name)
            for header, name in headers.items()
            if carries_login(str(header)) and self.environ.get(str(name))
        }

    def _signs_in_by_itself(self) -> bool:
        return self.openai_login or isinstance(self.entry.get("auth"), Mapping) or bool(self.entry.get("env_key"))

    def _signed_in_by_itself(self) -> FoundCredential | None:
        if isinstance(self.entry.get("auth"), Mapping):
            return self._helper()
        if key := self.entry.get("env_key"):
            return self._variable(str(key), "api_key")
        return self._login() if self.openai_login else None

    def _helper(self) -> FoundCredential | None:
        """What the provider's helper prints; unproven where other variables of the profile may make it print another token."""
        path = ("model_providers", self.provider)
        file = self.config.holder(*path, "auth")
        own = self.request.profile.env
        if file is None or not all(any(fnmatchcase(n, p) for p in _OWN) and not carries_login(n) for n in own):
            return None
        return FoundCredential("bearer_token", "helper", f"{place_of(file)}#{'.'.join(path)}")

    def _login(self) -> FoundCredential | None:
        for name, mechanism in ((API_KEY, "api_key"), (ACCESS_TOKEN, "access_token")):
            if self.environ.get(name) and name not in self.unread:
                return self._variable(name, mechanism)
        store = self.config.text("cli_auth_credentials_store")
        if store in {"keyring", "auto"}:
            return None if store == "auto" else FoundCredential("login", "keyring", place_of(self.home))
        return None if self.auth is None else FoundCredential(self.auth, "file", place_of(self.home / "auth.json"))

    def _signed_in_to_chatgpt(self) -> bool:
        return (
            self.openai_login
            and not (self.environ.get(API_KEY) and API_KEY not in self.unread)
            and self.auth == "chatgpt"
        )

    def _variable(self, name: str, mechanism: str) -> FoundCredential | None:
        place = self._source(name)
        return FoundCredential(mechanism, "environment", place) if place and self.environ.get(name) else None

    def _source(self, name: str) -> str | None:
        """Return which variable of the host holds the value; None for a literal, which is only in the profile."""
        return host_variable(self.request.profile, name)


def _with(parts: Sequence[str]) -> str:
    return " with ".join(parts)


def _literal_login(named: Any) -> bool:  # noqa: ANN401  # a value of TOML
    return isinstance(named, Mapping) and any(carries_login(str(name)) for name in named)


def _auth_mode(path: Path) -> str | None:
    """Return how the login file signs in: its mode only, no token and no id."""
    try:
        document = json.loads(path.read_text("utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    mode = document.get("auth_mode")
    if isinstance(mode, str):
        return {"apikey": "api_key", "chatgpt": "chatgpt"}.get(mode.lower())
    if document.get("OPENAI_API_KEY"):
        return "api_key"
    return "chatgpt" if document.get("tokens") else None

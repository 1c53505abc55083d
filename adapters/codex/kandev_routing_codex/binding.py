"""Whose credential a launch will use, and at which service (R-CIR-1, R-CIR-3)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kandev_routing_codex.config import Config, Table
from kandev_routing_sdk.spec import CredentialBindingDescriptor, LaunchRequest, home_of, place_of, upstream_of

OPENAI: Final = "openai"
VENDOR_HOSTS: Final = frozenset({"api.openai.com", "chatgpt.com"})
LOCAL_PROVIDERS: Final = frozenset({"ollama", "ollama-chat", "lmstudio"})
API_KEY: Final = "CODEX_API_KEY"
ACCESS_TOKEN: Final = "CODEX_ACCESS_TOKEN"
BUILT_IN: Final = LOCAL_PROVIDERS | {OPENAI, "amazon-bedrock"}
_ACCOUNT_VARIABLES: Final = ("OPENAI_ORGANIZATION", "OPENAI_PROJECT")
_HEADER_WORDS: Final = ("authorization", "api-key", "cookie", "token")
_QUERY_WORDS: Final = ("key", "token", "auth", "secret", "sig")
_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Resolved:
    """What could be proven about a launch."""

    provider_id: str | None
    descriptor: CredentialBindingDescriptor | None


@dataclass(frozen=True, slots=True)
class _Credential:
    mechanism: str
    source_kind: str
    locator: str


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
    if provider == "amazon-bedrock":
        return Resolved("amazon-bedrock", None)
    if provider not in BUILT_IN and not launch.entry:
        return Resolved(None, None)  # Codex will refuse a provider that is not configured
    provider_id, scope, trusted = launch.service()
    return Resolved(provider_id, launch.descriptor(launch.credential(), scope) if trusted else None)


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

    def credential(self) -> _Credential | None:
        """Return what Codex will sign in with."""
        if _carries_login(self.entry.get("http_headers")) or self.entry.get("experimental_bearer_token"):
            return None  # a literal in a file that also says other things
        if _carries_login(self.entry.get("query_params"), _QUERY_WORDS):
            return None
        headers = self.entry.get("env_http_headers")
        if _carries_login(headers) and isinstance(headers, Mapping):
            names = sorted(str(value) for name, value in headers.items() if _carries_login({name: value}))
            return self._variable(names[0], "header") if len(names) == 1 else None
        if isinstance(self.entry.get("auth"), Mapping):
            return _Credential("bearer_token", "helper", self._place(self.home / "config.toml"))
        if key := self.entry.get("env_key"):
            return self._variable(str(key), "api_key")
        return self._login() if self.openai_login else None

    def _login(self) -> _Credential | None:
        for name, mechanism in ((API_KEY, "api_key"), (ACCESS_TOKEN, "access_token")):
            if self.environ.get(name) and name not in self.unread:
                return self._variable(name, mechanism)
        store = self.config.text("cli_auth_credentials_store")
        if store in {"keyring", "auto"}:
            return None if store == "auto" else _Credential("login", "keyring", self._place(self.home))
        return None if self.auth is None else _Credential(self.auth, "file", self._place(self.home / "auth.json"))

    def _signed_in_to_chatgpt(self) -> bool:
        return (
            self.openai_login
            and not (self.environ.get(API_KEY) and API_KEY not in self.unread)
            and self.auth == "chatgpt"
        )

    def _variable(self, name: str, mechanism: str) -> _Credential | None:
        """A variable and, for the vendor's own service, those that choose the account it is used for."""
        names = [name]
        if self.built_in:
            names += [other for other in _ACCOUNT_VARIABLES if self.environ.get(other)]
        places = [self._source(each) for each in names]
        if any(place is None for place in places) or not self.environ.get(name):
            return None
        return _Credential(mechanism, "environment", " with ".join(place for place in places if place))

    def _source(self, name: str) -> str | None:
        """Return which variable of the host holds the value; None for a literal, which is only in the profile."""
        own = self.request.profile.env.get(name)
        if isinstance(own, str):
            return None
        return name if own is None else own.secret.removeprefix("env:")

    def _place(self, path: Path) -> str:
        return place_of(path)

    def descriptor(self, credential: _Credential | None, scope: str | None) -> CredentialBindingDescriptor | None:
        """Return the descriptor, if every part of it is proven."""
        if credential is None:
            return None
        return CredentialBindingDescriptor.if_provable(
            family="codex",
            mechanism=credential.mechanism,
            source_kind=credential.source_kind,
            locator=credential.locator,
            executor_namespace=self.request.executor_namespace,
            authorisation_scope=scope,
        )


def _carries_login(named: Any, words: Collection[str] = _HEADER_WORDS) -> bool:  # noqa: ANN401
    return isinstance(named, Mapping) and any(word in str(name).lower() for name in named for word in words)


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

"""Whose credential a launch will use, and at which service (R-CIR-1, R-CIR-3). In the order in which OpenCode looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kandev_routing_opencode.config import Config, Setting, substituted
from kandev_routing_opencode.providers import KNOWN, VENDORS, vendor_of
from kandev_routing_sdk.spec import (
    CredentialBindingDescriptor,
    FoundCredential,
    JsonValue,
    LaunchRequest,
    as_object,
    as_text,
    carries_login,
    home_of,
    host_variable,
    place_of,
    upstream_of,
)

AUTH_CONTENT: Final = "OPENCODE_AUTH_CONTENT"
_MAX_BYTES: Final = 1024 * 1024
_PROVIDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FOLLOWED: Final = frozenset({"apiKey", "headers", "queryParams"})
"""Options that are looked at one by one."""
_SIGN_INS: Final[Mapping[str, str]] = {"api": "api_key", "oauth": "oauth"}
_CHATGPT: Final = "chatgpt.com"
_BEARER: Final = "AWS_BEARER_TOKEN_BEDROCK"
_DEFAULT_REGION: Final = "us-east-1"


@dataclass(frozen=True, slots=True)
class Resolved:
    """What could be proven about a launch."""

    provider_id: str | None = None
    descriptor: CredentialBindingDescriptor | None = None


@dataclass(frozen=True, slots=True)
class _Service:
    provider_id: str | None = None
    scope: str | None = None
    trusted: bool = False
    """Whether nothing in the address signs in by itself."""


def resolve(request: LaunchRequest, environ: Mapping[str, str], config: Config, model: str | None) -> Resolved:
    """Resolve provider and credential of a launch; parts that cannot be proven are None.

    Args:
        request: the launch.
        environ: the child's environment.
        config: OpenCode's configuration.
        model: the ``provider/model`` that will be used.
    """
    provider = (model or "").partition("/")[0]
    if not config.readable or not _PROVIDER.fullmatch(provider):
        return Resolved()
    launch = _Launch(request, environ, config, provider, (model or "").partition("/")[2])
    if launch.remote:
        return Resolved()  # an organisation's server says the rest
    service = launch.service()
    credential = launch.credential() if service.trusted and service.provider_id else None
    return Resolved(service.provider_id, credential.descriptor(request, service.scope) if credential else None)


def auth_file(environ: Mapping[str, str]) -> Path:
    """Return where OpenCode keeps its logins."""
    return Path(environ.get("XDG_DATA_HOME") or home_of(environ) / ".local" / "share") / "opencode" / "auth.json"


class _Launch:
    """One launch, as OpenCode will see it."""

    def __init__(
        self, request: LaunchRequest, environ: Mapping[str, str], config: Config, provider: str, model: str
    ) -> None:
        self.request = request
        self.environ = environ
        self.config = config
        self.provider = provider
        self.entry = config.table("provider", provider)
        self.vendor = vendor_of(provider, as_text(self.entry.get("npm")))
        """The provider of OpenCode's own list that it is, by its name or by its package alone."""
        self.model = as_object(as_object(self.entry.get("models")).get(model))
        self.auth_file = auth_file(environ)
        self.inline_logins = _object(environ.get(AUTH_CONTENT, "")) is not None
        logins = _logins(self.auth_file, environ.get(AUTH_CONTENT))
        self.remote = any(kind == "wellknown" for kind in logins.values())
        self.sign_in = logins.get(provider)
        """How the login store signs in to the provider; None when it does not."""

    # Whom it talks to ---------------------------------------------------------------------------------------------------

    def service(self) -> _Service:
        """Return the service, its scope and whether they can be trusted."""
        if "provider" in self.model:
            return _Service()
        address = self._address()
        if address is not None:
            return self._at(substituted(address, self.environ))
        if self.provider == "amazon-bedrock":
            region = self._option("region") or self.environ.get("AWS_REGION") or _DEFAULT_REGION
            return _Service(self.provider, f"region {region}", trusted=True)
        if self.vendor is None:
            return _Service()
        chatgpt = self.vendor == "openai" and self.sign_in == "oauth"
        return _Service(self.vendor, _CHATGPT if chatgpt else KNOWN[self.vendor].host or self.vendor, trusted=True)

    def _address(self) -> str | None:
        endpoint = (("options", "endpoint"),) if self.provider == "amazon-bedrock" else ()
        for path in (*endpoint, ("options", "baseURL"), ("api",)):
            setting = self.config.setting("provider", self.provider, *path)
            if setting is not None and setting.value:
                return setting.value
        vendor = KNOWN.get(self.vendor or "")
        return self.environ.get(vendor.base_url) or None if vendor and vendor.base_url else None

    def _at(self, url: str) -> _Service:
        upstream = upstream_of(url)
        if upstream is None:
            return _Service()
        if vendor := VENDORS.get(upstream.address):
            return _Service(vendor, upstream.address, trusted=not upstream.has_credentials)
        return _Service(upstream.provider_id, upstream.address, trusted=not upstream.has_credentials)

    # As whom ------------------------------------------------------------------------------------------------------------

    def credential(self) -> FoundCredential | None:
        """Return what OpenCode will sign in with, and the variables that choose the account it is used for."""
        found = self._signed_in()
        for name, value in sorted(self._login_options()):
            reference = Setting(value, None).reference
            place = self._variable(reference[1], "") if reference and reference[0] == "env" else None
            if found is None or place is None:
                return None
            found = replace(found, locator=f"{found.locator} with {name} {place.locator}")
        return found

    def _login_options(self) -> Iterator[tuple[str, str]]:
        """Return the options, headers and query parameters that sign in beside the key, or choose an account."""
        options = as_object(self.entry.get("options"))
        headers = (options, self.model, as_object(self.model.get("options")))
        named = [(name, value) for name, value in options.items() if name not in _FOLLOWED]
        for table in (options.get("queryParams"), *(each.get("headers") for each in headers)):
            named += [(name.lower(), value) for name, value in as_object(table).items()]
        for name, value in named:
            if carries_login(name) and value is not None and not isinstance(value, (bool, int, float)):
                yield name, as_text(value)

    def _signed_in(self) -> FoundCredential | None:
        """The configured key, else the login, else the variable."""
        key = self.config.setting("provider", self.provider, "options", "apiKey")
        if key is not None:
            return None if self.sign_in == "oauth" else self._configured(key)
        if "apiKey" in as_object(self.entry.get("options")):
            return None  # no text
        if self.sign_in is not None and not (self.provider == "amazon-bedrock" and self.environ.get(_BEARER)):
            return self._login(_SIGN_INS.get(self.sign_in))
        return self._from_environment()

    def _configured(self, key: Setting) -> FoundCredential | None:
        if (reference := key.reference) is not None:
            kind, name = reference
            if kind == "env":
                return self._variable(name, "api_key")
            path = home_of(self.environ) / name[2:] if name.startswith("~/") else Path(name)
            base = key.path.parent if key.path else self.request.cwd
            return FoundCredential("api_key", "file", place_of(base / path))
        if not key.literal or not key.value or key.path is None:
            return None
        return FoundCredential("api_key", "config", f"{place_of(key.path)}#provider.{self.provider}")

    def _login(self, mechanism: str | None) -> FoundCredential | None:
        if mechanism is None:
            return None
        if not self.inline_logins:
            return FoundCredential(mechanism, "login_store", f"{place_of(self.auth_file)}#{self.provider}")
        held = self._variable(AUTH_CONTENT, mechanism)
        return None if held is None else FoundCredential(mechanism, "environment", f"{held.locator}#{self.provider}")

    def _from_environment(self) -> FoundCredential | None:
        if self.provider == "amazon-bedrock":
            return self._bedrock()
        listed = self.entry.get("env")
        if isinstance(listed, list):
            names = [name for name in listed if isinstance(name, str)]
            return self._variable(names[0], "api_key") if len(names) == 1 else None
        known = KNOWN.get(self.vendor or "")
        return self._variable(known.variable, "api_key") if known and known.variable else None

    def _bedrock(self) -> FoundCredential | None:
        """The configuration's profile beats the variable's, and a profile beats keys, as the vendor's own client has it."""
        if self.environ.get(_BEARER):
            return self._variable(_BEARER, "bearer_token")
        if profile := self._option("profile") or self.environ.get("AWS_PROFILE"):
            files = [self.environ.get(name) for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")]
            places = [place_of(file) for file in files if file] or [place_of(home_of(self.environ) / ".aws")]
            return FoundCredential("aws_profile", "aws_config", f"{' '.join(places)} profile {profile}")
        if self.environ.get("AWS_ACCESS_KEY_ID"):
            return self._variable("AWS_SECRET_ACCESS_KEY", "aws_keys")
        return None

    def _option(self, name: str) -> str:
        """Return an option of the provider's, or nothing."""
        setting = self.config.setting("provider", self.provider, "options", name)
        return substituted(setting.value, self.environ) if setting is not None else ""

    def _variable(self, name: str, mechanism: str) -> FoundCredential | None:
        """Return the variable of the host that holds the value; None for a literal, which is only in the profile."""
        held = host_variable(self.request.profile, name) if self.environ.get(name) else None
        return None if held is None else FoundCredential(mechanism, "environment", held)


def _logins(path: Path, content: str | None) -> dict[str, str]:
    """Return how the login store signs in to each provider: the kinds only, no key, no token and no id."""
    entries = _object(content) if content else None
    if entries is None:
        try:
            entries = _object(path.read_text("utf-8")) if path.stat().st_size <= _MAX_BYTES else None
        except (OSError, UnicodeDecodeError):
            entries = None
    return {name.rstrip("/"): as_text(as_object(entry).get("type")) for name, entry in (entries or {}).items()}


def _object(text: str) -> Mapping[str, JsonValue] | None:
    try:
        document: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None

"""Which service a base URL really addresses (R-CIR-1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[\w.-]*\w\.?|[0-9a-f:.]*:[0-9a-f:.]*")
"""A name, an IPv4 or an IPv6 address; ``urlsplit`` takes nearly anything for one."""
_PLAIN_SEGMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}")
_OPAQUE: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_-]{16,}")


@dataclass(frozen=True, slots=True)
class Upstream:
    """A service's address without anything secret in it."""

    address: str
    """``host[:port][/path]``, the port only if it is not the scheme's own."""
    has_credentials: bool
    """The URL itself carries a user, a password or a query (``?key=…``): then nothing else proves whose credential is used."""

    @property
    def provider_id(self) -> str:
        """``gateway:host[:port][/path]``: for every address that the adapter does not know to be the vendor's own."""
        return f"gateway:{self.address}"


def upstream_of(url: str) -> Upstream | None:
    """Return the service at a base URL; None when it has none, or none that can be named without risk.

    The path belongs to it, for one gateway serves several services by path; a version (``/v1``) at its end does not.
    """
    if "\\" in url:
        return None  # agents written in JavaScript read it as a slash: another host than Python finds
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or not _HOST.fullmatch(host) or parts.scheme not in _DEFAULT_PORTS:
        return None
    segments = [segment for segment in parts.path.split("/") if segment]
    if segments and re.fullmatch(r"v\d+", segments[-1]):
        segments.pop()
    if any(not _PLAIN_SEGMENT.fullmatch(s) or _OPAQUE.fullmatch(s) for s in segments):
        return None
    name = f"[{host}]" if ":" in host else host.rstrip(".")
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        name += f":{port}"
    return Upstream("/".join([name, *segments]), has_credentials=parts.username is not None or bool(parts.query))

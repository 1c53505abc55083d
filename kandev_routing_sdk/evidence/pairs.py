"""Secrets that stand beside their name, not after a sign: lists, attributes, tuples, credential files, commands (R-EVI-5)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.evidence.linear import START, Match
from kandev_routing_sdk.evidence.opaque import is_coded
from kandev_routing_sdk.evidence.secret_names import NAME_HINT, is_plain, names_secret

__all__ = [
    "ATTRIBUTE",
    "BARE_FIELD",
    "BARE_WORD",
    "COMMAND",
    "LISTED",
    "LOGIN",
    "ORACLE",
    "PASSFILE",
    "PHRASE",
    "PUTTY",
    "TUPLE",
    "hide_bare",
    "hide_field",
    "hide_login",
    "hide_oracle",
    "hide_passfile",
    "hide_paired",
    "hide_rest",
    "hide_tuple",
    "is_field_secret",
    "is_header_secret",
]

_SECRET: Final = "[redacted:secret]"
_USER: Final = "[redacted:user]"
_Q: Final = r"(?:\\*[\"']|&quot;|&#3[49];)"
_NAMED: Final = rf"(?P<name>[\w.-]*{NAME_HINT}[\w.-]*)"
_GRANTS: Final = frozenset({"access", "refresh"})
_FIELDS: Final = _GRANTS | {"key", "apikey"}
_SHORTEST: Final = 16
_HEADERS: Final = frozenset(
    {
        "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token", "cookie", "set-cookie",
        "token", "password",
    }
)  # fmt: skip

ATTRIBUTE: Final = (
    rf"(?i)(?P<before>{START}(?:key|name)={_Q}){_NAMED}(?P<sep>{_Q}[ \t]+value={_Q})"
    r"(?P<value>[^\"'<>&\\\[\r\n][^\"'<>&\\\r\n]*)"
)
"""RE2 source of ``<add key="ApiKey" value="…" />``."""
LISTED: Final = (
    rf"(?i)(?P<before>{_Q}(?:name|key){_Q}[ \t]*:[ \t]*{_Q}){_NAMED}"
    rf"(?P<sep>{_Q}[ \t]*,[ \t]*{_Q}value{_Q}[ \t]*:[ \t]*{_Q})(?P<value>[^\"'\\&\[\r\n][^\"'\\&\r\n]*)"
)
"""RE2 source of ``{"name": "Authorization", "value": "…"}``."""
TUPLE: Final = (
    rf"(?i)(?P<before>[(\[][ \t]*b?{_Q}){_NAMED}(?P<sep>{_Q}[ \t]*,[ \t]*b?{_Q})"
    r"(?P<value>[^\"'\\&\[\r\n][^\"'\\&\r\n]*)"
)
"""RE2 source of ``("x-api-key", "…")``: headers as pairs."""
BARE_FIELD: Final = (
    rf"(?i)(?P<before>{_Q})(?P<name>key|access|refresh|apikey)(?P<sep>{_Q}[ \t]*:[ \t]*{_Q})"
    r"(?P<value>[A-Za-z0-9+/=_.~-]{16,})"
)
"""RE2 source of a credential file's short names, which say nothing by themselves."""
BARE_WORD: Final = (
    rf"(?i)(?P<before>{START})(?P<name>token|secret|password|passphrase|credential|api[ _-]?key|access[ _-]?key)"
    r"(?P<sep>[ \t]+[\"'`(]?)(?P<value>[A-Za-z0-9+/=_.~-]{16,})"
)
"""RE2 source of ``API key … is invalid``: no sign, but nothing that reads like a word either."""
LOGIN: Final = (
    rf"(?i)({START}(?:machine[ \t]+[^\s\[]+|default)\s+(?:login|user)[ \t]+)([^\s]+)"
    r"(\s+(?:password|passwd)[ \t]+)([^\s]+)"
)
"""RE2 source of a line of ``.netrc``."""
PASSFILE: Final = r"((?:[\w.-]+|\*):(?:5432|5433|6432|\*):[^:\s]+:)([^:\s\[][^:\s]*):([^:\s\[][^\s\"'\\]*)"
"""RE2 source of a line of ``.pgpass``."""
ORACLE: Final = r"(?i)(jdbc:oracle:\w+:)[^\s/:@\[]+/[^\s@]+@"
COMMAND: Final = (
    rf"((?:{START}sshpass[ \t]+(?:-v[ \t]+)?-p"
    rf"|{START}(?:docker|podman|buildah|skopeo|helm registry)[ \t]+login\b[^\r\n|;&]{{0,120}}?[ \t]-p"
    r"|\bredis-cli\b[^\r\n|;&]{0,80}?[ \t]-a|\b(?:un)?zip\b[^\r\n|;&]{0,80}?[ \t]-P)[ \t]*[\"']?"
    r"|\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\r\n|;&]{0,120}?[ \t]-p[\"']?)[^\s\"'\\\[]+"
)
"""RE2 source of commands whose one-letter flag takes a password."""
PHRASE: Final = (
    r"(?i)((?:seed|recovery|mnemonic|backup|secret)[ _-]?(?:phrase|words?)?\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)"
    r"(?:[a-z]{3,8}[ ,]+){11,23}[a-z]{3,8}"
)
"""RE2 source of the words that a wallet is restored from."""
PUTTY: Final = r"(Private-Lines: \d+(?:\s|\\+[nrt])+)(?:[A-Za-z0-9+/=]+(?:\s|\\+[nrt])*)+"


def hide_paired(found: Match) -> str:
    """The value beside a secret's name."""
    name, value = found.group("name") or "", found.group("value") or ""
    return _without(found) if names_secret(name) and not is_plain(value) else found.group() or ""


def hide_tuple(found: Match) -> str:
    """The second of a pair, if it is what the first names."""
    secret = is_header_secret(found.group("name") or "", found.group("value") or "")
    return _without(found) if secret else found.group() or ""


def is_header_secret(name: str, value: str) -> bool:
    """Whether the second of a pair is the secret that the first names: of a list of words, it may be the next word."""
    return names_secret(name) and not is_plain(value) and (name.lower() in _HEADERS or is_coded(value) or " " in value)


def is_field_secret(name: str, value: str) -> bool:
    """Whether a field of a short name, as credential files have them, holds a secret."""
    if len(value) < _SHORTEST or " " in value:
        return False
    lowered = name.lower()
    mixed = any(char.isdigit() for char in value) and any(char.isupper() for char in value)
    return (lowered in _FIELDS and is_coded(value)) or (lowered in _GRANTS and mixed)


def hide_field(found: Match) -> str:
    """What a credential file's field holds, if it is no word."""
    secret = is_field_secret(found.group("name") or "", found.group("value") or "")
    return _without(found) if secret else found.group() or ""


def hide_bare(found: Match) -> str:
    """The run after a name that says little, if it is no word."""
    value = (found.group("value") or "").rstrip(".")
    if len(value) < _SHORTEST or not is_coded(value):
        return found.group() or ""
    return _without(found)


def _without(found: Match) -> str:
    return (found.group("before") or "") + (found.group("name") or "") + (found.group("sep") or "") + _SECRET


def hide_login(found: Match) -> str:
    """User and password of a ``.netrc`` line."""
    return f"{found.group(1)}{_USER}{found.group(3)}{_SECRET}"


def hide_passfile(found: Match) -> str:
    """User and password of a ``.pgpass`` line."""
    return f"{found.group(1)}{_USER}:{_SECRET}"


def hide_oracle(found: Match) -> str:
    """User and password of an Oracle address."""
    return f"{found.group(1)}{_USER}@"


def hide_rest(found: Match) -> str:
    """Everything after group 1."""
    return f"{found.group(1)}{_SECRET}"

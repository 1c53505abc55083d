r"""The shapes of secrets and personal details in text, as RE2 rules applied in order (R-EVI-5).

Each rule keeps what tells the reader where something was (names, schemes, hosts, paths) and replaces what it was.
A rule never matches its own marker, so applying the rules again changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kandev_routing_sdk.evidence import pairs
from kandev_routing_sdk.evidence.identities import (
    ARN,
    HELD,
    HOLDER_PATH,
    INGEST,
    LABELLED,
    PREFIXED,
    TRACE,
    hide_held,
    hide_labelled,
    hide_prefixed,
)
from kandev_routing_sdk.evidence.linear import START, Match, compile_linear
from kandev_routing_sdk.evidence.named import ELEMENT, FLAG, SAID, hide_element, hide_flag, hide_named, hide_said
from kandev_routing_sdk.evidence.opaque import OPAQUE, hide_opaque, is_coded
from kandev_routing_sdk.evidence.secret_names import is_plain
from kandev_routing_sdk.evidence.vendor_keys import GENERIC_PREFIX, JWT, KEYS, MASKED, WEBHOOKS

__all__ = ["FIRST", "HOME", "MARKER", "RULES", "Rule", "marker", "without_colours", "words_only"]

_KINDS: Final = ("auth", "cookie", "email", "id", "key", "opaque", "private-key", "query", "secret", "user", "depth")
MARKER: Final = rf"\[redacted:(?:{'|'.join(_KINDS)})\]"
"""The pattern of every marker."""
HOME: Final = "~"


def marker(kind: str) -> str:
    """What is put in place of something of this kind."""
    return f"[redacted:{kind}]"


Rule = Callable[[str], str]
"""A text without the things of one shape."""


def _rule(pattern: str, replace: Callable[[Match], str], *needs: str) -> Rule:
    """A rule that looks only at a text with one of ``needs`` in it: asking the engine costs far more than that."""
    compiled = compile_linear(pattern)
    if not needs:
        return lambda text: compiled.sub(replace, text)
    return lambda text: compiled.sub(replace, text) if any(sign in text for sign in needs) else text


def _group(found: Match, name: int | str) -> str:
    return found.group(name) or ""


def _keeping(kind: str) -> Callable[[Match], str]:
    """Group 1, then a marker."""
    return lambda found: _group(found, 1) + marker(kind)


# --- private keys -----------------------------------------------------------------------------------------------------

_SEP: Final = r"(?:\s|\\+[nrt])"
_LABEL: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_PEM: Final = (
    rf"-----BEGIN {_LABEL}-----(?:-{{0,2}}[^-])*-----END {_LABEL}-----"
    # Cut off: the lines of it that are there.
    rf"|-----BEGIN {_LABEL}-{{0,5}}(?:{_SEP}+(?:Proc-Type|DEK-Info|Version|Comment): [^\r\n\\]{{0,80}})*"
    rf"(?:{_SEP}*[A-Za-z0-9+/=]{{8,}})*(?:{_SEP}+[A-Za-z0-9+/=]{{1,7}}\z)?"
    rf"|(?:[A-Za-z0-9+/=]{{20,}}{_SEP}+)*[A-Za-z0-9+/=]{{1,76}}{_SEP}*-----END {_LABEL}-----"
)

# --- headers ----------------------------------------------------------------------------------------------------------

_COOKIE_PAIR: Final = r"[^\s=;,\"'\\\[]{1,128}=(?:\"[^\"\r\n]*\"?|(?:[^\s;,\"'\\]|,[^\s;\"'\\])*)"
_COOKIE: Final = (
    rf"(?i)((?:^|[^\w-]|\\[nrt])(?:set-)?cookies?\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?){_COOKIE_PAIR}"
    r"(?:;[ \t]*(?:expires=[a-z]{3},[^;\r\n\"\\]{0,40}|[^\s=;,\"'\\]{1,128}"
    r"(?:=(?:\"[^\"\r\n]*\"?|(?:[^\s;,\"'\\]|,[^\s;\"'\\])*))?))*;?"
)
_AUTH_PARTS: Final = (
    rf"(?i)({START}(?:proxy-)?authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)"
    r"(?:Digest|AWS4-HMAC-SHA256|OAuth|Hawk|Signature|GoogleLogin|SharedAccessSignature)\b[^\r\n\[]*"
)
_USER_FLAG: Final = (
    r"((?:^|[\s\"'])(?:-u|--user|--proxy-user|-U)[ \t=]+[\"']?)[^\s:\"'\\/\[-][^\s:\"'\\/]{0,64}:[^\s\"'\\]+"
)
_CREDENTIAL: Final = r"([ \t]+|%20|\+)([A-Za-z0-9._~+/=-]{6,})"
_BEARER: Final = rf"(?i)({START}bearer){_CREDENTIAL}"
_BASIC: Final = rf"(?i)({START}(?:basic|digest|negotiate)){_CREDENTIAL}"


def _bare_auth(found: Match) -> str:
    scheme, gap, value = _group(found, 1), _group(found, 2), _group(found, 3)
    tail = value[1:]
    coded = any(char.isdigit() or char.isupper() or char in "=_" for char in tail)
    if is_plain(value) or (not scheme.lower().endswith("bearer") and not coded) or (not coded and len(value) < 16):  # noqa: PLR2004
        return found.group() or ""
    return f"{scheme}{gap}{marker('auth')}"


# --- URLs -------------------------------------------------------------------------------------------------------------

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*://"
_USERINFO: Final = (
    rf"({_SCHEME})((?:{MARKER}|[^\s/?#\"'<>\\\[\]@])(?:{MARKER}|[^\s/?#\"'<>\\\[\]])*@"
    r"|[^\s/?#\"'<>\\\[\]@:]*:[^\s\"'<>\\\[\]@]*@)"
)
_PORT: Final = re.compile(r"[^:@]*:\d{1,5}[/?#]")
_QUERY_TEXT: Final = r"(?:\\u0026|[^\s\"'<>(){}\\`])+"
_QUERY: Final = rf"({_SCHEME}[^\s?\"'<>#\\`]*\?){_QUERY_TEXT}"
_FRAGMENT: Final = rf"({_SCHEME}[^\s\"'<>#\\`]*#)[^\s=\"'<>#\\`]*={_QUERY_TEXT}"
_BARE_QUERY: Final = r"((?:[A-Za-z0-9_.~%/:@-])\?)[A-Za-z_][A-Za-z0-9_.%-]*=(?:\\u0026|[^\s\"'<>(){}\\`])*"


def _user(found: Match) -> str:
    """A password may have any sign in it that nobody encoded; a port may be followed by a path with an ``@``."""
    return found.group() or "" if _PORT.match(_group(found, 2)) else f"{_group(found, 1)}{marker('user')}@"


# --- e-mail, homes ----------------------------------------------------------------------------------------------------

_EMAIL: Final = (
    r"(\\[nrtf])?[^\s@<>()\[\]{}\"'`,;:\\/=?&#%|*]+(?:@|%40)"
    r"((?:[^\s@<>()\[\]{}\"'`,;:\\/=?&#%|*._-][^\s@<>()\[\]{}\"'`,;:\\/=?&#%|*._]*\.)+([A-Za-z]{2,24}))\b"
)
_VERSION: Final = re.compile(r"v?\d+\.\d")
_FILES: Final = re.compile(
    r"(?i)(?:png|jpe?g|svg|gif|webp|[cm]?jsx?|tsx?|json|py|rs|go|css|html?|md|txt|lock|toml|ya?ml)"
)


def _email(found: Match) -> str:
    whole, domain = found.group() or "", _group(found, 2)
    if (
        _VERSION.match(domain)
        or _FILES.fullmatch(_group(found, 3))
        or whole.removeprefix(_group(found, 1)).startswith("git@")
    ):
        return whole
    return _group(found, 1) + marker("email")


_BEFORE_PATH: Final = r"(^|file://|\\[nrt]|[^\w.~/-]|(?:^|[\s\"'=])-[A-Za-z])"
_UNIX_HOME: Final = (
    rf"{_BEFORE_PATH}(?:/private|/var|/export|/usr|/mnt/[a-z]|/[a-z])?"
    rf"/(?:home|Users)/[^/\s\"'`\\:;,<>()\[\]{{}}|?*~]+"
)
_ROOT_HOME: Final = rf"{_BEFORE_PATH}(?:/private)?(?:/var)?/root(/|[\s\"'`\\:;,)\]}}]|$)"
_CODED_HOME: Final = r"(?i)%2F(?:home|Users)%2F[^%\s/\"'&]+"
_PROJECT_HOME: Final = r"(^|[^A-Za-z0-9_-]|\x5c+[nrt])-(?:home|Users)-[A-Za-z0-9_.]+"
_WINDOWS_HOME: Final = (
    r"(?i)(\b|\\[nrt])[A-Z]:(?:\\+|/)(?:Users|Documents and Settings)(?:\\+|/)"
    r"(?:[^\\/:*?\"'<>|\s~]{1,40}(?: [^\\/:*?\"'<>|\s]{1,40}){0,3}([\\/])|[^\\/:*?\"'<>|\s,;()\[\]~]+)"
)

# --- the order --------------------------------------------------------------------------------------------------------


def _keeping_home(found: Match) -> str:
    return _group(found, 1) + HOME


def _generic_key(found: Match) -> str:
    value = _group(found, 2)
    rest = value[3:]
    plain = not any(char.isdigit() or char.isupper() for char in rest) if value[1:3] == "k-" else not is_coded(rest)
    return found.group() or "" if plain else _group(found, 1) + marker("key")


_COLOUR: Final = (
    r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|\\+(?:u001[bB]|x1[bB]|033|e)\[[0-9;:?]*[A-Za-z]"
)
_HIDE_OPAQUE: Final = _rule(OPAQUE, hide_opaque)
_WORDS: Final[tuple[Rule, ...]] = (
    _rule(KEYS, _keeping("key")),
    _rule(GENERIC_PREFIX, _generic_key),
    _rule(JWT, _keeping("key"), "eyJ"),
)


def words_only(text: str) -> str:
    """``text`` without what is a secret by its own shape or name, whatever stands around it."""
    for rule in (hide_named, *_WORDS, _HIDE_OPAQUE):
        text = rule(text)
    return text


without_colours: Final[Rule] = _rule(_COLOUR, lambda _: "", "\x1b", "\\")
"""Applied first of all: terminal colours would hide where a word starts."""
FIRST: Final[tuple[Rule, ...]] = (
    _rule(_PEM, lambda _: marker("private-key"), "-----"),
    _rule(pairs.PUTTY, _keeping("private-key"), "Private-Lines"),
)
"""What is applied before anything is looked at in pieces."""
RULES: Final[tuple[Rule, ...]] = (
    _rule(_COOKIE, _keeping("cookie")),
    _rule(_AUTH_PARTS, _keeping("auth")),
    _rule(_USERINFO, _user, "://"),
    _rule(_QUERY, _keeping("query"), "://"),
    _rule(_FRAGMENT, _keeping("query"), "://"),
    _rule(_BARE_QUERY, _keeping("query"), "?"),
    _rule(WEBHOOKS, _keeping("key")),
    # A name's whole value before the shapes: what follows a key's shape may belong to the secret too.
    hide_named,
    _rule(FLAG, hide_flag),
    _rule(ELEMENT, hide_element, "<"),
    _rule(SAID, hide_said),
    _rule(pairs.ATTRIBUTE, pairs.hide_paired, "="),
    _rule(pairs.LISTED, pairs.hide_paired, ":"),
    _rule(pairs.TUPLE, pairs.hide_tuple, "(", "["),
    _rule(pairs.BARE_FIELD, pairs.hide_field, ":"),
    _rule(pairs.BARE_WORD, pairs.hide_bare),
    _rule(pairs.LOGIN, pairs.hide_login),
    _rule(pairs.PASSFILE, pairs.hide_passfile, ":"),
    _rule(pairs.ORACLE, pairs.hide_oracle, "@"),
    _rule(pairs.COMMAND, pairs.hide_rest, "-"),
    _rule(pairs.PHRASE, pairs.hide_rest),
    _rule(_USER_FLAG, _keeping("user"), "-u", "-U"),
    _rule(_BEARER, _bare_auth),
    _rule(_BASIC, _bare_auth),
    *_WORDS,
    _rule(MASKED, _keeping("key"), "***", "...", "…", "\u2022"),
    _rule(_EMAIL, _email, "@", "%40"),
    _rule(ARN, _keeping("id"), "arn:"),
    _rule(TRACE, lambda _: marker("id"), "-"),
    _rule(INGEST, lambda found: f"{marker('id')}{_group(found, 2)}{marker('id')}", ".ingest."),
    _rule(HOLDER_PATH, _keeping("id"), "/"),
    _rule(LABELLED, hide_labelled),
    _rule(HELD, hide_held),
    _rule(PREFIXED, hide_prefixed),
    _rule(_UNIX_HOME, _keeping_home, "/home/", "/Users/"),
    _rule(_ROOT_HOME, lambda found: f"{_group(found, 1)}{HOME}{_group(found, 2)}", "/root"),
    _rule(_CODED_HOME, lambda _: HOME, "%2"),
    _rule(_PROJECT_HOME, lambda found: f"{_group(found, 1)}-{HOME}", "-home-", "-Users-"),
    _rule(_WINDOWS_HOME, lambda found: f"{_group(found, 1)}{HOME}{_group(found, 2)}", ":"),
    _HIDE_OPAQUE,
)
"""Applied in this order."""

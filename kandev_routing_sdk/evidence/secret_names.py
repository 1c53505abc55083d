"""Which names announce a secret or an account, and which words after such a name are plain prose (R-EVI-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["NAME_HINT", "is_plain", "names_identity", "names_secret", "without_secrets"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


NAME_HINT: Final = (
    r"(?:(?:api|access|secret|private|auth|signing|encryption|master|session|license|account|shared|storage|service"
    r"|deploy|ssh|subscription|function|host|admin|app|application|bot|webhook|write|read|ingest|consumer|client)"
    r"[ _.-]?(?:access[ _.-]?)?key(?:[ _.-]?(?:base|data))?"
    r"|(?:user|device|authorization|verification|recovery|backup|mfa|otp|totp|sms|pairing|login|2fa)[ _-]?code|verifier"
    r"|[cx]srf|sessid|session_?id|master\.key|token|secret|passw|pwd|pass|psk|credential|cred|cookie|authorization|auth|jwt|bearer|signature|sig|otp|mnemonic"
    r"|dsn|sid|session[_-]?id)"
)
"""RE2 source of what every secret name contains; :func:`names_secret` decides."""

_LONGEST: Final = 80
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_TAILS: Final = _set(
    "value raw base64 b64 prod production dev live test staging old new primary secondary header env json pem "
    "plain provided used string is was base data"
)
_SECRETS: Final = _set(
    "token secret secrets password passwd passwort pwd passphrase passcode psk credential credentials cred creds "
    "authorization cookie cookies jwt bearer signature sig otp totp mnemonic dsn apikey authkey authtoken "
    "accesstoken refreshtoken idtoken sessiontoken accesskey secretkey privatekey clientsecret apitoken xapikey "
    "sid auth sessionkey signingkey csrf xsrf phpsessid jsessionid sessid sessionid passkey"
)
_KEYS: Final = _set(
    "api access secret private auth signing encryption master session license account shared storage service "
    "deploy ssh subscription function host admin app application bot webhook write read ingest consumer client"
)
_CODES: Final = _set("user device authorization verification recovery backup mfa otp totp sms pairing login 2fa fa")
_ENDINGS: Final = ("password", "passwd", "passphrase", "secret", "apikey", "secretkey", "accesskey", "token")
"""How a secret's name ends that is written as one word."""
_NOT_BEFORE_TOKEN: Final = _set("next unexpected per page continuation max min count stop eos bos pad cancel")
_HOLDERS: Final = _set(
    "organization organisation org account acct workspace tenant customer user team project installation request "
    "trace correlation email openai subscription billing"
)
_ID_WORDS: Final = _set("id uuid number identifier ids email")
_IDENTITIES: Final = _set(
    "cf_ray x_amzn_requestid requestid x_amz_id_2 openai_organization openai_project x_amz_cf_id email e_mail "
    "mail anthropic_organization x_cloud_trace_context traceparent x_ms_client_principal_name x_github_request_id"
)
_PLAIN: Final = _set(
    "sigterm sigkill sigint sighup sigsegv sigabrt sigpipe "
    "null none nil true false undefined empty unset set missing required expired invalid incorrect wrong revoked "
    "rejected denied failed failure error not is was are has have must should could cannot can will may and or "
    "the a an in on of for to from by with at it your this that no yes ok valid unknown unavailable unauthorized "
    "forbidden please try check see run use using provide provided supply enter found optional disabled enabled "
    "suspended inactive active locked limited limit exceeded exhausted bearer basic digest token tokens oauth "
    "oauth2 apikey api_key api-key x-api-key chatgpt string number object bool boolean default local auto "
    "automatic refresh refreshed refreshing login logout sign signed already used reused too many rate quota "
    "authentication authorization scheme format header value type name source env environment keychain keyring "
    "file based both either any all free pro max plus team personal enterprise business subscription plan billing "
    "credit credits balance sales support owner admin administrator policy access permission settings setup "
    "status usage request requests model models standard redacted hidden masked"
)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name[-_LONGEST:])]


def names_secret(name: str) -> bool:
    """Whether a key, header, variable or flag of this name holds a secret: ``api_key`` does, ``max_tokens`` does not."""
    words = _words(name)
    while words and (words[-1] in _TAILS or words[-1].isdigit()) and len(words) > 1:
        words.pop()
    if words[-2:] == ["key", "id"] or words[-2:] == ["session", "id"]:
        return words[-2] == "key"
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "key":
        return before in _KEYS
    if last in {"code", "verifier"}:
        return before in _CODES or (last, before) == ("verifier", "code")
    if last == "pass":
        return before != ""
    if last == "token":
        return before not in _NOT_BEFORE_TOKEN
    return last in _SECRETS or (last.endswith(_ENDINGS) and last.removesuffix("token") not in _NOT_BEFORE_TOKEN)


def without_secrets(env: Mapping[str, object]) -> dict[str, object]:
    """Return variables with None for each text whose name announces a secret; references to secrets stay."""
    return {name: None if isinstance(value, str) and names_secret(name) else value for name, value in env.items()}


def names_identity(name: str) -> bool:
    """Whether a key or header of this name holds an account, organisation, workspace or request id, or an address."""
    words = _words(name)
    if "_".join(words) in _IDENTITIES or (words and words[-1] in {"email", "requestid"}):
        return True
    return len(words) > 1 and words[-1] in _ID_WORDS and words[-2] in _HOLDERS


def is_plain(value: str) -> bool:
    """Whether a value after a secret's name is a word of a sentence or a constant, not a secret."""
    return value.strip(" \t.,;:!?)*`").lower() in _PLAIN

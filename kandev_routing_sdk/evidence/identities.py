"""Account, organisation, workspace and request ids in text (R-EVI-5)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.evidence.linear import START, Match
from kandev_routing_sdk.evidence.secret_names import is_plain

__all__ = [
    "ARN",
    "HELD",
    "HOLDER_PATH",
    "INGEST",
    "LABELLED",
    "PREFIXED",
    "TRACE",
    "hide_held",
    "hide_labelled",
    "hide_prefixed",
]

_HIDDEN: Final = "[redacted:id]"
_TOKEN: Final = r"(?P<id>[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?)"
_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GLUE: Final = r"\\*[\"'`]?[ \t]*(?P<sep>[:=#]|is\b)?[ \t]*\\*[\"'`(<]*"

LABELLED: Final = (
    rf"(?i)(?P<label>{START}(?:[a-z]+[_-]?)?"
    r"(?:organi[sz]ation|org|account|acct|workspace|tenant|customer|user|team|project|installation|request|subscription"
    r"|trace|correlation|ray|openai-organization|openai-project)"
    rf"(?:(?:[ _-]?(?:id|uuid|number|no\.))\b)|{START}(?:cf[-_]ray|x-amzn-requestid|requestid|traceparent)\b)"
    rf"(?P<glue>{_GLUE}){_TOKEN}"
)
"""RE2 source: a label that says "id", then the id."""
HELD: Final = (
    rf"(?i)(?P<label>{START}(?:organi[sz]ation|org|account|workspace|tenant|customer))(?P<glue>\\*[\"'`]?[ \t]*(?P<sep>[:=#])?"
    rf"[ \t]*\\*[\"'`(<]*){_TOKEN}"
)
"""RE2 source: "organization org-…", "workspace: …", without the word "id"."""
PREFIXED: Final = (
    r"(^|\\[nrtf]|[^A-Za-z0-9_])((?:org|acct|account)[-_][A-Za-z0-9]{6,}|req(?:uest)?[-_][A-Za-z0-9]{3,}"
    r"|(?:proj|user|cus|sub|ws|wrkspc|workspace|tenant|team|uid)[-_][A-Za-z0-9]{12,})\b"
)
TRACE: Final = r"\b(?:(?:Root|Self|Parent)=)?[0-9a-f]-[0-9a-f]{8}-[0-9a-f]{24}\b"
"""RE2 source of an X-Ray id, with its field."""
HOLDER_PATH: Final = (
    r"(?i)(/(?:subscriptions|organi[sz]ations|orgs|accounts|workspaces|tenants|teams|customers)/)"
    rf"(?:{_UUID}|[0-9]{{5,}}|(?:org|acct|ws|wrkspc|user|team)[-_][A-Za-z0-9]{{6,}})"
)
"""RE2 source of the id in an address, below what it is of."""
INGEST: Final = r"(\b)o[0-9]{3,}(\.ingest\.[a-z.]*sentry\.io/)[0-9]+"
ARN: Final = rf"({START}arn:[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:)[0-9]{{12}}\b"

_MODELS: Final = ("gpt", "claude", "gemini", "codex", "sonnet", "opus", "haiku", "http")
_FEWEST_DIGITS: Final = 5
_SHORTEST_MIXED: Final = 8


def hide_labelled(found: Match) -> str:
    """The id after a label; without a sign between them it must have a digit, or it is the next word."""
    value = found.group("id") or ""
    if found.group("sep") is None and not any(char.isdigit() for char in value):
        return found.group() or ""
    return _replaced(found, value)


def hide_held(found: Match) -> str:
    """What an organisation, account or workspace is called; without a sign between, only what looks like an id."""
    value = found.group("id") or ""
    digits = sum(char.isdigit() for char in value)
    named = found.group("sep") is not None and digits != len(value)
    mixed = digits and digits < len(value) and len(value) >= _SHORTEST_MIXED and "." not in value and ":" not in value
    prefixed = value.lower().startswith(("org-", "org_", "acct_", "acct-"))
    if not (named or mixed or prefixed or (digits == len(value) and digits >= _FEWEST_DIGITS)):
        return found.group() or ""
    return _replaced(found, value)


def _replaced(found: Match, value: str) -> str:
    if is_plain(value) or value.lower().startswith(_MODELS) or (len(value) == 1 and value.isalpha()):
        return found.group() or ""
    return (found.group("label") or "") + (found.group("glue") or "") + _HIDDEN


def hide_prefixed(found: Match) -> str:
    """An id by its prefix, if what follows is no word."""
    value = found.group(2) or ""
    coded = any(char.isdigit() or char.isupper() for char in value[4:])
    return (found.group(1) or "") + (_HIDDEN if coded else value)

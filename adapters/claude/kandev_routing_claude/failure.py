"""What Claude says of a failed request, and whether it proves that no response had begun (R-SAFE-7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kandev_routing_sdk.spec import JsonValue

Event = Mapping[str, JsonValue]

NOTICE_FIELDS: Final = ("error", "api_error", "api_error_status", "api_error_type")
RESULT_FIELDS: Final = ("type", "is_error", "subtype", "terminal_reason", *NOTICE_FIELDS[1:], "error", "result")

_NEVER_CONNECTED: Final = re.compile(
    r"\b(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ConnectionRefused|FailedToOpenSocket)\b"
)
_SPOKEN: Final = re.compile(
    r"(?:API Error|Error|Request timed out|Invalid API key|Not logged in|Credit balance is too low|Failed to authenticate"
    r"|You['’]ve (?:hit|reached) your|Prompt is too long|Request too large)\b",
)

_NO_SIGN_IN: Final = re.compile(
    r"(?:not logged in|(?:invalid|missing) (?:api key|authentication|credentials)|api key|log(?:ged|in)|session|sign-?in"
    r"|(?:your )?(?:oauth|access|auth\w*) |your (?:organization|account)|this organization|api error: 40[13])[^\n·]{0,160} · "
    r"(?:(?:please )?run /login\b|fix external \w+|use an anthropic api key\b)[^\n]{0,160}"
    r"|(?:oauth token has (?:been revoked|expired)|your account does not have access to claude code)\. please run /login\.?"
    r"|please run /login · api error: 4\d\d\b[^\n]*"
    r"|failed to authenticate\. api error: 4\d\d\b[^\n]*",
    re.IGNORECASE,
)
_LIMITED: Final = re.compile(
    r"(?i)(?:internal error: )?(?:api error: )?(?:request rejected \(429\)"
    r"|you(?:['’]ve| have) (?:hit|reached) your\b|you(?:['’]re| are) out of\b|claude (?:ai )?usage limit reached\b"
    r"|(?:[\w-]+ ){0,3}limit reached\b)"
)
_LIMITS: Final = frozenset({"rate_limit", "usage_limit_reached"})
TOO_MANY: Final = 429
"""The HTTP status of a refusal by a limit."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The labels of one failure, from the synthetic message or the result."""

    status: int | None
    error: str | None
    api_error: str | None
    text: str

    @property
    def by_limit(self) -> bool:
        """Whether the request was refused because of a limit: with that status, or in the runtime's words where there is none."""
        if self.status is not None:
            return self.status == TOO_MANY
        return self.error in _LIMITS or self.api_error in _LIMITS or says_limited(self.text)

    @property
    def before_response(self) -> bool:
        """Whether the request surely ended before a response began: an HTTP error status, or no connection at all.

        A status alone is no proof: an error event inside an open stream is given one too, but neither a label of its own
        nor its number in the text.
        """
        if self.status is not None:
            labelled = self.error not in {None, "unknown"} or self.api_error == "usage_limit_reached"
            return labelled or str(self.status) in self.text
        if self.api_error == "connection_failed" or never_connected(self.text):
            return never_connected(self.text)
        return self.error == "authentication_failed" or self.text.startswith("Not logged in")


def never_connected(text: str) -> bool:
    """Whether a sentence of Claude's tells that no connection came about."""
    return _NEVER_CONNECTED.search(text) is not None


def says_signed_out(text: str) -> bool:
    """Whether a whole message is what Claude's runtime, and nobody else, says where a sign-in is missing or refused."""
    return _NO_SIGN_IN.fullmatch(text.strip()) is not None


def says_limited(text: str) -> bool:
    """Whether a sentence of Claude's begins with a limit that was reached."""
    return _LIMITED.match(text) is not None


def verdict_of(event: Mapping[str, JsonValue], text: str) -> Verdict:
    """Read the labels of a synthetic message or of a result."""
    return Verdict(
        status=as_int(event.get("api_error_status")),
        error=as_str(event.get("error")),
        api_error=as_str(event.get("api_error")),
        text=text,
    )


def picked(event: Mapping[str, JsonValue], names: tuple[str, ...]) -> dict[str, JsonValue]:
    """Return the fields of these names that say something."""
    return {name: event[name] for name in names if event.get(name) is not None}


def spoken_by_runtime(line: str) -> bool:
    """Whether a line that is not JSON is one of Claude's own error sentences."""
    return _SPOKEN.match(line) is not None


def as_int(value: JsonValue) -> int | None:
    """Return an integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_str(value: JsonValue) -> str | None:
    """Return a string, else None."""
    return value if isinstance(value, str) else None


def as_dict(value: JsonValue) -> Mapping[str, JsonValue]:
    """Return an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_dicts(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    """Return the objects of a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a list, else an empty one."""
    return value if isinstance(value, list) else []

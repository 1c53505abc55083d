"""The sentences in which Codex reports a failed request: ``exec --json`` has no labels, and its ACP agents few."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RETRY: Final = re.compile(
    r"Reconnecting\.\.\.\s+(?:(\d{1,4})/(\d{1,4})|waiting for network)(?:\s+\((.*)\))?\s*\Z", re.DOTALL
)
_STATUS: Final = re.compile(r"\A(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b")

# Said of a request that was refused before a response began: an HTTP error, or no connection. A stream that breaks,
# an idle timeout and whatever else Codex may say one day are no such proof (R-SAFE-7).
_BEFORE_RESPONSE: Final = re.compile(
    r"\A(?:unexpected status [345]\d\d\b"
    r"|exceeded retry limit, last status: [345]\d\d\b"
    r"|you(?:['’]ve| have)? (?:hit|reached) your (?:[\w-]+ ){0,3}(?:limit|spend cap)\b"
    r"|your (?:workspace|organization|account) is out of credits\b"
    r"|to use codex with your\b"
    r"|quota exceeded\. check your plan\b"
    r"|rate limit exceeded:"
    r"|selected model is at capacity\b"
    r"|we['’]re currently experiencing high demand\b"
    r"|codex ran out of room in the model['’]s context window\b"
    r"|the (?:requested |selected )?model [`'\"][^`'\"\n]*[`'\"] (?:does not exist|has been (?:deprecated|retired))\b"
    r"|the [`'\"][^`'\"\n]*[`'\"] model is not supported when using codex\b"
    r'|\{\s*"(?:error|detail)"\s*:'  # the body of a refusal with status 400, as it came
    r'|\{"type":"error","status":4\d\d\b'
    r"|missing environment variable\b"
    r"|connection failed: error sending request\b"
    r"|stream disconnected before completion: error sending request\b"
    r"|not logged in\b"
    r"|your access token could not be refreshed\b"
    r")",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"\S{1,64}://\S*")
_IN_RESPONSE: Final = re.compile(
    r"\bstream(?:s|ed|ing)?\b|\bdisconnected\b|\bidle timeout\b|\bmid-?(?:way|stream|response|turn|answer)\b|\bpartial(?:ly)?\b"
    r"|\bin the middle\b|\bhalf-?way\b|\bbefore (?:completion|response\.)|\bresponse\.(?:completed|failed|incomplete|created)\b"
    r"|\b(?:cut|broken?|broke|stopped|ended|interrupted|aborted|closed|dropped) (?:off|short|after|while|during|before)\b"
    r"|\bafter \d+ (?:output )?tokens\b|\bincomplete response\b|\bretrying \d",
    re.IGNORECASE,
)
"""Words of a response that had begun: after them no beginning of a sentence proves anything."""
_FALLBACK: Final = re.compile(r"(?:warning: )?falling back from websockets to https transport\.?\s*", re.IGNORECASE)
_NO_SOCKET: Final = re.compile(r"[^\n]{0,64}?\bfailed to connect to websocket\b", re.IGNORECASE)
_BROKEN: Final = re.compile(
    r"\A(?:stream disconnected before completion:|connection failed:)?\s*"
    r"(?:stream closed\b|transport error\b|idle timeout\b|(?:operation|request) timed out\b|error decoding\b|network error\b)"
    r"|\AReconnecting\b",
    re.IGNORECASE,
)


_DISCONNECTED: Final = re.compile(
    # what follows is the vendor's own sentence of a response that failed as a whole, or says that none was asked for
    r"\Astream disconnected before completion:\s*(?:an error occurred while processing your request\b|error sending request\b"
    r"|rate limit reached for\b|you exceeded your current quota\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Retry:
    """Codex tries again by itself."""

    maximum: int | None
    """None: it waits for the network, for ever."""
    cause: str


def retry_of(message: str) -> Retry | None:
    """Return what a retry message says; None for any other message."""
    found = _RETRY.match(message)
    if found is None:
        return None
    return Retry(None if found[2] is None else int(found[2]), found[3] or "")


def status_of(message: str) -> int | None:
    """Return the HTTP status that the sentence names."""
    found = _STATUS.match(message)
    return None if found is None else int(found[1])


def before_response(message: str) -> bool:
    """Whether the whole sentence proves that the request ended before a response began."""
    found = _BEFORE_RESPONSE.match(message)
    return found is not None and not _tells_of_response(message[found.end() :])


def known_whole(message: str) -> bool:
    """Whether the sentence is a known one of a request that was refused, or of a response that failed as a whole."""
    whole = _DISCONNECTED.match(message)
    return before_response(message) or (whole is not None and not _tells_of_response(message[whole.end() :]))


def broken_off(message: str) -> bool:
    """Whether the sentence says that a response ended in the middle, or does not say how it ended."""
    if known_whole(message):
        return False
    return _BROKEN.match(message) is not None or _tells_of_response(message)


def warns_of_break(message: str) -> bool:
    """Whether a mere remark tells of a try that may have ended inside a response."""
    fallback = _FALLBACK.match(message)
    why = message[fallback.end() :].strip() if fallback else ""
    if why:
        return not (before_response(why) or _NO_SOCKET.match(why))
    return broken_off(message)


def _tells_of_response(words: str) -> bool:
    return _IN_RESPONSE.search(_ADDRESS.sub("", words)) is not None

"""Which lines of standard error are the agent's own words about its provider (R-EVI-6).

An agent shares its standard error with every tool that it starts. A sentence that only a model provider would say speaks for
itself; a bare phrase ("too many requests", "unauthorized") counts only in a line that names whose failure it is, or just below one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

_REACH: Final = 3
"""Lines below an own line that still belong to it: the message under its headline."""
_LABEL: Final = r"^\W*(?:\[?(?:error|fatal|request failed|failed|message|warning)\]?\s*[:!-]?\s*)*"
_SUBJECTS: Final = "account|organization|workspace|model|request|service|provider|api|is|server|subscription|plan"
_ADDRESSED: Final = (
    r"you|you['’](?:ve|re)|your|sorry|please|we|we['’]re|missing|no|not|insufficient|individual",
    r"failed to (?:log ?in|authenticate)|authentication|authori[sz]ation|unauthori[sz]ed|invalid",
    r"budget|quota|rate limit|too many|limit",
    rf"(?:the|this|service|selected|requested) (?:\w+ )?(?:{_SUBJECTS})",
)
"""How a sentence begins that speaks to the person in front of the agent."""
_SPEAKERS: Final = "model|llm|provider|api|backend|upstream|stream|agent|codex|claude|gemini|copilot|opencode"
_OWN: Final = (
    # the error classes of the vendors' SDKs, and of what stands between
    r"\b(?:ai_\w+error|\w*api(?:call|status|connection|timeout)?error|\w*ratelimiterror|authenticationerror|llm\w*error)\b",
    r"\b(?:\w*gaxioserror|eventstreamerror|\w*provider\w*error|sdkerror|throttlingexception|openrouterexception)\b",
    r"\b(?:litellm|openai\.\w+|anthropic\.\w+|botocore)\b",
    # the agents' own loggers
    r"\bcodex_(?:api|client|login|acp)\b|\bcodex_core::(?:client|codex|session)\b|\bservice=(?:llm|session|provider)",
    r"\bllm[ _](?:request|provider|call|error|authentication)",
    # their words for a request
    rf"\b(?:{_SPEAKERS}) (?:stream |status |turn |sdk )?(?:call|request|error|exception|failed|failure)\b",
    r"\b(?:call|request) to (?:the )?(?:model|provider|api)\b|\bmodel provider\b|\brejected the request\b",
    r"\bfailed after \d+ (?:attempts|retries)\b|\bran into this error\b",
    # a status in front of a body
    r"^\W*(?:error:? |http(?:error)?:? |(?:invalid )?status(?: code)?:? )*[45]\d\d:? \{",
    r"\berror,? (?:status )?code:? [45]\d\d\b|\binvalid status code [45]\d\d\b",
    _LABEL + rf"(?:{'|'.join(_ADDRESSED)})\b",
)
_OWN_LINE: Final = re2.compile("(?i)" + "|".join(f"(?:{pattern})" for pattern in _OWN))


def in_own_words(text: str, holds: Callable[[str], bool]) -> bool:
    """Whether ``holds`` is true of a line of ``text`` that is the agent's own, with the few below it."""
    lines = text.splitlines()
    return any(_OWN_LINE.search(line) and holds("\n".join(lines[n : n + 1 + _REACH])) for n, line in enumerate(lines))

"""Which lines of standard error are the agent's own words about its provider (R-EVI-6).

An agent shares its standard error with every tool that it starts. A sentence that only a model provider would say speaks for
itself; a bare phrase ("too many requests", "unauthorized") counts only in a line that names whose failure it is, or just below one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

_REACH: Final = 6
"""Lines below an own line that still belong to it: the message under its headline."""
_LABEL: Final = r"^\W*(?:\[?(?:error|fatal|request failed|execution failed|failed|message|warning)\]?\s*[:!-]?\s*)*"
_SUBJECTS: Final = "account|organization|workspace|model|request|service|provider|api|is|server|subscription|plan"
_ADDRESSED: Final = (
    r"you|you['’](?:ve|re)|your|sorry|please|we|we['’]re|missing|no|not|insufficient|individual",
    r"failed to (?:log ?in|authenticate)|authentication|authori[sz]ation|unauthori[sz]ed|invalid",
    r"budget|quota|rate limit|too many|limit",
    rf"(?:the|this|service|selected|requested) (?:\w+ )?(?:{_SUBJECTS})",
)
"""How a sentence begins that speaks to the person in front of the agent."""
_SPEAKERS: Final = "model|llm|llm api|provider|backend|upstream|stream|agent|codex|claude|gemini|copilot|opencode"
_OWN: Final = (
    # the error classes of the vendors' SDKs, and of what stands between
    r"\b(?:ai_\w+error|\w*api(?:call|status|connection|timeout)error|(?-i:APIError)|\w*ratelimiterror|authenticationerror|llm\w*error)\b",
    r"\b(?:\w*gaxioserror|eventstreamerror|\w*provider\w*error|sdkerror|throttlingexception|openrouterexception)\b",
    r"\b(?:litellm|openai\.\w+|anthropic\.\w+|botocore)\b",
    # the agents' own loggers
    r"\bcodex_(?:api|client|login|acp)\b|\bcodex_core::(?:client|codex|session)\b|\bservice=(?:llm|session|provider)",
    r"\bllm[ _](?:request|provider|call|error|authentication)",
    # their words for a request
    rf"\b(?:{_SPEAKERS}) (?:stream |status |turn |sdk )?(?:call|request|error|exception|failed|failure)\b",
    r"\b(?:call|request) to (?:the )?(?:model|provider|api)\b|\bmodel provider\b|\brejected the request\b",
    r"https?://\S*/(?:messages|responses|chat/completions)\b",
    r"(?-i:\bAPI Error\b)|\bexceeded retry limit\b|\blast status: [45]\d\d\b|\bunexpected status [45]\d\d\b",
    r"\bcapierror\b|\bAI model\b",
    r"\bfailed after \d+ (?:attempts|retries)\b|\bran into this error\b",
    # a status in front of a body
    r"^\W*(?:error:? |http(?:error)?:? |(?:invalid )?status(?: code)?:? )*[45]\d\d:? \{",
    r"^\W*[45]\d\d (?-i:[A-Z]+(?:_[A-Z]+)+)\b|\bno (?:\w+ )?models? available\b",
    # the types of the vendors' errors
    r"[\"'](?:overloaded_error|rate_limit_error|authentication_error|invalid_request_error|permission_error|not_found_error)[\"']",
    r"[\"'](?:api_error|insufficient_quota|usage_limit_reached|rate_limit_exceeded|context_length_exceeded|model_not_found)[\"']",
    r"\bmodel [\"'`]\S+[\"'`] not found\b",
    r"\berror, status code: [45]\d\d\b|\berror code: [45]\d\d - |\binvalid status code [45]\d\d\b",
)
_NAMES: Final = (
    # what only agents, models and their vendors have
    r"\b(?:anthropic|claude|openai|chatgpt|codex|opencode|copilot|gemini|openrouter|mistral|moonshotai|deepseek|cursor|alibaba)\b",
    r"\b(?:opus|sonnet|haiku|gpt-[\w.]+|kimi[\w-]*|qwen[\w.-]*|glm-[\w.]+)\b|\bapi\.\w+\.ai\b|\bcapi\b|\b(?:ai|language) models?\b",
    r"\b(?:usage|session|weekly|daily|monthly|5[- ]hour|\d+[- ]hour|plan|request) (?:usage )?limits?\b|\bhit your limit\b",
    r"\bpremium requests?\b|\b(?:free|extra|usage) (?:usage|pattern|limits?)\b|\bquota\b[^\n]{0,40}\bplan and billing\b",
    r"\b(?:tokens|requests) per (?:min|minute|day)\b|\btoo many tokens\b|\bcapacity on this\b",
    r"\bstream(?:ing)? (?:disconnected|error)\b",
    r"\b(?:run|type|use) `?/login\b|\blog out and (?:log|sign) in\b|\b[A-Z]+_API_KEY\b|\bapi_?key or auth_?token\b",
)
_NAMED_LINE: Final = re2.compile("(?i)" + "|".join(f"(?:{pattern})" for pattern in (*_OWN, *_NAMES)))
_OWN_LINE: Final = re2.compile(
    "(?i)" + "|".join(f"(?:{pattern})" for pattern in (*_OWN, _LABEL + rf"(?:{'|'.join(_ADDRESSED)})\b"))
)


_URL: Final = re2.compile(r"(?i)\b(?:https?|wss?)://(?:[^\s/@\"'<>)]*@)?([^\s/:?#\"'<>),;]+)([^\s\"'<>)]*)")
_HOST_OF_MODELS: Final = re2.compile(
    r"(?i)(?:^|[.-])(?:anthropic|claude|openai|chatgpt|azure|aka|generativelanguage|aiplatform|cloudcode-pa|goo|github|githubcopilot|"
    r"mistral|deepseek|moonshot|kimi|bigmodel|groq|cursor|cline|huggingface|nodejs|localhost|example|\w*ai|\w*llm\w*|\w*model\w*)"
    r"(?:\.[\w.-]+)?$|^(?:[\d.]+|\[[0-9a-f:]+\]|<[^>]*>)$"
)
_PATH_OF_MODELS: Final = re2.compile(
    r"(?i)/(?:messages|responses|completions|models?|embeddings|oauth|[\w-]*model[\w-]*|[\w-]*ai)\b|generatecontent\b|"
    r"(?:cloudcode-pa|generativelanguage|aiplatform|cloudaicompanion)\."
)


def in_own_words(text: str, holds: Callable[[str], bool], *, bare: bool) -> bool:
    """Whether ``holds`` is true of a line of ``text``, with the few below it, that leads to no other service's host.

    ``bare``: and that is the agent's own.
    """
    lines = text.splitlines()
    blocks = (
        "\n".join(lines[n : n + 1 + _REACH]) for n, line in enumerate(lines) if not bare or _OWN_LINE.search(line)
    )
    return any(holds(block) and not _leads_elsewhere(block) for block in blocks)


def names_its_speaker(text: str, holds: Callable[[str], bool]) -> bool:
    """Whether ``holds`` is true of a line, with the few below it, that names a model, a vendor of models or an agent."""
    lines = text.splitlines()
    return any(
        _NAMED_LINE.search(line) is not None and holds("\n".join(lines[n : n + 1 + _REACH]))
        for n, line in enumerate(lines)
    )


def _leads_elsewhere(block: str) -> bool:
    """Whether the only addresses in ``block`` are of hosts that have nothing to do with models."""
    urls = [(found.group(1) or "", found.group(2) or "") for found in _URL.finditer(block)]
    return bool(urls) and not any(_HOST_OF_MODELS.search(host) or _PATH_OF_MODELS.search(path) for host, path in urls)

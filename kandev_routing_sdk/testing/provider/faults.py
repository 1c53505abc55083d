"""The provider errors, as data: both vendors' words, and the headers that carry the timing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from kandev_routing_sdk.testing.provider.messages import Ask, Fault, HeaderRule, JsonObject, Wire

SHORT: Final = timedelta(seconds=2)
HOUR: Final = timedelta(hours=1)
WEEKLY: Final = timedelta(days=2)
_OTHER_WINDOW: Final = timedelta(days=5)


def _openai(message: str, kind: str, code: str | None = None, param: str | None = None) -> JsonObject:
    return {"message": message, "type": kind, "param": param, "code": code}


def _seconds(wait: timedelta) -> str:
    return str(int(wait.total_seconds()))


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def rate_headers(default: timedelta | None) -> HeaderRule:
    """Return the headers of a rate limit; ``None`` leaves ``retry-after`` out."""

    def headers(ask: Ask) -> Mapping[str, str]:
        wait = ask.reset_after(default or timedelta(minutes=1))
        retry_after = {} if default is None else {"retry-after": _seconds(wait)}
        if ask.dialect.wire is Wire.ANTHROPIC:
            reset = _iso(ask.now + wait)
            return retry_after | {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": reset,
                "anthropic-ratelimit-input-tokens-limit": "30000",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": reset,
            }
        return retry_after | {
            "x-ratelimit-limit-requests": "500",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": f"{_seconds(wait)}s",
            "x-ratelimit-limit-tokens": "30000",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": f"{_seconds(wait)}s",
        }

    return headers


def plan_headers(claim: str, default: timedelta) -> HeaderRule:
    """Return the unified headers of an Anthropic subscription whose window ``claim`` is used up.

    ``claim`` is ``five_hour`` or ``seven_day``; the other window stays open.
    """

    def headers(ask: Ask) -> Mapping[str, str]:
        wait, reset = ask.reset_after(default), str(ask.reset_epoch(default))
        if ask.dialect.wire is not Wire.ANTHROPIC:
            return {"retry-after": _seconds(wait)}
        weekly = claim == "seven_day"
        week_end = reset if weekly else str(int((ask.now + _OTHER_WINDOW).timestamp()))
        return {
            "retry-after": _seconds(wait),
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": reset,
            "anthropic-ratelimit-unified-representative-claim": claim,
            "anthropic-ratelimit-unified-fallback-percentage": "0.5",
            "anthropic-ratelimit-unified-5h-status": "allowed" if weekly else "rejected",
            "anthropic-ratelimit-unified-5h-reset": reset,
            "anthropic-ratelimit-unified-5h-utilization": "0.4" if weekly else "1.0",
            "anthropic-ratelimit-unified-7d-status": "rejected" if weekly else "allowed",
            "anthropic-ratelimit-unified-7d-reset": week_end,
            "anthropic-ratelimit-unified-7d-utilization": "1.0" if weekly else "0.6",
            "anthropic-ratelimit-unified-overage-status": "rejected",
            "anthropic-ratelimit-unified-overage-disabled-reason": "org_level_disabled",
        }

    return headers


def usage_headers(default: timedelta) -> HeaderRule:
    """Return the headers that a ChatGPT plan's back end puts on Codex answers, its first window used up."""

    def headers(ask: Ask) -> Mapping[str, str]:
        wait = ask.reset_after(default)
        if ask.dialect.wire is not Wire.RESPONSES:
            return {"retry-after": _seconds(wait)}
        return {
            "x-codex-primary-used-percent": "100",
            "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": str(ask.reset_epoch(default)),
            "x-codex-primary-reset-after-seconds": _seconds(wait),
            "x-codex-secondary-used-percent": "40",
            "x-codex-secondary-window-minutes": "10080",
            "x-codex-secondary-reset-at": str(int((ask.now + _OTHER_WINDOW).timestamp())),
            "x-codex-secondary-reset-after-seconds": _seconds(_OTHER_WINDOW),
        }

    return headers


def _usage_reset(ask: Ask) -> JsonObject:
    return {
        "resets_at": ask.reset_epoch(HOUR),
        "resets_in_seconds": int(ask.reset_after(HOUR).total_seconds()),
    }


def rate_limit(default: timedelta | None) -> Fault:
    """Return a throttle that says to come back after ``default``, or says nothing."""
    return Fault(
        429,
        ("rate_limit_error", "This request would exceed your organization's rate limit of 30,000 input tokens per minute."),
        _openai("Rate limit reached for this model on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000.",
                "tokens", "rate_limit_exceeded"),
        hint=rate_headers(default),
    )  # fmt: skip


def plan_limit(claim: str, default: timedelta) -> Fault:
    """Return a subscription's limit (Claude OAuth), window ``claim``."""
    return Fault(
        429,
        ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
        _openai("Rate limit reached", "requests", "rate_limit_exceeded"),
        hint=plan_headers(claim, default),
    )


USAGE_LIMIT: Final = Fault(
    429,
    ("rate_limit_error", "Usage limit reached"),
    {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus"},
    hint=usage_headers(HOUR),
    extra=_usage_reset,
)
USAGE_NOT_INCLUDED: Final = Fault(
    429,
    ("rate_limit_error", "Usage not included"),
    {"type": "usage_not_included", "message": "Usage not included in your plan", "plan_type": "free"},
)
INSUFFICIENT_QUOTA: Final = Fault(
    429,
    ("rate_limit_error", "You have exceeded your monthly usage limit."),
    _openai(
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
)
OVERLOADED: Final = Fault(
    529, ("overloaded_error", "Overloaded"), _openai("Overloaded", "overloaded_error", "overloaded")
)
SERVER_ERROR: Final = Fault(
    500,
    ("api_error", "Internal server error"),
    _openai("The server had an error while processing your request.", "server_error"),
)
UNAVAILABLE: Final = Fault(
    503,
    ("api_error", "Service Unavailable"),
    _openai("The server is currently overloaded. Please try again later.", "server_error", "server_is_overloaded"),
)
UNAUTHORIZED: Final = Fault(
    401,
    ("authentication_error", "invalid x-api-key"),
    _openai("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
)
TOKEN_EXPIRED: Final = Fault(
    401,
    (
        "authentication_error",
        "OAuth token has expired. Please obtain a new token or refresh your existing token.",
    ),
    _openai(
        "Your authentication token has been invalidated. Please try signing in again.",
        "invalid_request_error",
        "token_invalidated",
    ),
)
NO_CREDENTIALS: Final = Fault(
    401,
    ("authentication_error", "x-api-key header is required"),
    _openai("Missing bearer or basic authentication in header", "invalid_request_error"),
)
BILLING: Final = Fault(
    402,
    (
        "billing_error",
        "There's an issue with billing for your organization. Please update your payment method.",
    ),
    _openai("Insufficient Balance", "unknown_error", "invalid_request_error"),
)
CREDIT_BALANCE: Final = Fault(
    400,
    ("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    _openai("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
)
FORBIDDEN: Final = Fault(
    403,
    ("permission_error", "Your API key does not have permission to use the specified resource."),
    _openai("You have insufficient permissions for this operation.", "request_forbidden", "missing_scope"),
)
REGION: Final = Fault(
    403,
    ("forbidden", "Request not allowed"),
    _openai(
        "Country, region, or territory not supported",
        "request_forbidden",
        "unsupported_country_region_territory",
    ),
)
MODEL_NOT_FOUND: Final = Fault(
    404,
    ("not_found_error", "model: no-such-model"),
    _openai(
        "The model `no-such-model` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
)
PROMPT_TOO_LONG: Final = Fault(
    400,
    ("invalid_request_error", "prompt is too long: 210342 tokens > 200000 maximum"),
    _openai(
        "This model's maximum context length is 272000 tokens. However, your messages resulted in 310342 tokens.",
        "invalid_request_error",
        "context_length_exceeded",
        "messages",
    ),
)
INVALID_REQUEST: Final = Fault(
    400,
    ("invalid_request_error", "messages.0.content: Field required"),
    _openai(
        "Unsupported parameter: 'foo' is not supported with this model.",
        "invalid_request_error",
        "unsupported_parameter",
        "foo",
    ),
)
TOO_LARGE: Final = Fault(
    413,
    ("request_too_large", "Request exceeds the maximum size"),
    _openai("Request body too large", "invalid_request_error", "request_too_large"),
)

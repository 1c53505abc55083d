"""Failures as real providers word them: what a scripted agent reports, in the shape in which agents pass it on."""

from __future__ import annotations

from typing import Any, Final, TypedDict


class Failure(TypedDict, total=False):
    """A JSON-RPC error; ``data`` holds the provider's status, headers and body where the agent passes them on."""

    code: int
    message: str
    data: dict[str, Any]


_INTERNAL: Final = -32603
_AUTH: Final = -32000


def _anthropic(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Failure:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    data: dict[str, Any] = {"status": status, "body": body}
    if headers:
        data["headers"] = headers
    return {"code": _INTERNAL, "message": f"API Error: {status} {message}", "data": data}


def _openai(status: int, kind: str, code: str, message: str, **fields: Any) -> Failure:  # noqa: ANN401  # a vendor's JSON
    body = {"error": {"type": kind, "code": code, "message": message, **fields}}
    return {
        "code": _INTERNAL,
        "message": f"unexpected status {status}: {message}",
        "data": {"status": status, "body": body},
    }


def overloaded() -> Failure:
    """The provider has no capacity for anybody (transient)."""
    return _anthropic(529, "overloaded_error", "Overloaded")


def unavailable() -> Failure:
    """The provider is down (transient)."""
    return _anthropic(503, "api_error", "Service Unavailable")


def rate_limited(retry_after_s: int | None = None) -> Failure:
    """A short throttle (transient)."""
    headers = {"retry-after": str(retry_after_s)} if retry_after_s is not None else None
    return _anthropic(
        429, "rate_limit_error", "This request would exceed your rate limit of 50 requests per minute.", headers
    )


def quota_limited(resets_in_s: int | None = None) -> Failure:
    """A plan's allowance is used up (hard)."""
    fields = {"resets_in_seconds": resets_in_s} if resets_in_s is not None else {}
    return _openai(
        429,
        "usage_limit_reached",
        "usage_limit_reached",
        "The usage limit has been reached",
        plan_type="plus",
        **fields,
    )


def billing() -> Failure:
    """The account has no credit (hard)."""
    return _anthropic(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    )


def unauthorised() -> Failure:
    """The credential is not accepted (hard)."""
    return {**_anthropic(401, "authentication_error", "invalid x-api-key"), "code": _AUTH}


def model_missing() -> Failure:
    """The model does not exist for this account (hard)."""
    return _openai(
        404,
        "invalid_request_error",
        "model_not_found",
        "The model `scripted-1` does not exist or you do not have access to it.",
    )


def network() -> Failure:
    """The provider cannot be reached (transient)."""
    return {
        "code": _INTERNAL,
        "message": "API Error: Unable to connect to API (ECONNREFUSED)",
        "data": {"code": "ECONNREFUSED"},
    }


def context_too_long() -> Failure:
    """The request does not fit the model (unclassified: never automatic)."""
    return _anthropic(400, "invalid_request_error", "prompt is too long: 210342 tokens > 200000 maximum")


def puzzling() -> Failure:
    """Something that no rule knows."""
    return {
        "code": _INTERNAL,
        "message": "Internal error: the flux inverter lost phase",
        "data": {"details": "phase 7"},
    }

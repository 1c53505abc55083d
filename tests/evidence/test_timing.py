"""Timing hints (R-CLS-5): what gives a hint, which one wins, and what must never be one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.timing import (
    MAX_HORIZON,
    TimingHint,
    Trust,
    best_hint,
    due_at,
    hints_from_data,
    hints_from_headers,
    hints_from_text,
    is_valid,
)

NOW = datetime(2026, 5, 14, 10, 0, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def from_text(text: str, *, now: datetime | None = NOW, zone: str | None = None) -> TimingHint | None:
    return best_hint(hints_from_text(text, observed_at=now, local_zone=zone), observed_at=now)


def from_headers(headers: dict[str, str], *, now: datetime | None = NOW) -> TimingHint | None:
    return best_hint(hints_from_headers(headers, observed_at=now), observed_at=now)


def from_data(data: Any, *, now: datetime | None = NOW) -> TimingHint | None:
    return best_hint(hints_from_data(data, observed_at=now), observed_at=now)


def value_of(hint: TimingHint | None) -> float | datetime | None:
    if hint is None:
        return None
    return hint.reset_at if hint.retry_after is None else hint.retry_after.total_seconds()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (360.0, "Please try again in 6m0s."),
        (1.2, "Please try again in 1.2s. Visit the documentation."),
        (0.02, "Rate limit reached. Please try again in 20ms."),
        (0.006, "Limit: 10000 / min. Please try again in 6ms. Contact us"),
        (273600.0, "or try again in 3 days 4 hours."),
        (234840.0, "try again in 2 days 17 hours 14 minutes."),
        (7500.0, "Try again in 2 hours and 5 minutes"),
        (7500.0, "Try again in 2 hours, 5 minutes"),
        (7200.0, "Please try again in 2 hours.\n\nContinuing"),
        (3600.0, "try again in an hour"),
        (60.0, "try again in 1 minute"),
        (11.0, "Rate limit is exceeded. Try again in 11 seconds."),
        (11.0, "RATE LIMIT IS EXCEEDED. TRY AGAIN IN 11 SECONDS."),
        (604800.0, "try again in 1 week"),
        (4.0, "Retrying in 4 seconds… (attempt 4/10)"),
        (8.0, "Unable to connect\nRetrying in 8 seconds… (attempt 5/10)"),
        (2.0, "Retrying (attempt 1/3, waiting 2s)..."),
        (6.173, "Retrying after 6173ms..."),
        (32400.0, "free usage exceeded, retrying in 9h"),
        (5.0, "Reconnecting in 5s"),
        (468000.0, "It will reset in 5 days 10 hours. To continue"),
        (16100.0, "Your quota will reset after 4h28m20s. (HTTP 429)"),
        (5400.0, "limit resets in 1h 30m"),
        (5400.0, "Resets in: 1h30m"),
        (5400.0, "reset in 1 hr 30 mins"),
        (600.0, "available again in 10 minutes"),
        (59.0, "Please wait 59 seconds before sending another message"),
        (59.0, "Please wait 59s"),
        (30.0, "wait for 30 seconds"),
        (60.0, "wait at least 1 minute"),
        (30.0, "Please retry after 30 seconds."),
        (30.0, "retry after 30 s"),
        (30.5, "Please retry in 30.5s."),
        (34.074824, "Please retry in 34.074824224s."),
        (300.0, "Try again in about 5 minutes"),
        (300.0, "please try\nagain in\n5 minutes"),
        (120.0, "HTTP/1.1 429 Too Many Requests\nRetry-After: 120\nServer: x"),
        (120.0, "failed: 429, headers: {'retry-after': '120', 'server': 'x'}"),
        (471285.0, "HTTP/2 429\nx-codex-primary-used-percent: 100\nx-codex-primary-reset-after-seconds: 471285"),
        (34.0, '{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}}'),
        (3600.0, 'stream error: {"error":{"type":"usage_limit_reached","resets_in_seconds":3600}} (status 429)'),
        (3600.0, 'cut off … "resets_in_seconds": 3600, "eligible_pro'),
        (3600.0, r"{\"error\":{\"resets_in_seconds\":3600}}"),
    ],
)
def test_a_relative_text_is_a_wait(seconds: float, text: str) -> None:
    """R-CLS-5: relative notations need no observation time."""
    hint = from_text(text, now=None)
    assert (seconds, None) == (value_of(hint), hint.reset_at if hint else "none")
    assert value_of(from_text(text)) == seconds


@pytest.mark.parametrize(
    ("expected", "text", "now"),
    [
        ("2026-04-29T19:30:00Z", "You've hit your limit · resets 1:30am (Asia/Dhaka)", "2026-04-29T14:58:12Z"),
        ("2026-05-14T14:00:00Z", "resets 3pm (Europe/London)", "2026-05-14T10:00:00Z"),
        ("2026-05-15T14:00:00Z", "resets 3pm (Europe/London)", "2026-05-14T14:00:00Z"),
        ("2026-01-10T15:00:00Z", "Your limit will reset at 3pm (Europe/London).", "2026-01-10T10:00:00Z"),
        ("2026-10-09T05:00:00Z", "resets Oct 9 at 5am (UTC)", "2026-10-08T10:00:00Z"),
        ("2026-12-02T03:24:00Z", "You've hit your weekly limit · resets Dec 2, 3:24am (UTC)", "2026-11-30T03:30:00Z"),
        ("2026-05-02T11:00:00Z", "resets May 2, 2pm (Asia/Jerusalem)", "2026-04-30T20:00:46Z"),
        ("2027-01-02T09:00:00Z", "resets Jan 2 at 9am (UTC)", "2026-12-30T10:00:00Z"),
        ("2027-01-01T00:30:00Z", "resets 12:30am (UTC)", "2026-12-31T23:50:00Z"),
        ("2026-05-15T00:00:00Z", "resets 12am (UTC)", "2026-05-14T23:59:00Z"),
        ("2026-05-14T12:00:00Z", "resets 12pm (UTC)", "2026-05-14T10:00:00Z"),
        ("2026-05-15T00:00:00Z", "resets at midnight (UTC)", "2026-05-14T10:00:00Z"),
        ("2026-05-14T12:00:00Z", "resets at noon UTC", "2026-05-14T10:00:00Z"),
        ("2026-05-14T18:44:00Z", "5h limit: 0% left (resets 18:44 UTC)", "2026-05-14T10:00:00Z"),
        ("2026-05-19T16:21:00Z", "Weekly limit (resets 16:21 on 19 May (UTC))", "2026-05-14T10:00:00Z"),
        ("2026-05-14T13:05:00Z", "try again at 3:05 PM (UTC+2)", "2026-05-14T10:00:00Z"),
        ("2026-05-14T13:05:00Z", "try again at 3:05 p.m. +02:00", "2026-05-14T10:00:00Z"),
        ("2026-05-14T09:30:00Z", "try again at 3pm (GMT+05:30)", "2026-05-14T09:00:00Z"),
        ("2026-06-11T00:27:00Z", "try again at Jun 11th, 2026 12:27 AM (UTC)", "2026-05-14T10:00:00Z"),
        ("2026-06-11T00:27:00Z", "try again at Jun 11, 2026, 12:27 AM UTC", "2026-05-14T10:00:00Z"),
        ("2026-06-11T00:27:00Z", "try again on 11 June 2026 at 00:27 UTC", "2026-05-14T10:00:00Z"),
        ("2026-05-15T12:00:00Z", "resets at 2026-05-15T12:00:00Z", "2026-05-14T10:00:00Z"),
        ("2026-05-15T12:00:00Z", "resets at 2026-05-15 12:00:00 UTC", "2026-05-14T10:00:00Z"),
        ("2026-05-15T10:00:00Z", "available again at 2026-05-15T12:00:00.000+02:00", "2026-05-14T10:00:00Z"),
        ("2026-05-15T10:00:00Z", "available again at 2026-05-15 12:00 (Europe/Paris)", "2026-05-14T10:00:00Z"),
        ("2026-05-15T07:00:00Z", "resets tomorrow at 9am (Europe/Paris)", "2026-05-14T10:00:00Z"),
        ("2026-05-18T09:00:00Z", "resets Monday at 9am (UTC)", "2026-05-14T10:00:00Z"),
        ("2026-05-20T09:00:00Z", "Reset date: Wednesday, May 20, 2026 9am (UTC)", "2026-05-14T10:00:00Z"),
        ("2026-05-21T09:00:00Z", "resets Thu 9am (UTC)", "2026-05-14T10:00:00Z"),
        ("2025-10-09T09:00:00Z", "Claude AI usage limit reached|1760000400", "2025-10-09T05:00:00Z"),
        ("2025-10-09T09:00:00Z", "usage limit reached|1760000400000", "2025-10-09T05:00:00Z"),
        ("2025-10-09T09:00:00Z", "limit resets at 1760000400", "2025-10-09T05:00:00Z"),
        ("2026-03-29T01:30:00Z", "resets 2:30am (Europe/Berlin)", "2026-03-28T23:00:00Z"),
        ("2026-10-25T01:30:00Z", "resets 2:30am (Europe/Berlin)", "2026-10-24T23:00:00Z"),
        ("2026-03-08T10:30:00Z", "resets 2:30am (America/Los_Angeles)", "2026-03-08T08:00:00Z"),
        ("2025-11-24T01:00:00Z", "limit reached · resets 2pm (Pacific/Auckland) · /upgrade", "2025-11-23T22:30:00Z"),
        ("2026-05-14T10:45:00Z", "resets 4:30pm (Asia/Kathmandu)", "2026-05-14T10:00:00Z"),
    ],
)
def test_an_absolute_text_with_its_own_zone_is_an_instant(expected: str, text: str, now: str) -> None:
    """R-CLS-5: midnight, year end and clock changes roll over; a skipped time moves forward, a doubled one is the later."""
    hint = from_text(text, now=at(now))
    assert at(expected) == value_of(hint)
    assert hint is not None
    assert (hint.source, hint.trust) == ("text", Trust.LIMIT_TEXT)


@pytest.mark.parametrize(
    ("expected", "text", "zone"),
    [
        ("2026-05-14T15:10:00Z", "try again at 3:10 PM", "UTC"),
        ("2026-05-14T13:10:00Z", "try again at 3:10 PM.", "Europe/Berlin"),
        ("2026-05-14T19:10:00Z", "purchase more credits or try again at 3:10 PM.", "America/New_York"),
        ("2026-05-14T18:44:00Z", "limit: 0% left (resets 18:44)\nWeekly: 0% left (resets 16:21 on 19 May)", "UTC"),
        ("2026-06-11T00:27:00Z", "try again at Jun 11th, 2026 12:27 AM.", "UTC"),
        ("2026-05-15T09:59:00Z", "try again at 9:59 AM", "UTC"),
        ("2026-05-15T12:00:00Z", "resets at 2026-05-15 14:00", "Europe/Berlin"),
        ("2026-05-14T13:00:00Z", "resets 3pm (local time)", "Europe/Berlin"),
    ],
)
def test_a_local_wall_time_needs_the_adapters_zone(expected: str, text: str, zone: str) -> None:
    """R-CLS-5: without a zone from the text or the adapter there is no hint rather than a guess."""
    hint = from_text(text, zone=zone)
    assert at(expected) == value_of(hint)
    assert hint is not None
    assert (hint.zone, hint.trust) == ("adapter", Trust.LOCAL_TEXT)
    assert from_text(text, zone=None) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "try again later",
        "try again in a moment",
        "Please wait a few minutes before you try again.",
        "try again in a few hours",
        "or wait for limits to reset (every 5h and every week.).",
        "Your quota will reset when the current 5-hour window ends",
        "This resets every 5 hours.",
        "It was reset 5 minutes ago; after 3 attempts",
        "timeout of 15000ms exceeded",
        "rate limit of 20,000 input tokens per minute",
        "Limit: 150000.000000 / min. Current: 152160.000000 / min.",
        "Try again with a maximum tokens value lower than 4096.",
        "connection reset\n1 overloaded",
        "request failed after 30 seconds",
        "spec.rb:418-429 failed, req_429abc, 1429 tokens",
        "Failed after 3 attempts. Last error: Too Many Requests",
        "Retry 3 of 5",
        "try again in 5 million years",
        "try again in 45 days",
        "try again in 0s",
        "resets 3pm (PST)",
        "resets 3pm CST",
        "resets 3pm Pacific",
        "resets 3pm (Pacific Time)",
        "resets 3pm (Mars/Olympus)",
        "resets 3pm (../../etc/passwd)",
        "resets 25:00 (UTC)",
        "resets 13pm (UTC)",
        "resets Feb 30 at 5am (UTC)",
        "resets Dec 24 at 5am (UTC)",
        "resets at 2026-05-14T09:59:59Z",
        "resets at 2026-06-30T00:00:00Z",
        "resets at 2026-13-01T00:00:00Z",
        "cycle ends on 11/12/2026",
        "usage limit reached|1760000400",
        "usage limit reached|42",
        "Retry-After: -3",
        "Retry-After: soon",
        "Retry-After: 1.5",
        "Retry-After: 1e9",
        "Retry-After: 1760000400",
        "x-ratelimit-remaining-requests: 12\nx-ratelimit-reset-requests: 6m0s",
    ],
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_what_names_no_future_moment_is_no_hint(text: str, zone: str | None) -> None:
    """R-CLS-5: numbers without timing meaning, ambiguous zones, past and absurd times give nothing."""
    assert from_text(text, zone=zone) is None


@pytest.mark.parametrize(
    "value",
    [
        "-3",
        "+3",
        "1.5",
        "soon",
        "",
        "NaN",
        "1e9",
        "0",
        "\uff19",
        "3 s",
        "0x10",
        "1000000000",
        "99999999999999999999",
        "2678401",
    ],
)
def test_retry_after_follows_its_grammar_strictly(value: str) -> None:
    """R-CLS-5: anything but digits or an HTTP date is no hint, so is what is not in the future or absurd."""
    assert from_headers({"Retry-After": value}) is None
    other = {"Retry-After": value, "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
    assert value_of(from_headers(other)) == 360.0


@pytest.mark.parametrize(
    ("expected", "headers"),
    [
        (30.0, {"retry-after": "30"}),
        (30.0, {"RETRY-AFTER": " 30 "}),
        (0.25, {"retry-after-ms": "250", "retry-after": "1"}),
        (0.25, {"x-ms-retry-after-ms": "250"}),
        ("2026-05-14T10:05:00Z", {"retry-after": "Thu, 14 May 2026 10:05:00 GMT"}),
        ("2026-05-14T10:05:00Z", {"retry-after": "Thursday, 14-May-26 10:05:00 GMT"}),
        ("2026-05-14T10:05:00Z", {"retry-after": "Thu May 14 10:05:00 2026"}),
        (None, {"retry-after": "Thu, 14 May 2026 09:55:00 GMT"}),
        (None, {"retry-after": "Thu, 14 May 2026 10:05:00 CET"}),
        (None, {"retry-after": "Thu, 14 May 2027 10:05:00 GMT"}),
        (None, {"retry-after": "Thu, 32 May 2026 10:05:00 GMT"}),
        (360.0, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}),
        (1.2, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1.2s"}),
        (0.02, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}),
        (8.0, {"x-ratelimit-reset-tokens": "8s"}),
        (
            2.0,
            {
                "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
        ),
        (
            360.0,
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "6m0s",
            },
        ),
        (None, {"x-ratelimit-remaining-requests": "499", "x-ratelimit-reset-requests": "6m0s"}),
        ("2026-05-14T11:00:00Z", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1778756400"}),
        (None, {"x-ratelimit-remaining": "59", "x-ratelimit-reset": "1778756400"}),
        (30.0, {"ratelimit-remaining": "0", "ratelimit-reset": "30"}),
        (1.5, {"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "1.5"}),
        (
            "2026-05-14T10:01:00Z",
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-05-14T10:01:00Z",
            },
        ),
        (
            None,
            {
                "anthropic-ratelimit-requests-remaining": "7",
                "anthropic-ratelimit-requests-reset": "2026-05-14T10:01:00Z",
            },
        ),
        (
            "2026-05-14T11:00:00Z",
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": "1778756400",
                "retry-after": "30",
            },
        ),
        (
            30.0,
            {
                "anthropic-ratelimit-unified-status": "allowed",
                "anthropic-ratelimit-unified-reset": "1778756400",
                "retry-after": "30",
            },
        ),
        (
            None,
            {
                "anthropic-ratelimit-unified-status": "allowed_warning",
                "anthropic-ratelimit-unified-reset": "1778756400",
            },
        ),
        (
            "2026-05-16T10:00:00Z",
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-representative-claim": "seven_day",
                "anthropic-ratelimit-unified-5h-status": "allowed",
                "anthropic-ratelimit-unified-5h-reset": "1778756400",
                "anthropic-ratelimit-unified-7d-status": "rejected",
                "anthropic-ratelimit-unified-7d-reset": "1778925600",
            },
        ),
        (
            3600.0,
            {
                "x-codex-primary-used-percent": "100",
                "x-codex-primary-reset-after-seconds": "3600",
                "x-codex-primary-reset-at": "1778756400",
                "x-codex-secondary-used-percent": "12",
                "x-codex-secondary-reset-after-seconds": "432000",
            },
        ),
        (None, {"x-codex-primary-used-percent": "93", "x-codex-primary-reset-after-seconds": "3600"}),
        (None, {"x-ratelimit-limit-tokens": "30000", "content-length": "120", "x-should-retry": "true"}),
    ],
)
def test_headers(expected: float | str | None, headers: dict[str, str]) -> None:
    """R-CLS-5: only the exhausted dimension counts, and each notation by its own grammar."""
    assert (at(expected) if isinstance(expected, str) else expected) == value_of(from_headers(headers))


@pytest.mark.parametrize(
    ("expected", "data"),
    [
        ("2026-05-14T11:00:00Z", {"resetsAt": 1778756400}),
        ("2026-05-14T11:00:00Z", {"resetsAt": 1778756400000}),
        ("2026-05-14T11:00:00Z", {"resets_at": "1778756400"}),
        ("2026-05-14T11:00:00Z", {"error": {"resets_at": 1778756400, "resets_in_seconds": 3600}}),
        ("2026-05-14T11:00:00Z", {"reset_at": "2026-05-14T11:00:00Z"}),
        ("2026-05-14T11:00:00Z", {"quotaResetTimeStamp": "2026-05-14T13:00:00+02:00"}),
        (3600.0, {"resets_in_seconds": 3600}),
        (3600.0, {"resetsInSeconds": "3600"}),
        (16100.0, {"metadata": {"quotaResetDelay": "4h28m20s"}}),
        (30.0, {"retry_after": 30}),
        (1.5, {"retry_after": 1.5}),
        (30.0, {"retryAfter": "30"}),
        (30.0, {"retryAfterSeconds": 30}),
        (0.25, {"retry_after_ms": 250}),
        (0.505, {"type": "system", "retry_delay_ms": 505}),
        (34.0, {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}),
        (34.5, {"details": [{"retryDelay": "34.500s"}]}),
        (34.5, {"details": [{"retryDelay": {"seconds": "34", "nanos": 500000000}}]}),
        (2.0, {"data": {"responseHeaders": {"retry-after": "2"}}}),
        ("2026-05-14T10:00:05Z", {"status": {"type": "retry", "attempt": 1, "next": 1778752805000}}),
        (
            "2026-05-14T11:00:00Z",
            {
                "rate_limit_info": {
                    "status": "rejected",
                    "resetsAt": 1778756400,
                    "unifiedWindows": {"seven_day": {"utilization": 0.6, "resetsAt": 1778925600, "status": "allowed"}},
                }
            },
        ),
        (
            "2026-05-14T11:00:00Z",
            {
                "primary": {"usedPercent": 100, "resetsAt": 1778756400},
                "secondary": {"usedPercent": 12, "resetsAt": 1778925600},
            },
        ),
        (None, {"primary": {"usedPercent": 12, "resetsAt": 1778756400}}),
        (None, {"status": "allowed_warning", "resetsAt": 1778756400}),
        (None, {"remaining": 3, "reset_at": 1778756400}),
        (None, {"resetsAt": 12}),
        (None, {"resetsAt": True}),
        (None, {"resetsAt": None}),
        (None, {"resetsAt": [1778756400]}),
        (None, {"resetsAt": float("nan")}),
        (None, {"resetsAt": float("inf")}),
        (None, {"resetsAt": 10**400}),
        (None, {"retry_after": -3}),
        (None, {"retry_after": "1.5"}),
        (None, {"retry_after": "soon"}),
        (None, {"retry_after": 1e9}),
        (None, {"retry_after": True}),
        (None, {"expires_at": 1778756400, "created": 1778756400, "max_tokens": 4096, "window_minutes": 300}),
        (None, "try again"),
        (None, 1778756400),
        (None, None),
    ],
)
def test_structured_fields(expected: float | str | None, data: Any) -> None:
    """R-CLS-5: fields are read wherever they are nested; an object that is not exhausted gives nothing."""
    assert (at(expected) if isinstance(expected, str) else expected) == value_of(from_data(data))


def test_nesting_is_followed_to_a_bound() -> None:
    """R-CLS-7: the search ends, however deep the data."""
    data: Any = {"resets_in_seconds": 60}
    for _ in range(5):
        data = [{"inner": data}]
    assert value_of(from_data(data)) == 60.0
    for _ in range(5000):
        data = [data]
    assert from_data(data) is None
    assert from_data([{"resets_in_seconds": 0}] * 100_000 + [{"resets_in_seconds": 60}]) is None


def test_a_zoneless_wall_time_loses_to_a_relative_hint() -> None:
    """R-CLS-5, agents.md: eight hours too long."""
    assert value_of(from_text("try again at 6:00 PM, or rather: try again in 5 minutes", zone="UTC")) == 300.0


def test_the_end_of_a_limit_outranks_a_short_retry_after() -> None:
    """agents.md: a reset hours away is not a short throttle; the hint tells which statement it is."""
    hints = hints_from_headers({"retry-after": "30"}, observed_at=NOW)
    hints += hints_from_text("You've hit your limit · resets 1:30pm (UTC)", observed_at=NOW, local_zone=None)
    hint = best_hint(hints, observed_at=NOW)
    assert hint is not None
    assert ("text", "resets 1:30pm (UTC)", "text") == (hint.source, hint.written, hint.zone)


def test_the_most_trusted_wins_not_the_longest() -> None:
    """R-CLS-5."""
    hints = hints_from_headers({"retry-after": "30"}, observed_at=NOW)
    hints += hints_from_text("try again in 3 days. Retrying in 9h", observed_at=NOW, local_zone=None)
    assert value_of(best_hint(hints, observed_at=NOW)) == 30.0
    assert value_of(best_hint(reversed(hints), observed_at=NOW)) == 30.0


def test_the_providers_word_outranks_the_agents_own_backoff() -> None:
    assert value_of(from_text("Retrying after 6173ms... Your quota will reset after 5s..")) == 5.0


def test_an_invalid_hint_falls_through_to_the_next() -> None:
    """R-CLS-5: past and absurd hints are passed over."""
    text = "Claude AI usage limit reached|1760000400 resets at 2027-05-14T10:00:00Z, try again in 6m0s"
    assert value_of(from_text(text)) == 360.0


def test_without_observation_an_instant_is_as_written() -> None:
    """R-CLS-5: the past and 31-day checks need ``observed_at``; a time without a full date needs it too."""
    assert at("2025-10-09T09:00:00Z") == value_of(from_text("limit reached|1760000400", now=None))
    assert at("2020-01-01T00:00:00Z") == value_of(from_data({"resets_at": "2020-01-01T00:00:00Z"}, now=None))
    assert at("2025-11-17T00:00:00Z") == value_of(from_text("your monthly cycle ends on 11/17/2025.*", now=None))
    assert from_text("resets 3pm (Europe/London)", now=None) is None
    assert from_text("resets Oct 9 at 5am (UTC)", now=None) is None


def test_due_at_adds_a_wait_to_the_observation() -> None:
    wait = from_headers({"retry-after": "30"})
    assert wait is not None
    assert NOW + timedelta(seconds=30) == due_at(wait, NOW)
    assert due_at(wait, None) is None
    instant = from_data({"resets_at": 1778756400, "resets_in_seconds": 5})
    assert instant is not None
    assert at("2026-05-14T11:00:00Z") == due_at(instant, None)


def test_the_horizon_is_inclusive() -> None:
    assert value_of(from_headers({"retry-after": str(31 * 86400)})) == 31 * 86400.0
    late = TimingHint(
        retry_after=None,
        reset_at=NOW + MAX_HORIZON + timedelta(seconds=1),
        source="field",
        written="",
        zone="utc",
        trust=1,
    )
    assert not is_valid(late, NOW)
    assert is_valid(late, None)


ZONES = [
    "UTC",
    "Europe/London",
    "Asia/Dhaka",
    "Asia/Kathmandu",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Pacific/Auckland",
]
instants = st.integers(min_value=1_704_067_200, max_value=1_893_456_000).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)
waits = st.integers(min_value=1, max_value=31 * 86400).map(lambda seconds: timedelta(seconds=seconds))


def go(wait: timedelta) -> str:
    minutes, seconds = divmod(int(wait.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"


def words(wait: timedelta) -> str:
    seconds = int(wait.total_seconds())
    parts = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts)


@given(
    waits,
    st.sampled_from([go, words]),
    st.sampled_from(["try again in {}.", "It will reset in {}", "resets after {} ", "wait {}"]),
)
def test_parse_inverts_render_for_waits(wait: timedelta, render: Any, sentence: str) -> None:
    assert wait.total_seconds() == value_of(from_text(sentence.format(render(wait)), now=None))


@given(st.integers(min_value=1, max_value=999_999))
def test_parse_inverts_render_for_milliseconds(milliseconds: int) -> None:
    assert milliseconds / 1000 == pytest.approx(value_of(from_text(f"try again in {milliseconds}ms")))
    assert milliseconds / 1000 == pytest.approx(value_of(from_text(f"try again in {milliseconds / 1000:.3f}s")))


@given(instants, waits, st.sampled_from(["epoch", "millis", "iso", "offset", "fixdate", "suffix"]))
def test_parse_inverts_render_for_instants(now: datetime, wait: timedelta, notation: str) -> None:
    due = now + wait
    epoch = int(due.timestamp())
    hint = {
        "epoch": lambda: from_data({"a": [{"resetsAt": epoch}]}, now=now),
        "millis": lambda: from_data({"resets_at": epoch * 1000}, now=now),
        "iso": lambda: from_text(f"resets at {due:%Y-%m-%dT%H:%M:%SZ}", now=now),
        "offset": lambda: from_text(f"reset at {due.astimezone(ZoneInfo('Asia/Kathmandu')).isoformat()}", now=now),
        "fixdate": lambda: from_headers({"retry-after": format_datetime(due, usegmt=True)}, now=now),
        "suffix": lambda: from_text(f"usage limit reached|{epoch}", now=now),
    }[notation]()
    assert due == value_of(hint)


@given(instants, st.integers(min_value=1, max_value=22 * 60), st.sampled_from(ZONES), st.booleans())
def test_parse_inverts_render_for_wall_times(now: datetime, minutes: int, zone: str, named: bool) -> None:
    """The next occurrence after the observation, in the zone of the text or of the adapter."""
    due = (now + timedelta(minutes=minutes)).replace(second=0)
    local = due.astimezone(ZoneInfo(zone))
    assume(
        due > now
        and local.utcoffset() == (local + timedelta(hours=2)).utcoffset() == (local - timedelta(hours=2)).utcoffset()
    )
    assume(now.astimezone(ZoneInfo(zone)).utcoffset() == local.utcoffset())
    text = f"resets {local:%I:%M%p}".replace("resets 0", "resets ").lower()
    hint = from_text(f"{text} ({zone})", now=now) if named else from_text(text, now=now, zone=zone)
    assert due == value_of(hint)


@given(instants, st.integers(min_value=60, max_value=31 * 1440), st.sampled_from(ZONES), st.booleans())
def test_parse_inverts_render_for_dated_times(now: datetime, minutes: int, zone: str, with_year: bool) -> None:
    due = (now + timedelta(minutes=minutes)).replace(second=0)
    local = due.astimezone(ZoneInfo(zone))
    assume(local.utcoffset() == (local + timedelta(hours=2)).utcoffset() == (local - timedelta(hours=2)).utcoffset())
    year = f", {local.year}" if with_year else ""
    assert due == value_of(from_text(f"resets {local:%b} {local.day}{year} at {local:%I:%M %p} ({zone})", now=now))


@given(st.text(), st.sampled_from([None, "Europe/Berlin", "nowhere"]))
def test_no_text_raises_and_no_hint_is_invalid(text: str, zone: str | None) -> None:
    for now in (NOW, None):
        for prefix in ("", "resets at ", "try again in ", "Retry-After: ", '{"resets_at": '):
            assert all(is_valid(hint, now) for hint in hints_from_text(prefix + text, observed_at=now, local_zone=zone))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["resetsAt", "retry_after", "retryDelay", "headers", "seconds", "status"]) | st.text(),
                inner,
            )
        ),
    )
)
def test_no_data_raises_and_no_hint_is_invalid(data: Any) -> None:
    for now in (NOW, None):
        assert all(is_valid(hint, now) for hint in hints_from_data(data, observed_at=now))


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "retry-after",
                "x-ratelimit-reset-requests",
                "anthropic-ratelimit-unified-reset",
                "x-codex-primary-reset-at",
            ]
        ),
        st.text(),
    )
)
def test_no_header_raises(headers: dict[str, str]) -> None:
    assert all(is_valid(hint, NOW) for hint in hints_from_headers(headers, observed_at=NOW))


def test_the_date_is_kept_across_midnight() -> None:
    """agents.md: a midnight rollover read as "already over"."""
    assert at("2026-05-15T00:10:00Z") == value_of(from_text("resets 12:10am (UTC)", now=at("2026-05-14T23:59:59Z")))

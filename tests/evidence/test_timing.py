"""Timing hints (R-CLS-5) in headers and fields, which of several is believed, and what makes one valid.

Texts have their own table (``test_timing_sentences.py``), what holds for all inputs too (``test_timing_properties.py``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

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
        ("2026-05-14T10:06:00Z", {"retry-after": "Thu, 14 May 2026 10:05:60 GMT"}),
        (None, {"retry-after": "Thu, 14 May 2026 10:05:00 gmt"}),
        (None, {"retry-after": "Thu, 14 May 2026 10:05 GMT"}),
        (None, {"retry-after": "14 May 2026 10:05:00 GMT"}),
        (None, {"retry-after": "2026-05-14T10:05:00Z"}),
        (None, {"retry-after": "Thursday, 14-May-1926 10:05:00 GMT"}),
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
        ("2026-05-14T11:00:00Z", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1778756400000"}),
        ("2026-05-14T11:00:00Z", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "2026-05-14T11:00:00Z"}),
        (None, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "2026-05-14 11:00:00"}),
        (33011.382867, {"x-ratelimit-remaining-tokens-day": "0", "x-ratelimit-reset-tokens-day": "33011.382867"}),
        (179.56, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s"}),
        (None, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}),
        (None, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6M0S"}),
        (None, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "-1s"}),
        (
            # of two exhausted ones, the later, in whichever notation each is
            7200.0,
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2026-05-14T10:00:02Z",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2h",
            },
        ),
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
        (
            # of two used windows, both must pass
            432000.0,
            {
                "x-codex-primary-used-percent": "100",
                "x-codex-primary-reset-after-seconds": "3600",
                "x-codex-secondary-used-percent": "100",
                "x-codex-secondary-reset-after-seconds": "432000",
            },
        ),
        (31.0, {"ratelimitbysize-remaining": "0", "ratelimitbysize-reset": "31"}),
        (50.0, {"ratelimit": '"api|pages";r=0;t=50'}),
        (50.0, {"ratelimit": '"burst";r=0;t=5, "day";r=0;t=50, "month";r=9;t=900'}),
        (None, {"ratelimit": '"api|pages";r=10;t=50'}),
        (30.0, {"ratelimit": "limit=10, remaining=0, reset=30"}),
        (None, {"ratelimit": "limit=10, remaining=10, reset=30"}),
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
        ("2026-05-14T11:00:00Z", {"rate_limit": {"limit": 60, "remaining": 0, "reset": 1778756400}}),
        ("2026-06-01T00:00:00Z", {"quota_reset_date": "2026-06-01"}),
        ("2026-06-01T00:00:00Z", {"quota_reset_date_utc": "2026-06-01T00:00:00.000Z"}),
        (30.0, {"quota_reset_date": "2026-06-01", "retry_after": 30}),
        (16100.0, {"error": {"code": "model_cooldown", "reset_seconds": 16100, "reset_time": "4h28m20s"}}),
        (90.0, {"retryAfterInSeconds": 90}),
        (0.539478, {"quotaResetDelay": "539.477544ms"}),
        (34.07, {"details": [{"retryDelay": "34.07s"}]}),
        (30.0, {"headers": {"retry-after": ["30"], "server": ["x"]}}),
        (None, {"headers": {"retry-after": ["30", "60"], "x": None, "y": {"z": 1}}}),
        ("2026-05-14T12:00:00Z", {"reset": 1778756400, "resets_at": "2026-05-14T12:00:00Z"}),
        (None, {"rate_limit": {"limit": 60, "remaining": "59", "reset": 1778756400}}),
        (None, {"gemini": {"remainingFraction": 0.85, "resetTime": "2026-05-14T11:00:00Z"}}),
        ("2026-05-14T11:00:00Z", {"gemini": {"remainingFraction": 0.0, "resetTime": "2026-05-14T11:00:00Z"}}),
        (None, {"limit_reached": False, "primary_window": {"reset_at": 1778756400}}),
        ("2026-05-14T11:00:00Z", {"limit_reached": True, "primary_window": {"reset_at": 1778756400}}),
        (None, {"reset": 60, "resets": "soon"}),
        (None, {"resets_at": "2026-05-14 11:00:00"}),
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


@pytest.mark.parametrize(
    ("trust", "text"),
    [
        (Trust.LIMIT_TEXT, "resets 3pm (UTC)"),
        (Trust.LIMIT_TEXT, "usage limit reached|1778756400"),
        (Trust.RELATIVE_TEXT, "try again in 6m0s"),
        (Trust.OWN_BACKOFF, "Retrying in 4 seconds"),
        (Trust.OWN_BACKOFF, "Retrying at 3pm (UTC)"),
        (Trust.LOCAL_TEXT, "resets 3pm"),
        (Trust.DATE_TEXT, "resets May 20"),
        (Trust.LIMIT_FIELD, '{"resets_at": 1778756400}'),
        (Trust.DATE_TEXT, '{"reset_date": "2026-05-20"}'),
        (Trust.RETRY_AFTER, "Retry-After: 30"),
    ],
)
def test_each_kind_of_statement_has_its_trust(trust: Trust, text: str) -> None:
    """R-CLS-5: the provider's word before the agent's own schedule, a zone of its own before a local time."""
    hint = from_text(text, zone="UTC")
    assert hint is not None
    assert trust == hint.trust


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

"""Recordings, varied as reality varies them: what comes out must not change, and nothing unsafe may be repeated (R-SAFE-7)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from tests.adapters._mutations import HARMLESS, TAINTS, each_text
from tests.adapters._replay import WHEN, complaints, expectations, full_catalogue, recording, replay

pytestmark = pytest.mark.exhaustive

STRIDE = 9
"""Each mutation meets every ninth recording; over all mutations, every recording meets several. A taint meets every one that
may be repeated: one slip there does work twice."""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


class Case(NamedTuple):
    name: str
    expected: dict[str, Any]
    when: datetime


def _cases(cli: str) -> list[Case]:
    return [
        Case(name, expected, datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN)
        for name, expected in expectations().items()
        if name.startswith(f"{cli}/headless/")
    ]


def _sampled(cases: Sequence[Case], index: int, stride: int) -> Iterator[Case]:
    return (case for place, case in enumerate(cases) if (place + index) % stride == 0)


@pytest.mark.parametrize("label", HARMLESS)
def test_what_does_not_matter_changes_nothing(label: str, catalogue: Catalogue) -> None:
    cases = [*_cases("claude"), *_cases("codex")]
    wrong = {}
    for case in _sampled(cases, list(HARMLESS).index(label), STRIDE):
        record = HARMLESS[label](recording(case.name))
        if found := complaints(replay(record, catalogue, case.when), case.expected, case.when):
            wrong[case.name] = found
    assert {} == wrong


@pytest.mark.parametrize(("cli", "label"), [(cli, label) for cli, taints in TAINTS.items() for label in taints])
def test_a_sign_that_something_happened_forbids_to_repeat(cli: str, label: str, catalogue: Catalogue) -> None:
    """The cause is still seen; only the attempt may not be repeated by itself (R-SAFE-1, R-SAFE-7)."""
    repeatable = [
        case
        for case in _cases(cli)
        if case.expected["automatic"] != "no" and not case.name.endswith(("@text.json", "binary_missing.json"))
    ]
    assert len(repeatable) >= (10 if cli == "opencode" else 20)
    wrong = {}
    for case in repeatable:
        replayed = replay(TAINTS[cli][label](recording(case.name)), catalogue, case.when)
        if found := complaints(replayed, {**case.expected, "automatic": "no"}, case.when):
            wrong[case.name] = found
    assert {} == wrong


PLAN = "claude/headless/429_unified_5h@oauth.json"
PLAN_TEXT = "You've hit your 5-hour limit · resets 4:19am (UTC)"
EPOCH = "1796012382"


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("window", "text", "due"),
    [
        ("seven_day", "You've hit your weekly limit · resets Dec 5, 3am (UTC)", at(2026, 12, 5, 3)),
        ("seven_day_opus", "You've hit your Opus limit · resets Dec 5 at 3am (America/New_York)", at(2026, 12, 5, 8)),
        (
            "seven_day_sonnet",
            "You've hit your Sonnet limit · resets Dec 5, 3:59pm (Asia/Kolkata)",
            at(2026, 12, 5, 10, 29),
        ),
        ("five_hour", "You've hit your session limit · resets 6am (UTC)", at(2026, 11, 30, 6)),
        ("overage", "You're out of extra usage · resets 11:30pm (America/Los_Angeles)", at(2026, 11, 30, 7, 30)),
        ("overage", "You've hit your monthly spend limit · resets Dec 1, 12am (UTC)", at(2026, 12, 1)),
    ],
)
@pytest.mark.parametrize("said_by", ["both", "the event", "the text"])
def test_every_window_of_a_plan(window: str, text: str, due: datetime, said_by: str, catalogue: Catalogue) -> None:
    """R-CLS-5: wherever the reset is said."""
    words = "The words of another version" if said_by == "the event" else text
    record = each_text((PLAN_TEXT, words), ("five_hour", window), (EPOCH, str(int(due.timestamp()))))(recording(PLAN))
    if said_by == "the text":
        lines = [pair for pair in record["stdout_lines"] if '"type":"rate_limit_event"' not in pair[1]]
        record = each_text((f'"resetsAt":{due.timestamp():.0f},', ""))({**record, "stdout_lines": lines})
    replayed = replay(record, catalogue)
    assert replayed.classification is not None
    assert ("quota_limited", True) == (replayed.classification.code, replayed.automatic)
    assert replayed.classification.reset_at is not None
    assert abs((due - replayed.classification.reset_at).total_seconds()) <= 60


USAGE = "codex/headless/429_usage_limit_reached.json"


def _says(name: str, message: str) -> dict[str, Any]:
    """The recording ``name``, its failure worded anew."""

    lines = []
    for stamp, line in recording(name)["stdout_lines"]:
        event = json.loads(line)
        if event["type"] == "turn.failed":
            event["error"]["message"] = message
        elif event["type"] == "error":
            event["message"] = message
        lines.append([stamp, json.dumps(event, ensure_ascii=False)])
    return {**recording(name), "stdout_lines": lines}


@pytest.mark.parametrize(
    ("message", "codes", "automatic", "due"),
    [
        ("You’ve hit your usage limit. Try again in 3 days 4 hours 5 minutes.", "quota", True, at(2026, 12, 3, 7, 35)),
        ("You’ve hit your usage limit. Try again at Dec 5th, 2026 8:00 PM.", "quota", True, at(2026, 12, 5, 20)),
        ("You’ve hit your usage limit. Try again at 12:15 AM.", "quota", True, at(2026, 12, 1, 0, 15)),
        ("You’ve hit your usage limit. Try again later.", "quota", True, None),
        ("You've hit your usage limit for Codex-Mini. Switch, or try again at 4:18 AM.", "quota", True, at(2026, 11, 30, 4, 18)),
        ("You’ve reached your weekly usage limit. Try again in 1 hour.", "quota", True, at(2026, 11, 30, 4, 30)),
        ("Your workspace is out of credits. Add credits to continue.", "billing", True, None),
        ("unexpected status 503 Service Unavailable: <html></html>, url: https://x.test", "outage", True, None),
        ("unexpected status 520 <unknown status code>: error code: 520", "outage", True, None),
        ("unexpected status 530 <unknown status code>: error code: 1033", "outage", True, None),
        ("exceeded retry limit, last status: 504 Gateway Timeout, request id: req_429", "outage", True, None),
        ("exceeded retry limit, last status: 401 Unauthorized", "auth", True, None),
        ("rate limit exceeded: Rate limit reached. Please try again in 6m0s.", "rate", True, at(2026, 11, 30, 3, 36)),
        ("unexpected status 401 Unauthorized: Provided authentication token is expired.", "auth", True, None),
        ("The 'gpt-5.4' model is not supported when using Codex with a ChatGPT account.", "model", True, None),
        ("The model `o1` has been deprecated, learn more here: https://x.test", "model", True, None),
        ("stream disconnected before completion: Rate limit reached. Try again in 11 seconds.", "rate", False, at(2026, 11, 30, 3, 30, 11)),
        ("stream disconnected before completion: idle timeout waiting for SSE", "network", False, None),
        ("stream disconnected before completion: You’ve hit your usage limit.", "quota", False, None),
        ("request timed out", "network", False, None),
        ("Your input exceeds the context window of this model.", "context", False, None),
        ("Invalid prompt: flagged as potentially violating our usage policy.", "none", False, None),
        ("internal error; agent loop died unexpectedly", "none", False, None),
    ],
)  # fmt: skip
def test_codex_in_other_words(
    message: str, codes: str, automatic: bool, due: datetime | None, catalogue: Catalogue
) -> None:
    """What proves that no response had begun may be repeated; a broken stream never (R-SAFE-7)."""
    replayed = replay(_says(USAGE, message), catalogue)
    found = replayed.classification
    assert found is not None
    assert found.code in CODES[codes]
    assert automatic is replayed.automatic
    said = found.reset_at if found.retry_after is None else WHEN + found.retry_after
    assert (due is None) is (said is None)
    assert due is None or said is None or abs((due - said).total_seconds()) <= 60


CODES = {
    "quota": {"quota_limited"},
    "billing": {"subscription_required"},
    "outage": {"provider_unavailable", "provider_overloaded"},
    "auth": {"auth_required"},
    "rate": {"rate_limited"},
    "model": {"model_unavailable"},
    "network": {"network_unavailable"},
    "context": {"context_exhausted"},
    "none": {"agent_runtime_error", "unknown_provider_error", "content_refused"},
}

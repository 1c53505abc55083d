"""What decides (R-CLS-1, R-CLS-3, R-CLS-5), and what never does (R-EVI-6)."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue, automatic
from kandev_routing_sdk.catalogue.rules import RuleSource
from kandev_routing_sdk.evidence.model import Effects, Signal
from kandev_routing_sdk.types import Channel, Code, Confidence, Delivery, ErrorClass, Phase, Scope
from tests.catalogue._shipped import classify, evidence, said, shipped

NOW = "2026-11-30T03:30:00Z"
KEY = "sk-ant-api03-" + "FAKEfake" * 6
LIMIT = "You've hit your usage limit. Try again in 3 hours."


# What one status does not merge ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (429, {"error": {"type": "rate_limit_error", "message": "slow down"}}, Code.RATE_LIMITED),
        (429, {"error": {"type": "usage_limit_reached", "message": "?"}}, Code.QUOTA_LIMITED),
        (
            429,
            {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}},
            Code.QUOTA_LIMITED,
        ),
        (
            429,
            {"error": {"type": "rate_limit_error", "message": "suspended due to insufficient balance"}},
            Code.SUBSCRIPTION_REQUIRED,
        ),
        (429, {"error": {"type": "usage_not_included", "message": "?"}}, Code.SUBSCRIPTION_REQUIRED),
        (
            429,
            {"error": {"message": "The engine is currently overloaded, please try again later"}},
            Code.PROVIDER_OVERLOADED,
        ),
        (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "?"}}, Code.RATE_LIMITED),
        (403, {"error": {"type": "permission_error", "message": "?"}}, Code.AUTH_REQUIRED),
        (403, {"error": {"message": "You've reached your weekly usage limit"}}, Code.QUOTA_LIMITED),
        (403, {"error": {"message": "not authorized to use this Copilot feature"}}, Code.SUBSCRIPTION_REQUIRED),
        (403, None, Code.UNKNOWN_PROVIDER_ERROR),
        (
            400,
            {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
            Code.SUBSCRIPTION_REQUIRED,
        ),
        (400, {"error": {"code": "context_length_exceeded", "message": "?"}}, Code.CONTEXT_EXHAUSTED),
        (400, {"error": {"type": "invalid_request_error", "message": "Field required"}}, Code.UNKNOWN_PROVIDER_ERROR),
        (400, {"error": {"code": "content_filter"}}, Code.CONTENT_REFUSED),
        (401, None, Code.AUTH_REQUIRED),
        (402, None, Code.SUBSCRIPTION_REQUIRED),
        (404, {"error": {"code": "model_not_found"}}, Code.MODEL_UNAVAILABLE),
        (404, None, Code.UNKNOWN_PROVIDER_ERROR),
        (413, None, Code.CONTEXT_EXHAUSTED),
        (429, None, Code.RATE_LIMITED),
        (500, None, Code.PROVIDER_UNAVAILABLE),
        (503, None, Code.PROVIDER_UNAVAILABLE),
        (529, None, Code.PROVIDER_OVERLOADED),
        (418, None, Code.UNKNOWN_PROVIDER_ERROR),
    ],
)
def test_a_status_is_read_with_its_body(status: int, body: dict[str, object] | None, code: Code) -> None:
    """R-CLS-3: 429, 403 and 400 mean different things."""
    assert code == classify({"channel": "http", "http_status": status, "data": body}).code


@pytest.mark.parametrize("status", [400, 403, 404, 418])
def test_a_bare_shared_status_decides_nothing(status: int) -> None:
    """Several causes share it: unclassified."""
    found = classify({"channel": "http", "http_status": status})
    assert (ErrorClass.UNCLASSIFIED, Confidence.LOW, None) == (
        found.error_class,
        found.confidence,
        found.classifier_rule,
    )


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"retry-after": "30"}, Code.RATE_LIMITED),
        ({"retry-after": "600"}, Code.RATE_LIMITED),
        ({"retry-after": "601"}, Code.QUOTA_LIMITED),
        ({"retry-after": "18000"}, Code.QUOTA_LIMITED),
        ({"retry-after": "-3"}, Code.RATE_LIMITED),
        ({"retry-after": "1e9"}, Code.RATE_LIMITED),
        ({}, Code.RATE_LIMITED),
    ],
    ids=str,
)
def test_a_far_hint_makes_a_throttle_a_limit(headers: dict[str, str], code: Code) -> None:
    """A limit with a reset hours away is not a short throttle to be retried for hours."""
    found = classify({"channel": "http", "http_status": 429, "headers": headers}, observed_at=NOW)
    assert code == found.code


def test_a_near_reset_leaves_a_limit_a_limit() -> None:
    """And the reverse: a usage limit that resets soon is still an allowance."""
    found = said("You've hit your usage limit. Try again in 3 minutes.")
    assert (Code.QUOTA_LIMITED, timedelta(minutes=3)) == (found.code, found.retry_after)


def test_far_needs_to_know_what_is_now() -> None:
    """An instant without `observed_at` is neither near nor far."""
    text = "Rate limit reached. Try again at 2026-11-30T09:00:00Z."
    assert [Code.RATE_LIMITED, Code.QUOTA_LIMITED] == [said(text).code, said(text, observed_at=NOW).code]


# Ranks -------------------------------------------------------------------------------------------------------------------

RANKED = """
released = "2026.11"
[[rule]]
id = "t.fields"
code = "auth_required"
structured = [[{ at = "data:kind", equals = "a" }]]
positive = [{ channel = "http", data = { kind = "a" } }]
negative = ["x"]
correlation = [{ channel = "tool_output", data = { kind = "a" } }]
redaction = [{ channel = "http", data = { kind = "a", message = "«user1@example.com»" } }]
[[rule]]
id = "t.exact"
code = "model_unavailable"
exact = ["It broke"]
positive = ["It broke"]
negative = ["It broke twice"]
correlation = ["It broke"]
redaction = [{ channel = "stderr", text = "It broke", data = { message = "«user1@example.com»" } }]
[[rule]]
id = "t.words"
code = "rate_limited"
priority = 99
pattern = ["broke"]
positive = ["broke"]
negative = ["x"]
correlation = ["broke"]
redaction = ["broke «user1@example.com»"]
[[rule]]
id = "t.other_words"
code = "quota_limited"
priority = 99
pattern = ["limit"]
positive = ["limit"]
negative = ["x"]
correlation = ["limit"]
redaction = ["limit «user1@example.com»"]
[[rule]]
id = "t.shared"
code = "network_unavailable"
confidence = "medium"
scope = "model"
shared = true
priority = 100
structured = [[{ at = "http_status", equals = 429 }]]
positive = [{ channel = "http", http_status = 429 }]
negative = ["x"]
correlation = [{ channel = "tool_output", http_status = 429 }]
redaction = [{ channel = "http", http_status = 429, text = "«user1@example.com»" }]
[[rule]]
id = "t.doubt"
code = "provider_overloaded"
confidence = "low"
pattern = ["perhaps"]
positive = ["perhaps"]
negative = ["x"]
correlation = ["perhaps"]
redaction = ["perhaps «user1@example.com»"]
"""


@pytest.fixture(scope="module")
def ranked() -> Catalogue:
    return Catalogue.load([RuleSource(name="t", text=RANKED)], verify=True)


@pytest.mark.parametrize(
    ("signal", "rule"),
    [
        ({"text": "It broke", "data": {"kind": "a"}, "http_status": 429}, "t.fields"),
        ({"text": "It broke", "http_status": 429}, "t.exact"),
        ({"text": "it broke twice", "http_status": 429}, "t.words"),
        ({"text": "hm", "http_status": 429}, "t.shared"),
        ({"text": "hm"}, None),
    ],
)
def test_structured_outranks_exact_outranks_pattern(
    ranked: Catalogue, signal: dict[str, object], rule: str | None
) -> None:
    """R-CLS-3, whatever the priorities; what causes share comes last."""
    assert rule == ranked.classify(evidence({"channel": "http", **signal})).classifier_rule


@pytest.mark.parametrize("text", ["Error: It broke.", "API Error: it broke", "■ It broke", "first\nIt broke!\nlast"])
def test_exact_is_a_whole_line_but_for_its_prefix(ranked: Catalogue, text: str) -> None:
    """Case, a prefix and a full stop apart."""
    assert "t.exact" == ranked.classify(evidence({"channel": "stderr", "text": text})).classifier_rule


@pytest.mark.parametrize("order", list(itertools.permutations(["it broke a bit", "a limit"])))
def test_equal_rank_that_disagrees_is_unclassified(ranked: Catalogue, order: tuple[str, ...]) -> None:
    """R-CLS-3: both rule ids are kept, in any order of the signals."""
    found = ranked.classify(evidence(*({"channel": "stderr", "text": t} for t in order)))
    assert (ErrorClass.UNCLASSIFIED, Confidence.LOW, None, Code.UNKNOWN_PROVIDER_ERROR) == (
        found.error_class,
        found.confidence,
        found.classifier_rule,
        found.code,
    )
    assert (
        "rules of equal rank disagree: t.other_words says quota_limited, t.words says rate_limited",
    ) == found.because


def test_a_rule_may_say_its_own_scope_and_confidence(ranked: Catalogue) -> None:
    """Instead of the code's."""
    found = ranked.classify(evidence({"channel": "http", "http_status": 429}))
    assert (Scope.MODEL, Confidence.MEDIUM, ErrorClass.TRANSIENT) == (found.scope, found.confidence, found.error_class)


def test_low_confidence_is_unclassified(ranked: Catalogue) -> None:
    """R-CLS-2: anything low-confidence."""
    found = ranked.classify(evidence({"channel": "stderr", "text": "perhaps"}))
    assert (Code.PROVIDER_OVERLOADED, ErrorClass.UNCLASSIFIED) == (found.code, found.error_class)


def test_the_end_outranks_a_try_in_between() -> None:
    """What an agent says while it retries is not its verdict."""
    retry = {
        "channel": "stdout_event",
        "data": {"type": "api_retry", "error": "overloaded", "error_status": 529},
        "http_status": 529,
    }
    assert (Code.PROVIDER_OVERLOADED, Code.AUTH_REQUIRED) == (
        classify(retry, family="claude").code,
        classify(retry, {"channel": "stderr", "text": "Invalid API key"}, family="claude").code,
    )
    again = {"channel": "stdout_event", "text": "Reconnecting... 1/5 (unexpected status 401 Unauthorized: no)"}
    assert Code.QUOTA_LIMITED == classify(again, {"channel": "stdout_event", "text": LIMIT}, family="codex").code


# What is no evidence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", ["assistant_text", "tool_output"])
def test_content_is_data(channel: str) -> None:
    """R-EVI-6: in words, in fields, in a status."""
    found = classify(
        {"channel": channel, "text": LIMIT},
        {"channel": channel, "data": {"error": {"type": "authentication_error"}}, "http_status": 401},
    )
    assert (Code.TASK_ERROR, ErrorClass.UNCLASSIFIED, None) == (found.code, found.error_class, found.safe_excerpt)


@pytest.mark.parametrize(
    "text",
    [
        "spec.rb:418-429",
        "req_429abc and 1429 tokens, 529 files",
        "| 429 | Too Many Requests | usage limit reached |",
        "FAILED tests/test_quota.py::test_usage_limit_reached - AssertionError: usage limit reached",
        "src/quota.py:12: usage limit reached",
        "+ raise QuotaError('usage limit reached')",
        "def on_limit(): print('usage limit reached')",
        "when usage limit reached, wait and try again",
        "if you hit the rate limit, back off",
        "You've used 90% of your weekly limit · resets 3pm (Europe/Paris)",
        "You have reached 75% of your usage limit",
        "Approaching usage limit",
        "MCP server github: HTTP 401 Unauthorized: invalid token",
        "gh: API rate limit exceeded for user ID 1234567",
        "npm ERR! 429 Too Many Requests - GET https://packages.example.com/x",
        "fatal: unable to access 'https://example.com/r.git/': The requested URL returned error: 403",
        'psql: FATAL: password authentication failed for user "app"',
        "WebFetch: https://example.com answered: 429 Too Many Requests",
        "telemetry upload failed: HTTP 503 Service Unavailable",
        "docker: toomanyrequests: You have reached your pull rate limit.",
        "connect ECONNREFUSED 127.0.0.1:5432",
        "503 tests passed in 4.29s",
        "PreToolUse hook denied: usage limit reached",
        "HTTP Error 429: Too Many Requests",
        "429 Client Error: Too Many Requests for url: https://example.com/x",
        "wget: HTTP request sent, awaiting response... 503 Service Unavailable",
        "fatal: Authentication failed for 'https://example.com/r.git/'",
        "error: overloaded function 'f' is ambiguous",
        "Failed to connect to github.com port 443: Connection refused",
        "Unable to connect to the server: dial tcp 192.0.2.1:6443: connection refused",
        "error sending request for url (https://index.example.com/config.json)",
        "request to https://packages.example.com/x failed, reason: socket hang up",
        "Error: Cannot find model User: data model does not exist",
        "Payment service failed to start: billing test failed",
        "user input exceeded the token limit of the parser",
        "EDQUOT: disk quota exceeded, write",
        "error: You must be logged in to the server (Unauthorized)",
        "Unknown model type in migration 0042",
        "Reading additional input from stdin...",
        "⚠ Claude Sonnet 4.5 was retired on November 30, 2026. Consider switching to a newer model.",
        "Model metadata for `fake-model-1` not found. Defaulting to fallback metadata",
    ],
)
@pytest.mark.parametrize("family", ["claude", "codex", "other"])
def test_false_alarms(text: str, family: str) -> None:
    """Numbers, tests, tables, other services: unclassified on stderr, where anybody may speak."""
    found = said(text, "stderr", family)
    assert ErrorClass.UNCLASSIFIED == found.error_class, found


def test_noise_does_not_hide_what_decides() -> None:
    """Another's line leaves the other lines readable, in one signal and in several."""
    noise = "MCP server github: HTTP 401 Unauthorized"
    assert [Code.QUOTA_LIMITED] * 2 == [
        said(f"{noise}\n{LIMIT}\n{noise}", "stderr").code,
        classify({"channel": "stderr", "text": noise}, {"channel": "stderr", "text": LIMIT}).code,
    ]


def test_noise_names_the_failure_only_where_there_is_nothing_else() -> None:
    """An unknown failure is not renamed by a warning beside it."""
    noise = {"channel": "stderr", "text": "npm warn deprecated x"}
    alone, beside = classify(noise), classify(noise, {"channel": "agent_notice", "text": "Something odd"})
    assert ("neutral.foreign.service.1", None, "Something odd") == (
        alone.classifier_rule,
        beside.classifier_rule,
        beside.safe_excerpt,
    )


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_decisive_word_counts_wherever_it_stands(at: int) -> None:
    """First, middle or last in 6 KiB of other output."""
    lines = ["compiling crate " * 8] * 48
    lines.insert((0, 24, 48)[at], LIMIT)
    assert Code.QUOTA_LIMITED == said("\n".join(lines), "stderr").code


def test_phases_and_families_limit_a_rule() -> None:
    """A missing executable is a set-up failure only before the session, and Claude's labels are Claude's."""
    text = "Failed to spawn claude: spawn claude ENOENT"
    assert [Code.PROVIDER_NOT_CONFIGURED, Code.AGENT_RUNTIME_ERROR] == [
        shipped().classify(evidence({"channel": "stderr", "text": text, "phase": p})).code
        for p in ("process_start", "tool_execution")
    ]
    label = {"channel": "agent_notice", "data": {"api_error": "usage_limit_reached"}}
    assert [Code.QUOTA_LIMITED, Code.UNKNOWN_PROVIDER_ERROR] == [
        classify(label, family=f).code for f in ("claude", "codex")
    ]


# The end of the process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"exit_signal": "SIGKILL"}, Code.AGENT_TRANSPORT_LOST),
        ({"exit_code": 130}, Code.CANCELLED),
        ({"exit_code": 1}, Code.AGENT_RUNTIME_ERROR),
        ({"exit_code": 127, "phase": "process_start"}, Code.PROVIDER_NOT_CONFIGURED),
        ({"exit_code": 127, "phase": "streaming"}, Code.AGENT_RUNTIME_ERROR),
        ({"http_status": 529}, Code.PROVIDER_OVERLOADED),
    ],
    ids=str,
)
def test_the_envelopes_own_facts_count(facts: dict[str, Any], code: Code) -> None:
    """Exit code, signal and status of the envelope, without a signal that repeats them."""
    assert code == shipped().classify(evidence(**facts)).code


def test_a_connection_that_ended_before_the_answer() -> None:
    """The transport says so with `eof`."""
    assert Code.AGENT_TRANSPORT_LOST == classify({"channel": "exit", "data": {"exit_code": 0, "eof": True}}).code


def test_words_on_exit_are_somebodys_summary() -> None:
    """A wrapper that says "usage limit" beside its own time-out proves nothing."""
    assert ErrorClass.UNCLASSIFIED == said("Claude API 5-hour usage limit reached", "exit", exit_code=124).error_class


# What comes with it ------------------------------------------------------------------------------------------------------


def test_the_whole_answer() -> None:
    """R-CLS-1: every part of the classification."""
    at = "2026-11-30T03:29:59Z"
    found = classify(
        {
            "channel": "agent_notice",
            "text": "You've hit your limit · resets 1:30pm (Asia/Dhaka)",
            "phase": "streaming",
            "at": at,
        },
        family="claude",
        observed_at=NOW,
        model_id="m1",
    )
    assert found.hint is not None
    assert (
        Code.QUOTA_LIMITED,
        ErrorClass.HARD,
        Confidence.HIGH,
        Scope.ACCOUNT,
        "neutral.quota.words.1",
        shipped().version,
        None,
        "m1",
        Phase.STREAMING,
        datetime(2026, 11, 30, 3, 29, 59, tzinfo=UTC),
        None,
        datetime(2026, 11, 30, 7, 30, tzinfo=UTC),
        ("text", "text"),
        "You've hit your limit · resets 1:30pm (Asia/Dhaka)",
    ) == (
        found.code,
        found.error_class,
        found.confidence,
        found.scope,
        found.classifier_rule,
        found.catalogue_version,
        found.provider_id,
        found.model_id,
        found.phase,
        found.occurred_at,
        found.retry_after,
        found.reset_at,
        (found.hint.source, found.hint.zone),
        found.safe_excerpt,
    )


def test_the_provider_is_the_evidences_else_the_rule_files() -> None:
    """A custom base URL must not be taken for the vendor's own service."""
    signal = {"channel": "agent_notice", "data": {"api_error": "usage_limit_reached"}}
    assert ["anthropic", "gateway"] == [
        classify(signal, family="claude").provider_id,
        classify(signal, family="claude", provider_id="gateway").provider_id,
    ]


def test_local_times_need_a_zone() -> None:
    """R-CLS-5: the adapter's zone, or no hint rather than a guess."""
    text = "You’ve hit your usage limit. Try again at 4:18 AM."
    known = said(text, "stdout_event", "codex", observed_at=NOW, local_zone="UTC")
    assert (datetime(2026, 11, 30, 4, 18, tzinfo=UTC), None) == (
        known.reset_at,
        said(text, "stdout_event", "codex", observed_at=NOW).reset_at,
    )
    assert known.hint is not None
    assert "adapter" == known.hint.zone


def test_another_lines_time_is_not_this_failures() -> None:
    """Words give a hint only where the same cause matched them; fields and headers wherever the runtime gave them."""
    other = {"channel": "stderr", "text": "watcher: retrying in 4 seconds"}
    limit = {"channel": "agent_notice", "text": "You've hit your usage limit."}
    field = {"channel": "stdout_event", "data": {"type": "note", "resets_in_seconds": 3600}}
    assert [None, timedelta(hours=1)] == [classify(other, limit).retry_after, classify(other, limit, field).retry_after]


def test_a_cause_that_waiting_does_not_cure_has_no_hint() -> None:
    """A rule may refuse timing."""
    assert said("Credit balance is too low. Retry in 5 seconds.").hint is None


@pytest.mark.parametrize("channel", [c.value for c in Channel if c.is_runtime])
def test_excerpts_are_sanitised_and_bounded(channel: str) -> None:
    """R-EVI-5: in words, in fields and in the hint, on every channel."""
    found = classify(
        {"channel": channel, "text": f"odd {KEY} " + "é" * 5000},
        {"channel": channel, "data": {"message": f"odd {KEY}"}},
    )
    assert KEY not in found.model_dump_json()
    assert found.safe_excerpt is not None
    assert len(found.safe_excerpt.encode()) <= 4096


@pytest.mark.parametrize("noise", ["compiling crate\n", "compiling crate "], ids=["lines", "one line"])
def test_an_excerpt_shows_what_decided(noise: str) -> None:
    """Wherever it stands in more than an excerpt holds."""
    found = said(noise * 600 + LIMIT + " " + noise * 600, "agent_notice")
    assert found.safe_excerpt is not None
    assert LIMIT in found.safe_excerpt
    assert len(found.safe_excerpt.encode()) <= 4096


def test_a_field_without_words_is_shown_as_it_is() -> None:
    """An excerpt is never empty where there was something."""
    assert '{"type": "odd"}' == classify({"channel": "stdout_event", "data": {"type": "odd"}}).safe_excerpt


# Automatic ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "channel", "delivery", "allowed"),
    [
        (LIMIT, "agent_notice", Delivery.ACKNOWLEDGED, True),
        (LIMIT, "agent_notice", Delivery.SENT, False),
        ("who knows", "agent_notice", Delivery.NOT_SENT, False),
        ("incoming_transport_closed", "acp_error", Delivery.NOT_SENT, True),
        ("incoming_transport_closed", "acp_error", Delivery.ACKNOWLEDGED, False),
    ],
)
def test_automatic(text: str, channel: str, delivery: Delivery, allowed: bool) -> None:
    """R-SAFE-1; a lost transport only while nothing was sent (R-CLS-2)."""
    seen = evidence({"channel": channel, "text": text}, effects=Effects(delivery=delivery, complete=True))
    assert allowed is automatic(shipped().classify(seen), seen)


def test_unknown_effects_are_never_automatic() -> None:
    """Nothing is inferred from silence."""
    for text, channel in ((LIMIT, "agent_notice"), ("incoming_transport_closed", "acp_error")):
        seen = evidence({"channel": channel, "text": text})
        assert shipped().classify(seen).automatic_refusal(seen.effects) is not None


def test_a_resume_guarantee_passes_through() -> None:
    """R-SAFE-2."""
    seen = evidence(
        {"channel": "agent_notice", "text": LIMIT},
        effects=Effects(delivery=Delivery.ACKNOWLEDGED, output=True, complete=True),
    )
    found = shipped().classify(seen)
    assert ("output was seen", None) == (
        found.automatic_refusal(seen.effects),
        found.automatic_refusal(seen.effects, resume_guarantee=True),
    )


def test_what_decides_alone() -> None:
    """What the envelope may not drop."""
    signals = [Signal(channel=Channel.STDERR, text=t) for t in (LIMIT, "compiling", "npm warn x")]
    assert [True, False, False] == [shipped().decides(s, "other") is not None for s in signals]


def test_a_line_of_standard_error_does_not_speak_for_a_request_that_failed_otherwise() -> None:
    """R-SAFE-1: any tool server writes there. Named, but not sure enough to act upon."""
    line = Signal(channel=Channel.STDERR, text="usage limit reached")
    request = Signal(channel=Channel.STDOUT_EVENT, text="API Error: 400 zzz", http_status=400)
    alone, beside = (classify(*signals) for signals in ((line,), (line, request)))
    assert (Code.QUOTA_LIMITED, Confidence.HIGH) == (alone.code, alone.confidence)
    assert (Code.QUOTA_LIMITED, Confidence.MEDIUM) == (beside.code, beside.confidence)
    seen = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
    assert beside.automatic_refusal(seen) is not None


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["snyk: testing", "You have reached your monthly usage limit"], Code.AGENT_RUNTIME_ERROR),
        (["Logs of vercel deployment:", "rate limit exceeded"], Code.AGENT_RUNTIME_ERROR),
        (["MCP server log {", "  msg: rate limit exceeded", "  more: token expired", "}"], Code.AGENT_RUNTIME_ERROR),
        (["compiling", LIMIT, "done"], Code.QUOTA_LIMITED),
        (["Model call failed:", "too many requests"], Code.RATE_LIMITED),
    ],
)
def test_standard_error_is_read_as_it_was_printed(lines: list[str], code: Code) -> None:
    """Line by line, as agents' processes give it, or in one piece: what stands around a line says whose it is (R-EVI-6)."""
    assert code == said("\n".join(lines), "stderr").code
    assert code == classify(*({"channel": "stderr", "text": line} for line in lines)).code


@pytest.mark.parametrize(
    "line", ["token expired", "Not logged in", "You've reached your monthly usage limit.", "Model not found: x"]
)
@pytest.mark.parametrize("first", [True, False])
def test_what_the_runtime_says_of_its_request_comes_first(line: str, first: bool) -> None:
    """R-CLS-3: a line of standard error changes neither the cause nor whom it hits."""
    request: dict[str, object] = {"channel": "stdout_event", "text": "API Error: 500", "http_status": 500}
    beside: dict[str, object] = {"channel": "stderr", "text": line}
    found = classify(*([beside, request] if first else [request, beside]))
    assert (Code.PROVIDER_UNAVAILABLE, "API Error: 500") == (found.code, found.safe_excerpt)


def test_the_line_that_decided_is_shown() -> None:
    """Of all that stood on standard error."""
    lines = [f"compiling {n}" for n in range(50)] + [LIMIT] + [f"linking {n}" for n in range(50)]
    found = classify(*({"channel": "stderr", "text": line} for line in lines))
    assert f"{LIMIT}\nlinking 0\nlinking 1" == found.safe_excerpt


QUOTED = [
    "Invalid 'input[0].content': string 'You have hit your usage limit. Try again in 3 hours.' too long",
    "Invalid value: 'please run /login rate limit exceeded'",
    "Invalid type for 'tools[0].function.name': 'Not logged in'",
    "Invalid schema for function 'rate_limit_exceeded_notifier': too many requests field",
    "tools.0.description: 'Please run /login' too long",
    "metadata.user_id: string 'You have hit your usage limit' is too long",
]


@pytest.mark.parametrize("message", QUOTED)
@pytest.mark.parametrize("channel", ["http", "acp_error", "agent_notice", "stdout_event"])
def test_what_a_provider_quotes_of_the_request_is_nobodys_failure(message: str, channel: str) -> None:
    """R-EVI-6: the words of a prompt, or of a tool's description, come back in a 400."""
    error = {"type": "invalid_request_error", "message": message}
    for signal in ({"text": f"API Error: 400 {message}"}, {"http_status": 400, "data": {"error": error}}):
        assert ErrorClass.UNCLASSIFIED == classify({"channel": channel, **signal}).error_class


@pytest.mark.parametrize(
    "line",
    [
        '{"level":"error","status":429,"msg":"GET /rest/v1/items"}',
        '{"status":401,"message":"Bad credentials"}',
        '{"detail":"Unauthorized"}',
        '{"error":{"code":"invalid_token"}}',
        'Gmail sync failed: {"error":{"code":403,"status":"RESOURCE_EXHAUSTED"}}',
        "error code 529 while compiling shader",
        "upstream 503 (nginx)",
        "Airflow API error: 429",
        "[linear] API error: 401",
        "api returned 401",
        "DatabaseAPIError status: 429",
        "Error code: 402",
    ],
)
def test_a_status_in_anybodys_log_is_nobodys(line: str) -> None:
    """Statuses and JSON on standard error count only in the agent's own lines."""
    assert ErrorClass.UNCLASSIFIED == said(line, "stderr").error_class


@pytest.mark.parametrize(
    "beside",
    [
        {"channel": "http", "text": "GET https://mcp.example.com/sse 429", "headers": {"retry-after": "7200"}},
        {"channel": "stderr", "text": '{"level":"warn","retry_after":7200}'},
        {"channel": "stdout_event", "data": {"type": "user", "message": {"content": "x"}, "retry_after": 7200}},
        {"channel": "http", "http_status": 200, "headers": {"x-ratelimit-reset-requests": "3h"}},
        {"channel": "stderr", "text": "HTTP/1.1 401 Unauthorized\nretry-after: 7200"},
    ],
)
def test_a_time_that_is_anothers_is_not_this_causes(beside: dict[str, object]) -> None:
    """R-EVI-4, R-CLS-5: another request, another program, what worked."""
    found = classify({"channel": "agent_notice", "text": "API Error: 429 Too Many Requests"}, beside)
    assert (Code.RATE_LIMITED, None) == (found.code, found.hint)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("API Error: Overloaded (10s)", Code.PROVIDER_OVERLOADED),
        ("API Error: 529 Overloaded (3.2s)", Code.PROVIDER_OVERLOADED),
        ("Docker Desktop proxy: You've hit your usage limit · resets 3pm (UTC)", Code.QUOTA_LIMITED),
        ("You've hit your limit for web search · resets 3pm (UTC)", Code.QUOTA_LIMITED),
        ("You've reached your usage limit. You have 0% of your weekly limit left.", Code.QUOTA_LIMITED),
        ('API Error: 503 {"error":{"message":"upstream redis timeout","type":"api_error"}}', Code.PROVIDER_UNAVAILABLE),
    ],
)
def test_what_the_runtime_says_of_itself_is_not_taken_for_anothers(message: str, code: Code) -> None:
    """Where the agent's runtime is proven to speak, a name in passing changes nothing."""
    assert code == said(message, "agent_notice").code


CLEAN = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
ECHOES = [
    "unexpected status 422 Unprocessable Entity: field 'Not logged in' is no role",
    "unexpected status 422 Unprocessable Entity: Not logged in is no role",
    "API Error: 400 system: text content 'token expired' bad",
    "API Error: 400 Could not parse tool output: 'Credit balance is too low'",
    "API Error: 400 text 'not logged in' is bad",
]


@pytest.mark.parametrize("message", ECHOES)
def test_nothing_automatic_follows_what_a_refusal_quotes(message: str) -> None:
    """A provider that says what is wrong with a request may quote any word of it (R-EVI-6, R-SAFE-1)."""
    assert said(message, "acp_error").automatic_refusal(CLEAN) is not None


@pytest.mark.parametrize(
    "message",
    [
        "API Error: 400 Credit balance is too low",
        "Your credit balance is too low to access the API.",
        'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}',
        "unexpected status 400 Bad Request: Your credit balance is too low",
    ],
)
def test_what_a_refusal_begins_with_is_its_own(message: str) -> None:
    found = said(message, "acp_error", http_status=400)
    assert (Code.SUBSCRIPTION_REQUIRED, None) == (found.code, found.automatic_refusal(CLEAN))


@pytest.mark.parametrize(
    "line",
    [
        "token expired",
        "Not logged in",
        "No credentials found",
        "API key not set",
        "Model not found: yolo-v8",
        'The model "yolov5" does not exist',
        "rate limit exceeded",
        "The server is busy",
        "insufficient funds",
        "Payment required",
        "Please run `foo login`",
    ],
)
def test_a_sentence_that_names_nobody_is_not_acted_upon(line: str) -> None:
    """Standard error belongs to every program: named, but no circuit and nothing automatic once the prompt was received."""
    assert said(line, "stderr").automatic_refusal(CLEAN) is not None
    assert Confidence.HIGH is not said(line, "stderr").confidence


@pytest.mark.parametrize(
    "line",
    [
        LIMIT,
        "Error: Model not found: openrouter/x",
        "API Error: 529 Overloaded",
        "Error: AI_APICallError: Unauthorized",
    ],
)
def test_a_sentence_that_names_its_speaker_is(line: str) -> None:
    assert said(line, "stderr").automatic_refusal(CLEAN) is None


def test_a_failure_that_nobody_knows_is_not_explained_by_a_line_beside_it() -> None:
    """What the runtime says without a status counts as much as one with it."""
    unknown = {
        "channel": "acp_error",
        "code": -32603,
        "text": "Internal error: something odd",
        "data": {"errorName": "APIError"},
    }
    found = classify(unknown, {"channel": "stderr", "text": LIMIT})
    assert (Code.QUOTA_LIMITED, Confidence.MEDIUM) == (found.code, found.confidence)

"""What is taken for the runtime's words is proved to be (R-EVI-6, R-SAFE-1); a limit explains only what it refused (R-EVI-4)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_claude.acp_extractor import ClaudeAcpExtractor
from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue, automatic
from kandev_routing_sdk.evidence.turn import TurnReport
from kandev_routing_sdk.spec import AcpFrame, AgentEvent
from kandev_routing_sdk.types import AttemptOutcome, Code, Scope
from tests.adapters._replay import WHEN, full_catalogue
from tests.adapters._turns import Turn, channels
from tests.adapters.claude._frames import (
    MODEL,
    REFUSED,
    RUNTIME,
    answer,
    chunk,
    error,
    event,
    notice,
    refused,
    result,
    retry,
    tool,
    typed,
    usage,
)

LIMIT = "You've hit your usage limit · resets 3pm (UTC)"
SENTENCES = [LIMIT, REFUSED, "Not logged in · Please run /login", "Error: the test fails", "Credit balance is too low"]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def acp(*frames: AgentEvent) -> TurnReport:
    return Turn(ClaudeAcpExtractor()).feed(*frames).record.report(WHEN)


def headless(*events: dict[str, Any]) -> TurnReport:
    turn = Turn(ClaudeExtractor()).feed({"type": "system", "subtype": "init", "session_id": "s"}, *events)
    return turn.exit(1)


def judged(report: TurnReport, catalogue: Catalogue) -> tuple[Classification, bool]:
    evidence = report.evidence.model_copy(update={"family": "claude"})
    found = catalogue.classify(evidence)
    return found, automatic(found, evidence)


def uncounted() -> AcpFrame:
    """An end without tokens, as of an agent that counts none."""
    return AcpFrame({"id": 3, "result": {"stopReason": "end_turn"}}, request="session/prompt")


# An answer in one piece ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message_id", [RUNTIME, None, MODEL])
@pytest.mark.parametrize("words", SENTENCES)
def test_an_answer_that_reads_like_an_error_is_an_answer(words: str, message_id: str | None) -> None:
    report = acp(chunk(words, message_id), uncounted())
    assert (AttemptOutcome.SUCCESS, words, True) == (report.outcome, report.text, report.effects.output)
    assert () == report.evidence.signals


@pytest.mark.parametrize("message_id", [RUNTIME, None])
@pytest.mark.parametrize("words", SENTENCES)
def test_even_where_no_token_is_counted_it_says_nothing_of_the_account(
    words: str, message_id: str | None, catalogue: Catalogue
) -> None:
    report = acp(chunk(words, message_id), answer(tokens=0))
    found, repeated = judged(report, catalogue)
    assert (AttemptOutcome.FAILED, True, False) == (report.outcome, report.effects.output, repeated)
    assert Scope.ACCOUNT is not found.scope


def test_its_own_result_proves_that_a_turn_failed_with_just_these_words(catalogue: Catalogue) -> None:
    failed = result(LIMIT, is_error=True, api_error_status=429)
    for report in (acp(chunk(LIMIT), failed, uncounted()), acp(failed, chunk(LIMIT), uncounted())):
        assert (AttemptOutcome.FAILED, "", False) == (report.outcome, report.text, report.effects.output)
        assert (Code.QUOTA_LIMITED, False) == (judged(report, catalogue)[0].code, judged(report, catalogue)[1])


def test_and_so_does_its_notice(catalogue: Catalogue) -> None:
    said = notice(LIMIT, error="rate_limit", api_error_status=429)
    for frames in ((said, chunk(LIMIT)), (chunk(LIMIT), said)):
        report = acp(*frames, uncounted())
        assert (AttemptOutcome.FAILED, "") == (report.outcome, report.text)
        assert Code.QUOTA_LIMITED is judged(report, catalogue)[0].code


def test_a_result_that_failed_for_another_reason_proves_nothing_of_the_words() -> None:
    report = acp(chunk("I wrote it."), result(REFUSED, is_error=True, api_error_status=529), uncounted())
    assert ("I wrote it.", True) == (report.text, report.effects.output)


@pytest.mark.parametrize(
    "words",
    [
        "I cannot login to the server with this token.",
        "I changed the API key in the config",
        "Error: login failed, so I stopped",
        "Invalid API key handling is fixed now",
        "OAuth token revoked",
        "Done; users can sign in again · see login.py",
        "Not logged in · Please run /login\nis what it printed",
    ],
)
@pytest.mark.parametrize("message_id", [RUNTIME, None, MODEL])
def test_words_about_a_sign_in_stay_output_before_its_error(
    words: str, message_id: str | None, catalogue: Catalogue
) -> None:
    report = acp(chunk(words, message_id), error("Authentication required", code=-32000))
    assert (words, True, False) == (report.text, report.effects.output, judged(report, catalogue)[1])


def test_the_runtimes_own_words_without_its_name_are_output(catalogue: Catalogue) -> None:
    report = acp(chunk("Not logged in · Please run /login", None), error("Authentication required", code=-32000))
    assert (True, False) == (report.effects.output, judged(report, catalogue)[1])


@pytest.mark.parametrize("kind", [None, "unknown"])
def test_an_error_without_a_label_that_repeats_an_answer_does_not_make_it_the_runtimes(
    kind: str | None, catalogue: Catalogue
) -> None:
    report = acp(chunk("Half an answer"), error("Internal error: Half an answer", kind))
    assert ("Half an answer", False) == (report.text, judged(report, catalogue)[1])


# A limit that rejects --------------------------------------------------------------------------------------------------

REJECTED: dict[str, Any] = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 1796040000}
PAID: list[dict[str, Any]] = [
    {"isUsingOverage": True},
    {"overageStatus": "allowed"},
    {"overageStatus": "allowed_warning"},
]
NONE = {"input_tokens": 0, "output_tokens": 0}


def rejection(**more: Any) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": {**REJECTED, **more}}


def failure(words: str, status: int | None, **labels: Any) -> dict[str, Any]:
    told = {} if status is None else {"api_error_status": status}
    return {"type": "result", "subtype": "success", "is_error": True, "result": words, "usage": NONE, **told, **labels}


OTHERS = [
    ("API Error: 400 odd", 400),
    ("API Error: 400 'You've hit your usage limit' is no role", 400),
    ("API Error: 500 Internal server error", 500),
    ("API Error: 529 Overloaded", 529),
    ("Failed to authenticate. API Error: 403 Request not allowed", 403),
    ("Something odd", None),
]


def summary(found: tuple[Classification, bool]) -> tuple[object, ...]:
    return found[0].code, found[0].scope, found[0].reset_at, found[1]


@pytest.mark.parametrize(("words", "status"), OTHERS)
def test_it_is_no_cause_of_another_failure(words: str, status: int | None, catalogue: Catalogue) -> None:
    alone = judged(headless(failure(words, status)), catalogue)
    for event_ in (rejection(), *[rejection(**paid) for paid in PAID]):
        assert summary(alone) == summary(judged(headless(event_, failure(words, status)), catalogue))


@pytest.mark.parametrize(
    ("words", "status"),
    [("API Error: Request rejected (429) · x", 429), (LIMIT, None), ("Weekly limit reached · x", None)],
)
def test_it_is_the_cause_of_a_refusal_by_a_limit(words: str, status: int | None, catalogue: Catalogue) -> None:
    found = judged(headless(rejection(), failure(words, status)), catalogue)[0]
    assert (Code.QUOTA_LIMITED, 1796040000) == (found.code, found.reset_at and found.reset_at.timestamp())


@pytest.mark.parametrize("paid", PAID)
def test_what_overage_pays_for_rejects_nothing(paid: dict[str, Any], catalogue: Catalogue) -> None:
    report = headless(rejection(**paid), failure("API Error: Request rejected (429) · x", 429))
    assert (
        judged(headless(failure("API Error: Request rejected (429) · x", 429)), catalogue)[0]
        == judged(report, catalogue)[0]
    )


def test_what_was_answered_after_all_was_not_rejected() -> None:
    model = {"type": "assistant", "message": {"model": "m", "content": [{"type": "text", "text": "Hello"}]}}
    report = headless(rejection(), model, failure("API Error: Request rejected (429) · x", 429))
    assert ["stdout_event"] == [*channels(report)]
    healthy = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}
    assert 1 == len(headless(rejection(), healthy, failure("API Error: 429", 429)).evidence.signals)


def test_a_turn_without_an_end_is_not_explained_by_it() -> None:
    assert () == headless(rejection()).evidence.signals
    again = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 3, "error_status": 429}
    assert 2 == len(headless(rejection(), again).evidence.signals)


@pytest.mark.parametrize(
    ("ending", "supports"),
    [
        (error(f"Internal error: {LIMIT}", "rate_limit"), True),
        (error(f"Internal error: {LIMIT}"), True),
        (error("Internal error: API Error: Request rejected (429) · x", "rate_limit"), True),
        (error("Internal error: API Error: 400 odd", "invalid_request"), False),
        (error("Internal error: API Error: 400 you have hit your usage limit", "rate_limit"), False),
        (error("Internal error: API Error: 500 x", "server_error"), False),
        (error("Authentication required", code=-32000), False),
        (answer(**typed("limit", "Claude is temporarily rate limited.")), True),
        (answer(**typed("limit", "This Claude turn reached its configured limit.")), False),
        (answer(**typed("service", "The model provider reported an error.")), False),
    ],
)
def test_over_acp_as_well(ending: AcpFrame, supports: bool) -> None:
    for told in (usage(0, **{"_claude/rateLimit": REJECTED}), event(**rejection())):
        signals = acp(told, ending).evidence.signals
        assert supports is any(s.data == {"type": "rate_limit_event", "rate_limit_info": REJECTED} for s in signals)
        paid = {**REJECTED, "isUsingOverage": True}
        assert 1 == len(acp(usage(0, **{"_claude/rateLimit": paid}), ending).evidence.signals)


def test_the_context_that_it_is_told_with_is_no_answer_to_it() -> None:
    report = acp(tool(), usage(18, **{"_claude/rateLimit": REJECTED}), chunk(LIMIT), refused(LIMIT, "rate_limit"))
    assert ["stdout_event", "acp_error"] == [*channels(report)]
    assert 1 == len(acp(usage(0, **{"_claude/rateLimit": REJECTED}), usage(9), retry(500), refused()).evidence.signals)


# The last words of a result --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["You have hit your usage limit banner added", "Fixed: not logged in is shown", "429 rate limit exceeded"]
)
def test_the_models_last_words_explain_no_failure(words: str, catalogue: Catalogue) -> None:
    for report in (headless(failure(words, None)), acp(result(words, is_error=True), answer(tokens=0))):
        found, repeated = judged(report, catalogue)
        assert (Code.AGENT_RUNTIME_ERROR, False) == (found.code, repeated)
        assert "assistant_text" in channels(report)


def test_what_is_labelled_or_was_said_in_place_of_an_answer_explains_it(catalogue: Catalogue) -> None:
    words = "You have hit your usage limit"
    said = {"model": "<synthetic>", "content": [{"type": "text", "text": words}]}
    before = {"type": "assistant", "message": said, "is_api_error_message": True}
    for report in (
        headless(before, failure(words, None)),
        headless(failure(words, 429)),
        headless(failure(words, None, terminal_reason="api_error")),
        headless(failure("You've hit your usage limit", None)),
    ):
        assert Code.QUOTA_LIMITED is judged(report, catalogue)[0].code

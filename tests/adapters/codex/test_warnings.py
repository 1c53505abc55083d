"""A warning of Codex's is a remark, in whatever words: it decides nothing of the turn it is said in (R-EVI-4, R-EVI-6, R-SAFE-1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.updates import Notice
from kandev_routing_sdk.types import AttemptOutcome, Delivery
from tests.adapters._replay import Replayed, full_catalogue, replay
from tests.adapters._turns import Turn
from tests.adapters.codex import _frames as acp

WARNINGS = [
    "linear: token expired, please log in again",
    "The server `linear` is not logged in",
    "Skill loading failed: rate limit exceeded",
    "Connector GitHub: authentication required",
    "deprecated: model gpt-5 is not supported soon",
    "Could not refresh apps list: 429 Too Many Requests",
    "You've hit your usage limit. Try again in 3 hours.",
    "unexpected status 401 Unauthorized: no key, url: https://mcp.example.com/sse",
]
VERDICTS = {
    "unexpected status 400 Bad Request: weird, url: http://x/v1/responses": False,
    "unexpected status 503 Service Unavailable: x, url: http://x/v1/responses": True,
    "unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x/v1/responses": True,
    "something that nobody knows": False,
}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def warning(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "w", "type": "error", "message": text}}


def headless(catalogue: Catalogue, *events: dict[str, Any], code: int = 1) -> Replayed:
    started = ({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"})
    lines = [[n, json.dumps(event)] for n, event in enumerate((*started, *events))]
    record = {
        "cli": "codex",
        "mode": "headless",
        "stdout_lines": lines,
        "stderr_lines": [],
        "exit_code": code,
        "signal": None,
        "killed_by_recorder": False,
    }
    return replay(record, catalogue)


def judged(replayed: Replayed) -> tuple[object, ...]:
    found = replayed.classification
    cause = None if found is None else (found.code, found.confidence, found.scope, found.retry_after, found.reset_at)
    return (replayed.outcome, replayed.automatic, cause, replayed.report.effects)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("words", WARNINGS)
def test_it_never_decides_over_the_verdict(words: str, verdict: str, catalogue: Catalogue) -> None:
    failed = {"type": "turn.failed", "error": {"message": verdict}}
    alone = headless(catalogue, failed)
    assert VERDICTS[verdict] is alone.automatic
    for events in ([warning(words), failed], [warning(words), {"type": "error", "message": verdict}, failed]):
        assert judged(alone) == judged(headless(catalogue, *events))
    assert judged(alone)[:3] == judged(headless(catalogue, failed, warning(words)))[:3]


@pytest.mark.parametrize("words", WARNINGS)
def test_a_turn_without_a_verdict_is_not_explained_by_it(words: str, catalogue: Catalogue) -> None:
    """The account's health would be a server of tools' (R-CIR-3)."""
    for ending in ([], [{"type": "turn.failed", "error": {}}]):
        found = headless(catalogue, warning(words), *ending)
        assert found.classification is not None
        assert (AttemptOutcome.FAILED, False) == (found.outcome, found.automatic)
        assert judged(headless(catalogue, *ending)) == judged(found)


def test_it_is_shown_once_it_is_known_that_the_prompt_arrived() -> None:
    turn = Turn(CodexExtractor()).feed(warning("a"), warning("b"))
    assert ([], Delivery.SENT) == (turn.of(Notice), turn.record.effects.delivery)
    turn.feed({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Hello."}}, warning("c"))
    assert [Notice("a"), Notice("b"), Notice("c")] == turn.of(Notice)
    assert () == turn.exit().evidence.signals


def test_however_many_there_are() -> None:
    turn = Turn(CodexExtractor()).feed(*[warning("x")] * 5_000, {"type": "turn.completed"})
    assert 100 == len(turn.of(Notice))


def test_over_acp_a_remark_is_not_the_cause_of_the_threads_error() -> None:
    """The runtime's next words are, unless it marks them as a warning."""
    turn = acp.codex_acp().feed(acp.status("systemError"))
    turn.feed(acp.chunk("Warning: linear is not logged in"), acp.chunk("unexpected status 503 Service Unavailable: x"))
    report = acp.reported(turn.feed(acp.answer()))
    assert ["unexpected status 503 Service Unavailable: x"] == [signal.text for signal in report.evidence.signals]

"""Explanations (`classify --explain`): every rule, and why each one lost."""

from __future__ import annotations

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.explain import CatalogueExplanation, explain
from kandev_routing_sdk.catalogue.rules import RuleSource
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.types import Delivery
from tests.catalogue._shipped import evidence, shipped
from tests.catalogue.test_classify import LIMIT, RANKED


def of(explanation: CatalogueExplanation, rule: str) -> tuple[str, str]:
    (found,) = [v for v in explanation.verdicts if v.rule == rule]
    return found.fate, found.why


def test_every_rule_has_a_verdict_the_winner_first() -> None:
    """The classification is the catalogue's own."""
    seen = evidence(
        {"channel": "http", "text": "You've hit your usage limit", "http_status": 429},
        {"channel": "http", "data": {"error": {"code": "insufficient_quota"}}},
        effects=Effects(delivery=Delivery.ACKNOWLEDGED, complete=True),
    )
    found = explain(shipped(), seen)
    assert {r.id for r in shipped().rules} == {v.rule for v in found.verdicts}
    assert (shipped().classify(seen), None) == (found.classification, found.refusal)
    assert ["won", "agreed", "agreed", "outranked"] == [v.fate for v in found.considered]
    assert ("won", "says quota_limited of a signal on http") == of(found, "neutral.quota.words.1")
    assert ("agreed", "says quota_limited too, as neutral.quota.words.1 does") == of(
        found, "neutral.quota.shared_field.1"
    )
    assert ("outranked", "says rate_limited; neutral.quota.words.1 is of a higher rank") == of(
        found, "neutral.rate.status.1"
    )
    assert ("not_applicable", "is for claude") == of(found, "claude.quota.field.1")
    assert ("no_match", "nothing that it looks for is there") == of(found, "neutral.auth.words.1")
    assert ("not_applicable", "does not read http") == of(found, "neutral.transport.exit.1")


def test_why_a_match_lost() -> None:
    """By whose words, by time, by rank, by priority."""
    assert ("outranked", "says rate_limited; neutral.quota.words.1 has a higher priority") == of(
        explain(shipped(), evidence({"channel": "stderr", "text": f"{LIMIT} Rate limit exceeded."})),
        "neutral.rate.words.1",
    )
    noise = explain(shipped(), evidence({"channel": "stderr", "text": f"npm warn x\n{LIMIT}"}))
    assert (
        "outranked",
        "says agent_runtime_error; neutral.quota.words.1 reads the runtime's own words, this one says that they are somebody else's",
    ) == of(noise, "neutral.foreign.service.1")
    tried = explain(
        shipped(),
        evidence(
            {"channel": "stderr", "text": "Retrying: API Error: 529 Overloaded"}, {"channel": "stderr", "text": LIMIT}
        ),
    )
    assert (
        "outranked",
        "says provider_overloaded; neutral.quota.words.1 is about the end, this one about a try that the agent itself repeated",
    ) == of(tried, "neutral.overloaded.field.1")


def test_a_conflict_names_both_sides() -> None:
    """And what they outrank."""
    catalogue = Catalogue.load([RuleSource(name="t", text=RANKED)], verify=False)
    found = explain(catalogue, evidence({"channel": "http", "text": "a broken limit broke", "http_status": 429}))
    assert ("conflict", "says rate_limited; of equal rank and in disagreement with t.other_words") == of(
        found, "t.words"
    )
    assert ("outranked", "says network_unavailable; rules that disagree outrank it") == of(found, "t.shared")
    assert "the failure is unclassified" == found.refusal


def test_phases_and_silence() -> None:
    """Why a rule could not even look."""
    seen = evidence({"channel": "exit", "data": {"exit_code": 127}})
    assert ("not_applicable", "does not apply in prompt_send") == of(explain(shipped(), seen), "neutral.setup.exit.1")
    silent = explain(shipped(), evidence({"channel": "tool_output", "text": LIMIT}))
    assert {("not_applicable", "nothing was said by the agent's runtime")} == {(v.fate, v.why) for v in silent.verdicts}


@pytest.mark.parametrize(
    ("seen", "rule", "why"),
    [
        (
            {"channel": "stderr", "text": "snyk: You have reached your monthly limit"},
            "neutral.quota.words.1",
            "says quota_limited, in words that are somebody else's by neutral.foreign.other_service.1",
        ),
        (
            {"channel": "stderr", "text": "cache warmer: too many requests"},
            "neutral.rate.bare.1",
            "says rate_limited; a phrase that anybody may use, in no line of the agent's own",
        ),
        (
            {"channel": "stderr", "text": "rate limit exceeded, see https://shop.test/limits"},
            "neutral.rate.words.1",
            "says rate_limited; beside another service's address",
        ),
        (
            {"channel": "stderr", "phase": "tool_execution", "text": "You've hit your usage limit."},
            "neutral.quota.words.1",
            "says quota_limited; nothing on stderr counts in tool_execution",
        ),
    ],
)
def test_words_that_do_not_count_are_named(seen: dict[str, str], rule: str, why: str) -> None:
    """Whoever wonders why a message is unclassified is told whose words it was taken for."""
    found = explain(shipped(), evidence(seen))
    assert ("unread", why) == of(found, rule)
    assert found.classification.classifier_rule != rule

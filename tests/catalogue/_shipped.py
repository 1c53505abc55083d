"""The shipped rule files, and short ways to classify."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.evidence.model import Evidence, Signal

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "data" / "corpus-dev.jsonl"


def sources() -> list[RuleSource]:
    names = ("claude", "codex", "opencode")
    paths = [ROOT / "adapters" / n / f"kandev_routing_{n}" / "rules.toml" for n in names]
    return [*neutral_sources(), *(RuleSource(name=p.parts[-2], text=p.read_text("utf-8")) for p in paths)]


@cache
def shipped() -> Catalogue:
    return Catalogue.load(sources(), verify=False)


def evidence(*signals: Signal | Mapping[str, object], family: str = "other", **more: object) -> Evidence:
    made = [s if isinstance(s, Signal) else Signal.model_validate(s) for s in signals]
    return Evidence.model_validate({"family": family, "phase": "prompt_send", "signals": made, **more})


def classify(*signals: Signal | Mapping[str, object], family: str = "other", **more: object) -> Classification:
    return shipped().classify(evidence(*signals, family=family, **more))


def said(text: str, channel: str = "agent_notice", family: str = "other", **more: object) -> Classification:
    return classify({"channel": channel, "text": text}, family=family, **more)

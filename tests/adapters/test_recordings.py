"""Recorded runs of the real CLIs, classified with the full catalogue (R-EVI, R-CLS, R-SAFE-7)."""

from __future__ import annotations

from datetime import datetime

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from tests.adapters._replay import WHEN, complaints, expectations, full_catalogue, recording, replay

FLOOR = 0.97


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


KINDS = [
    "claude/headless",
    "claude-agent-acp/acp",
    "codex/headless",
    "codex-acp/acp",
    "opencode/headless",
    "opencode/acp",
]


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_every_recording_comes_out_right_and_none_is_repeated_wrongly(kind: str, catalogue: Catalogue) -> None:
    cases = {name: expected for name, expected in expectations().items() if name.startswith(f"{kind}/")}
    wrong: dict[str, list[str]] = {}
    unsafe: list[str] = []
    for name, expected in cases.items():
        when = datetime.fromisoformat(expected["recorded_at"]) if "recorded_at" in expected else WHEN
        replayed = replay(recording(name), catalogue, when)
        if found := complaints(replayed, expected, when):
            wrong[name] = found
        if expected["automatic"] == "no" and replayed.automatic:
            unsafe.append(name)
    score = 1 - len(wrong) / len(cases)
    print(f"{kind}: {len(cases) - len(wrong)} of {len(cases)} recordings right ({score:.1%})")
    for name, found in wrong.items():
        print(f"  {name}: {'; '.join(found)}")
    assert [] == unsafe
    assert score >= FLOOR, wrong

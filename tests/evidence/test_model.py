"""The envelope itself (R-EVI-1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
from kandev_routing_sdk.types import Channel, Delivery, Phase


def test_times_are_kept_in_utc() -> None:
    """R-EVI-1: UTC times, whatever zone they came in."""
    local = datetime(2026, 4, 29, 16, 58, 12, tzinfo=timezone(timedelta(hours=2)))
    evidence = Evidence(family="claude", phase=Phase.STREAMING, signals=(), observed_at=local)
    assert (datetime(2026, 4, 29, 14, 58, 12, tzinfo=UTC), UTC) == (evidence.observed_at, evidence.observed_at.tzinfo)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "bad",
    [
        {"family": "claude", "phase": "streaming", "signals": [], "observed_at": "2026-04-29T14:58:12"},
        {"family": "claude", "phase": "streaming", "signals": [], "extra": 1},
        {"family": "claude", "phase": "lunch", "signals": []},
        {"family": "claude", "phase": "streaming", "signals": [{"channel": "gossip"}]},
        {"phase": "streaming", "signals": []},
    ],
)
def test_what_is_not_an_envelope_is_refused(bad: dict[str, object]) -> None:
    """Naive times, unknown keys and words outside the vocabulary."""
    with pytest.raises(ValidationError):
        Evidence.model_validate(bad)


def test_the_least_envelope_knows_nothing() -> None:
    """R-EVI-3: absent effects are unknown; so is delivery by default."""
    evidence = Evidence.model_validate({"family": "x", "phase": "streaming", "signals": [{"channel": "stderr"}]})
    assert (None, Delivery.UNKNOWN, False) == (evidence.effects, Effects().delivery, Effects().complete)


def test_the_wire_form_comes_back_as_it_went() -> None:
    """What is stored is what was seen: structure is kept, never flattened to text."""
    evidence = Evidence(
        family="codex",
        phase=Phase.PROMPT_SEND,
        signals=(Signal(channel=Channel.HTTP, data={"error": {"type": "x", "n": [1, None, True]}}, code=-32000),),
        effects=Effects(delivery=Delivery.SENT),
        session_id="s",
        generation=2,
        prompt=1,
        attempt_id="a",
    )
    assert evidence == Evidence.model_validate_json(evidence.model_dump_json())

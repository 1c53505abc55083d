"""The whole way of a record, and what must be true of it whatever came in."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema

from kandev_routing_sdk.catalogue.classify import automatic
from kandev_routing_sdk.catalogue.wire import parse_record, result_record
from kandev_routing_sdk.errors import InputDataError
from kandev_routing_sdk.evidence.collector import MAX_ENVELOPE_BYTES, MAX_SIGNAL_BYTES, MAX_SIGNALS, SignalCollector
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.types import ErrorClass
from tests.catalogue._shipped import ROOT, shipped

SCHEMA = ROOT / "docs" / "reference" / "schema" / "classification-result.json"
SECONDS_PER_BYTE = 40e-6
SECONDS_FOR_ANYTHING = 2.0
"""Of processor time: a hundred times what it takes. What is not linear goes far beyond with a megabyte."""


def validator(path: Path = SCHEMA) -> Any:
    return jsonschema.Draft202012Validator(json.loads(path.read_text("utf-8")))


_VALID = validator()


class Played(NamedTuple):
    """A record that was read, and its answers: to all of it, and to what an envelope keeps of it."""

    whole: Evidence
    kept: Evidence
    answer: dict[str, Any]
    answer_of_kept: dict[str, Any]


def played(record: Any) -> Played | None:
    """Send ``record`` the whole way, checking everything that must hold; None for a record that is refused."""
    begun = time.thread_time()
    try:
        record_id, evidence = parse_record(record, 1)
    except InputDataError as refusal:
        sentence = str(refusal)
    else:
        sentence = ""
    if sentence:
        assert "\n" not in sentence, "a refusal is one sentence"
        assert len(sentence) < 2_000
        return None
    kept = collected(evidence)
    found = Played(evidence, kept, answered(record_id, evidence), answered(record_id, kept))
    spent = time.thread_time() - begun
    size = len(repr(record))
    assert spent < SECONDS_FOR_ANYTHING + SECONDS_PER_BYTE * size, f"{spent:.1f} s for {size} characters"
    return found


def answered(record_id: Any, evidence: Evidence) -> dict[str, Any]:
    """Classify twice; the answer is the same, in the published form, and automatic only where that can be (R-SAFE-1)."""
    classification = shipped().classify(evidence)
    answer: dict[str, Any] = dict(result_record(record_id, classification, evidence))
    again = result_record(record_id, shipped().classify(evidence), evidence)
    assert answer == again, "not deterministic"
    _VALID.validate(json.loads(json.dumps(answer)))
    assert len((answer["safe_excerpt"] or "").encode("utf-8", "replace")) <= MAX_SIGNAL_BYTES
    assert answer["automatic"] is automatic(classification, evidence)
    if answer["automatic"]:
        assert answer["class"] != ErrorClass.UNCLASSIFIED
        assert answer["confidence"] != "low"
        effects = evidence.effects
        assert effects is not None
        assert effects.complete
        assert not effects.any_activity
        assert effects.delivery in {"not_sent", "acknowledged"}
        assert (
            any(s.channel.is_runtime for s in evidence.signals)
            or evidence.http_status
            or evidence.exit_code is not None
        )
    return answer


def collected(evidence: Evidence) -> Evidence:
    """Keep of ``evidence`` what fits; the bounds hold and what does not fit is counted (R-EVI-2)."""
    collector = SignalCollector(Sanitiser(), lambda s: shipped().decides(s, evidence.family))
    for signal in evidence.signals:
        collector.add(signal)
    kept = collector.signals()
    assert len(kept) <= MAX_SIGNALS
    assert max(map(size_of, kept), default=0) <= MAX_SIGNAL_BYTES
    assert sum(map(size_of, kept)) <= MAX_ENVELOPE_BYTES
    assert len(kept) + collector.dropped >= len(evidence.signals), "dropped without being counted"
    return evidence.model_copy(update={"signals": kept, "dropped": collector.dropped})


def size_of(signal: Signal) -> int:
    """Bytes of what was said."""
    parts = [signal.text or "", *(f"{k}{v}" for k, v in (signal.headers or {}).items())]
    if signal.data is not None:
        parts.append(json.dumps(signal.data, ensure_ascii=False))
    if signal.code is not None:
        parts.append(str(signal.code))
    return sum(len(p.encode("utf-8", "replace")) for p in parts)

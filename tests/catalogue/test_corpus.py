"""Messages from public reports, through the whole way: record → evidence → classification → result."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import jsonschema
import pytest

from kandev_routing_sdk.catalogue.wire import evidence_schema, parse_record, result_record, result_schema
from kandev_routing_sdk.evidence.model import Evidence
from kandev_routing_sdk.types import ErrorClass
from tests.catalogue._shipped import CORPUS, shipped

RECORDS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
NEGATIVE = [r for r in RECORDS if r["negative"]]
POSITIVE = [r for r in RECORDS if not r["negative"]]
TOLERANCE = timedelta(seconds=60)


def result_of(record: dict[str, Any]) -> dict[str, Any]:
    record_id, evidence = parse_record(record, 1)
    return result_record(record_id, shipped().classify(evidence), evidence)


RESULTS = {r["id"]: result_of(r) for r in RECORDS}


def test_every_record_is_answered_in_the_published_form() -> None:
    """All 178, and both sides of the wire obey their schemas."""
    read = jsonschema.Draft202012Validator(evidence_schema())
    written = jsonschema.Draft202012Validator(result_schema())
    for record in RECORDS:
        read.validate(record)
        written.validate(RESULTS[record["id"]])
    assert 178 == len(RESULTS)


@pytest.mark.parametrize("record", NEGATIVE, ids=lambda r: r["id"])
def test_no_false_action(record: dict[str, Any]) -> None:
    """The worst error: acting on what is no provider failure."""
    result = RESULTS[record["id"]]
    assert (ErrorClass.UNCLASSIFIED, False) == (result["class"], result["automatic"])


def test_the_rest_is_classified(record_property: Any) -> None:
    """Floors of what is reached; they only go up."""
    classes = [RESULTS[r["id"]]["class"] in r["expect"]["classes"] for r in POSITIVE]
    codes = [RESULTS[r["id"]]["code"] in r["expect"]["codes"] for r in POSITIVE]
    best = [RESULTS[r["id"]]["code"] == r["expect"]["codes"][0] for r in POSITIVE]
    shares = {name: sum(v) / len(v) for name, v in {"class": classes, "code": codes, "best": best}.items()}
    print({name: f"{share:.3f}" for name, share in shares.items()})
    record_property("accuracy", shares)
    assert shares["class"] >= 0.99
    assert shares["code"] >= 0.98
    assert shares["best"] >= 0.85


def due(result: dict[str, Any], evidence: Evidence) -> datetime | timedelta | None:
    if result["reset_at"] is not None:
        return datetime.fromisoformat(result["reset_at"])
    return None if result["retry_after_s"] is None else timedelta(seconds=result["retry_after_s"])


TIMED = [r for r in RECORDS if {"retry_after_s", "reset_at"} & r["expect"].keys()]


@pytest.mark.parametrize("record", TIMED, ids=lambda r: r["id"])
def test_timing_is_right(record: dict[str, Any]) -> None:
    """R-CLS-5, within a minute, as an instant or as a wait."""
    evidence = Evidence.model_validate(record["evidence"])
    found, expect = due(RESULTS[record["id"]], evidence), record["expect"]
    wanted: datetime | timedelta = (
        timedelta(seconds=expect["retry_after_s"])
        if "retry_after_s" in expect
        else datetime.fromisoformat(expect["reset_at"])
    )
    if isinstance(found, timedelta) and isinstance(wanted, datetime):
        assert evidence.observed_at is not None
        found = evidence.observed_at + found
    elif isinstance(found, datetime) and isinstance(wanted, timedelta):
        assert evidence.observed_at is not None
        found = found - evidence.observed_at
    assert found is not None
    assert abs(found - wanted) <= TOLERANCE  # type: ignore[operator, arg-type]


def test_nobody_is_promised_a_time_that_nobody_gave() -> None:
    """No hint where the report has none."""
    untimed = [r for r in POSITIVE if r not in TIMED]
    assert [] == [r["id"] for r in untimed if RESULTS[r["id"]]["hint"] is not None]


def test_each_record_says_where_it_comes_from() -> None:
    """Provenance stays with the data."""
    assert all(r["provenance"] in {"reported", "reconstructed", "synthetic"} and r["source"] for r in RECORDS)

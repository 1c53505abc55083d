"""A log record is one constant sentence and fields with documented names (R-OBS-1)."""

from __future__ import annotations

import logging

import pytest

from kandev_routing_sdk.errors import StoreUnavailable
from kandev_routing_sdk.telemetry import FieldFormatter, Fields, fields, get_logger, problem_fields


def test_a_host_without_logging_hears_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("kandev_routing_sdk.somewhere")
    (one,) = [h for h in logging.getLogger("kandev_routing_sdk").handlers if isinstance(h, logging.NullHandler)]
    assert one is not None
    assert ("", "") == capsys.readouterr()


def test_no_field_hides_what_a_record_has_itself() -> None:
    """``logging`` refuses such an ``extra`` where it is too late."""
    taken = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    assert set() == taken & Fields.__annotations__.keys()


def test_our_own_errors_say_what_happened_and_foreign_ones_only_what_they_are() -> None:
    ours = problem_fields(StoreUnavailable("postgresql://bob:hunter2@db/x did not answer"), session_id="s1")
    assert ("StoreUnavailable", "store_unavailable", "s1") == (ours["error"], ours["code"], ours["session_id"])
    assert "hunter2" not in ours["detail"]
    assert "did not answer" in ours["detail"]
    assert {"error": "KeyError", "family": "codex"} == problem_fields(KeyError("hunter2"), family="codex")


def test_fields_are_shown_behind_the_sentence_and_before_a_traceback() -> None:
    formatter = FieldFormatter("%(levelname)s %(name)s: %(message)s")
    record = logging.makeLogRecord(
        {
            "msg": "a session is left to others",
            "name": "x",
            "levelname": "INFO",
            **fields(session_id="s1", generation=2),
        }
    )
    assert "INFO x: a session is left to others (session_id=s1, generation=2)" == formatter.format(record)
    record.exc_text = "Traceback …"
    assert "(session_id=s1, generation=2)\nTraceback …" == formatter.format(record).partition("others ")[2]
    assert "INFO x: nothing more" == formatter.format(
        logging.makeLogRecord({"msg": "nothing more", "name": "x", "levelname": "INFO"})
    )

"""Feeds recorded output of the real CLIs to the adapters' extractors, without any process, and judges what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kandev_routing_claude import ClaudeAdapter
from kandev_routing_claude.extractor import ClaudeExtractor
from kandev_routing_codex import CodexAdapter
from kandev_routing_codex.extractor import CodexExtractor
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_source
from kandev_routing_sdk.errors import ExecutableNotFound
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.process.child import ExitStatus
from kandev_routing_sdk.process.endings import launch_failed, note_exit, settle
from kandev_routing_sdk.spec import AgentAdapter, Exited, StderrLine, StdoutLine
from kandev_routing_sdk.types import AttemptOutcome, Delivery

RECORDINGS = Path(__file__).parents[1] / "recordings"
WHEN = datetime(2026, 11, 30, 3, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Replayed:
    """What a recording amounts to."""

    outcome: str
    report: TurnReport
    classification: Classification | None
    automatic: bool
    updates: tuple[AgentUpdate, ...]


def adapter_of(cli: str) -> AgentAdapter:
    return ClaudeAdapter() if cli == "claude" else CodexAdapter()


def full_catalogue() -> Catalogue:
    """The neutral rules and those of both adapters."""
    own = [RuleSource(name=r.name, text=r.text) for a in (ClaudeAdapter(), CodexAdapter()) for r in a.rules()]
    return Catalogue.load([neutral_source(), *own], verify=False)


def expectations() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = json.loads((RECORDINGS / "expected.json").read_text("utf-8"))
    return loaded


def recording(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RECORDINGS / name).read_text("utf-8"))
    return loaded


def lines_of(record: dict[str, Any]) -> Iterator[StdoutLine | StderrLine]:
    """Both streams in the order of time; the sort is stable, so that each stream keeps its own order."""
    out: list[tuple[float, StdoutLine | StderrLine]] = [(t, StdoutLine(line)) for t, line in record["stdout_lines"]]
    err: list[tuple[float, StdoutLine | StderrLine]] = [(t, StderrLine(line)) for t, line in record["stderr_lines"]]
    yield from (line for _, line in sorted([*out, *err], key=lambda entry: entry[0]))


def replay(record: dict[str, Any], catalogue: Catalogue, when: datetime = WHEN) -> Replayed:
    """Play a recording as the process floor would."""
    updates: list[AgentUpdate] = []
    context = TurnContext(family=record["cli"], local_zone="UTC" if record["cli"] == "codex" else None)
    turn = TurnRecord(context, Sanitiser(), updates.append)
    if record.get("spawn_error"):
        launch_failed(turn, ExecutableNotFound(f"no executable {record['cli']!r} on this machine"))
        return _judged(turn, catalogue, when, updates, finished=True)
    extractor = ClaudeExtractor() if record["cli"] == "claude" else CodexExtractor()
    turn.sent()
    for line in lines_of(record):
        extractor.receive(line, turn)
    finished = not record["killed_by_recorder"]
    if finished:
        note_exit(turn, ExitStatus(record["exit_code"], record["signal"]))
    extractor.receive(Exited(record["exit_code"], record["signal"], stopped=not finished), turn)
    if finished:
        settle(turn, asked_to_cancel=False, otherwise="no_result")
    return _judged(turn, catalogue, when, updates, finished=finished)


def _judged(
    turn: TurnRecord, catalogue: Catalogue, when: datetime, updates: list[AgentUpdate], *, finished: bool
) -> Replayed:
    report = turn.report(when)
    if not finished:
        silent = report.effects.delivery is not Delivery.ACKNOWLEDGED
        outcome = AttemptOutcome.SILENT if silent else AttemptOutcome.FAILED
        return Replayed(outcome, report, None, automatic=False, updates=tuple(updates))
    if report.outcome is AttemptOutcome.SUCCESS:
        return Replayed(report.outcome, report, None, automatic=False, updates=tuple(updates))
    found = catalogue.classify(report.evidence)
    automatic = found.automatic_refusal(report.effects) is None
    return Replayed(report.outcome, report, found, automatic, tuple(updates))


def complaints(replayed: Replayed, expected: dict[str, Any], when: datetime = WHEN) -> list[str]:
    """Everything in which a replay is not as expected."""
    wrong: list[str] = []
    if replayed.outcome not in {expected["outcome"], expected.get("also")}:
        wrong.append(f"outcome {replayed.outcome}, expected {expected['outcome']}")
    found = replayed.classification
    if expected["codes"] and (found is None or found.code not in expected["codes"]):
        code, by = (found.code, found.because) if found else (None, ())
        wrong.append(f"code {code} {by}, expected {expected['codes']}")
    if expected["automatic"] != "either" and replayed.automatic is not (expected["automatic"] == "yes"):
        wrong.append(f"automatic {replayed.automatic}, expected {expected['automatic']} ({replayed.report.effects})")
    hint = expected.get("hint")
    if hint is not None and not _hint_fits(found, hint, when):
        wrong.append(f"hint {found and (found.retry_after, found.reset_at)}, expected {hint}")
    return wrong


def _hint_fits(found: Classification | None, hint: str | int, when: datetime) -> bool:
    if found is None:
        return False
    if hint == "reset":
        return found.reset_at is not None and when < found.reset_at < when + timedelta(hours=6)
    seconds = found.retry_after
    return seconds is not None and abs(timedelta(seconds=float(hint)) - seconds) < timedelta(seconds=1)

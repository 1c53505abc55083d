"""Feeds recorded output of the real CLIs to the adapters' extractors, without any process, and judges what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kandev_routing_claude import ClaudeAdapter
from kandev_routing_codex import CodexAdapter
from kandev_routing_opencode import OpenCodeAdapter
from kandev_routing_sdk.acp.early import EarlyTurn
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.errors import ExecutableNotFound
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.process.child import ExitStatus
from kandev_routing_sdk.process.endings import launch_failed, note_exit, settle
from kandev_routing_sdk.spec import (
    AcpFrame,
    AgentAdapter,
    AgentEvent,
    Exited,
    Extractor,
    LaunchPlan,
    StderrLine,
    StdoutLine,
    Transport,
    as_object,
    as_text,
)
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


ADAPTERS = {"claude": ClaudeAdapter(), "codex": CodexAdapter(), "opencode": OpenCodeAdapter()}


def adapter_of(cli: str) -> AgentAdapter:
    """``claude-agent-acp`` and the like are ways to drive a family."""
    return next(adapter for family, adapter in ADAPTERS.items() if family in cli)


def extractor_of(record: dict[str, Any]) -> Extractor:
    plan = LaunchPlan(Transport(record["mode"]), ("agent",), {}, Path(), None, None)
    return adapter_of(record["cli"]).extractor(plan)


def full_catalogue() -> Catalogue:
    """The neutral rules and those of all adapters."""
    own = [RuleSource(name=r.name, text=r.text) for a in ADAPTERS.values() for r in a.rules()]
    return Catalogue.load([*neutral_sources(), *own], verify=False)


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
    """Play a recording as the process floor, or that of ACP, would."""
    updates: list[AgentUpdate] = []
    family = adapter_of(record["cli"]).family
    context = TurnContext(family=family, local_zone="UTC" if family == "codex" else None)
    turn = TurnRecord(context, Sanitiser(), updates.append)
    if record.get("spawn_error"):
        launch_failed(turn, ExecutableNotFound(f"no executable {record['cli']!r} on this machine"))
        return _judged(turn, catalogue, when, updates, finished=True)
    extractor = extractor_of(record)
    if record["mode"] == "acp":
        finished = _converse(record, extractor, turn)
        return _judged(turn, catalogue, when, updates, finished=finished)
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


def _converse(record: dict[str, Any], extractor: Extractor, turn: TurnRecord) -> bool:
    """Play an ACP conversation; whether its turn came to an end before the recorder ended it."""
    early = EarlyTurn(turn)
    current: TurnRecord = early
    asked: dict[object, str] = {}
    events = [(t, direction, message) for t, direction, message in record["frames"]]
    events += [(t, "stderr", line) for t, line in record["stderr_lines"]]
    for _, direction, message in sorted(events, key=lambda entry: entry[0]):
        if direction == "out":
            if "method" in message and "id" in message:
                asked[message["id"]] = message["method"]
            if message.get("method") == "session/prompt":
                early.close()
                current = turn
                turn.sent()
        else:
            extractor.receive(_acp_event(direction, message, asked, turn), current)
    cancelled = record.get("action") == "cancel"
    if record["how"] == "eof":
        note_exit(turn, ExitStatus(record["exit_code"], record["signal"]), eof=True)
        extractor.receive(Exited(record["exit_code"], record["signal"]), current)
        settle(turn, asked_to_cancel=cancelled, otherwise="agent_exited")
    elif turn.ended:
        settle(turn, asked_to_cancel=cancelled, otherwise="no_result")
    else:
        extractor.receive(Exited(None, stopped=True), current)
        return False
    return True


def _acp_event(direction: str, message: Any, asked: dict[object, str], turn: TurnRecord) -> AgentEvent:
    if direction == "stderr":
        return StderrLine(message)
    if "method" in message:
        return AcpFrame(message)
    method = asked.get(message.get("id"))
    if method == "session/new" and "result" in message:
        turn.session(as_text(as_object(message["result"]).get("sessionId")))
    return AcpFrame(message, request=method)


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
        return found.reset_at is not None and when < found.reset_at < when + timedelta(days=8)
    seconds = found.retry_after
    return seconds is not None and abs(timedelta(seconds=float(hint)) - seconds) < timedelta(seconds=1)

"""Feeds made-up events to an extractor."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.spec import AgentEvent, Exited, Extractor, StdoutLine
from tests.adapters._replay import WHEN


class Turn:
    """One turn of one extractor."""

    def __init__(self, extractor: Extractor) -> None:
        self.updates: list[AgentUpdate] = []
        self.record = TurnRecord(TurnContext(family="x"), Sanitiser(), self.updates.append)
        self.extractor = extractor
        self.record.sent()

    def feed(self, *events: dict[str, Any] | AgentEvent) -> Turn:
        for event in events:
            line = StdoutLine(json.dumps(event)) if isinstance(event, dict) else event
            self.extractor.receive(line, self.record)
        return self

    def exit(self, code: int = 0) -> TurnReport:
        self.extractor.receive(Exited(code), self.record)
        return self.record.report(WHEN)

    def of(self, kind: type[AgentUpdate]) -> list[AgentUpdate]:
        return [update for update in self.updates if isinstance(update, kind)]


def channels(report: TurnReport) -> Iterable[str]:
    return [str(signal.channel) for signal in report.evidence.signals]

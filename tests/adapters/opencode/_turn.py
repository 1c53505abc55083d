"""One turn of OpenCode, fed with made-up events."""

from __future__ import annotations

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.spec import Extractor
from tests.adapters._turns import Turn


class OpenCodeTurn(Turn):
    """A turn whose evidence the family's own rules read."""

    def __init__(self, extractor: Extractor) -> None:
        super().__init__(extractor)
        self.record = TurnRecord(TurnContext(family="opencode"), Sanitiser(), self.updates.append)
        self.record.sent()


def safe(report: TurnReport, catalogue: Catalogue) -> bool:
    """Whether something automatic may follow."""
    return catalogue.classify(report.evidence).automatic_refusal(report.effects) is None

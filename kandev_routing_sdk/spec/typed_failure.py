"""Failures that an ACP agent types when its client asks for it (``sessionFailure``), common to several vendors' agents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.spec.acp import Frame, StandardAcpExtractor, as_object, as_text
from kandev_routing_sdk.types import Channel

TYPED_FAILURES: Final[Mapping[str, JsonValue]] = MappingProxyType(
    {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure"]}}}
)
"""The client's ``_meta`` that asks for them: :attr:`AcpSettings.client_meta`."""

_RETRY: Final = re.compile(r"(?i)\b(?:reconnect|retry)ing\b[^/\n]{0,80}?(\d{1,4}) ?(?:/|of) ?(\d{1,4})\b")


@dataclass(frozen=True, slots=True)
class TypedFailure:
    """What an agent says of a failure."""

    category: str
    severity: str
    title: str
    actions: tuple[str, ...] = ()

    @property
    def retry_maximum(self) -> int | None:
        """How often the agent tries by itself, if the title says that it does so now."""
        found = _RETRY.search(self.title)
        return int(found[2]) if found else None


def typed_failure(holder: Frame) -> TypedFailure | None:
    """Return the failure in the ``_meta`` of an update or a response; None when there is none."""
    air = as_object(as_object(as_object(holder.get("_meta")).get("jetbrains")).get("air"))
    said = as_object(air.get("sessionFailure"))
    if not said:
        return None
    actions = said.get("actions")
    return TypedFailure(
        category=as_text(said.get("category")),
        severity=as_text(said.get("severity")),
        title=as_text(said.get("title")),
        actions=tuple(a for a in actions if isinstance(a, str)) if isinstance(actions, list) else (),
    )


class TypedFailureExtractor(StandardAcpExtractor):
    """Reads standard frames and typed failures: warnings are notices, an error on the prompt's response ends the turn."""

    def on_session_info(self, update: Frame, turn: TurnRecord) -> None:
        """A ``session_info_update``, which may carry a warning."""
        failure = typed_failure(update)
        if failure is None:
            super().on_session_info(update, turn)
        elif failure.severity == "error":
            self.note_typed(failure, turn)
        else:
            self.on_typed_warning(failure, turn)

    def on_stop(self, reason: str, result: Frame, turn: TurnRecord) -> None:
        """The prompt's response; "the turn ended" is no success when a failure goes with it."""
        failure = typed_failure(result)
        if failure is None or failure.severity == "warning":
            super().on_stop(reason, result, turn)
        else:
            self.on_typed_failure(failure, turn)

    # What adapters override ---------------------------------------------------------------------------------------------

    def on_typed_warning(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """The agent goes on: with another try of its own, or with a mere remark."""
        maximum = failure.retry_maximum
        if maximum is not None:
            self.answer.retry()
            turn.inner_retry(maximum=maximum)
        else:
            turn.notice(failure.title)

    def on_typed_failure(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """The turn failed."""
        self.note_typed(failure, turn)
        turn.failed("session_failure")

    # For overriding methods ---------------------------------------------------------------------------------------------

    def note_typed(self, failure: TypedFailure, turn: TurnRecord) -> None:
        """Keep a failure as evidence, with its structure."""
        turn.acknowledged()
        data: dict[str, JsonValue] = {"category": failure.category, "actions": list(failure.actions)}
        turn.signal(Signal(channel=Channel.ACP_ERROR, text=failure.title or None, data=data))

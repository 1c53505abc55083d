"""What was seen of one attempt (R-EVI-1), in the shape that the command line reads and the store keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from kandev_routing_sdk.types import Channel, Delivery, Phase


def _to_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


UtcDatetime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""An aware datetime, kept in UTC."""


class _Frozen(BaseModel):
    """Never changes, and holds nothing that has no name here."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Signal(_Frozen):
    """One thing the agent's runtime (or the agent, see ``channel``) said. Structure is kept, never flattened to text."""

    channel: Channel
    text: str | None = None
    data: JsonValue = None
    headers: dict[str, str] | None = None
    code: int | str | None = None
    """JSON-RPC error code, or the agent's own error code."""
    http_status: int | None = None
    phase: Phase | None = None
    at: UtcDatetime | None = None


class Effects(_Frozen):
    """What is known of the work a prompt may have caused (R-EVI-3). The default is "nothing is known", which is unsafe."""

    delivery: Delivery = Delivery.UNKNOWN
    output: bool = False
    thinking: bool = False
    tool_call: bool = False
    tool_effect: bool = False
    complete: bool = False
    """Whether everything the agent did could be observed."""

    @property
    def any_activity(self) -> bool:
        """Whether anything at all came back that work may hide behind."""
        return self.output or self.thinking or self.tool_call or self.tool_effect


class Evidence(_Frozen):
    """The envelope of one attempt: at most 64 signals, 4 KiB a signal, 64 KiB in all (R-EVI-2), already sanitised (R-EVI-5)."""

    family: str
    phase: Phase
    signals: tuple[Signal, ...]
    observed_at: UtcDatetime | None = None
    local_zone: str | None = None
    """IANA zone of the machine the agent ran on, if the adapter knows that the agent prints local times."""
    http_status: int | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    effects: Effects | None = None
    """None: nothing is known, which is unsafe."""
    provider_id: str | None = None
    model_id: str | None = None
    session_id: str | None = None
    generation: int | None = None
    prompt: int | None = None
    attempt_id: str | None = None
    dropped: int = Field(default=0, ge=0)
    """Signals that did not fit."""

"""What every request of somebody's passes before anything happens for it."""

from __future__ import annotations

from dataclasses import dataclass

from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.ports import Operation


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets requests pass, or raises."""

    engine: Engine
    read_only: bool

    def __call__(self, operation: Operation, subject: str) -> None:
        """Return, or raise: a reader changes nothing, and the host's authorisation may refuse."""
        self.writable()
        self.engine.authorise(operation, subject)

    def writable(self) -> None:
        """Raise :class:`~kandev_routing_sdk.errors.UsageError` for a reader."""
        if self.read_only:
            raise UsageError("this router was opened with read_only=True and can change nothing; open one without it")

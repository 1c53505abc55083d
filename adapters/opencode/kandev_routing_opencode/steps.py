"""The steps of a turn: one request to the provider each. Both the headless mode and the server tell how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kandev_routing_sdk.spec import JsonValue, TurnRecord, as_object, as_text

REFUSALS: Final = frozenset({"content-filter"})
CUT_OFF: Final = "length"
"""Why a step ended whose answer was cut at the model's limit of output."""
_UNFINISHED: Final = frozenset({"", "unknown", "other", "error"})
"""Reasons of a response that broke off; after such a one OpenCode asks the provider again, without end."""
_TOOLS: Final = "tool-calls"
_MAX_UNFINISHED: Final = 3


class StepCounter:
    """How the last step ended, and what all of them used."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the last step ended; empty as long as none has."""
        self._unfinished = 0
        self._input = self._output = 0

    @property
    def settled(self) -> bool:
        """Whether the last step ended as a step should."""
        return self.reason not in _UNFINISHED

    @property
    def answered(self) -> bool:
        """Whether the last step was the model's last word."""
        return self.settled and self.reason != _TOOLS

    @property
    def endless(self) -> bool:
        """Whether step follows step without anything being done: it would go on for ever (R-CON-9)."""
        return self._unfinished >= _MAX_UNFINISHED

    def used_tool(self) -> None:
        """A tool ran: there is progress."""
        self._unfinished = 0

    def finished(self, part: Mapping[str, JsonValue], turn: TurnRecord) -> None:
        """A step ended."""
        self.reason = as_text(part.get("reason"))
        self._unfinished = 0 if self.settled else self._unfinished + 1
        tokens = as_object(part.get("tokens"))
        cache = as_object(tokens.get("cache"))
        self._input += _count(tokens.get("input")) + _count(cache.get("read")) + _count(cache.get("write"))
        self._output += _count(tokens.get("output")) + _count(tokens.get("reasoning"))
        if self._input + self._output:
            turn.usage(self._input, self._output)


def _count(value: JsonValue) -> int:
    """Return a number of tokens; whatever cannot be one is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

"""Where counts go. A sink gets bounded labels only, so that none can leak or grow without end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from kandev_routing_sdk.telemetry.table import Metric, SpanName

Labels = tuple[tuple[str, str], ...]
"""Names and values, in the order of the metric's labels."""
Attributes = Mapping[str, str | int]


class Span(Protocol):
    """A part of a trace that is going on."""

    def note(self, attributes: Attributes) -> None:
        """Add what is known now."""
        ...

    def end(self) -> None:
        """It is over; a second time changes nothing."""
        ...


class Sink(Protocol):
    """Takes counts and spans. Called from the event loop and from threads; must not block."""

    @property
    def active(self) -> bool:
        """Whether anybody would see what is counted now."""
        ...

    @property
    def traces(self) -> bool:
        """Whether anybody would see a span that begins now."""
        ...

    def add(self, metric: Metric, labels: Labels, count: int, /) -> None:
        """Count so many."""
        ...

    def span(self, name: SpanName, attributes: Attributes, /) -> AbstractContextManager[Span] | None:
        """Return a span that is current inside its block and ends with it; None: nobody traces."""
        ...

    def begin(self, name: SpanName, attributes: Attributes, /) -> Span | None:
        """Return a span, below the current one, that goes on until it is ended; None: nobody traces."""
        ...


class Totals:
    """Keeps the sums in memory, for whoever shows them: a page, a test. Give it to :meth:`Telemetry.add_sink`."""

    active: bool = True
    traces: bool = False

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._sums: Counter[tuple[Metric, Labels]] = Counter()

    def add(self, metric: Metric, labels: Labels, count: int) -> None:
        """Count so many."""
        with self._guard:
            self._sums[metric, labels] += count

    def span(self, _name: SpanName, _attributes: Attributes) -> None:
        """Sums have no spans."""

    def begin(self, _name: SpanName, _attributes: Attributes) -> None:
        """Sums have no spans."""

    def read(self) -> dict[tuple[Metric, Labels], int]:
        """Return the sums as they are now."""
        with self._guard:
            return dict(self._sums)

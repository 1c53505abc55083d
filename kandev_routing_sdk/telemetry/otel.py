"""OpenTelemetry, if the process has it: API only, a no-op without an SDK (R-OBS-1).

Nothing here imports it. Whoever sets up a provider has imported the API before, so as long as nobody has there is nobody to tell,
and a process that does not use it pays one look-up for each count (R-PRF-4).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from kandev_routing_sdk.telemetry.sinks import Attributes, Labels, Span
from kandev_routing_sdk.telemetry.table import Metric, SpanName

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Meter
    from opentelemetry.trace import Span as ForeignSpan
    from opentelemetry.trace import Tracer

SCOPE: Final = "kandev_routing_sdk"
"""Name of the meter and of the tracer."""
PREFIX: Final = "kandev_routing."
"""In front of the name of every attribute of a span."""


class OpenTelemetry:
    """The sink that every router has."""

    def __init__(self) -> None:
        self._meter: Meter | None = None
        self._tracer: Tracer | None = None
        self._counters: dict[str, Counter] = {}

    @property
    def active(self) -> bool:
        """Whether the process has imported the API for metrics."""
        return "opentelemetry.metrics" in sys.modules

    @property
    def traces(self) -> bool:
        """Whether the process has imported the API for traces."""
        return "opentelemetry.trace" in sys.modules

    def add(self, metric: Metric, labels: Labels, count: int) -> None:
        """Count so many."""
        counter = self._counters.get(metric.name)
        if counter is None:
            if self._meter is None:
                self._meter = _get("opentelemetry.metrics", "get_meter")
            if self._meter is None:
                return
            counter = self._meter.create_counter(metric.name, unit=metric.unit, description=metric.description)
            self._counters[metric.name] = counter
        counter.add(count, dict(labels))

    def span(self, name: SpanName, attributes: Attributes) -> AbstractContextManager[Span] | None:
        """Return a span that is current inside its block."""
        tracer = self._traced()
        return None if tracer is None else _current(tracer, name, attributes)

    def begin(self, name: SpanName, attributes: Attributes) -> Span | None:
        """Return a span that goes on until it is ended."""
        tracer = self._traced()
        return None if tracer is None else _Span(tracer.start_span(name, attributes=_prefixed(attributes)))

    def _traced(self) -> Tracer | None:
        if self._tracer is None:
            self._tracer = _get("opentelemetry.trace", "get_tracer")
        return self._tracer


class _Span:
    def __init__(self, span: ForeignSpan) -> None:
        self._span: ForeignSpan | None = span

    def note(self, attributes: Attributes) -> None:
        if self._span is not None:
            self._span.set_attributes(_prefixed(attributes))

    def end(self) -> None:
        if self._span is not None:
            self._span.end()
            self._span = None


@contextmanager
def _current(tracer: Tracer, name: SpanName, attributes: Attributes) -> Iterator[Span]:
    # what goes wrong inside is not recorded: the text of an exception may hold anything
    with tracer.start_as_current_span(
        name, attributes=_prefixed(attributes), record_exception=False, set_status_on_exception=False
    ) as span:
        yield _Span(span)


def _prefixed(attributes: Attributes) -> dict[str, str | int]:
    return {f"{PREFIX}{name}": value for name, value in attributes.items()}


def _get(module: str, name: str) -> Any:  # noqa: ANN401  # a meter or a tracer, of a package that is loaded or not
    """Make a meter or a tracer, if the module is loaded, and wholly so."""
    make = getattr(sys.modules.get(module), name, None)
    return None if make is None else make(SCOPE, _version())


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # only who counts pays for it

    try:
        return version("kandev-routing-sdk")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return None

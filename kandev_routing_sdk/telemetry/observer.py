"""What the router tells of itself: called after the commit that it tells of, and never in the way of one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.errors import StaleGeneration
from kandev_routing_sdk.records import CallRecord, CircuitChange, CircuitTransition, Commit, Committed
from kandev_routing_sdk.telemetry import facts, table
from kandev_routing_sdk.telemetry.fields import get_logger, problem_fields
from kandev_routing_sdk.telemetry.otel import OpenTelemetry
from kandev_routing_sdk.telemetry.sinks import Attributes, Labels, Sink, Span
from kandev_routing_sdk.telemetry.table import (
    LABELS,
    NONE,
    OTHER,
    Fence,
    Metric,
    ProbeKind,
    Reconciled,
    SpanName,
    Stale,
)

_log = get_logger(__name__)


class Telemetry:
    """Counts, and makes spans. Labels are brought into their closed sets here, whatever a host or an adapter invents (R-OBS-3).

    Get it from :attr:`Router.telemetry`, and give it a :class:`Sink`; everything else is called by those who act.

    Args:
        families: agent families that have their own name.
        providers: upstream services that have their own name.
        rules: ids of the rules that may have classified something.
        sinks: where it goes; default: OpenTelemetry, as soon as the process has it.
    """

    def __init__(
        self,
        *,
        families: Collection[str] = (),
        providers: Collection[str] = (),
        rules: Collection[str] = (),
        sinks: Iterable[Sink] | None = None,
    ) -> None:
        self._sinks: tuple[Sink, ...] = (OpenTelemetry(),) if sinks is None else tuple(sinks)
        known = frozenset({*providers, table.GATEWAY})
        self._open = {"family": frozenset(families), "provider": known, "rule": frozenset(rules)}

    def add_sink(self, sink: Sink) -> None:
        """From now on tell ``sink`` as well."""
        self._sinks = (*self._sinks, sink)

    # Facts ----------------------------------------------------------------------------------------------------------------

    def committed(self, commit: Commit, committed: Committed) -> None:
        """A transition was made durable, and all that belongs to it."""
        if self._heard:
            self._count(facts.of_commit(commit, committed))

    def booked(self, transitions: Iterable[CircuitTransition], changes: Iterable[CircuitChange] = ()) -> None:
        """Shared health changed outside of a transition."""
        if self._heard:
            self._count(facts.of_circuits(transitions, changes))

    def probing(self, leased: Iterable[ResourceKey], asked_by: ProbeKind = ProbeKind.PROBE) -> None:
        """Leases are used that no transition took: for an adapter's question, or by a retry that was armed with them."""
        if self._heard:
            self._count(facts.of_probes(leased, asked_by))

    def call_ended(self, call: CallRecord) -> None:
        """A utility call's last record was written."""
        if self._heard:
            self._count(facts.of_call(call))

    def interrupted(self, calls: int) -> None:
        """Utility calls were found whose process died."""
        self._some(table.CALLS, {"outcome": "interrupted"}, calls)
        self._some(table.RECONCILED, {"result": Reconciled.INTERRUPTED}, calls)

    def reconciled(self, result: Reconciled) -> None:
        """A session was taken over from a dead owner."""
        self._some(table.RECONCILED, {"result": result})

    def dropped(self, what: Stale, count: int = 1) -> None:
        """Something stale was dropped, so many times."""
        self._some(table.STALE, {"what": what}, count)

    def fenced(self, by: Fence | BaseException) -> None:
        """Somebody was refused who was not first."""
        if isinstance(by, BaseException):
            by = Fence.GENERATION if isinstance(by, StaleGeneration) else Fence.REVISION
        self._some(table.FENCED, {"fence": by})

    # Spans ----------------------------------------------------------------------------------------------------------------

    def span(self, name: SpanName, **attributes: str | int | None) -> AbstractContextManager[Span]:
        """Trace a block; everything traced inside it is below it."""
        for sink in self._sinks:
            if sink.traces and (opened := sink.span(name, self.bounded(attributes))) is not None:
                return self._inside(opened)
        return _NOBODY

    @contextmanager
    def _inside(self, opened: AbstractContextManager[Span]) -> Iterator[Span]:
        with opened as span:
            yield _Bounded(self, span)

    def begin(self, name: SpanName, **attributes: str | int | None) -> Span:
        """Trace from here until the span is ended."""
        for sink in self._sinks:
            if sink.traces and (span := sink.begin(name, self.bounded(attributes))) is not None:
                return _Bounded(self, span)
        return _NOBODY

    def bounded(self, attributes: Mapping[str, str | int | None]) -> dict[str, str | int]:
        """Return attributes as they may be shown: known names only, words from their label's set, ids cut."""
        found: dict[str, str | int] = {}
        for name, value in attributes.items():
            if name not in table.SPAN_ATTRIBUTES or value is None:
                continue
            if name in LABELS:
                found[name] = self._value(name, str(value))
            else:
                found[name] = value if isinstance(value, int) else value[: table.MAX_ATTRIBUTE_CHARS]
        return found

    # Labels ---------------------------------------------------------------------------------------------------------------

    @property
    def _heard(self) -> bool:
        return any(sink.active for sink in self._sinks)

    def _some(self, metric: Metric, labels: Mapping[str, str | None], count: int = 1) -> None:
        if count > 0 and self._heard:
            self._count([(metric, labels)], count)

    def _count(self, counts: Iterable[facts.Count], times: int = 1) -> None:
        for metric, labels in counts:
            bounded = tuple((name, self._value(name, labels.get(name))) for name in metric.labels)
            for sink in self._sinks:
                self._tell(sink, metric, bounded, times)

    def _tell(self, sink: Sink, metric: Metric, labels: Labels, count: int) -> None:
        if not sink.active:
            return
        try:
            sink.add(metric, labels, count)
        except Exception as problem:  # noqa: BLE001  # a host's exporter must not be in the way of its routes
            _log.error("a count could not be told", extra=problem_fields(problem, metric=metric.name))

    def _value(self, name: str, value: str | None) -> str:
        if value is None:
            return NONE
        if name == "provider" and value.startswith(f"{table.GATEWAY}:"):
            return table.GATEWAY
        allowed = LABELS[name].values
        if allowed is None:
            allowed = self._open[name]
        # a member of an enum is its text here: exporters look at the type
        return str(value) if value in allowed else OTHER


class _Nobody(AbstractContextManager["_Nobody"]):
    def __exit__(self, *_: object) -> None:
        pass

    def note(self, attributes: Attributes) -> None:
        pass

    def end(self) -> None:
        pass


_NOBODY: Final = _Nobody()


class _Bounded:
    def __init__(self, telemetry: Telemetry, span: Span) -> None:
        self._telemetry, self._span = telemetry, span

    def note(self, attributes: Attributes) -> None:
        self._span.note(self._telemetry.bounded(attributes))

    def end(self) -> None:
        self._span.end()

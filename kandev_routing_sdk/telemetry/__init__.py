"""What the router tells of itself: log fields, metrics and spans (R-OBS). Called by those who act; what decides knows nothing."""

from __future__ import annotations

from kandev_routing_sdk.telemetry.fields import FieldFormatter, Fields, fields, get_logger, problem_fields
from kandev_routing_sdk.telemetry.observer import Telemetry
from kandev_routing_sdk.telemetry.sinks import Sink, Span, Totals
from kandev_routing_sdk.telemetry.table import (
    LABELS,
    METRICS,
    Fence,
    Label,
    Metric,
    ProbeKind,
    Reconciled,
    SpanName,
    Stale,
)

__all__ = [
    "LABELS",
    "METRICS",
    "Fence",
    "FieldFormatter",
    "Fields",
    "Label",
    "Metric",
    "ProbeKind",
    "Reconciled",
    "Sink",
    "Span",
    "SpanName",
    "Stale",
    "Telemetry",
    "Totals",
    "fields",
    "get_logger",
    "problem_fields",
]

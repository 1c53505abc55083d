"""Counts and spans reach OpenTelemetry, once a process has it, and cost a process nothing that has not (R-OBS-1, R-PRF-4)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kandev_routing_sdk.telemetry import Telemetry
from kandev_routing_sdk.testing import ScriptBuilder
from tests.routes._world import World
from tests.store._values import call


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """What a host's own provider would get; a process has only one, so the API's look-up is replaced."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    yield reader
    provider.shutdown()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def _counted(reader: InMemoryMetricReader) -> list[tuple[str, str, int, dict[str, Any]]]:
    data: Any = reader.get_metrics_data()  # of any kind; ours are sums
    return [
        (metric.name, metric.unit, point.value, dict(point.attributes))
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]


def test_a_count_reaches_a_hosts_meter(reader: InMemoryMetricReader) -> None:
    telemetry = Telemetry()
    for _ in range(2):
        telemetry.call_ended(call(outcome="success"))
    labels = {"family": "none", "provider": "none", "outcome": "success", "code": "none"}
    assert [("routing_utility_calls_total", "{call}", 2, labels)] == _counted(reader)


def test_the_spans_of_a_call_hang_together(world: World, spans: InMemorySpanExporter) -> None:
    """One turn, and below it the walks, the attempts and every durable decision of both."""
    world.agent("north", ScriptBuilder().fail_quota(3600))
    world.agent("south", ScriptBuilder().say("Hello."))
    world.profiles["south"]["name"] = "Bob's own"
    world.call()
    made = spans.get_finished_spans()
    (turn,) = (span for span in made if span.name == "kandev_routing.turn")
    names = [span.name for span in made if span.parent is not None and span.parent.span_id == turn.context.span_id]
    assert 2 == names.count("kandev_routing.attempt")
    assert 2 == names.count("kandev_routing.selection")
    assert names.count("kandev_routing.commit") >= 4
    attempts = [dict(span.attributes or {}) for span in made if span.name == "kandev_routing.attempt"]
    assert ["failed", "success"] == [a["kandev_routing.outcome"] for a in attempts]
    assert ["scripted"] * 2 == [a["kandev_routing.family"] for a in attempts]
    assert "quota_limited" == attempts[0]["kandev_routing.code"]
    shown = " ".join(span.to_json() for span in made)
    assert "Bob" not in shown
    assert "do it" not in shown


def test_an_error_leaves_no_text_in_a_span(spans: InMemorySpanExporter) -> None:
    telemetry = Telemetry()

    def fail() -> None:
        with telemetry.span("kandev_routing.turn", session_id="s" * 1000):  # type: ignore[arg-type]
            raise RuntimeError("sk-ant-secret")

    with pytest.raises(RuntimeError):
        fail()
    (span,) = spans.get_finished_spans()
    assert "secret" not in span.to_json()
    assert "s" * 129 not in span.to_json()


def test_a_process_that_has_no_opentelemetry_does_not_load_it() -> None:
    script = (
        "import sys; import kandev_routing_sdk.router; from kandev_routing_sdk.telemetry import *; "
        "t = Telemetry(); t.interrupted(1); t.begin(SpanName.TURN).end(); print('opentelemetry' in sys.modules)"
    )
    assert (
        "False"
        == subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    )


@pytest.fixture
def world(tmp_path: Any) -> World:
    return World(tmp_path, f"sqlite:///{tmp_path / 'routing.db'}")

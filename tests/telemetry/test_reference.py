"""``docs/reference/metrics.md`` lists what the table has, and nothing else."""

from __future__ import annotations

import re

import pytest

from kandev_routing_sdk.telemetry import LABELS, METRICS, Metric, SpanName
from kandev_routing_sdk.telemetry.fields import NAMES
from kandev_routing_sdk.telemetry.table import SPAN_ATTRIBUTES
from tests.docs._pages import REFERENCE, section

PAGE = REFERENCE / "metrics.md"


def _listed(heading: str) -> list[str]:
    """The names in the first column of the tables of a section, apart from what heads them."""
    rows = re.findall(r"^\| (`[^|]+) \|", section(PAGE, heading), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]


def test_every_metric_has_its_heading_and_no_other_has() -> None:
    assert [m.name for m in METRICS] == re.findall(r"^### `(\w+)`$", section(PAGE, "Metrics"), re.MULTILINE)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_a_metric_is_described_as_it_is(metric: Metric) -> None:
    labels = ", ".join(f"`{name}`" for name in metric.labels)
    expected = f"{metric.description}\n\nUnit `{metric.unit}`. Labels: {labels}."
    assert expected == section(PAGE, f"`{metric.name}`").strip()


@pytest.mark.parametrize("name", [name for name, label in LABELS.items() if label.values is not None])
def test_a_label_lists_its_closed_set(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| .*$", section(PAGE, "Labels"), re.MULTILINE)
    assert row is not None
    assert LABELS[name].description in row[0]
    if "](" not in row[0]:  # a long one is another page's
        assert sorted(LABELS[name].values or ()) == re.findall(r"`(\w+)`", row[0].split("|")[3])


def test_labels_spans_attributes_and_fields_are_all_there() -> None:
    assert list(LABELS) == [name for name in _listed("Labels") if name in LABELS]
    assert {*SpanName} | SPAN_ATTRIBUTES.keys() == set(_listed("Spans"))
    assert set(NAMES) == set(_listed("Log fields"))

"""Labels come from closed sets, whatever a host, an adapter or an agent calls things (R-OBS-3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.circuits import Circuit, ResourceKey
from kandev_routing_sdk.records import CircuitSucceeded, CircuitTransition, Committed, DecisionRecord, DecisionSort
from kandev_routing_sdk.route.model import Reason, State
from kandev_routing_sdk.telemetry import LABELS, METRICS, Metric, SpanName, Telemetry, Totals
from kandev_routing_sdk.telemetry.table import SPAN_ATTRIBUTES
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.types import AttemptOutcome, CircuitState, Code, Confidence, ErrorClass, Scope
from tests.routes._world import World
from tests.store._values import NOW, advance, attempt, call, classification, create, route, settled

FAMILIES = frozenset({"claude", "codex", "scripted"})
RULES = frozenset({"acme.quota.1", "neutral.quota.field.1"})
PROVIDERS = frozenset({"acme", "openai"})


def outside(
    totals: Totals,
    *,
    families: Iterable[str] = FAMILIES,
    providers: Iterable[str] = PROVIDERS,
    rules: Iterable[str] = RULES,
) -> list[Any]:
    """Return every label that is not of its closed set; ``none`` and ``other`` are in each."""
    own = {"family": frozenset(families), "provider": frozenset({*providers, "gateway"}), "rule": frozenset(rules)}
    found: list[Any] = []
    for metric, labels in totals.read():
        if [name for name, _ in labels] != list(metric.labels):
            found.append((metric.name, labels))
        for name, value in labels:
            closed = {*(own.get(name) or LABELS[name].values or ()), "none", "other"}
            if type(value) is not str or value not in closed:
                found.append((name, value))
    return found


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_every_label_of_a_metric_has_its_set(metric: Metric) -> None:
    assert metric.name.startswith("routing_")
    assert metric.name.endswith("_total")
    assert set() == set(metric.labels) - LABELS.keys()
    assert len(metric.labels) == len(set(metric.labels))


def test_no_label_is_of_what_may_never_be_one() -> None:
    """No prompt, credential, account id or free profile name; a model is as free as a name."""
    never = ("profile", "model", "account", "prompt", "session", "attempt_id", "workspace", "cwd", "credential")
    assert [] == [name for name in LABELS if any(word in name for word in never)]
    assert set() == {"family", "provider", "rule"} - {name for name, label in LABELS.items() if label.values is None}
    assert [] == [name for name in SPAN_ATTRIBUTES if "profile" in name or "model" in name]


NAMES = st.one_of(
    st.sampled_from(["claude", "codex", "acme", "acme.quota.1", "sk-ant-api03-secret", "alice@example.com", "none"]),
    st.builds("gateway:{}".format, st.text(max_size=20)),
    st.builds("tenant-{}".format, st.integers(0, 10_000)),
    st.text(max_size=60),
)
MAYBE = st.none() | NAMES


@st.composite
def commits(draw: st.DrawFn) -> tuple[Any, Committed]:
    """A transition of a host that calls everything as it likes."""
    names = st.shared(NAMES, key="one")
    found = classification(
        code=draw(st.sampled_from(Code)),
        error_class=draw(st.sampled_from(ErrorClass)),
        confidence=draw(st.sampled_from(Confidence)),
        classifier_rule=draw(MAYBE),
        provider_id=draw(MAYBE),
        model_id=draw(MAYBE),
    )
    who: dict[str, Any] = {
        "execution_profile_id": draw(NAMES),
        "family": draw(NAMES),
        "provider_id": draw(MAYBE),
        "model_id": draw(MAYBE),
    }
    key = ResourceKey(draw(names), draw(st.sampled_from(Scope)), draw(MAYBE), draw(MAYBE), draw(MAYBE))
    before = route(
        logical_profile_id=draw(NAMES),
        execution_profile_id=draw(MAYBE),
        state=draw(st.sampled_from(State)),
        classification=draw(st.none() | st.just(found)),
        attempts_in_turn=draw(st.integers(0, 3)),
    )
    to = {
        "state": draw(st.sampled_from(State)),
        "reason": draw(st.sampled_from(Reason)),
        "continuation": draw(MAYBE),
        "classification": found,
    }
    record = settled(attempt(**who), classification=found, outcome=draw(st.sampled_from(AttemptOutcome)))
    sort = draw(st.sampled_from(DecisionSort))
    commit = advance(
        before,
        to=to,
        new_attempt=draw(st.none() | st.just(attempt("a2", **who))),
        update_attempt=record,
        decision=DecisionRecord(sort, {"stale": draw(st.booleans()), draw(NAMES): "x"}, {"kind": draw(NAMES)}),
        circuits=(CircuitSucceeded(key, draw(NAMES)),),
    )
    states = draw(st.tuples(st.sampled_from(CircuitState), st.sampled_from(CircuitState)))
    before_after = (Circuit(key=key, state=state, code=draw(st.sampled_from(Code)), updated_at=NOW) for state in states)
    return commit, Committed(commit.after, (CircuitTransition(*before_after),), (key,))


@settings(max_examples=60)  # each is up to eight transitions
@given(st.lists(commits(), min_size=1, max_size=8), NAMES, NAMES, MAYBE)
def test_what_a_hostile_host_invents_is_never_a_label(
    made: list[tuple[Any, Committed]], family: str, outcome: str, code: str | None
) -> None:
    totals = Totals()
    telemetry = Telemetry(families=FAMILIES, providers=PROVIDERS, rules=RULES, sinks=[totals])
    for commit, committed in made:
        telemetry.committed(commit, committed)
    telemetry.call_ended(call(family=family, provider_id=family, outcome=outcome, code=code))
    assert totals.read()
    assert [] == outside(totals)


def test_the_check_itself_finds_what_is_outside() -> None:
    totals = Totals()
    attempts = next(m for m in METRICS if m.name == "routing_route_attempts_total")
    totals.add(attempts, tuple((name, "alice@example.com") for name in attempts.labels), 1)
    assert len(attempts.labels) == len(outside(totals))


def test_a_provider_that_no_adapter_knows_has_no_name_of_its_own() -> None:
    """R-OBS-3: whichever comes first, and whatever it is called."""
    totals = Totals()
    telemetry = Telemetry(providers=PROVIDERS, sinks=[totals])
    for provider in ("tenant-1", "tenant-2", "acme", "Acme", "gateway:llm.corp.example/v1", "gatewayed", None):
        telemetry.call_ended(call(provider_id=provider, outcome="success"))
    seen = {dict(labels)["provider"]: count for (_, labels), count in totals.read().items()}
    assert {"acme": 1, "gateway": 1, "none": 1, "other": 4} == seen


@given(st.dictionaries(st.sampled_from([*SPAN_ATTRIBUTES, "prompt", "profile"]), MAYBE))
def test_attributes_of_spans_are_bounded(attributes: dict[str, str | None]) -> None:
    found = Telemetry(families=FAMILIES, providers=PROVIDERS, rules=RULES).bounded(attributes)
    assert set() == found.keys() - SPAN_ATTRIBUTES.keys()
    for name, value in found.items():
        assert isinstance(value, str)
        assert len(value) <= 128
        own = {"family": FAMILIES, "provider": {*PROVIDERS, "gateway"}}
        allowed = own.get(name) or (name in LABELS and LABELS[name].values)
        assert not allowed or value in {*allowed, "other"}


class Broken(Totals):
    """A host's exporter that fails."""

    def add(self, metric: Metric, labels: Any, count: int) -> None:
        raise RuntimeError("tenant-1 is over its limit")


def test_an_exporter_that_breaks_is_in_nobodys_way(caplog: pytest.LogCaptureFixture) -> None:
    totals = Totals()
    telemetry = Telemetry(sinks=[Broken(), totals])
    telemetry.committed(create(), Committed(create().after))
    telemetry.call_ended(call(outcome="success"))
    assert [1] == list(totals.read().values())
    assert ["a count could not be told"] == [r.getMessage() for r in caplog.records]
    assert "tenant-1" not in repr(vars(caplog.records[0]))


def test_nobody_listening_costs_nothing() -> None:
    class Deaf(Broken):
        active = False

    telemetry = Telemetry(sinks=[Deaf()])
    telemetry.call_ended(call(outcome="success"))
    with telemetry.span(SpanName.TURN, session_id="s1") as span:
        span.note({"state": "active"})
    telemetry.begin(SpanName.ATTEMPT).end()


def test_a_real_fallback_is_counted_under_closed_labels_only(world: World) -> None:
    """Scripted agents, hostile names: one limit, one answer."""
    limit = {"account": "acct-4711", "provider_id": "north/4711"}
    world.agent("north", ScriptBuilder().fail_quota(3600), options=limit)
    world.agent("south", ScriptBuilder().say("Hello."), options={"account": "example-bob"})
    world.profiles["north"]["name"], world.profiles["south"]["name"] = "sk-ant-api03-secret", "Bob's own"
    totals = Totals()
    with world.router() as router:
        router.telemetry.add_sink(totals)
        router.route_once("frontier", "hi", cwd=world.folder)
        rules = [rule.id for rule in router.catalogue.rules]
        families, providers = list(router.registry.adapters), router.registry.providers
    assert [] == outside(totals, families=families, providers=providers, rules=rules)
    counted: dict[str, int] = {}
    for (metric, _), count in totals.read().items():
        counted[metric.name] = counted.get(metric.name, 0) + count
    assert {
        "routing_route_attempts_total": 2,
        "routing_decisions_total": 3,
        "routing_classifications_total": 1,
        "routing_fallback_total": 1,
        "routing_resource_circuit_opened_total": 1,
        "routing_utility_calls_total": 1,
    } == {name: count for name, count in counted.items() if name != "routing_continuations_total"}
    shown = json.dumps([[m.name, labels] for m, labels in totals.read()])
    assert not re.search(r"secret|example|Bob|4711|frontier|north\b", shown)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Scripted headless agents over an SQLite file."""
    return World(tmp_path, f"sqlite:///{tmp_path / 'routing.db'}")

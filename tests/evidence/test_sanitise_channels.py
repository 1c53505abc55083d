"""Every kind of secret, on every channel, in every place of a signal, through every public way in: none comes out (R-EVI-5)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kandev_routing_sdk.catalogue.explain import explain
from kandev_routing_sdk.catalogue.wire import parse_record, result_record
from kandev_routing_sdk.cli import main
from kandev_routing_sdk.evidence.collector import SignalCollector
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.types import Channel, Phase
from tests.catalogue._shipped import shipped
from tests.evidence._secrets import KINDS, Sample, survivors

pytestmark = pytest.mark.exhaustive

NOW = datetime(2026, 5, 14, 10, tzinfo=UTC)
FAMILIES = {"claude", "codex", "opencode"}
LIMIT = "API Error: 429 rate limited, try again in 6m0s ({})"
"""What decides: its words are what a person is shown."""


def _in_text(s: str) -> dict[str, Any]:
    return {"text": LIMIT.format(s)}


def _in_text_that_no_rule_knows(s: str) -> dict[str, Any]:
    return {"text": f"it went wrong: {s}"}


def _in_data(s: str) -> dict[str, Any]:
    return {"text": "failed", "data": {"error": {"message": LIMIT.format(s), "details": [s, {"reason": s}]}, "x": s}}


def _in_bare_data(s: str) -> dict[str, Any]:
    return {"data": {"unknown": s, "nested": [{"deeper": {"deepest": s}}]}}


def _in_keys(s: str) -> dict[str, Any]:
    return {"data": {s: 1, "map": {s: {"message": s}}}}


def _in_json_in_data(s: str) -> dict[str, Any]:
    body = json.dumps({"error": {"message": LIMIT.format(s), "param": s}})
    return {"text": body, "data": {"responseBody": body, "error": {"message": json.dumps({"message": body})}}}


def _in_headers(s: str) -> dict[str, Any]:
    value = s.replace("\n", " ")
    return {
        "text": "HTTP 429",
        "headers": {"x-note": value, "www-authenticate": f'Bearer error="{value}"'},
        "http_status": 429,
    }


def _in_a_code(s: str) -> dict[str, Any]:
    return {"text": "failed", "code": s}


def _in_a_document(s: str) -> dict[str, Any]:
    head = f"HTTP/1.1 429 Too Many Requests\r\nretry-after: 30\r\nx-note: {s}\r\n\r\n"
    return {"text": head + json.dumps({"error": {"message": s}})}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    place.__name__.removeprefix("_"): place
    for place in (
        _in_text, _in_text_that_no_rule_knows, _in_data, _in_bare_data, _in_keys, _in_json_in_data, _in_headers, _in_a_code, _in_a_document,
    )
}  # fmt: skip


def _evidence(sample: Sample, place: str, channel: Channel, number: int) -> Evidence:
    signal = Signal.model_validate({"channel": channel, **PLACES[place](sample.text)})
    return Evidence(family=sorted(FAMILIES)[number % 3], phase=Phase.PROMPT_SEND, signals=(signal,))


def _cases(place: str) -> Iterator[tuple[int, Sample, Channel]]:
    """Every kind on one channel in this place, so that over all places it sees every channel; some kinds on all of them."""
    channels = list(Channel)
    turn = list(PLACES).index(place)
    for number, kind in enumerate(KINDS):
        sample = next(itertools.islice(kind.samples(place, at_least=len(PLACES)), turn, None))
        yield number, sample, channels[(number + turn) % len(channels)]
    for number, kind in enumerate(KINDS[:: len(KINDS) // 10]):
        for channel, sample in zip(channels, kind.samples(f"{place}, all", at_least=len(channels)), strict=False):
            yield number, sample, channel


def test_every_kind_sees_every_channel() -> None:
    seen: dict[str, set[tuple[str, Channel]]] = {kind.name: set() for kind in KINDS}
    for place in PLACES:
        for _, sample, channel in _cases(place):
            seen[sample.kind].add((place, channel))
    assert [] == [kind for kind, cases in seen.items() if {channel for _, channel in cases} != set(Channel)]
    assert [] == [kind for kind, cases in seen.items() if {place for place, _ in cases} != set(PLACES)]
    assert len([kind for kind, cases in seen.items() if len(cases) == len(PLACES) * len(Channel)]) >= 10


def _outputs(evidence: Evidence, *, sanitised: bool) -> list[str]:
    """Everything that the catalogue says of it."""
    found = shipped().classify(evidence, sanitised=sanitised)
    shown = [found.model_dump_json(), str(found.safe_excerpt), repr(found), *found.because]
    return [*shown, found.hint.written] if found.hint else shown


@pytest.mark.parametrize("place", list(PLACES))
def test_none_comes_out_of_a_record(place: str) -> None:
    """``parse_record``, its result, and ``explain``."""
    left = []
    for number, sample, channel in _cases(place):
        record = {"id": number, "evidence": json.loads(_evidence(sample, place, channel, number).model_dump_json())}
        _, evidence = parse_record(record, 1)
        outputs = [evidence.model_dump_json(), *_outputs(evidence, sanitised=True)]
        if number % 10 == 0:
            found = explain(shipped(), evidence)
            outputs += [repr(found), json.dumps(result_record(number, found.classification, evidence))]
        left += survivors([sample], *outputs)
    assert [] == left


@pytest.mark.parametrize("place", [p for p in PLACES if p != "in_a_code"])
def test_none_comes_out_of_raw_evidence(place: str) -> None:
    """``classify(sanitised=False)``: for who built the evidence by himself."""
    left = []
    for number, sample, channel in _cases(place):
        evidence = _evidence(sample, place, channel, number)
        left += survivors([sample], *_outputs(evidence, sanitised=False))
    assert [] == left


@pytest.mark.parametrize("place", list(PLACES))
def test_none_comes_out_of_a_collector(place: str) -> None:
    left = []
    for number, sample, channel in _cases(place):
        collector = SignalCollector(Sanitiser())
        collector.add(_evidence(sample, place, channel, number).signals[0])
        left += survivors([sample], *(signal.model_dump_json() for signal in collector.signals()))
    assert [] == left


def test_none_comes_out_of_a_turn() -> None:
    """What an extractor tells the core: signals, notices, names; the answer and its thinking are the caller's."""
    left = []
    for kind in KINDS:
        for sample in kind.samples("turn"):
            told: list[AgentUpdate] = []
            turn = TurnRecord(TurnContext("claude"), Sanitiser(), told.append)
            turn.notice(sample.text)
            turn.signal(Signal(channel=Channel.STDERR, text=sample.text, data={"x": sample.text}))
            turn.failed(sample.text)
            report = turn.report(NOW)
            left += survivors([sample], repr(told), repr(report), report.evidence.model_dump_json())
    assert [] == left


def test_a_secret_at_the_edge_of_what_is_kept_is_not_cut_into_a_shape_that_nobody_knows() -> None:
    """R-EVI-2 cuts: the sanitiser has to see the whole, or what is left has to go with it."""
    left = []
    for kind in KINDS:
        sample = next(kind.samples("edge"))
        for before in (32768 - 30,):  # characters
            filler = ("word " * (before // 5))[:before]
            text = f"{filler} {sample.text} {'tail ' * 14000}"
            collector = SignalCollector(Sanitiser())
            collector.add(Signal(channel=Channel.STDERR, text=text))
            note = f"{filler[:240]} {sample.text}".replace("\n", " ")
            collector.add(Signal(channel=Channel.HTTP, headers={f"x-{n}": note for n in range(12)}, code=note))
            turn = TurnRecord(TurnContext("claude"), Sanitiser(), lambda _: None)
            turn.failed(f"{filler[:190]} {sample.text}")
            turn.served_model(f"{filler[:195]} {sample.text}")
            left += survivors([sample], *(s.model_dump_json() for s in collector.signals()), repr(turn.report(NOW)))
    assert [] == left


@pytest.mark.parametrize("arguments", [["--jsonl"], ["--jsonl", "--explain"]])
def test_none_comes_out_of_the_command(arguments: list[str], tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """``classify``: every kind in every place."""
    records: list[str] = []
    samples: list[Sample] = []
    for place in PLACES:
        for number, kind in enumerate(KINDS):
            sample = next(kind.samples(f"cli/{place}"))
            channel = list(Channel)[number % len(Channel)]
            samples.append(sample)
            evidence = json.loads(_evidence(sample, place, channel, number).model_dump_json())
            records.append(json.dumps({"id": len(records), "evidence": evidence}))
    step = 11 if "--explain" in arguments else 5  # no divisor of the number of kinds: each has its turn
    records, samples = records[::step], samples[::step]
    file = tmp_path / "evidence.jsonl"
    file.write_text("\n".join(records), "utf-8")
    capfd.readouterr()
    assert 0 == main(["classify", str(file), *arguments])
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert len(records) == len(lines)
    assert [] == [found for s, line in zip(samples, lines, strict=True) for found in survivors([s], line, err)]


@pytest.mark.parametrize("arguments", [[], ["--explain"], ["--json"]])
def test_none_comes_out_of_the_command_given_text(
    arguments: list[str], tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """``classify`` of plain text: all kinds at once."""
    samples = [sample for kind in KINDS for sample in kind.samples("text")]
    file = tmp_path / "said.txt"
    file.write_text("\n\n".join(f"API Error: 401 unauthorized: {s.text}" for s in samples), "utf-8")
    capfd.readouterr()
    assert 0 == main(["classify", str(file), *arguments])
    out, err = capfd.readouterr()
    assert "[redacted:" in out
    assert [] == survivors(samples, out, err)

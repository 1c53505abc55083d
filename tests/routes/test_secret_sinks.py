"""Every kind of secret, said by an agent in every way it can, through a whole route: no sink holds one (R-EVI-5, design §6, 8)."""

from __future__ import annotations

import json
import re
import sqlite3
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk import CallFailed, Router, load_settings
from kandev_routing_sdk.cli import main
from kandev_routing_sdk.telemetry import Totals
from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import World
from tests.evidence._secrets import KINDS, RUN, Sample

GROUPS = 6
"""Candidates of a route; each says its share of all kinds."""
NEXT_LINE = re.compile(r">-\n")
"""A name that announces the next line: standard error is read line by line, and a line knows of no other."""


def _samples(seed: str) -> list[list[Sample]]:
    """The kinds, dealt out to the candidates."""
    every = [sample for kind in KINDS for sample in kind.samples(seed)]
    return [every[number::GROUPS] for number in range(GROUPS)]


def _leaky(samples: list[Sample], transport: str) -> ScriptBuilder:
    """Say half of them on standard error, some in updates, all of them in the error: its words, body and headers."""
    steps = ScriptBuilder()
    for sample in (s for s in samples[0::2] if not NEXT_LINE.search(s.text)):
        steps.stderr(f"debug: {sample.text}")
    # an event that a headless agent's extractor does not know may have been work: nothing would follow it
    for sample in samples[1::3] if transport == "acp" else ():
        steps.update({"sessionUpdate": "session_info_update", "title": sample.text, "_meta": {"said": sample.text}})
    body = {"error": {"type": "overloaded_error", "message": "Overloaded"}, "notes": [s.text for s in samples[:30]]}
    words = "\n\n".join(sample.text for sample in samples[30:])
    headers = {f"x-note-{number}": s.text.replace("\n", " ") for number, s in enumerate(samples[:8])}
    return steps.fail_with(
        -32603, f"API Error: 529 Overloaded\n\n{words}", {"status": 529, "body": body, "headers": headers}
    )


@pytest.fixture
def leaky(tmp_path: Path) -> tuple[World, list[Sample]]:
    world = World(tmp_path)
    groups = _samples("sinks")
    for number, samples in enumerate(groups):
        transport = "headless" if number % 2 else "acp"
        world.agent(f"agent{number}", _leaky(samples, transport), transport=transport)
    world.dynamic(*world.agents)
    world.configure()
    return world, [sample for group in groups for sample in group]


class Sinks:
    """What came out, by where."""

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = samples
        self._texts: dict[str, str] = {}

    def add(self, where: str, text: str | bytes) -> None:
        """Remember what a sink holds."""
        self._texts[where] = text.decode("utf-8", "replace") if isinstance(text, bytes) else text

    @property
    def held(self) -> list[tuple[str, str, str]]:
        """Sink, kind and the run of it that is there."""
        found = []
        for where, text in self._texts.items():
            runs = {text[at : at + RUN] for at in range(len(text))}  # many questions of one text
            found += [(where, sample.kind, run) for sample in self._samples if (run := sample.left_in_runs(runs, text))]
        return found


def test_no_sink_of_a_host_holds_any_kind(
    leaky: tuple[World, list[Sample]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The exception, the progress, the events, the log records, and every byte of the database."""
    world, samples = leaky
    monkeypatch.syspath_prepend(world.plugins)
    caplog.set_level("DEBUG")
    told: list[object] = []
    sinks, totals = Sinks(samples), Totals()
    with Router.open(
        settings=load_settings(environ=world.environ(), cwd=world.folder), environ=world.environ()
    ) as router:
        router.telemetry.add_sink(totals)
        with pytest.raises(CallFailed) as failed:
            router.route_once("frontier", "hi", on_progress=told.append, cwd=world.folder)
        raised, store = failed.value, router._engine.store
        attempts = [attempt for call in store.calls() for attempt in store.attempts(call.session_id)]
        assert GROUPS == len(attempts)
        assert GROUPS == len([a for a in attempts if a.evidence is not None and len(a.evidence.signals) > 10])
        sinks.add("attempts", repr(attempts))
        sinks.add("events", repr(store.events()))
        for name, data in world.files().items():  # while it is open: the write-ahead log, too
            sinks.add(name, data)
    sinks.add("exception", "".join(traceback.format_exception(raised)))
    sinks.add("its parts", f"{raised!s} {raised!r} {raised.args!r} {vars(raised)!r}")
    sinks.add("progress", repr(told))
    sinks.add("log", "\n".join(f"{r.getMessage()} {vars(r)!r}" for r in caplog.records))
    sinks.add("metrics", repr(totals.read()))
    for name, data in world.files().items():
        sinks.add(f"{name}, closed", data)
    sinks.add("rows", "\n".join(_rows(world.database)))
    assert [] == sinks.held


def _rows(database: Path) -> Iterator[str]:
    with sqlite3.connect(database) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        assert len(tables) > 5
        for table in tables:
            yield from (repr(row) for row in connection.execute(f'select * from "{table}"'))
    connection.close()


def test_no_output_of_the_command_line_holds_any_kind(
    leaky: tuple[World, list[Sample]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """``run``, and all that tells of it afterwards, as text and as documents."""
    world, samples = leaky
    monkeypatch.chdir(world.folder)
    monkeypatch.syspath_prepend(world.plugins)
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    sinks = Sinks(samples)

    def here(*arguments: str) -> str:
        capfd.readouterr()
        main(arguments)
        out, err = capfd.readouterr()
        sinks.add(" ".join(arguments), out + err)
        return out

    document: Any = json.loads(here("run", "frontier", "hi", "--json", "--debug"))
    assert list(world.agents) == [attempt["execution_profile_id"] for attempt in document["attempts"]]
    assert "[redacted:" in json.dumps(document)
    here("run", "agent0", "hi", "--debug")
    call = document["call_id"]
    for command in (
        ["explain", "frontier"], ["explain", "frontier", "--json"], ["circuits"], ["circuits", "--json"], ["calls"],
        ["calls", "--json"], ["calls", "show", call], ["calls", "show", call, "--json"], ["guard", "frontier"], ["doctor", "--json"],
    ):  # fmt: skip
        here(*command)
    for name, data in world.files().items():
        sinks.add(name, data)
    assert [] == sinks.held


def test_the_measure_can_fail() -> None:
    sample = next(KINDS[0].samples("sinks"))
    sinks = Sinks([sample])
    sinks.add("a file", f"… {sample.text[:40]}".encode())
    sinks.add("another", b"\xff")
    assert [("a file", sample.kind)] == [(where, kind) for where, kind, _ in sinks.held]

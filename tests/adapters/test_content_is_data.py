"""Content is data (R-EVI-6): no word of a model or a tool makes a failure of a turn that went well, whatever it quotes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import FixtureKind
from kandev_routing_sdk.types import AttemptOutcome
from tests.adapters._filled import filled, good_turns
from tests.adapters._replay import full_catalogue, replay
from tests.routes._world import World, answers

pytestmark = pytest.mark.exhaustive

TURNS = good_turns()


def fixtures(*kinds: FixtureKind) -> list[str]:
    """What the rules' fixtures say, each once: their words, or what they hold as an agent would print it."""
    signals = [s for r in full_catalogue().rules for f in r.fixtures if f.kind in kinds for s in f.signals]
    printed = (s.text or json.dumps(s.data or s.headers or s.http_status or s.code) for s in signals)
    return list(dict.fromkeys(printed))


POSITIVE = fixtures("positive", "redaction")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return full_catalogue()


def test_the_words_are_those_of_every_rule(catalogue: Catalogue) -> None:
    """What the tests below say is what the catalogue acts on."""
    assert len(POSITIVE) >= len(catalogue.rules)


@pytest.mark.parametrize("name", TURNS)
def test_the_turns_went_well_before_they_were_filled(name: str, catalogue: Catalogue) -> None:
    replayed = replay(filled(TURNS[name], "All good."), catalogue)
    assert (AttemptOutcome.SUCCESS, True) == (replayed.outcome, "All good." in replayed.report.text)


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_that_says_nothing_else_is_a_success(name: str, catalogue: Catalogue) -> None:
    """Each positive fixture of each rule, as the whole answer and as everything else that the turn holds."""
    failed = {}
    for words in POSITIVE:
        replayed = replay(filled(TURNS[name], words), catalogue)
        if replayed.outcome is not AttemptOutcome.SUCCESS or words not in replayed.report.text:
            failed[words] = (replayed.outcome, replayed.classification and replayed.classification.because)
    assert {} == failed


@pytest.mark.parametrize("position", ["first", "middle", "last"])
@pytest.mark.parametrize("name", TURNS)
def test_wherever_it_stands(name: str, position: str, catalogue: Catalogue) -> None:
    """All of them in one long answer, at its beginning, in its middle, at its end."""
    prose = [f"Step {n} went as it should." for n in range(60)]
    at = {"first": 0, "middle": 30, "last": 60}[position]
    words = "\n".join([*prose[:at], *POSITIVE, *prose[at:]])
    assert AttemptOutcome.SUCCESS == replay(filled(TURNS[name], words), catalogue).outcome


@pytest.mark.parametrize("transport", ["headless", "acp"])
def test_no_circuit_is_touched(transport: str, tmp_path: Path) -> None:
    """A real process, a real store: each fixture said, thought and printed by a tool; one success, and health knows nothing."""
    world = World(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", transport=transport)
    script = answers()
    for words in POSITIVE:
        script = script.say(f"{words}\n").think(words).tool(words[:200], line="ran")
    world.agent("fable", script.say(POSITIVE[0]))
    world.agent("sol", answers().say("never"))
    result = world.call()
    assert [] == [words for words in POSITIVE if words not in result.text]
    assert ({"fable": 1, "sol": 0}, 1, None) == (
        world.prompts(),
        len(result.attempts),
        result.attempts[0].classification,
    )
    with world.router() as router:
        assert [] == router.circuits()

"""``explain`` and ``guard``: the walk, and not a byte changed (R-ENG-3, R-CLI-1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kandev_routing_sdk.cli.output import moment, one_line, span
from kandev_routing_sdk.cli.words import policy_words
from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument, RetryPolicy, WaitPolicy
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.testing.clock import START
from tests.cli._world import Ran, World


@pytest.fixture
def limited(world: World) -> World:
    """Three candidates: one to be limited, one that is disabled, one that answers."""
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.agent("rook", ScriptBuilder().say("never"))
    world.agent("sol", ScriptBuilder().say("ok"))
    retry = {"enabled": True, "max_retries": 3, "initial_interval_seconds": 5}
    world.dynamic(
        {"profile": "fable", "policy": {"transient": {"retry": retry}}}, {"profile": "rook", "enabled": False}, "sol"
    )
    world.configure()
    return world


def test_every_candidate_has_its_reason_and_no_byte_changes(limited: World, here: Callable[..., Ran]) -> None:
    assert 0 == here("run", "frontier", "hi").code
    before = limited.database.read_bytes()
    ran = here("explain", "frontier")
    assert 0 == ran.code, ran
    heading, *rows = [line.split("\t") for line in ran.out.splitlines()]
    assert ["#", "candidate", "agent", "verdict", "why", "when it fails"] == heading
    assert [("1", "fable", "circuit_open"), ("2", "rook", "disabled"), ("3", "sol", "chosen")] == [
        (r[0], r[1], r[3]) for r in rows[:3]
    ]
    assert "until " in rows[0][4]
    assert "(in 1 h 59 min)" in rows[0][4]
    assert "transient: retry after 5, 10, 20 s, then the next candidate; hard: the next candidate" == rows[0][5]
    assert ["frontier: sol would be taken"] == rows[3]
    assert before == limited.database.read_bytes()
    beside = {name.removeprefix(f"{limited.database}-"): data for name, data in limited.files().items()}
    assert b"" == beside.get("wal", b"")


def test_the_document_of_a_walk(limited: World, here: Callable[..., Ran]) -> None:
    assert 0 == here("run", "frontier", "hi").code
    document = here("explain", "frontier", "--json").document
    assert (1, "frontier", "dynamic", True, "sol", None) == tuple(
        document[k] for k in ("schema_version", "profile_id", "kind", "enabled", "chosen_profile_id", "earliest")
    )
    assert ["circuit_open", "disabled", "chosen"] == [entry["reason"] for entry in document["walk"]]
    assert document["walk"][0]["until"].endswith("Z")
    assert 3 == document["policies"]["fable"]["document"]["transient"]["retry"]["max_retries"]


def test_without_a_database_none_is_made(limited: World, here: Callable[..., Ran]) -> None:
    for command in ("explain", "guard"):
        assert 0 == here(command, "frontier").code
    assert 0 == here("circuits").code
    assert 0 == here("calls").code
    assert {} == limited.files()


def test_explain_says_when_dynamic_routing_is_off(limited: World, here: Callable[..., Ran]) -> None:
    """R-RES-4: configuration stays readable; a run would be refused."""
    limited.configure(enabled=False)
    ran = here("explain", "frontier")
    assert 0 == ran.code, ran
    assert "dynamic agent routing is turned off" in ran.err
    assert here("explain", "frontier", "--json").document["enabled"] is False
    assert 78 == here("guard", "frontier").code


def test_guard_says_it_by_its_exit_code(world: World, here: Callable[..., Ran]) -> None:
    """R-CLI-1: 0 while a candidate is free, 69 when none is."""
    world.agent("fable", ScriptBuilder().fail_quota(7200))
    world.dynamic("fable")
    world.configure()
    free = here("guard", "frontier")
    assert (0, "free: fable\n", "") == (free.code, free.out, free.err), free
    assert 75 == here("run", "frontier", "hi", "--quiet").code
    none = here("guard", "frontier")
    assert 69 == none.code
    assert none.out.startswith("none free; the first may be back ")
    quiet = here("guard", "frontier", "--quiet")
    assert (69, "", "") == (quiet.code, quiet.out, quiet.err)
    document = here("guard", "frontier", "--json").document
    assert (False, None, 69) == (document["free"], document["chosen_profile_id"], document["exit_code"])
    assert document["earliest"] is not None


def test_guard_knows_what_only_a_person_can_change(world: World, here: Callable[..., Ran]) -> None:
    world.agent("fable", ScriptBuilder().fail_auth())
    world.dynamic("fable")
    world.configure()
    assert 79 == here("run", "frontier", "hi", "--quiet").code
    ran = here("guard", "frontier")
    assert 69 == ran.code
    assert "none comes back by itself: fable: account resource: auth_required; a person has to act, then: " in ran.out


# Words -------------------------------------------------------------------------------------------------------------------


def test_a_policy_in_words() -> None:
    retry = RetryPolicy(enabled=True, max_retries=4, initial_interval_seconds=30)
    wait = WaitPolicy(enabled=True, max_wait_seconds=300)
    hard = ClassPolicy(wait_for_reset=wait, on_exhausted="stop")
    assert "any failure: the next candidate" == policy_words(PolicyDocument())
    assert (
        "transient: retry after 30 s, 1 min, 2 min, 4 min, then the next candidate; "
        "hard: wait for a reset up to 5 min away, then stop for a person"
    ) == policy_words(PolicyDocument(transient=ClassPolicy(retry=retry), hard=hard))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.25, "0.2 s"), (2.0, "2 s"), (59, "59 s"), (60, "1 min"), (3725, "1 h 2 min"), (90_000, "1 d 1 h")],
)
def test_a_span_in_words(seconds: float, words: str) -> None:
    assert words == span(seconds)


def test_a_moment_in_words() -> None:
    assert "15:12 UTC (in 3 h 12 min)" == moment(START.replace(hour=15, minute=12), START)
    assert "2026-01-03 12:00 UTC (in 2 d)" == moment(START.replace(day=3), START)
    assert "12:00:05 UTC (in 5 s)" == moment(START.replace(second=5), START)


def test_what_an_agent_says_cannot_drive_the_terminal() -> None:
    assert "a [2Jb c d" == one_line("a\x1b[2Jb\nc\u202e\td")
    assert "aaaa…" == one_line("a" * 10, 5)
